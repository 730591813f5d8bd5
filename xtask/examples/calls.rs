//! A tonic service with hiccups, and its counters.
//!
//! `calls serve ADDRESS SLOTS SEED` serves `calls.Calls`, whose messages are empty:
//!
//! - `Query` takes one of the slots for 8 ms and an exponential time with mean 4 ms. In 2 % of the calls,
//!   it takes 150 ms longer.
//! - `Refuse` responds with UNAVAILABLE, and `Forbid` also with the push-back that forbids a retry.
//! - `Reject` responds with FAILED_PRECONDITION, which is a status of the application.
//!
//! `calls stats ADDRESS...` reads a report of `curtail load --json` from its input, and prints its
//! figures and the sum of the servers' counters as `name=value` fields. A call is *cancelled* if its
//! stream was reset, or its connection closed, before it responded. It is *repeated* if it says that
//! it is not the first attempt.

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, BufMut as _, Bytes};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rand_distr::{Distribution as _, Exp, Uniform};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, NamedService};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::{Service, service_fn};

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "usage: calls serve ADDRESS SLOTS SEED | stats ADDRESS...";
const BASE: Duration = Duration::from_millis(8);
const MEAN_MS: f64 = 4.0;
const HICCUP: Duration = Duration::from_millis(150);
const HICCUP_SHARE: f64 = 0.02;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [verb, address, slots, seed] if verb == "serve" => {
            let calls = Calls(Arc::new(Server {
                slots: Semaphore::new(slots.parse()?),
                draws: Mutex::new(Pcg64Mcg::seed_from_u64(seed.parse()?)),
                counters: Default::default(),
            }));
            let incoming = TcpIncoming::bind(address.parse()?)?.with_nodelay(Some(true));
            println!("listening on {}", incoming.local_addr()?);
            let server = tonic::transport::Server::builder().add_service(calls);
            Ok(server.serve_with_incoming(incoming).await?)
        }
        [verb, addresses @ ..] if verb == "stats" => stats(addresses).await,
        _ => Err(USAGE.into()),
    }
}

const COUNTERS: [&str; 4] = ["started", "responded", "cancelled", "repeated"];
const STARTED: usize = 0;
const RESPONDED: usize = 1;
const CANCELLED: usize = 2;
const REPEATED: usize = 3;

struct Server {
    slots: Semaphore,
    draws: Mutex<Pcg64Mcg>,
    counters: [AtomicU64; COUNTERS.len()],
}

impl Server {
    fn count(&self, counter: usize) {
        self.counters[counter].fetch_add(1, Ordering::Relaxed);
    }

    fn draw(&self) -> Result<Duration, Failure> {
        let mut draws = self.draws.lock().unwrap_or_else(PoisonError::into_inner);
        let more = Duration::from_secs_f64(Exp::new(1e3 / MEAN_MS)?.sample(&mut *draws));
        let hiccups = Uniform::new(0.0, 1.0)?.sample(&mut *draws) < HICCUP_SHARE;
        Ok(BASE + more + if hiccups { HICCUP } else { Duration::ZERO })
    }

    async fn query(&self) -> Result<(), Status> {
        let internal = |_| Status::internal("no time");
        let _slot = self.slots.acquire().await.map_err(|_| Status::internal("no slots"))?;
        tokio::time::sleep(self.draw().map_err(internal)?).await;
        Ok(())
    }

    async fn respond(&self, method: &str, request: Request<Bytes>) -> Result<(), Status> {
        let running = Running { server: self, has_responded: false };
        self.count(STARTED);
        if request.metadata().contains_key("grpc-previous-rpc-attempts") {
            self.count(REPEATED);
        }
        let result = match method {
            "/calls.Calls/Query" => self.query().await,
            "/calls.Calls/Reject" => Err(Status::failed_precondition("not in this state")),
            "/calls.Calls/Refuse" => Err(Status::unavailable("busy")),
            "/calls.Calls/Forbid" => {
                let mut status = Status::unavailable("busy");
                let never = tonic::metadata::MetadataValue::from_static("-1");
                status.metadata_mut().insert("grpc-retry-pushback-ms", never);
                Err(status)
            }
            _ => Err(Status::unimplemented("no such method")),
        };
        running.responds();
        result
    }
}

/// A call that has not responded. Dropping it means that it was cancelled.
struct Running<'s> {
    server: &'s Server,
    has_responded: bool,
}

impl Running<'_> {
    fn responds(mut self) {
        self.has_responded = true;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.server.count(if self.has_responded { RESPONDED } else { CANCELLED });
    }
}

#[derive(Clone)]
struct Calls(Arc<Server>);

impl NamedService for Calls {
    const NAME: &'static str = "calls.Calls";
}

impl Service<http::Request<Body>> for Calls {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let server = Arc::clone(&self.0);
        let path = request.uri().path().to_owned();
        async move {
            if path == "/calls.Calls/Stats" {
                let counters = server.counters.iter().map(|count| count.load(Ordering::Relaxed));
                let text: Vec<String> = counters.map(|count| count.to_string()).collect();
                return Ok(http::Response::new(Body::new(text.join(" "))));
            }
            let respond = service_fn(|request| {
                let (server, path) = (Arc::clone(&server), path.clone());
                async move {
                    server.respond(&path, request).await.map(|()| Response::new(Bytes::new()))
                }
            });
            Ok(Grpc::new(Plain).unary(respond, request).await)
        }
        .boxed()
    }
}

/// Prints the report of a run and the counters of the servers.
async fn stats(addresses: &[String]) -> Result<(), Failure> {
    let report: serde_json::Value = serde_json::from_reader(std::io::stdin())?;
    let mut sums = [0; COUNTERS.len()];
    for address in addresses {
        let (sender, connection) =
            h2::client::handshake(TcpStream::connect(address).await?).await?;
        let connection = tokio::spawn(connection);
        let request = http::Request::post(format!("http://{address}/calls.Calls/Stats")).body(())?;
        let (response, _) = sender.ready().await?.send_request(request, true)?;
        let mut body = response.await?.into_body();
        let data = body.data().await.ok_or("no counters")??;
        for (sum, count) in sums.iter_mut().zip(std::str::from_utf8(&data)?.split(' ')) {
            *sum += count.parse::<u64>()?;
        }
        connection.abort();
    }
    let ms = |name: &str| report["latency_ns"][name].as_f64().map_or(-1.0, |ns| ns / 1e6);
    let number = |name: &str| report[name].as_f64().unwrap_or(-1.0);
    println!(
        "valid={} requests={} p50_ms={:.2} p99_ms={:.2} p999_ms={:.2} rate={:.1} {}",
        u8::from(report["valid"] == true),
        number("requests"),
        ms("p50"),
        ms("p99"),
        ms("p999"),
        number("achieved_rate"),
        COUNTERS
            .iter()
            .zip(sums)
            .map(|(name, sum)| format!("{name}={sum}"))
            .collect::<Vec<_>>()
            .join(" ")
    );
    Ok(())
}

/// Messages as they are.
#[derive(Clone, Copy, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(message);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
