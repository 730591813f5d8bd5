//! Server-sent events through a proxy: a server that sends them, and a client that measures when they
//! arrive.
//!
//! `streams serve ADDRESS CHUNKS_PER_SECOND` sends each client events in chunks, without an end. An
//! event contains the time at which it was sent, in nanoseconds of the system's clock. `streams read
//! ADDRESS STREAMS SECONDS` opens this number of streams through a proxy on the same machine, reads
//! them for this time, and prints `chunks=N p50_us=N p99_us=N`: the number of events, and the time
//! that they took from the server to the client.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, timeout};

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: streams serve ADDRESS CHUNKS_PER_SECOND | read ADDRESS STREAMS SECONDS";
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments[..] {
        [verb, address, rate] if verb == "serve" => {
            runtime.block_on(serve(address, Duration::from_secs_f64(1.0 / rate.parse::<f64>()?)))
        }
        [verb, address, streams, seconds] if verb == "read" => {
            let time = Duration::from_secs_f64(seconds.parse()?);
            runtime.block_on(read_all(address, streams.parse()?, time))
        }
        _ => Err(USAGE.into()),
    }
}

async fn serve(address: &str, pause: Duration) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut request = [0; 4096];
            if !matches!(stream.read(&mut request).await, Ok(1..)) {
                return;
            }
            let mut sent = stream.write_all(HEAD).await;
            let mut ticks = interval(pause);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
            while sent.is_ok() {
                ticks.tick().await;
                let event = format!("data: {:020} a token\n\n", now_ns());
                sent =
                    stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).await;
            }
        });
    }
}

async fn read_all(address: &str, streams: usize, time: Duration) -> Result<(), Failure> {
    let mut tasks = Vec::new();
    for _ in 0..streams {
        let address = address.to_owned();
        tasks.push(tokio::spawn(async move { read(&address, time).await }));
    }
    let mut all = Histogram::<u64>::new(3)?;
    for task in tasks {
        all.add(task.await??)?;
    }
    let us = |quantile| all.value_at_quantile(quantile) / 1_000;
    println!("chunks={} p50_us={} p99_us={}", all.len(), us(0.5), us(0.99));
    Ok(())
}

/// Reads one stream, and returns the delays of its events in nanoseconds.
async fn read(address: &str, time: Duration) -> Result<Histogram<u64>, Failure> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: streams\r\n\r\n").await?;
    let mut delays = Histogram::new(3)?;
    let mut text = Vec::new();
    let reading = async {
        loop {
            if stream.read_buf(&mut text).await? == 0 {
                return Err(Failure::from("the stream ended"));
            }
            let now = now_ns();
            // Chunk lines and heads between the events are skipped.
            while let Some(end) = text.windows(2).position(|at| at == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event);
                let stamp = event.split_once("data: ").and_then(|(_, rest)| rest.get(..20));
                let sent: u64 = stamp.ok_or("an event without a time")?.parse()?;
                delays.record(now.saturating_sub(sent).max(1))?;
            }
        }
    };
    // The streams have no end.
    match timeout(time, reading).await {
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(())) | Err(_) => Ok(delays),
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
