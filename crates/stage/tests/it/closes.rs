//! Tests the stage in front of two servers: one that stops its work when a connection is closed,
//! and one that does not. The servers work in real time because the stage learns from the duration
//! of the work.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::stage::Priority;
use curtail_runtime::stage::Stage;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

const PRIMARY: Duration = Duration::from_millis(4);

/// Starts a server that serves one connection at a time. It reads a number of milliseconds, works
/// for this time, and writes a byte.
async fn server(stops: bool) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let turn = Arc::new(Mutex::new(()));
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let turn = Arc::clone(&turn);
            tokio::spawn(async move {
                let Ok(ms) = client.read_u8().await else { return };
                let (mut reader, mut writer) = client.split();
                let work = async {
                    let _turn = turn.lock().await;
                    sleep(Duration::from_millis(ms.into())).await; // tidy: real time
                    let _ = writer.write_u8(ms).await;
                };
                let mut end = [0];
                tokio::select! {
                    () = work => {}
                    _ = reader.read(&mut end), if stops => {}
                }
            });
        }
    });
    address
}

/// Puts the stage in front of a server, and keeps two duplicates in the stage at all times. Returns
/// the address for primaries.
async fn before(server: SocketAddr, stage: &Stage, duplicate: Duration) -> SocketAddr {
    let tcp = crate::tcp::stage(server, stage.clone());
    let bind = async || TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (first, second) = (bind().await, bind().await);
    let (high, low) = (first.local_addr().unwrap(), second.local_addr().unwrap());
    let listeners = vec![(first, Priority::High), (second, Priority::Low)];
    tokio::spawn(tcp.serve(listeners, std::future::pending(), Duration::ZERO));
    for _ in 0..2 {
        tokio::spawn(async move {
            loop {
                let _ = measure(low, duplicate).await;
            }
        });
    }
    high
}

/// Sends a request, and returns its response time.
async fn measure(at: SocketAddr, work: Duration) -> std::io::Result<Duration> {
    let begun = Instant::now();
    let mut client = TcpStream::connect(at).await?;
    client.write_u8(work.as_millis() as u8).await?;
    client.read_u8().await?;
    Ok(begun.elapsed())
}

/// Sends primaries at irregular intervals, and returns how many of them took `after` or longer.
async fn late(high: SocketAddr, after: Duration, primaries: u32, until: impl Fn() -> bool) -> u32 {
    let mut late = 0;
    for at in 0..primaries {
        if until() {
            break;
        }
        sleep(Duration::from_millis(u64::from(at * 7 % 13))).await; // tidy: real time
        late += u32::from(measure(high, PRIMARY).await.unwrap() >= after);
    }
    late
}

#[tokio::test]
async fn duplicates_soon_delay_no_primary_of_a_server_that_keeps_working() {
    let stage = Stage::before(1, 10);
    let duplicate = Duration::from_millis(48);
    let high = before(server(false).await, &stage, duplicate).await;
    let found = late(high, duplicate / 2, 1_000, || stage.works_on()).await;
    assert!(
        stage.works_on() && found > 5,
        "{found} of 1,000 were late, and the stage detected nothing"
    );
    // The server still has to finish its running duplicates.
    sleep(3 * duplicate).await; // tidy: real time
    let after = late(high, duplicate / 2, 60, || false).await;
    assert!(after <= 10, "{after} of 60 are late afterwards");
}

#[tokio::test]
async fn duplicates_delay_no_primary_of_a_server_that_stops_while_its_slots_are_searched() {
    let stage = Stage::throttled(64, 10);
    let duplicate = Duration::from_millis(240);
    let high = before(server(true).await, &stage, duplicate).await;
    let late = late(high, duplicate / 3, 300, || false).await;
    assert!(late <= 1 && !stage.works_on(), "{late} of 300 were late, {stage:?}");
}
