//! Server-sent events through a proxy: a server that sends them, and a client that measures when they
//! arrive.
//!
//! `streams serve ADDRESS CHUNKS_PER_SECOND` sends each client events in chunks, without an end. An
//! event contains the time at which it was sent, in nanoseconds of the system's clock. `streams read
//! ADDRESS STREAMS SECONDS` opens this number of streams through a proxy on the same machine, reads
//! them for this time, and prints `chunks=N p50_us=N p99_us=N`: the number of events, and the time
//! that they took from the server to the client. `serve-grpc` and `read-grpc` do the same with server
//! streams of gRPC over HTTP/2, and each connection of the client has STREAMS_PER_CONNECTION (1).
//!
//! `streams relay-grpc ADDRESS SERVER` relays such streams, and does nothing else: it shows what the crate
//! `h2` and a task per stream cost.

use std::error::Error;
use std::future::poll_fn;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use hdrhistogram::Histogram;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: streams serve[-grpc] ADDRESS CHUNKS_PER_SECOND | \
    read[-grpc] ADDRESS STREAMS SECONDS [STREAMS_PER_CONNECTION] | relay-grpc ADDRESS SERVER";
const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match &arguments[..] {
        [verb, address, server] if verb == "relay-grpc" => {
            runtime.block_on(relay_grpc(address, server))
        }
        [verb, address, rate] => {
            let pause = Duration::from_secs_f64(1.0 / rate.parse::<f64>()?);
            match verb.as_str() {
                "serve" => runtime.block_on(serve(address, pause)),
                "serve-grpc" => runtime.block_on(serve_grpc(address, pause)),
                _ => Err(USAGE.into()),
            }
        }
        [verb, address, streams, seconds, each @ ..] if each.len() < 2 => {
            let (streams, time) = (streams.parse()?, Duration::from_secs_f64(seconds.parse()?));
            let each = each.first().map_or(Ok(1), |each| each.parse())?;
            match verb.as_str() {
                "read" => runtime.block_on(read_all(address, streams, time)),
                "read-grpc" => runtime.block_on(read_all_grpc(address, streams, time, each)),
                _ => Err(USAGE.into()),
            }
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
                let event = event();
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
    print(tasks).await
}

async fn read_all_grpc(
    address: &str,
    streams: usize,
    time: Duration,
    per_connection: usize,
) -> Result<(), Failure> {
    let mut tasks = Vec::new();
    while tasks.len() < streams {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut builder = h2::client::Builder::new();
        builder.initial_connection_window_size(1 << 24);
        let (sender, connection) = builder.handshake::<_, Bytes>(stream).await?;
        tokio::spawn(connection);
        for _ in 0..per_connection.clamp(1, streams - tasks.len()) {
            let request = http::Request::post(format!("http://{address}/streams.Streams/Read"))
                .header("content-type", "application/grpc")
                .body(())?;
            let (response, _) = sender.clone().ready().await?.send_request(request, true)?;
            tasks.push(tokio::spawn(async move { read_grpc(response, time).await }));
        }
    }
    print(tasks).await
}

type Delays = Result<Histogram<u64>, Failure>;

async fn print(tasks: Vec<JoinHandle<Delays>>) -> Result<(), Failure> {
    let mut all = Histogram::<u64>::new(3)?;
    for task in tasks {
        all.add(task.await??)?;
    }
    let us = |quantile| all.value_at_quantile(quantile) / 1_000;
    println!("chunks={} p50_us={} p99_us={}", all.len(), us(0.5), us(0.99));
    Ok(())
}

/// Reads one stream, and returns the delays of its events in nanoseconds.
async fn read(address: &str, time: Duration) -> Delays {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: streams\r\n\r\n").await?;
    let mut delays = Histogram::new(3)?;
    let mut text = Vec::new();
    let reading = async {
        loop {
            if stream.read_buf(&mut text).await? == 0 {
                return Err(Failure::from("the stream ended"));
            }
            record(&mut text, &mut delays)?;
        }
    };
    // The streams have no end.
    match timeout(time, reading).await {
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(())) | Err(_) => Ok(delays),
    }
}

/// Reads the messages of one stream of gRPC.
async fn read_grpc(response: h2::client::ResponseFuture, time: Duration) -> Delays {
    let mut delays = Histogram::new(3)?;
    let mut text = Vec::new();
    let reading = async {
        let mut body = response.await?.into_body();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            text.extend_from_slice(&data);
            record(&mut text, &mut delays)?;
        }
        Err(Failure::from("the stream ended"))
    };
    match timeout(time, reading).await {
        Ok(Err(failure)) => Err(failure),
        Ok(Ok(())) | Err(_) => Ok(delays),
    }
}

/// Records the delays of all events in the text, and removes them.
fn record(text: &mut Vec<u8>, delays: &mut Histogram<u64>) -> Result<(), Failure> {
    let now = now_ns();
    // Chunk lines, heads and lengths between the events are skipped.
    while let Some(end) = text.windows(2).position(|at| at == b"\n\n") {
        let event: Vec<u8> = text.drain(..end + 2).collect();
        let event = String::from_utf8_lossy(&event);
        let stamp = event.split_once("data: ").and_then(|(_, rest)| rest.get(..20));
        let sent: u64 = stamp.ok_or("an event without a time")?.parse()?;
        delays.record(now.saturating_sub(sent).max(1))?;
    }
    Ok(())
}

/// An event, with the time.
fn event() -> String {
    format!("data: {:020} a token\n\n", now_ns())
}

async fn serve_grpc(address: &str, pause: Duration) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(async move {
            let mut builder = h2::server::Builder::new();
            let mut connection =
                builder.max_concurrent_streams(1_000).handshake::<_, Bytes>(stream).await?;
            while let Some(accepted) = connection.accept().await {
                let (_, mut respond) = accepted?;
                let head = http::Response::builder().header("content-type", "application/grpc");
                let mut body = respond.send_response(head.body(())?, false)?;
                tokio::spawn(async move {
                    let mut ticks = interval(pause);
                    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
                    loop {
                        ticks.tick().await;
                        let event = event();
                        let length = (event.len() as u32).to_be_bytes();
                        let message = [&[0], &length[..], event.as_bytes()].concat();
                        if body.send_data(message.into(), false).is_err() {
                            return;
                        }
                    }
                });
            }
            Ok::<_, Failure>(())
        });
    }
}

async fn relay_grpc(address: &str, server: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(address).await?;
    let mut upstream = None;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let sender = match &upstream {
            Some(sender) => SendRequest::clone(sender),
            None => {
                let stream = TcpStream::connect(server).await?;
                stream.set_nodelay(true)?;
                let mut builder = h2::client::Builder::new();
                builder.initial_connection_window_size(1 << 24);
                let (sender, connection) = builder.handshake(stream).await?;
                tokio::spawn(connection);
                upstream.insert(sender).clone()
            }
        };
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(stream).await?;
            while let Some(accepted) = connection.accept().await {
                let (request, respond) = accepted?;
                tokio::spawn(relay_stream(request, respond, sender.clone()));
            }
            Ok::<_, Failure>(())
        });
    }
}

async fn relay_stream(
    request: http::Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    sender: SendRequest<Bytes>,
) -> Result<(), Failure> {
    let request = http::Request::from_parts(request.into_parts().0, ());
    let (response, _) = sender.ready().await?.send_request(request, true)?;
    let (parts, mut from) = response.await?.into_parts();
    let mut to = respond.send_response(http::Response::from_parts(parts, ()), false)?;
    loop {
        let data = tokio::select! {
            biased;
            data = from.data() => data,
            _ = poll_fn(|context| to.poll_reset(context)) => return Ok(()),
        };
        let data = data.ok_or("the stream ended")??;
        from.flow_control().release_capacity(data.len())?;
        to.send_data(data, false)?;
    }
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}
