//! A thread that echoes all data it receives. Its sockets are blocking.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

const BYTES: usize = 2 << 10;

/// A running echo thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Echo {
    pub(super) address: SocketAddr,
    stop: Arc<AtomicBool>,
    pub(super) stream: bool,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    /// Starts an echo thread for UDP, or for TCP with one connection at a time. It runs in the
    /// network namespace of the calling thread.
    pub(super) fn start(stream: bool, at: Ipv4Addr) -> io::Result<Echo> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let builder = thread::Builder::new().name("echo".to_owned());
        let (address, thread) = if stream {
            let listener = TcpListener::bind((at, 0))?;
            (listener.local_addr()?, builder.spawn(move || streams(&listener, &stopped))?)
        } else {
            let socket = UdpSocket::bind((at, 0))?;
            (socket.local_addr()?, builder.spawn(move || datagrams(&socket, &stopped))?)
        };
        Ok(Echo { address, stop, stream, thread: Some(thread) })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread checks `stop` only when something arrives. If no packet can be sent to the
        // thread, it stays blocked.
        let unblocked = if self.stream {
            TcpStream::connect(self.address).map(drop)
        } else {
            UdpSocket::bind("0.0.0.0:0").and_then(|from| from.send_to(&[], self.address).map(drop))
        };
        if unblocked.is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn streams(listener: &TcpListener, stop: &AtomicBool) {
    let mut bytes = [0; BYTES];
    for stream in listener.incoming() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let Ok(mut stream) = stream else { return };
        let _ = stream.set_nodelay(true);
        while let Ok(count @ 1..) = stream.read(&mut bytes) {
            if stream.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }
}

fn datagrams(socket: &UdpSocket, stop: &AtomicBool) {
    let mut bytes = [0; BYTES];
    while let Ok((count, from)) = socket.recv_from(&mut bytes) {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // This fails if the sender has closed its socket.
        let _ = socket.send_to(&bytes[..count], from);
    }
}
