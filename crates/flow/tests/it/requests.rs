//! Tests single requests: the admission rate, dropped futures, late sub-tasks, and progress.

use std::task::Poll;

use curtail_flow::metadata::{self, CallMeta, GRPC_TIMEOUT, WorkflowName};
use curtail_flow::{
    Config, Context, Flow, Reason, RequestMeta, ResourceSpec, ServerLayer, Workflow,
};
use tokio::time::{Instant, sleep, timeout};
use tower::{Layer as _, ServiceExt as _};

use crate::{good, ms, request, store_and_entry};

const ONE: ResourceSpec = ResourceSpec { slots: 1, queue: 2 };

fn flow() -> Flow {
    let limited = Workflow { limit: 10.0, ..Workflow::default() };
    let builder = Flow::builder("shop").workflow("a", Workflow::default());
    builder.workflow("limited", limited).resource("disk", ONE).build().expect("sound")
}

async fn context(flow: &Flow, timeout_ms: Option<u64>) -> (curtail_flow::Admitted, Context) {
    let meta = RequestMeta { timeout: timeout_ms.map(ms), call: None };
    let admitted = flow.admit("a", &meta).await.expect("no limit");
    let context = admitted.context().clone();
    (admitted, context)
}

fn slots(flow: &Flow) -> (u32, u32) {
    let snapshot = flow.snapshot();
    let disk = snapshot.resource("disk").expect("configured");
    (disk.running, disk.waiting)
}

#[tokio::test(start_paused = true)]
async fn dropped_subtasks_leave_no_slot_and_no_place_in_the_queue() {
    let flow = flow();
    let (_admitted, context) = context(&flow, None).await;
    let mut runs = Box::pin(context.subtask("disk", None, sleep(ms(50))));
    let mut first = Box::pin(context.subtask("disk", None, async { 1 }));
    let mut second = Box::pin(context.subtask("disk", None, async { 2 }));
    assert!(futures_poll(&mut runs).is_pending());
    assert!(futures_poll(&mut first).is_pending());
    assert!(futures_poll(&mut second).is_pending());
    assert_eq!(slots(&flow), (1, 2));
    let full = context.subtask("disk", None, async {}).await.expect_err("two wait");
    assert_eq!(full.reason, Reason::Full);

    drop(first);
    assert_eq!(slots(&flow), (1, 1), "it waited");
    sleep(ms(10)).await;
    drop(runs);
    assert_eq!(slots(&flow), (1, 0), "the next one has the slot, before it is polled");
    drop(second);
    assert_eq!(slots(&flow), (0, 0), "it was given the slot and is dropped before it runs");
    assert_eq!(context.subtask("disk", None, async { 3 }).await, Ok(3));
    assert_eq!(context.progress().here.service_ns, 10_000_000, "the slot of the dropped request");
}

fn futures_poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(future).poll(&mut cx)
}

#[tokio::test(start_paused = true)]
async fn a_panic_gives_the_slot_back() {
    let flow = flow();
    let (_admitted, context) = context(&flow, None).await;
    let task = tokio::spawn(async move {
        let _: Result<(), _> = context.subtask("disk", None, async { panic!("on purpose") }).await;
    });
    assert!(task.await.expect_err("it panics").is_panic());
    assert_eq!(slots(&flow), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn late_subtasks_do_not_start() {
    let flow = flow();
    let (_admitted, holder) = context(&flow, None).await;
    let (_late, late) = context(&flow, Some(20)).await;
    let hold = holder.subtask("disk", None, sleep(ms(100)));
    let begin = Instant::now();
    let (held, rejected) = tokio::join!(hold, async {
        let rejected: Result<(), _> =
            late.subtask("disk", None, async { panic!("it is late") }).await;
        (rejected.expect_err("late").reason, begin.elapsed())
    });
    assert_eq!(held, Ok(()));
    assert_eq!(rejected.0, Reason::Late);
    assert!(rejected.1 <= ms(21), "it does not wait for the slot: {rejected:?}");
    sleep(ms(1)).await;
    let again = late.subtask("disk", None, async {}).await.expect_err("late, with a free slot");
    assert_eq!((again.reason, slots(&flow)), (Reason::Late, (0, 0)));
}

#[tokio::test(start_paused = true)]
async fn requests_wait_at_the_rate_and_withdraw_when_they_are_dropped() {
    let flow = flow();
    let admit = async |ms_left: Option<u64>| {
        let meta = RequestMeta { timeout: ms_left.map(ms), call: None };
        let begin = Instant::now();
        let admitted = flow.admit("limited", &meta).await;
        admitted.map(|admitted| {
            admitted.finish(true);
            begin.elapsed().as_millis()
        })
    };
    // No rate limit applies in the first interval.
    assert_eq!(admit(None).await, Ok(0));
    sleep(ms(150)).await;
    assert_eq!(admit(None).await, Ok(0));
    let dropped = timeout(ms(30), admit(None)).await;
    assert!(dropped.is_err(), "it would have waited for 100 ms");
    let waited = admit(None).await.expect("there is room");
    assert!((65..=75).contains(&waited), "it takes the place of the dropped request: {waited}");
    let (second, late) = tokio::join!(admit(None), admit(Some(50)));
    assert!(second.expect("there is room") >= 95);
    assert_eq!(late.expect_err("50 ms are not enough").reason, Reason::Late);
    let snapshot = flow.snapshot();
    let limited = snapshot.workflow("limited").expect("configured");
    assert_eq!((limited.admitted, limited.late, limited.view.waiting), (4, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_task_that_keeps_time_ends_with_the_last_flow() {
    let flow = flow();
    drop(context(&flow, None).await);
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert_eq!(tasks(), 1);
    drop(flow);
    sleep(ms(1)).await;
    assert_eq!(tasks(), 0);
}

#[tokio::test(start_paused = true)]
async fn parallel_branches_count_by_their_mean_and_add_their_work() {
    let flow = flow();
    let (_admitted, context) = context(&flow, None).await;
    let [one, other] = context.parallel(2).try_into().expect("two branches");
    one.served(ms(10));
    let held = other.clone();
    other.served(ms(30));
    drop((one, other));
    assert_eq!(context.progress().here.work_ns, 0, "one branch goes on");
    drop(held);
    let here = context.progress().here;
    assert_eq!((here.service_ns, here.work_ns), (20_000_000, 40_000_000));
}

#[tokio::test(start_paused = true)]
async fn time_held_during_calls_is_no_service_time() {
    let flow = flow();
    let (_admitted, context) = context(&flow, None).await;
    let busy = || flow.snapshot().resource("disk").expect("configured").running;
    let during = context.hold("disk", async {
        sleep(ms(10)).await;
        busy()
    });
    assert_eq!((during.await, busy()), (Ok(1), 0));
    assert_eq!(context.progress().here.work_ns, 0);
    context.subtask("disk", None, sleep(ms(10))).await.expect("it is free");
    assert_eq!(context.progress().here.work_ns, 10_000_000);
}

#[tokio::test(start_paused = true)]
async fn rejections_announce_rates_too() {
    let config = Config { queue: 1, ..Config::default() };
    let limited = Workflow { limit: 1.0, ..Workflow::default() };
    let chain = store_and_entry(config, ONE, ms(1), limited);
    let service = ServerLayer::new(chain.store_flow).layer(good());
    let call = CallMeta { caller: 9, wanted: 5.0, ..CallMeta::of(WorkflowName::new("a").unwrap()) };
    let send = || {
        let mut request = request("a");
        metadata::write_call(request.headers_mut(), Some(&call), None);
        request.headers_mut().insert(GRPC_TIMEOUT, "100m".parse().expect("valid"));
        service.clone().oneshot(request)
    };
    let Ok(first) = send().await;
    assert_eq!(first.status(), 200);
    sleep(ms(250)).await;
    let Ok(_) = send().await;
    let Ok(rejected) = send().await;
    assert_eq!(rejected.status(), 503);
    let meta = metadata::read_response(rejected.headers());
    assert_eq!(meta.announcement.expect("the caller is known").rate, 1.0);
    assert_eq!(meta.spent, None);
}
