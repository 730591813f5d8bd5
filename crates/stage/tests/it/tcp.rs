//! Tests of the stage in front of a server that speaks any protocol.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::stage::Priority;
use curtail_runtime::stage::Stage;
use curtail_stage::tcp::TcpStage;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, timeout};

use crate::eventually;

/// A server that reads and records a byte, and sends it back when it receives a permit.
#[derive(Clone)]
struct Echo {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
    may: Arc<Semaphore>,
}

impl Echo {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, received, may) =
            (listener.local_addr().unwrap(), Arc::default(), Arc::new(Semaphore::new(0)));
        let echo = Self { address, received, may };
        let server = echo.clone();
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let Self { received, may, .. } = server.clone();
                tokio::spawn(async move {
                    let Ok(byte) = client.read_u8().await else { return };
                    received.lock().await.push(byte);
                    let mut end = [0];
                    tokio::select! {
                        permit = may.acquire() => permit.unwrap().forget(),
                        _ = client.read(&mut end) => return,
                    }
                    let _ = client.write_u8(byte).await;
                });
            }
        });
        echo
    }

    async fn received(&self, wanted: &[u8]) {
        eventually(&format!("{wanted:?}"), async || *self.received.lock().await == wanted).await;
    }
}

struct Front {
    high: SocketAddr,
    low: SocketAddr,
    stage: Stage,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    ended: tokio::task::JoinHandle<usize>,
}

/// Returns a stage with long timeouts.
pub(crate) fn stage(server: SocketAddr, stage: Stage) -> TcpStage {
    TcpStage {
        server,
        stage,
        low_from: Vec::new(),
        connections: 100,
        idle_timeout: Duration::from_secs(60),
        max_duration: Duration::from_secs(300),
        server_first: false,
    }
}

async fn front(server: SocketAddr, slots: u32, low_from: &[&str]) -> Front {
    let low_from = low_from.iter().map(|net| net.parse().unwrap()).collect();
    start(TcpStage { low_from, ..stage(server, Stage::new(slots, 10)) }).await
}

async fn start(tcp: TcpStage) -> Front {
    let stage = tcp.stage.clone();
    let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (first, second) = (bind().await, bind().await);
    let (high, low) = (first.local_addr().unwrap(), second.local_addr().unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let ended = tokio::spawn(tcp.serve(
        vec![(first, Priority::High), (second, Priority::Low)],
        async { drop(stopped.await) },
        Duration::from_secs(5),
    ));
    Front { high, low, stage, stop: Some(stop), ended }
}

async fn send(address: SocketAddr, byte: u8) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_u8(byte).await.unwrap();
    client
}

async fn waiting(front: &Front, count: u32) {
    eventually("the expected number of jobs waits", async || front.stage.waiting() == count).await;
}

#[tokio::test]
async fn connections_wait_by_class_and_leave_when_their_client_does() {
    let echo = Echo::new().await;
    let mut front = front(echo.address, 1, &[]).await;
    let mut first = send(front.high, 1).await;
    echo.received(&[1]).await;
    let mut low = send(front.low, 2).await;
    waiting(&front, 1).await;
    let gone = send(front.high, 3).await;
    waiting(&front, 2).await;
    let mut high = send(front.high, 4).await;
    waiting(&front, 3).await;
    drop(gone);
    waiting(&front, 2).await;
    echo.may.add_permits(3);
    for (client, byte) in [(&mut first, 1), (&mut high, 4), (&mut low, 2)] {
        assert_eq!(client.read_u8().await.unwrap(), byte);
    }
    echo.received(&[1, 4, 2]).await;
    drop(front.stop.take());
    assert_eq!(front.ended.await.unwrap(), 0);
}

#[tokio::test]
async fn a_client_that_leaves_frees_the_slot_and_the_server_sees_it() {
    let echo = Echo::new().await;
    let front = front(echo.address, 1, &[]).await;
    let first = send(front.high, 1).await;
    echo.received(&[1]).await;
    let mut second = send(front.high, 2).await;
    waiting(&front, 1).await;
    drop(first);
    echo.received(&[1, 2]).await;
    echo.may.add_permits(1);
    assert_eq!(second.read_u8().await.unwrap(), 2);
}

#[tokio::test]
async fn the_source_address_of_a_connection_can_make_it_a_duplicate() {
    let echo = Echo::new().await;
    let front = front(echo.address, 1, &["127.0.0.7/32"]).await;
    let mut first = send(front.high, 1).await;
    echo.received(&[1]).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.7:0".parse().unwrap()).unwrap();
    let mut low = socket.connect(front.high).await.unwrap();
    low.write_u8(2).await.unwrap();
    waiting(&front, 1).await;
    let mut high = send(front.high, 3).await;
    waiting(&front, 2).await;
    echo.may.add_permits(3);
    for (client, byte) in [(&mut first, 1), (&mut high, 3), (&mut low, 2)] {
        assert_eq!(client.read_u8().await.unwrap(), byte);
    }
    echo.received(&[1, 3, 2]).await;
}

#[tokio::test]
async fn an_absent_server_costs_its_client_the_connection_and_no_slot() {
    let absent = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let front = front(absent, 1, &[]).await;
    for _ in 0..3 {
        let mut client = send(front.high, 1).await;
        assert!(client.read_u8().await.is_err());
    }
    eventually("all slots are free", async || front.stage.running() == 0).await;
}

/// Starts a server that sends `greeting`, and reads from its clients without responding.
async fn silent(greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                client.write_all(greeting).await.unwrap();
                tokio::io::copy(&mut client, &mut tokio::io::sink()).await
            });
        }
    });
    address
}

/// Returns whether the stage has closed a connection.
async fn ends(client: &mut TcpStream) -> bool {
    matches!(client.read(&mut [0]).await, Ok(0) | Err(_))
}

#[tokio::test]
async fn a_connection_takes_a_slot_with_its_first_byte() {
    let echo = Echo::new().await;
    let front = front(echo.address, 1, &[]).await;
    let mut quiet = TcpStream::connect(front.high).await.unwrap();
    let mut first = send(front.high, 1).await;
    echo.received(&[1]).await;
    quiet.write_u8(2).await.unwrap();
    waiting(&front, 1).await;
    echo.may.add_permits(2);
    assert_eq!((first.read_u8().await.unwrap(), quiet.read_u8().await.unwrap()), (1, 2));
}

#[tokio::test]
async fn a_server_that_sends_first_gets_the_connection_before_its_client_sends() {
    let server = silent(b"hi").await;
    let stage = stage(server, Stage::new(1, 10));
    let front = start(TcpStage { server_first: true, ..stage }).await;
    let mut client = TcpStream::connect(front.high).await.unwrap();
    let mut greeting = [0; 2];
    let reads = timeout(Duration::from_secs(10), client.read_exact(&mut greeting));
    reads.await.unwrap().unwrap();
    assert_eq!(&greeting, b"hi");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_loses_its_connection() {
    let front = front(silent(b"").await, 1, &[]).await;
    let begun = Instant::now();
    let mut quiet = TcpStream::connect(front.high).await.unwrap();
    assert_eq!(timeout(Duration::from_secs(200), ends(&mut quiet)).await, Ok(true));
    assert_eq!(begun.elapsed().as_secs(), 60);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_byte_by_byte_loses_its_slot_in_the_end() {
    let front = front(silent(b"").await, 1, &[]).await;
    let begun = Instant::now();
    let mut slow = send(front.high, 1).await;
    eventually("it runs", async || front.stage.running() == 1).await;
    let _next = send(front.high, 2).await;
    waiting(&front, 1).await;
    while begun.elapsed() < Duration::from_secs(1_000) {
        tokio::select! {
            true = ends(&mut slow) => break,
            () = sleep(Duration::from_secs(1)) => drop(slow.write_u8(1).await),
        }
    }
    assert_eq!(begun.elapsed().as_secs(), 300);
    waiting(&front, 0).await;
}

#[tokio::test]
async fn a_client_beyond_the_connection_limit_is_closed_immediately() {
    let echo = Echo::new().await;
    let stage = stage(echo.address, Stage::new(1, 10));
    let front = start(TcpStage { connections: 2, ..stage }).await;
    let mut first = send(front.high, 1).await;
    echo.received(&[1]).await;
    let _quiet = TcpStream::connect(front.high).await.unwrap();
    for _ in 0..3 {
        let mut surplus = TcpStream::connect(front.low).await.unwrap();
        assert_eq!(timeout(Duration::from_secs(10), ends(&mut surplus)).await, Ok(true));
    }
    echo.may.add_permits(1);
    assert_eq!(first.read_u8().await.unwrap(), 1);
}
