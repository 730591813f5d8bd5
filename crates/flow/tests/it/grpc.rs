//! Tests the layers around tonic services and clients, in memory.

use std::convert::Infallible;
use std::time::Duration;

use bytes::{Buf as _, BufMut as _};
use curtail_flow::{
    ClientLayer, Config, Context, Flow, RequestMeta, ResourceSpec, ServerLayer, Workflow,
};
use http::uri::PathAndQuery;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Response, Status};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, service_fn};

use crate::{ms, sleep, view};

type Http = BoxCloneSyncService<
    http::Request<tonic::body::Body>,
    http::Response<tonic::body::Body>,
    Infallible,
>;

/// Messages are text.
#[derive(Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|_| Status::internal("no text"))
    }
}

/// Responds with the time remaining after a 20 ms sub-task.
async fn work(request: Request<String>) -> Result<Response<String>, Status> {
    let context = request.extensions().get::<Context>().expect("the layer sets it");
    let done = crate::work(context, ms(20)).await;
    done.map_err(|rejected| Status::resource_exhausted(rejected.to_string()))?;
    let left = context.remaining().map_or(0, |left| left.as_millis());
    Ok(Response::new(format!("{}, {left} ms left", request.get_ref())))
}

fn flow(name: &str, limit: f64) -> Flow {
    let config = Config { queue: 1, ..Config::default() };
    let shares = Workflow { limit, ..Workflow::default() };
    let builder = Flow::builder(name).workflow("a", shares).config(config);
    builder.resource("disk", ResourceSpec { slots: 1, queue: 9 }).build().expect("sound")
}

/// Returns the client that the entry uses to call the store. The client and the server each have
/// their own layer.
fn client(entry: &Flow, store: &Flow) -> tonic::client::Grpc<Http> {
    let server = service_fn(|request: http::Request<tonic::body::Body>| async {
        Ok(tonic::server::Grpc::new(Text).unary(service_fn(work), request).await)
    });
    let server = ServerLayer::new(store.clone()).layer(server);
    let client = ClientLayer::new(entry.clone(), "store", "store-1").layer(server);
    tonic::client::Grpc::new(BoxCloneSyncService::new(client))
}

/// Runs a request at the entry, which calls the store once.
async fn call(entry: &Flow, store: &Flow, timeout: Option<Duration>) -> Result<String, Status> {
    let meta = RequestMeta { timeout, call: None };
    let admitted = entry.admit("a", &meta).await.expect("no limit");
    let path = PathAndQuery::from_static("/shop.Store/Read");
    let mut client = client(entry, store);
    client.ready().await.expect("it is always ready");
    let request = Request::new("a book".to_owned());
    let call = client.unary::<String, String, _>(request, path, Text);
    let response = admitted.context().clone().scope(call).await?;
    Ok(response.into_inner())
}

#[tokio::test(start_paused = true)]
async fn contexts_deadlines_and_rates_travel_with_grpc() {
    let (entry, store) = (flow("entry", f64::INFINITY), flow("store", 40.0));
    let text = call(&entry, &store, Some(ms(100))).await.expect("served");
    assert_eq!(text, "a book, 80 ms left");
    for _ in 0..20 {
        call(&entry, &store, None).await.expect("served, one after the other");
    }
    let a = view(&entry);
    assert!((30.0..=41.0).contains(&a.downstream), "{a:?}");
    assert_eq!(store.snapshot().workflow("a").expect("configured").admitted, 21);
}

#[tokio::test(start_paused = true)]
async fn rejections_are_statuses() {
    let (entry, store) = (flow("entry", f64::INFINITY), flow("store", 10.0));
    call(&entry, &store, None).await.expect("served");
    sleep(ms(300)).await;
    let (first, second, third) =
        tokio::join!(call(&entry, &store, None), call(&entry, &store, None), async {
            sleep(ms(1)).await;
            call(&entry, &store, None).await
        });
    assert!(first.is_ok() && second.is_ok(), "a token, and a place in the queue");
    assert_eq!(third.expect_err("one waits").code(), Code::ResourceExhausted);
    sleep(ms(300)).await;
    let late = call(&entry, &store, Some(ms(5))).await;
    assert_eq!(late.expect_err("requests take 20 ms").code(), Code::DeadlineExceeded);
}
