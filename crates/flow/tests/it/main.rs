//! Tests of processes whose services are in-memory tower stacks, under tokio's paused clock. Most tests
//! have an entry, which admits requests, and a store, which does the work.

mod chain;
mod grpc;
mod hops;
mod limits;
mod random;
mod requests;

use std::convert::Infallible;
use std::time::Duration;

use curtail_flow::{
    ClientLayer, Config, Context, Flow, Rejected, ResourceSpec, ServerLayer, View, Workflow,
    WorkflowSpec,
};
use http::{Request, Response, StatusCode};
use tokio::time::{Instant, sleep, sleep_until};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

type Http = BoxCloneSyncService<Request<String>, Response<String>, Infallible>;

#[derive(Clone)]
struct Chain {
    entry: Http,
    entry_flow: Flow,
    store_flow: Flow,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Builds a store whose requests take `work` on its disk, and an entry that calls it for each
/// request.
fn store_and_entry(
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
        Ok::<_, Infallible>(respond(crate::work(&context, work).await.is_ok()))
    });
    let store = ServerLayer::new(store_flow.clone()).layer(store);
    let client = ClientLayer::new(entry_flow.clone(), "store", "store-1").layer(store);
    let entry = entry(&entry_flow, BoxCloneSyncService::new(client));
    Chain { entry, entry_flow, store_flow }
}

/// Builds a trust edge. The path of a request names its workflow, and requests go to the next
/// service.
fn entry(flow: &Flow, next: Http) -> Http {
    let forward = service_fn(move |request: Request<String>| next.clone().oneshot(request));
    let edge = ServerLayer::edge(flow.clone(), |request| Some(request.uri.path()[1..].to_owned()));
    BoxCloneSyncService::new(edge.layer(forward))
}

/// A service whose requests all succeed.
fn good() -> Http {
    BoxCloneSyncService::new(service_fn(|_: Request<String>| async { Ok(respond(true)) }))
}

/// Returns the state of the workflow "a".
fn view(flow: &Flow) -> View {
    flow.snapshot().workflow("a").expect("configured").view
}

/// Works for a time on the disk of the process.
async fn work(context: &Context, time: Duration) -> Result<(), Rejected> {
    context.subtask("disk", None, async { sleep_until(Instant::now() + time).await }).await
}

fn respond(is_good: bool) -> Response<String> {
    let mut response = Response::new(String::new());
    if !is_good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}

fn request(workflow: &str) -> Request<String> {
    Request::get(format!("/{workflow}")).body(String::new()).expect("well-formed")
}

/// Sends a request that belongs to a workflow, and returns the status of the response.
async fn call(service: Http, workflow: &str) -> u16 {
    let Ok(response) = service.oneshot(request(workflow)).await;
    response.status().as_u16()
}
