//! A root that sends each request to three shards, each of which has two leaves. One in a hundred
//! responses of a leaf takes 80 ms longer, so 3 % of the requests meet such a hiccup.
//!
//! Run it with `cargo run --release -p curtail --example scatter`. It sends 100 requests per second,
//! and prints the percentiles without second copies and with the policy `rescue`. The leaves are
//! HTTP servers of this process, and they wait instead of working.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::axum::Router;
use ::axum::routing::get;
use curtail::{BoxError, Cancel, Curtail, Instant, Replica, outcome};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::time::{interval, sleep};

/// The policy learns from the first requests, which are not measured.
const WARM_UP: usize = 1_000;
const REQUESTS: usize = 3_000;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    println!("policy             p50 ms  p99 ms  copies per query  failed");
    for Row { policy, took_ms, copies_per_query, failed } in run(WARM_UP, REQUESTS).await? {
        let percentile = |p: usize| took_ms[(took_ms.len() - 1) * p / 100];
        let (p50, p99) = (percentile(50), percentile(99));
        println!("{policy:17}  {p50:6.1}  {p99:6.1}  {copies_per_query:16.3}  {failed:6}");
    }
    Ok(())
}

/// What was measured with a policy.
#[derive(Debug)]
pub(crate) struct Row {
    policy: &'static str,
    /// Sorted.
    took_ms: Vec<f64>,
    copies_per_query: f64,
    pub(crate) failed: usize,
}

pub(crate) async fn run(warm_up: usize, requests: usize) -> Result<Vec<Row>, BoxError> {
    let mut rows = Vec::new();
    for policy in ["least-outstanding", "rescue"] {
        let [[a0, a1], [b0, b1], [c0, c1]] = [shard().await?, shard().await?, shard().await?];
        let search = Curtail::builder()
            .policy(policy.parse()?)
            .shard("a", [("a0", leaf(a0)), ("a1", leaf(a1))])
            .shard("b", [("b0", leaf(b0)), ("b1", leaf(b1))])
            .shard("c", [("c0", leaf(c0)), ("c1", leaf(c1))])
            .slots(4)
            .timeout(Duration::from_secs(2))
            .cancellation(Cancel::OnDrop)
            .classify(outcome::http)
            .repeatable(|r: &Request<()>| r.method().is_safe().then(|| r.clone()))
            .build()?;
        // The latency of a request counts from the time at which it was due.
        let mut due = interval(Duration::from_millis(10));
        let mut open = Vec::new();
        for number in 0..requests {
            let due = due.tick().await;
            let search = search.clone();
            open.push(tokio::spawn(async move {
                let request = Request::get(format!("/search?q={number}")).body(())?;
                let deadline = Instant::now() + Duration::from_secs(1);
                let answers = search.scatter(request).deadline(deadline).at_least(2).await?;
                let copies: u32 = answers.answers.iter().map(|answer| answer.copies).sum();
                Ok::<_, BoxError>((due.elapsed().as_secs_f64() * 1e3, copies))
            }));
        }
        let (mut took_ms, mut copies, mut failed) = (Vec::new(), 0, 0);
        for (number, request) in open.into_iter().enumerate() {
            match request.await? {
                Ok(_) if number < warm_up => {}
                Ok((ms, sent)) => {
                    took_ms.push(ms);
                    copies += sent;
                }
                Err(_) => failed += 1,
            }
        }
        took_ms.sort_unstable_by(f64::total_cmp);
        let copies_per_query = f64::from(copies) / (3 * took_ms.len()) as f64;
        rows.push(Row { policy, took_ms, copies_per_query, failed });
    }
    Ok(rows)
}

/// A service that sends a request to a leaf, and reads the whole response.
fn leaf(
    address: Arc<str>,
) -> impl Replica<Request<()>, Response = Response<Bytes>, Error = BoxError> {
    let client: Client<HttpConnector, Empty<Bytes>> =
        Client::builder(TokioExecutor::new()).build_http();
    tower::service_fn(move |request: Request<()>| {
        let (client, address) = (client.clone(), Arc::clone(&address));
        async move {
            let (mut parts, ()) = request.into_parts();
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            parts.uri = Uri::try_from(format!("http://{address}{path}"))?;
            let response = client.request(Request::from_parts(parts, Empty::new())).await?;
            let (parts, body) = response.into_parts();
            Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
        }
    })
}

/// Starts the leaves of a shard, and returns their addresses.
async fn shard() -> std::io::Result<[Arc<str>; 2]> {
    Ok([start_leaf().await?, start_leaf().await?])
}

async fn start_leaf() -> std::io::Result<Arc<str>> {
    let served = Arc::new(AtomicU64::new(0));
    let search = move || {
        let is_hiccup = served.fetch_add(1, Ordering::Relaxed) % 100 == 99;
        async move {
            sleep(Duration::from_millis(if is_hiccup { 85 } else { 5 })).await;
            "ten results"
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/search", get(search))).await
    });
    Ok(address.into())
}
