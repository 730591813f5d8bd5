//! A root that sends each request to three shards, each of which has two leaves. One in a hundred
//! responses of a leaf takes 80 ms longer, so 3 % of the requests meet such a hiccup.
//!
//! Run it with `cargo run --release -p curtail --example scatter`. It sends 100 requests per second,
//! and prints the percentiles without second copies and with the policy `rescue`. The leaves are
//! HTTP servers of this process, and they wait instead of working.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use curtail::{BoxError, Cancel, Curtail, Instant, Policy, Replica, outcome};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;
use tokio::time::{interval, sleep};

const REQUESTS: u64 = 3_000;
/// The policy learns from the first requests, which are not measured.
const WARM_UP: u64 = 1_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("policy             p50 ms  p99 ms  copies per query  failed");
    for policy in ["least-outstanding", "rescue"] {
        let [a, b, c] = [shard().await?, shard().await?, shard().await?];
        let search = Curtail::builder()
            .policy(policy.parse::<Policy>()?)
            .shard("a", [("a0", leaf(a[0].clone())), ("a1", leaf(a[1].clone()))])
            .shard("b", [("b0", leaf(b[0].clone())), ("b1", leaf(b[1].clone()))])
            .shard("c", [("c0", leaf(c[0].clone())), ("c1", leaf(c[1].clone()))])
            .slots(4)
            .timeout(Duration::from_secs(2))
            .cancellation(Cancel::OnDrop)
            .classify(outcome::http)
            .repeatable(|r: &Request<()>| r.method().is_safe().then(|| r.clone()))
            .build()?;
        let (mut took_ms, mut copies, mut failed) = (Vec::new(), 0, 0);
        // The latency of a request counts from the time at which it was due.
        let mut due = interval(Duration::from_millis(10));
        let mut open = Vec::new();
        for number in 0..REQUESTS {
            let due = due.tick().await;
            let search = search.clone();
            open.push(tokio::spawn(async move {
                let request = Request::get(format!("/search?q={number}")).body(())?;
                let answers = search
                    .scatter(request)
                    .deadline(Instant::now() + Duration::from_secs(1))
                    .at_least(2)
                    .await?;
                let copies: u32 = answers.answers.iter().map(|answer| answer.copies).sum();
                Ok::<_, BoxError>((due.elapsed().as_secs_f64() * 1e3, copies))
            }));
        }
        for (number, request) in (0..).zip(open) {
            match request.await? {
                Ok(_) if number < WARM_UP => {}
                Ok((ms, sent)) => {
                    took_ms.push(ms);
                    copies += sent;
                }
                Err(_) => failed += 1,
            }
        }
        took_ms.sort_unstable_by(f64::total_cmp);
        let percentile = |p: usize| took_ms[(took_ms.len() - 1) * p / 100];
        let copies = f64::from(copies) / (3 * took_ms.len()) as f64;
        let (p50, p99) = (percentile(50), percentile(99));
        println!("{policy:17}  {p50:6.1}  {p99:6.1}  {copies:16.3}  {failed:6}");
    }
    Ok(())
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
