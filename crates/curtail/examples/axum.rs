//! An axum server that answers from two replicas through reqwest. If the client leaves, the calls to
//! the replicas are cancelled.
//!
//! Run it with `cargo run -p curtail --example axum`, and then:
//!
//! ```sh
//! curl -i 'http://127.0.0.1:3000/search?q=tail'
//! curl 'http://127.0.0.1:3000/status'
//! ```

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use ::axum::Router;
use ::axum::extract::{RawQuery, State};
use ::axum::response::{IntoResponse, Response};
use ::axum::routing::get;
use curtail::{BoxError, Cancel, Curtail, ErrorKind, Fault, Outcome, Query};
use http::StatusCode;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneService;

/// A client of a replica: the path and query of a request go in.
type Client = BoxCloneService<String, reqwest::Response, reqwest::Error>;
type Search = Curtail<Client, String>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    println!("listening on http://{}", serve("127.0.0.1:3000").await?);
    std::future::pending().await
}

/// Starts two replicas and the root, and returns the address of the root.
pub(crate) async fn serve(listen: &str) -> Result<SocketAddr, BoxError> {
    let replicas = [replica().await?, replica().await?];
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    let root = root(replicas)?;
    tokio::spawn(async move { ::axum::serve(listener, root).await });
    Ok(address)
}

/// Returns the root over these replicas.
fn root(replicas: [SocketAddr; 2]) -> Result<Router, BoxError> {
    let client = reqwest::Client::new();
    let servers = replicas.map(|at| (at.to_string(), connect(&client, at)));
    // Without `slots`, the default policy is rescue+least-outstanding.
    let search: Search = Curtail::builder()
        .shard("all", servers)
        .timeout(Duration::from_secs(2))
        .cancellation(Cancel::OnDrop)
        .classify(classify)
        .repeatable(|path| Some(path.clone()))
        .build()?;
    let router = Router::new().route("/search", get(answer)).route("/status", get(status));
    Ok(router.with_state(search))
}

fn connect(client: &reqwest::Client, at: SocketAddr) -> Client {
    let client = client.clone();
    BoxCloneService::new(tower::service_fn(move |path: String| {
        client.get(format!("http://{at}{path}")).send()
    }))
}

/// States what a result means for its replica.
fn classify(result: &Result<reqwest::Response, reqwest::Error>) -> Outcome {
    match result {
        Ok(response) if response.status() == 429 || response.status() == 503 => Outcome::Refused,
        Ok(response) if response.status().is_server_error() => Outcome::Failed(Fault::Status),
        Ok(response) if response.status().is_client_error() => Outcome::Request,
        Ok(_) => Outcome::Good,
        Err(error) if error.is_connect() => Outcome::Failed(Fault::ConnectFailed),
        Err(_) => Outcome::Failed(Fault::Reset),
    }
}

async fn answer(State(search): State<Search>, RawQuery(query): RawQuery) -> Response {
    let path = format!("/search?{}", query.unwrap_or_default());
    let deadline = Instant::now() + Duration::from_millis(500);
    let query = Query::idempotent(path).deadline(deadline);
    match search.shard("all").query(query).await {
        Ok(answer) => {
            let (status, server) = (answer.response.status(), answer.server.to_string());
            match answer.response.bytes().await {
                Ok(body) => (status, [("x-server", server)], body).into_response(),
                Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
            }
        }
        Err(error) => {
            let status = match error.kind() {
                ErrorKind::QueueFull | ErrorKind::Expired => StatusCode::SERVICE_UNAVAILABLE,
                ErrorKind::Timeout => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::BAD_GATEWAY,
            };
            (status, format!("{error:#}")).into_response()
        }
    }
}

async fn status(State(search): State<Search>) -> String {
    let mut text = format!("policy {}\n", search.policy());
    for server in search.shard("all").servers() {
        let (name, outstanding) = (&server.name, server.outstanding);
        let up = if server.up { "up" } else { "out" };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}: {up}, {outstanding} outstanding");
    }
    text
}

/// Starts a replica that waits for 5 ms per query.
async fn replica() -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let search = get(|| async {
        sleep(Duration::from_millis(5)).await;
        "ten results\n"
    });
    tokio::spawn(
        async move { ::axum::serve(listener, Router::new().route("/search", search)).await },
    );
    Ok(address)
}
