//! Datagrams that are sent back.

use std::sync::Arc;
use std::time::Instant;

use tokio::net::UdpSocket;

use crate::Failure;
use crate::truth::Truth;

pub(crate) async fn serve(socket: UdpSocket, truth: Arc<Truth>) -> Result<(), Failure> {
    let socket = Arc::new(socket);
    let mut datagram = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await?;
        let read = Instant::now();
        let (socket, truth, bytes) =
            (Arc::clone(&socket), Arc::clone(&truth), datagram[..length].to_vec());
        tokio::spawn(async move {
            truth.delay(read).await;
            // Whoever asked may be gone.
            if socket.send_to(&bytes, from).await.is_ok() {
                truth.answered(read);
            }
        });
    }
}
