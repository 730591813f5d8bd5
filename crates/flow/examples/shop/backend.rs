//! The shop's store: a process that serves HTTP/1.1. Each request reads a disk for 20 ms, and the
//! disk has two slots.

use std::convert::Infallible;
use std::time::Duration;

use curtail_flow::{Context, Flow, ResourceSpec, ServerLayer, Workflow};
use curtail_http::h1::server::{Connection, ServerError};
use curtail_http::h1::{Limits, Timeouts};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tower::{Layer as _, ServiceExt as _, service_fn};

/// Starts the store and returns its address.
pub(super) async fn start() -> std::io::Result<String> {
    let flow = Flow::builder("store")
        .workflow("buy", Workflow::default())
        .workflow("scan", Workflow::default())
        .resource("disk", ResourceSpec { slots: 2, queue: 100 })
        .build()
        .map_err(std::io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(connection(stream, ServerLayer::new(flow.clone())));
        }
    });
    Ok(address)
}

/// The store's work. This function contains no code that handles rates or workflows.
async fn read(request: Request<()>) -> Result<Response<&'static str>, Infallible> {
    // The layer inserts the context.
    let Some(context) = request.extensions().get::<Context>() else { return respond(500, "") };
    let disk = async { sleep(Duration::from_millis(20)).await };
    match context.subtask("disk", None, disk).await {
        Ok(()) => respond(200, "a book\n"),
        Err(_) => respond(503, ""),
    }
}

fn respond(status: u16, body: &'static str) -> Result<Response<&'static str>, Infallible> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or_default();
    Ok(response)
}

async fn connection(stream: TcpStream, layer: ServerLayer) -> Result<(), ServerError> {
    let service = layer.layer(service_fn(read));
    let mut connection = Connection::new(stream, Limits::default(), Timeouts::default());
    while let Some(request) = connection.next_request().await? {
        let mut ours = Request::new(());
        *ours.headers_mut() = headers(request.head.headers());
        let response = tokio::select! {
            response = service.clone().oneshot(ours) => response,
            // Dropping the future withdraws a waiting request, or frees the slot of a running one.
            () = connection.peer_closed() => return Ok(()),
        };
        let Ok(response) = response;
        let fields = response.headers().iter().map(|(name, value)| (name.as_str(), value));
        let body = response.body().as_bytes();
        connection.respond(response.status().as_u16(), fields, body).await?;
    }
    connection.close().await;
    Ok(())
}

/// Converts the fields of a message.
pub(super) fn headers<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> HeaderMap {
    let field = |(name, value): (&str, &[u8])| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value).ok()?))
    };
    fields.filter_map(field).collect()
}
