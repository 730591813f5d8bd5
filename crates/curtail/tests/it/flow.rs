//! The flow context of a caller reaches the copies of its queries.

use curtail::{Curtail, Query, Timers, outcome};
use curtail_flow::{Context, Flow};
use http::HeaderMap;

#[tokio::test(start_paused = true)]
async fn a_copy_has_the_flow_context_of_its_caller() {
    let server = tower::service_fn(|(): ()| async {
        let workflow = Context::current().map(|context| context.workflow().to_owned());
        Ok::<_, std::io::Error>(workflow)
    });
    let service = Curtail::builder()
        .policy("random".parse().unwrap())
        .shard("a", [("a0", server)])
        .timers(Timers::tokio())
        .classify(outcome::any_response)
        .build()
        .unwrap();
    let flow = Flow::builder("shop").build().unwrap();
    let context = Context::of_call(&flow, &HeaderMap::new());
    let shard = service.shard("a");
    // The future is polled in another task, which has no context.
    let spawned = async { tokio::spawn(shard.query(Query::once(()))).await.unwrap().unwrap() };
    assert_eq!(context.scope(spawned).await.response.as_deref(), Some("default"));
}
