//! A server that delays each response by a known amount of time. It logs how long each response took,
//! so that the results of `curtail load` can be checked.
//!
//! `stub PROTOCOL [DELAY [EVERY/LASTS]]` listens, prints `listening on ADDRESS`, serves until its
//! standard input is closed, and then prints one JSON document: the percentiles of the time between
//! reading the whole request and writing its response. PROTOCOL is http1, http2, grpc, memcached,
//! redis, tcp or udp. DELAY is a distribution such as `uniform:1ms:20ms`. With EVERY/LASTS, such as
//! `10s/1s`, the server sends no responses during the last part of each period: EVERY is the length of
//! the period, and LASTS is the length of that part.

use std::error::Error;
use std::io::Read as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use curtail_dist::{Distribution, Spec, seed};
use h2::RecvStream;
use h2::server::SendResponse;
use hdrhistogram::Histogram;
use http::{HeaderMap, HeaderValue, Request, Response};
use rand_pcg::Pcg64Mcg;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

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
        "http2" => serve_http2(stream, truth, false).await,
        "grpc" => serve_http2(stream, truth, true).await,
        _ => serve_lines(protocol, stream, truth).await,
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

struct Truth {
    delay: Distribution,
    rng: Mutex<Pcg64Mcg>,
    start: Instant,
    /// The time from the start of one stall to the start of the next, and the length of a stall.
    stall: Option<(Duration, Duration)>,
    took: Mutex<Histogram<u64>>,
}

impl Truth {
    fn new(delay: &str, stall: Option<&str>) -> Result<Truth, Failure> {
        let delay = delay.parse::<Spec>()?.resolve(1e6)?;
        let span = |text: &str| {
            Ok::<_, Failure>(Duration::from_nanos(curtail_kernel::duration::parse(text)?))
        };
        let stall = match stall {
            Some(text) => {
                let (every, lasts) = text.split_once('/').ok_or("write a stall as EVERY/LASTS")?;
                Some((span(every)?, span(lasts)?))
            }
            None => None,
        };
        let took = Histogram::new_with_max(60_000_000_000, 3)?;
        let rng = Mutex::new(seed::rng(42));
        Ok(Truth { delay, rng, start: Instant::now(), stall, took: Mutex::new(took) })
    }

    /// Delays the response to a request that was read at `read`.
    async fn delay(&self, read: Instant) {
        let drawn = {
            let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
            Duration::from_nanos(self.delay.sample(&mut *rng) as u64)
        };
        let until = self.stalled_until(read).unwrap_or(read).max(read + drawn);
        if until > Instant::now() {
            tokio::time::sleep_until(until.into()).await;
        }
    }

    /// Returns when the current stall ends, if the server is stalled at `moment`.
    fn stalled_until(&self, moment: Instant) -> Option<Instant> {
        let (every, lasts) = self.stall?;
        let since = moment.duration_since(self.start).as_nanos();
        let within = since % every.as_nanos();
        // The server stalls during the last part of each period.
        let begins = every.saturating_sub(lasts).as_nanos();
        let left = every.as_nanos() - within;
        (within >= begins).then(|| moment + Duration::from_nanos(left as u64))
    }

    /// Logs how long a response took, after it has been written.
    fn answered(&self, read: Instant) {
        let took = read.elapsed().as_nanos() as u64;
        self.took.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(took);
    }

    /// Returns the log as JSON.
    fn document(&self) -> String {
        let took = self.took.lock().unwrap_or_else(PoisonError::into_inner);
        let at = |quantile| took.value_at_quantile(quantile);
        let (p50, p90, p95, p99) = (at(0.5), at(0.9), at(0.95), at(0.99));
        let requests = took.len();
        format!(
            r#"{{"requests":{requests},"truth_ns":{{"p50":{p50},"p90":{p90},"p95":{p95},"p99":{p99}}}}}"#
        )
    }
}

/// Serves one connection. Supports only memcached's `get`, and only Redis commands whose strings
/// contain no line ending.
async fn serve_lines(protocol: &str, stream: TcpStream, truth: Arc<Truth>) -> Result<(), Failure> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(line) = lines.next_line().await? {
        let answer = match protocol {
            "http1" if line.is_empty() => "HTTP/1.1 200 \r\ncontent-length: 2\r\n\r\nok".to_owned(),
            "http1" => continue,
            "memcached" => {
                let key = line.strip_prefix("get ").ok_or("only get is supported")?;
                format!("VALUE {key} 0 2\r\nok\r\nEND\r\n")
            }
            "redis" => {
                let words: usize = line.strip_prefix('*').ok_or("not a command")?.parse()?;
                for _ in 0..2 * words {
                    lines.next_line().await?.ok_or("half a command")?;
                }
                "$2\r\nok\r\n".to_owned()
            }
            "tcp" => line + "\n",
            other => return Err(format!("unsupported command `{other}`").into()),
        };
        let read = Instant::now();
        truth.delay(read).await;
        lines.get_mut().get_mut().write_all(answer.as_bytes()).await?;
        truth.answered(read);
    }
    Ok(())
}

async fn serve_http2(stream: TcpStream, truth: Arc<Truth>, grpc: bool) -> Result<(), Failure> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted?;
        let truth = Arc::clone(&truth);
        tokio::spawn(async move { answer(request, respond, &truth, grpc).await });
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    truth: &Truth,
    grpc: bool,
) -> Result<(), Failure> {
    let mut body = request.into_body();
    while let Some(piece) = body.data().await {
        body.flow_control().release_capacity(piece?.len())?;
    }
    let read = Instant::now();
    truth.delay(read).await;
    if grpc {
        let head = Response::builder().header("content-type", "application/grpc").body(())?;
        let mut send = respond.send_response(head, false)?;
        // One empty message.
        send.send_data(Bytes::from_static(&[0; 5]), false)?;
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        send.send_trailers(trailers)?;
    } else {
        let mut send = respond.send_response(Response::new(()), false)?;
        send.send_data(Bytes::from_static(b"ok"), true)?;
    }
    // The connection writes the response when it is polled next, which happens immediately
    // afterward.
    truth.answered(read);
    Ok(())
}
