//! A shop and its store, which are two processes that communicate over HTTP/1.1. Run the example
//! with `cargo run -p curtail-flow --example shop`.
//!
//! The store can sustain 100 requests per second. Customers *buy* 20 times per second, and a robot
//! *scans* 500 times per second. From the store's responses, the shop learns which rates the store
//! can sustain, and it rejects the robot's excess requests on arrival. The example prints how many
//! requests are admitted in each second.

#[path = "shop/backend.rs"]
mod backend;

use std::io;
use std::time::Duration;

use curtail_flow::{ClientLayer, Flow, ServerLayer, WorkflowSpec};
use curtail_http::h1::client::{ClientError, Connection};
use curtail_http::h1::{BodyLength, Limits, Persistence, write_request};
use http::{Request, Response, StatusCode};
use tokio::net::TcpStream;
use tokio::time::interval;
use tower::util::BoxCloneService;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// The service that the shop offers to its customers.
type Shop = BoxCloneService<Request<()>, Response<String>, io::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let store = backend::start().await?;
    let second = WorkflowSpec { deadline: Some(Duration::from_secs(1)), ..WorkflowSpec::default() };
    let flow = Flow::builder("shop")
        .workflow("buy", second)
        .workflow("scan", second)
        .build()
        .map_err(io::Error::other)?;

    // The layer adds metadata to calls to the store, because it finds the request's context in the
    // current task.
    let address = store.clone();
    let client = service_fn(move |request| call(address.clone(), request));
    let client = ClientLayer::new(flow.clone(), "store", &store).layer(client);
    let handler = service_fn(move |_: Request<()>| client.clone().oneshot(Request::new(())));
    // Customers are not trusted: the path determines the workflow, and metadata in their headers is
    // ignored.
    let edge = ServerLayer::edge(flow.clone(), |request| Some(request.uri.path()[1..].to_owned()));
    let shop: Shop = BoxCloneService::new(edge.layer(handler));

    tokio::spawn(customers(shop.clone(), "/buy", 20));
    tokio::spawn(customers(shop, "/scan", 500));
    report(&flow).await;
    Ok(())
}

/// Sends customers' requests at a fixed rate, regardless of their outcomes.
async fn customers(shop: Shop, path: &'static str, per_second: u32) {
    let mut timer = interval(Duration::from_secs(1) / per_second);
    loop {
        timer.tick().await;
        let mut request = Request::new(());
        *request.uri_mut() = http::Uri::from_static(path);
        tokio::spawn(shop.clone().oneshot(request));
    }
}

async fn report(flow: &Flow) {
    let mut before = flow.snapshot();
    let mut timer = interval(Duration::from_secs(1));
    timer.tick().await;
    println!("workflow  offered/s  admitted/s  rejected/s  in time/s  limit/s");
    for _ in 0..10 {
        timer.tick().await;
        let now = flow.snapshot();
        for (old, new) in before.workflows.iter().zip(&now.workflows).skip(1) {
            let (admitted, met) = (new.admitted - old.admitted, new.met - old.met);
            let rejected = new.late + new.full - old.late - old.full;
            let (name, offered, rate) = (&new.name, new.view.offered, new.view.rate);
            println!("{name:8}  {offered:9.0}  {admitted:10}  {rejected:10}  {met:9}  {rate:7.0}");
        }
        before = now;
    }
}

/// Sends one request over its own connection.
async fn call(address: String, request: Request<()>) -> io::Result<Response<String>> {
    let mut head = bytes::BytesMut::new();
    let mut fields = vec![("host", address.as_bytes())];
    fields.extend(request.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())));
    write_request(&mut head, "GET", "/", fields, BodyLength::None, Persistence::Close)
        .map_err(io::Error::other)?;
    let stream = TcpStream::connect(&address).await?;
    let mut connection = Connection::new(stream, Limits::default());
    let failed = |error: ClientError| io::Error::other(error);
    let received = connection.send(&head, false).await.map_err(failed)?;
    let body = connection.body_all(1_000).await.map_err(failed)?;
    let mut response = Response::new(String::from_utf8_lossy(&body).into_owned());
    *response.status_mut() = StatusCode::from_u16(received.status()).map_err(io::Error::other)?;
    *response.headers_mut() = backend::headers(received.headers());
    Ok(response)
}
