//! Requests and responses of HTTP and gRPC.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::http::{HeaderMap, HeaderValue, Method, Request, Response};
use bytes::Bytes;
use curtail::http::{self, Body};
use curtail::{Cancel, Curtail, ErrorKind, Replica, Timers, outcome};
use futures_util::{StreamExt as _, stream};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tower::ServiceExt as _;

/// A body of these frames.
fn frames(frames: Vec<Frame<Bytes>>) -> Body {
    let frames = frames.into_iter().map(Ok::<_, Infallible>);
    // A stream whose frames arrive one after the other.
    let slowly = stream::iter(frames).then(|frame| async {
        tokio::time::sleep(Duration::from_millis(10)).await; // tidy: real time (it is paused)
        frame
    });
    Body::streaming(StreamBody::new(slowly))
}

fn data(text: &'static str) -> Frame<Bytes> {
    Frame::data(Bytes::from_static(text.as_bytes()))
}

fn trailers(status: &'static str) -> Frame<Bytes> {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    Frame::trailers(trailers)
}

fn at_once(frames: Vec<Frame<Bytes>>) -> Body {
    Body::streaming(StreamBody::new(stream::iter(frames.into_iter().map(Ok::<_, Infallible>))))
}

/// What the servers have received.
type Received = Arc<Mutex<Vec<(&'static str, String)>>>;

/// A server that reads the request, and responds.
fn server(
    name: &'static str,
    received: &Received,
    respond: impl Fn() -> Response<Body> + Clone + Send + Sync + 'static,
) -> impl Replica<Request<Body>, Response = Response<Body>, Error = curtail::BoxError> {
    let received = Arc::clone(received);
    tower::service_fn(move |request: Request<Body>| {
        let (received, response) = (Arc::clone(&received), respond());
        async move {
            let body = request.into_body().collect().await?.to_bytes();
            received.lock().unwrap().push((name, String::from_utf8_lossy(&body).into_owned()));
            Ok(response)
        }
    })
}

fn service<S>(servers: [S; 2], cancel: Cancel) -> Curtail<S, Request<Body>>
where
    S: Replica<Request<Body>, Response = Response<Body>, Error = curtail::BoxError>,
{
    let [first, second] = servers;
    Curtail::builder()
        .policy("round-robin".parse().unwrap())
        .shard("a", [("a0", first), ("a1", second)])
        .cancellation(cancel)
        .timers(Timers::tokio())
        .classify(outcome::http)
        .repeatable(http::repeat)
        .streaming(http::relay)
        .build()
        .unwrap()
}

fn status(status: u16) -> impl Fn() -> Response<Body> + Clone {
    move || Response::builder().status(status).body(Body::from("done")).unwrap()
}

fn post<B>(body: B) -> Request<B> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    request
}

#[tokio::test(start_paused = true)]
async fn a_complete_body_is_repeated_and_a_stream_is_sent_once() {
    let received = Received::default();
    let refuses: fn() -> Response<Body> = || status(503)();
    let works: fn() -> Response<Body> = || status(200)();
    let servers = [server("a0", &received, refuses), server("a1", &received, works)];
    let search = service(servers, Cancel::OnDrop);
    for _ in 0..2 {
        let client = search.shard("a").http();
        let response = client.oneshot(post(Full::new(Bytes::from("whole")))).await.unwrap();
        assert_eq!(response.status(), 200, "it was sent to the other server");
    }
    assert!(received.lock().unwrap().iter().all(|(_, body)| body == "whole"));
    assert!(received.lock().unwrap().len() > 2, "both servers have received it");
    received.lock().unwrap().clear();
    let mut statuses = Vec::new();
    for _ in 0..10 {
        let body = frames(vec![data("one "), data("two")]);
        let response = search.shard("a").http().oneshot(post(body)).await.unwrap();
        statuses.push(response.status().as_u16());
    }
    assert!(statuses.contains(&200) && statuses.contains(&503), "{statuses:?}");
    let received: Vec<_> = received.lock().unwrap().iter().map(|(_, body)| body.clone()).collect();
    assert_eq!(received, ["one two"; 10], "each was sent once, whatever the response");
}

#[tokio::test(start_paused = true)]
async fn a_copy_ends_with_the_body_of_its_response() {
    let streams: fn() -> Response<Body> =
        || Response::new(frames((0..10).map(|_| data("x")).collect()));
    for (cancel, reads, held) in
        [(Cancel::OnDrop, true, 0), (Cancel::OnDrop, false, 0), (Cancel::Never, false, 1)]
    {
        let received = Received::default();
        let servers = [server("a0", &received, streams), server("a1", &received, streams)];
        let shard = service(servers, cancel).shard("a");
        let outstanding = || shard.servers().iter().map(|server| server.outstanding).sum::<u32>();
        let response = shard.http().oneshot(post(Body::from("x"))).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await; // tidy: real time (it is paused)
        assert_eq!(outstanding(), 1, "nobody has read the body");
        if reads {
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(body.len(), 10);
        } else {
            drop(response);
        }
        tokio::time::sleep(Duration::from_millis(1)).await; // tidy: real time (it is paused)
        assert_eq!(outstanding(), held, "{cancel:?}");
        tokio::time::sleep(Duration::from_secs(1)).await; // tidy: real time (it is paused)
        assert_eq!(outstanding(), 0, "the rest was read and discarded");
    }
}

#[tokio::test(start_paused = true)]
async fn the_trailers_of_a_call_decide_whether_it_wins() {
    let received = Received::default();
    let unavailable: fn() -> Response<Body> =
        || Response::new(at_once(vec![data("x"), trailers("14")]));
    let works: fn() -> Response<Body> = || Response::new(at_once(vec![data("x"), trailers("0")]));
    let servers = [server("a0", &received, unavailable), server("a1", &received, works)];
    let shard = service(servers, Cancel::OnDrop).shard("a");
    for _ in 0..4 {
        let response = shard.grpc().oneshot(post(Body::from("x"))).await.unwrap();
        let trailers = response.into_body().collect().await.unwrap().trailers().cloned().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_call_limits_it() {
    let never = || {
        tower::service_fn(|_: Request<Body>| async {
            std::future::pending::<Result<Response<Body>, curtail::BoxError>>().await
        })
    };
    let shard = service([never(), never()], Cancel::OnDrop).shard("a");
    let mut call = post(Body::from("x"));
    call.headers_mut().insert("grpc-timeout", HeaderValue::from_static("100m"));
    let began = tokio::time::Instant::now();
    let error = shard.grpc().oneshot(call).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(began.elapsed().as_millis(), 100);
}
