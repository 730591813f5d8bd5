//! An entry and a store whose services are in-memory tower stacks.
#![allow(dead_code)] // each test file uses a part

use std::convert::Infallible;
use std::time::Duration;

use curtail_flow::{
    ClientLayer, Config, Context, Flow, ResourceSpec, ServerLayer, Workflow, WorkflowSpec,
};
use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep_until};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

pub(crate) type Http = BoxCloneSyncService<Request<String>, Response<String>, Infallible>;

#[derive(Clone)]
pub(crate) struct Chain {
    pub(crate) entry: Http,
    pub(crate) entry_flow: Flow,
    pub(crate) store_flow: Flow,
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Builds a store whose requests take `work` on its disk, and an entry that calls it for each
/// request.
pub(crate) fn store_and_entry(
    config: Config,
    disk: ResourceSpec,
    work: Duration,
    shares: impl Into<WorkflowSpec>,
) -> Chain {
    let shares = shares.into();
    let build = |name| {
        let flow = Flow::builder(name).config(config).workflow("a", shares);
        flow.workflow("b", Workflow::default()).resource("disk", disk).build().expect("sound")
    };
    let (store_flow, entry_flow) = (build("store"), build("entry"));
    let store = service_fn(move |_: Request<String>| async move {
        let context = Context::current().expect("the layer sets it");
        let done =
            context.subtask("disk", None, async { sleep_until(Instant::now() + work).await }).await;
        Ok::<_, Infallible>(respond(done.is_ok()))
    });
    let store = ServerLayer::new(store_flow.clone()).layer(store);
    let client = ClientLayer::new(entry_flow.clone(), "store", "store-1").layer(store);
    let entry = entry(&entry_flow, BoxCloneSyncService::new(client));
    Chain { entry, entry_flow, store_flow }
}

/// Builds a trust edge. The path of a request names its workflow, and requests go to the next
/// service.
pub(crate) fn entry(flow: &Flow, next: Http) -> Http {
    let forward = service_fn(move |request: Request<String>| next.clone().oneshot(request));
    let edge = ServerLayer::edge(flow.clone(), |request| Some(request.uri.path()[1..].to_owned()));
    BoxCloneSyncService::new(edge.layer(forward))
}

pub(crate) fn respond(is_good: bool) -> Response<String> {
    let mut response = Response::new(String::new());
    if !is_good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

pub(crate) fn request(workflow: &str) -> Request<String> {
    Request::get(format!("/{workflow}")).body(String::new()).expect("well-formed")
}

/// Sends a request that belongs to a workflow, and returns the status of the response.
pub(crate) async fn call(service: Http, workflow: &str) -> u16 {
    let Ok(response) = service.oneshot(request(workflow)).await;
    response.status().as_u16()
}
