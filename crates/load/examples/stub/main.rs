//! A server that delays each response by a known amount of time. It logs how long each response
//! took, so that the results of `curtail load` can be checked.
//!
//! `cargo run --release -p curtail-load --example stub -- PROTOCOL [DELAY [EVERY/LASTS]]` listens,
//! prints `listening on ADDRESS`, serves until its standard input is closed, and then prints one
//! JSON document: the percentiles of the time between reading the whole request and writing its
//! response. PROTOCOL is http1, http2, grpc, memcached, redis, tcp or udp. DELAY is a distribution
//! such as `uniform:1ms:20ms`. With EVERY/LASTS, such as `10s/1s`, the server sends no responses
//! during the last part of each period: EVERY is the length of the period, and LASTS is the length
//! of that part.

mod http2;
mod lines;
mod truth;

use std::error::Error;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Instant;

use tokio::net::{TcpListener, TcpStream, UdpSocket};

use truth::Truth;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let protocol = arguments.next().ok_or("usage: stub PROTOCOL [DELAY [EVERY/LASTS]]")?;
    let delay = arguments.next().unwrap_or_else(|| "det:0s".to_owned());
    let stall = arguments.next();
    let truth = Arc::new(Truth::new(&delay, stall.as_deref())?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let log = Arc::clone(&truth);
    runtime.block_on(async move {
        let serving = tokio::spawn(serve(protocol, truth));
        let ended = tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new()));
        tokio::select! {
            served = serving => served?,
            ended = ended => ended?.map(drop).map_err(Failure::from),
        }
    })?;
    runtime.shutdown_background();
    println!("{}", log.document());
    Ok(())
}

async fn serve(protocol: String, truth: Arc<Truth>) -> Result<(), Failure> {
    if protocol == "udp" {
        let socket = UdpSocket::bind("127.0.0.1:0").await?;
        println!("listening on {}", socket.local_addr()?);
        return datagrams(socket, truth).await;
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let (protocol, truth) = (protocol.clone(), Arc::clone(&truth));
        // A client that disconnects ends only its own connection.
        tokio::spawn(async move { connection(&protocol, stream, truth).await });
    }
}

async fn connection(protocol: &str, stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    match protocol {
        "http2" => http2::serve(stream, truth, false).await,
        "grpc" => http2::serve(stream, truth, true).await,
        _ => lines::serve(protocol, stream, truth).await,
    }
}

async fn datagrams(socket: UdpSocket, truth: Arc<Truth>) -> Result<(), Failure> {
    let socket = Arc::new(socket);
    let mut datagram = vec![0; 65_536];
    loop {
        let (length, from) = socket.recv_from(&mut datagram).await?;
        let read = Instant::now();
        let (socket, truth, bytes) =
            (Arc::clone(&socket), Arc::clone(&truth), datagram[..length].to_vec());
        tokio::spawn(async move {
            truth.delay(read).await;
            // This fails if the client has disconnected.
            if socket.send_to(&bytes, from).await.is_ok() {
                truth.answered(read);
            }
        });
    }
}
