//! Limits: when a request that waits goes on, which part a caller gets, and what an edge lets in.

mod common;

use common::{entry, ms, request, respond};
use curtail_flow::metadata::{self, CallMeta, WorkflowName};
use curtail_flow::{Flow, RequestMeta, Workflow};
use http::Request;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{ServiceExt as _, service_fn};

fn limited() -> Flow {
    let shares = Workflow { limit: 20.0, ..Workflow::default() };
    Flow::builder("shop").workflow("a", shares).build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_request_goes_on_when_it_may_and_not_with_the_next_interval() {
    let flow = limited();
    let meta = RequestMeta::default();
    drop(flow.admit("a", &meta).await.expect("no limit yet"));
    sleep(ms(210)).await;
    // An idle limiter has saved two.
    let begin = Instant::now();
    for _ in 0..3 {
        drop(flow.admit("a", &meta).await.expect("there is room"));
    }
    let waited = begin.elapsed();
    assert!((ms(45)..=ms(55)).contains(&waited), "{waited:?}; the interval ends after 90 ms");
}

#[tokio::test(start_paused = true)]
async fn callers_get_their_parts_by_what_they_want() {
    let flow = limited();
    let name = WorkflowName::new("a").expect("short");
    for (caller, wanted) in [(1, 30.0), (2, 10.0)] {
        let call = CallMeta { caller, wanted, ..CallMeta::of(name.clone()) };
        let meta = RequestMeta { timeout: None, call: Some(call) };
        drop(flow.admit("a", &meta).await.expect("no limit yet"));
    }
    sleep(ms(210)).await;
    let part = |caller| flow.announcement("a", caller).map(|announced| announced.rate);
    assert_eq!([part(1), part(2), part(3)], [Some(15.0), Some(5.0), None]);
}

#[tokio::test(start_paused = true)]
async fn a_service_at_the_edge_does_not_see_what_clients_claim() {
    let service = service_fn(|request: Request<String>| async move {
        Ok(respond(metadata::read_call(request.headers()).is_none()))
    });
    let edge = entry(&limited(), BoxCloneSyncService::new(service));
    let mut request = request("a");
    let claim = CallMeta::of(WorkflowName::new("premium").expect("short"));
    metadata::write_call(request.headers_mut(), Some(&claim));
    let Ok(response) = edge.oneshot(request).await;
    assert_eq!(response.status(), 200);
}
