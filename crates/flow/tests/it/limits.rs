//! Tests the time at which a waiting request is admitted, each caller's share of the rate, and
//! metadata at a trust edge.

use curtail_flow::metadata::{self, CallMeta, WorkflowName};
use curtail_flow::{ClientLayer, Config, Flow, RequestMeta, ServerLayer, Workflow};
use http::Request;
use tokio::time::{Instant, sleep};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::{entry, good, ms, request, respond, view};

fn limited() -> Flow {
    let shares = Workflow { limit: 20.0, ..Workflow::default() };
    Flow::builder("shop").workflow("a", shares).build().expect("sound")
}

#[tokio::test(start_paused = true)]
async fn a_request_is_admitted_when_it_may_and_not_at_the_next_interval() {
    let flow = limited();
    let meta = RequestMeta::default();
    drop(flow.admit("a", &meta).await.expect("no limit yet"));
    sleep(ms(210)).await;
    // The idle limiter has accumulated two tokens.
    let begin = Instant::now();
    for _ in 0..3 {
        drop(flow.admit("a", &meta).await.expect("there is room"));
    }
    let waited = begin.elapsed();
    assert!((ms(45)..=ms(55)).contains(&waited), "{waited:?}; the interval ends after 90 ms");
}

#[tokio::test(start_paused = true)]
async fn callers_get_parts_in_proportion_to_their_demand() {
    let flow = limited();
    let name = WorkflowName::new("a").expect("short");
    for (caller, wanted) in [(1, 30.0), (1, 30.0), (1, 30.0), (2, 10.0)] {
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
        Ok(respond(metadata::read_call(request.headers(), None).is_none()))
    });
    let edge = entry(&limited(), BoxCloneSyncService::new(service));
    let mut request = request("a");
    let claim = CallMeta::of(WorkflowName::new("premium").expect("short"));
    metadata::write_call(request.headers_mut(), Some(&claim), None);
    let Ok(response) = edge.oneshot(request).await;
    assert_eq!(response.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_rate_from_before_a_long_pause_lasts_until_the_first_response() {
    let store = BoxCloneSyncService::new(ServerLayer::new(limited()).layer(good()));
    let flow = Flow::builder("entry").workflow("a", Workflow::default()).build().expect("sound");
    let client = ClientLayer::new(flow.clone(), "shop", "shop-1").layer(store.clone());
    let entry = entry(&flow, BoxCloneSyncService::new(client));
    let rate = || view(&flow).downstream;
    let other =
        CallMeta { caller: 9, wanted: 100.0, ..CallMeta::of(WorkflowName::new("a").unwrap()) };
    for _ in 0..200 {
        tokio::spawn(entry.clone().oneshot(request("a")));
        let mut of_other = request("a");
        metadata::write_call(of_other.headers_mut(), Some(&other), None);
        tokio::spawn(store.clone().oneshot(of_other));
        sleep(ms(10)).await;
    }
    assert!((8.0..=12.0).contains(&rate()), "half of 20: {}", rate());
    // By the end of this wait, the queue is empty, and the other caller has been forgotten.
    sleep(ms(60_000)).await;
    for _ in 0..20 {
        let begin = Instant::now();
        let Ok(response) = entry.clone().oneshot(request("a")).await;
        assert_eq!((response.status().as_u16(), begin.elapsed()), (200, ms(0)));
        sleep(ms(60)).await;
    }
    assert!((18.0..=22.0).contains(&rate()), "all of 20: {}", rate());
}

#[tokio::test(start_paused = true)]
async fn clients_may_retry_when_the_queue_is_worked_off() {
    let shares = Workflow { limit: 2.0, ..Workflow::default() };
    let config = Config { queue: 9, ..Config::default() };
    let flow = Flow::builder("shop").workflow("a", shares).config(config).build().expect("sound");
    let edge = entry(&flow, good());
    assert_eq!(crate::call(edge.clone(), "a").await, 200);
    sleep(ms(210)).await;
    for _ in 0..10 {
        tokio::spawn(edge.clone().oneshot(request("a")));
    }
    sleep(ms(1)).await;
    let Ok(rejected) = edge.oneshot(request("a")).await;
    assert_eq!(
        (rejected.status().as_u16(), &rejected.headers()["retry-after"]),
        (503, &"5".parse().unwrap())
    );
}
