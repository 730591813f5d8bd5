//! A chain of services in memory, with the layers of flow control and without them.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use curtail_flow::metadata::{self, BAGGAGE, CallMeta, GRPC_TIMEOUT, WorkflowName};
use curtail_flow::{
    BuildError, ClientLayer, Context, Flow, ResourceSpec, ServerLayer, Workflow, WorkflowSpec,
};
use http::header::{CONTENT_TYPE, HeaderValue, TE, USER_AGENT};
use http::{HeaderMap, Request, Response};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

pub(super) type Http = BoxCloneSyncService<Request<()>, Response<()>, Infallible>;

const SLOTS: ResourceSpec = ResourceSpec { slots: 4, queue: 100 };

/// Builds the flow control of each process in a chain.
pub(super) fn flows(hops: u32, workflows: u32) -> Result<Vec<Flow>, BuildError> {
    let flow = |hop| {
        let builder = Flow::builder(&format!("service-{hop}")).resource("cpu", SLOTS);
        let add = |builder: curtail_flow::Builder, at| {
            builder.workflow(&name(at), WorkflowSpec::from(Workflow::default()))
        };
        (0..workflows).fold(builder, add).build()
    };
    (0..hops).map(flow).collect()
}

fn name(workflow: u32) -> String {
    format!("workflow-{workflow}")
}

/// Returns a service that does nothing.
pub(super) fn leaf() -> Http {
    Http::new(service_fn(|_: Request<()>| async { Ok(Response::new(())) }))
}

/// Returns a service that does nothing and keeps the headers of the last request.
pub(super) fn recorder() -> (Http, Arc<Mutex<HeaderMap>>) {
    let seen = Arc::new(Mutex::new(HeaderMap::new()));
    let into = Arc::clone(&seen);
    let service = service_fn(move |request: Request<()>| {
        if let Ok(mut seen) = into.lock() {
            seen.clone_from(request.headers());
        }
        async { Ok(Response::new(())) }
    });
    (Http::new(service), seen)
}

/// Returns a request with the headers that every call has, even without the layers.
fn call() -> Request<()> {
    let mut request = Request::new(());
    let headers = request.headers_mut();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(USER_AGENT, HeaderValue::from_static("chain/1"));
    headers.insert(BAGGAGE, HeaderValue::from_static("user=alice"));
    request
}

pub(super) fn plain(hops: u32) -> Http {
    let hop = |next: Http| service_fn(move |_: Request<()>| next.clone().oneshot(call()));
    (0..hops).fold(leaf(), |next, _| Http::new(hop(next)))
}

/// Returns a chain with the layers. Each service runs a sub-task and calls the next one; the last
/// one calls the leaf.
pub(super) fn layered(flows: &[Flow], leaf: Http) -> Http {
    flows.iter().rev().fold(leaf, |next, flow| {
        let next = Http::new(ClientLayer::new(flow.clone(), "next", "next-1").layer(next));
        let service = service_fn(move |request: Request<()>| {
            let next = next.clone();
            async move {
                let context = request.extensions().get::<Context>().expect("the layer sets it");
                context.subtask("cpu", None, async {}).await.expect("it is free");
                next.oneshot(call()).await
            }
        });
        Http::new(ServerLayer::new(flow.clone()).layer(service))
    })
}

/// Sends requests one after the other, and alternates between the workflows. Without workflows,
/// requests have no metadata.
pub(super) async fn drive(service: &Http, requests: u32, workflows: Option<u32>) {
    for at in 0..requests {
        one(service, workflows.map(|workflows| at % workflows)).await;
        // Lets the background tasks of the processes run.
        tokio::task::yield_now().await;
    }
}

pub(super) async fn one(service: &Http, workflow: Option<u32>) -> Response<()> {
    let mut request = call();
    if let Some(name) = workflow.and_then(|at| WorkflowName::new(&name(at))) {
        let meta = CallMeta { caller: 7, wanted: 1_000.0, ..CallMeta::of(name) };
        metadata::write_call(request.headers_mut(), Some(&meta), None);
        request.headers_mut().insert(GRPC_TIMEOUT, HeaderValue::from_static("1S"));
    }
    let Ok(response) = service.clone().oneshot(request).await;
    response
}
