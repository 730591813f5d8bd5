//! Tests that metadata is propagated over several hops and removed at a trust edge.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use curtail_flow::metadata::{self, BAGGAGE, CallMeta, GRPC_TIMEOUT, RATE, SPENT, WorkflowName};
use curtail_flow::{ClientLayer, Context, Flow, ResourceSpec, ServerLayer, WorkflowSpec};
use http::{HeaderMap, Request};
use tower::util::BoxCloneSyncService;
use tower::{Layer as _, ServiceExt as _, service_fn};

use crate::{call, entry, ms, request, respond};

const ONE: ResourceSpec = ResourceSpec { slots: 1, queue: 2 };

/// Builds an entry and two hops that work for 20 ms each. Also returns the headers that each hop
/// received.
fn recorded(own: Option<u64>) -> (crate::Http, Arc<Mutex<Vec<HeaderMap>>>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let spec = WorkflowSpec { deadline: own.map(ms), ..WorkflowSpec::default() };
    let build = |name, spec| {
        Flow::builder(name).workflow("a", spec).resource("disk", ONE).build().expect("sound")
    };
    let hop = |flow: Flow, next: Option<crate::Http>| {
        let seen = Arc::clone(&seen);
        let work = service_fn(move |request: Request<String>| {
            seen.lock().expect("no panic").push(request.headers().clone());
            let next = next.clone();
            async move {
                let context = Context::current().expect("the layer sets it");
                crate::work(&context, ms(20)).await.expect("it is free");
                match next {
                    Some(next) => next.oneshot(request).await,
                    None => Ok::<_, Infallible>(respond(true)),
                }
            }
        });
        BoxCloneSyncService::new(ServerLayer::new(flow).layer(work))
    };
    let last = hop(build("c", WorkflowSpec::default()), None);
    let middle_flow = build("b", WorkflowSpec::default());
    let to_last = ClientLayer::new(middle_flow.clone(), "c", "c-1").layer(last);
    let middle = hop(middle_flow, Some(BoxCloneSyncService::new(to_last)));
    let entry_flow = build("a", spec);
    let to_middle = ClientLayer::new(entry_flow.clone(), "b", "b-1").layer(middle);
    (entry(&entry_flow, BoxCloneSyncService::new(to_middle)), seen)
}

#[tokio::test(start_paused = true)]
async fn deadlines_shrink_at_each_hop_and_progress_grows() {
    let (entry, seen) = recorded(Some(90));
    assert_eq!(call(entry, "a").await, 200);
    let seen = seen.lock().expect("no panic");
    let calls: Vec<CallMeta> =
        seen.iter().map(|headers| metadata::read_call(headers, None).expect("written")).collect();
    assert_eq!(seen[0][GRPC_TIMEOUT], "90000000n");
    assert_eq!(seen[1][GRPC_TIMEOUT], "70000000n");
    assert_eq!(calls[0].spent.service_ns, 0);
    assert_eq!(calls[1].spent.service_ns, 20_000_000);
    assert!(calls[0].caller != calls[1].caller, "each process has its number");
}

#[tokio::test(start_paused = true)]
async fn a_trust_edge_removes_the_metadata_of_clients() {
    for (own, expected) in [(Some(90), "90000000n"), (None, "7m")] {
        let (entry, seen) = recorded(own);
        let mut request = request("a");
        let lie = CallMeta::of(WorkflowName::new("premium").expect("short"));
        let headers = request.headers_mut();
        headers.insert(BAGGAGE, "user=7,x=1;y".parse().expect("valid"));
        metadata::write_call(headers, Some(&lie), None);
        headers.insert(GRPC_TIMEOUT, "7m".parse().expect("valid"));
        let Ok(response) = entry.oneshot(request).await;
        let seen = seen.lock().expect("no panic");
        let call = metadata::read_call(&seen[0], None).expect("written by the entry");
        assert_eq!(call.workflow.as_str(), "a");
        assert!(seen[0][BAGGAGE].to_str().expect("text").ends_with(",user=7,x=1;y"));
        assert_eq!(seen[0][GRPC_TIMEOUT], expected, "a client's deadline gives no priority");
        let ours = [RATE, SPENT].iter().any(|name| response.headers().contains_key(name));
        assert!(!ours, "clients get no rates");
    }
}

#[tokio::test(start_paused = true)]
async fn workflows_that_are_unknown_here_keep_their_names() {
    let (entry, seen) = recorded(None);
    for number in 0..50 {
        assert_eq!(call(entry.clone(), &format!("unheard-of-{number}")).await, 200);
    }
    let last = seen.lock().expect("no panic").pop().expect("there were calls");
    let last = metadata::read_call(&last, None).expect("written");
    assert_eq!(last.workflow.as_str(), "unheard-of-49");
}
