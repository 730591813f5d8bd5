//! Sends random requests, some of which are dropped at random times. No request is lost, and none
//! leaves any state behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use curtail_flow::{Config, Discipline, Flow, RequestMeta, ResourceSpec, Workflow};
use proptest::prelude::*;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::ms;

const SLOTS: u32 = 2;

/// A request. All times are in ms.
#[derive(Clone, Copy, Debug)]
struct Plan {
    at: u64,
    workflow: usize,
    deadline: Option<u64>,
    work: [u64; 2],
    dropped_after: u64,
}

fn plan() -> impl Strategy<Value = Plan> {
    let deadline = proptest::option::of(0_u64..60);
    let parts = (0_u64..400, 0_usize..3, deadline, [0_u64..20, 0..20], 0_u64..120);
    parts.prop_map(|(at, workflow, deadline, work, dropped_after)| Plan {
        at,
        workflow,
        deadline,
        work,
        dropped_after,
    })
}

fn flow(discipline: usize, is_fair: bool) -> Flow {
    let (discipline, _) = Discipline::ALL[discipline];
    let config = Config { queue: 5, discipline, is_fair, ..Config::default() };
    let limited = Workflow { limit: 40.0, ..Workflow::default() };
    let builder = Flow::builder("random").config(config).workflow("limited", limited);
    let disk = ResourceSpec { slots: SLOTS, queue: 4 };
    builder.workflow("heavy", Workflow::default()).resource("disk", disk).build().expect("sound")
}

async fn request(flow: Flow, plan: Plan, running: Arc<AtomicU32>) {
    sleep(ms(plan.at)).await;
    let meta = RequestMeta { timeout: plan.deadline.map(ms), call: None };
    let workflow = ["unknown", "limited", "heavy"][plan.workflow];
    let Ok(admitted) = flow.admit(workflow, &meta).await else { return };
    for work in plan.work {
        let work = async {
            assert!(running.fetch_add(1, Ordering::Relaxed) < SLOTS, "too many run at once");
            let _ends = Ends(&running);
            sleep(ms(work)).await;
        };
        if admitted.context().subtask("disk", None, work).await.is_err() {
            return;
        }
    }
    admitted.finish(true);
}

struct Ends<'a>(&'a AtomicU32);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn run(flow: &Flow, plans: &[Plan]) {
    let running = Arc::new(AtomicU32::new(0));
    let mut requests = JoinSet::new();
    for &plan in plans {
        let work = request(flow.clone(), plan, Arc::clone(&running));
        requests.spawn(timeout(ms(plan.at + plan.dropped_after), work));
    }
    let mut dropped = 0;
    while let Some(ended) = requests.join_next().await {
        dropped += u64::from(ended.expect("no panic").is_err());
    }
    let snapshot = flow.snapshot();
    let disk = snapshot.resource("disk").expect("configured");
    assert_eq!((disk.running, disk.waiting), (0, 0), "dropped requests leave");
    let of = |count: fn(&curtail_flow::WorkflowSnapshot) -> u64| -> u64 {
        snapshot.workflows.iter().map(count).sum()
    };
    assert_eq!(of(|of| of.view.waiting.into()), 0);
    // A request that is dropped while it waits for admission is not in any counter.
    let (ended, came) = (of(|of| of.admitted + of.late + of.full), plans.len() as u64);
    assert!(ended <= came && ended + dropped >= came, "{ended} of {came}, {dropped} dropped");
    // All slots are free again.
    let admitted = flow.admit("heavy", &RequestMeta::default()).await.expect("nothing waits");
    let context = admitted.context();
    let work = || context.subtask("disk", None, async { sleep(ms(5)).await });
    let both = timeout(ms(6), async { tokio::join!(work(), work()) }).await;
    assert_eq!(both.expect("two slots"), (Ok(()), Ok(())));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_nothing_is_left(
        plans in proptest::collection::vec(plan(), 1..80),
        discipline in 0..Discipline::ALL.len(),
        is_fair: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        runtime.block_on(async { run(&flow(discipline, is_fair), &plans).await });
    }
}
