//! Tests the rates of two processes in a chain.

use std::time::Duration;

use curtail_flow::{Config, ResourceSpec, Workflow};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use crate::{Chain, call, ms, store_and_entry, view};

/// Sends requests of a workflow at a given rate. Returns how many of the requests sent in the
/// second half of the run were served, and how many were sent.
async fn load(chain: Chain, workflow: &'static str, per_second: u32, seconds: u32) -> (u32, u32) {
    let mut calls = JoinSet::new();
    let mut timer = interval(Duration::from_secs(1) / per_second);
    for number in 0..per_second * seconds {
        timer.tick().await;
        let entry = chain.entry.clone();
        let counts = number >= per_second * seconds / 2;
        calls.spawn(async move { (counts, call(entry, workflow).await) });
    }
    let mut served = (0, 0);
    while let Some(Ok((counts, status))) = calls.join_next().await {
        if counts {
            served.1 += 1;
            served.0 += u32::from(status == 200);
        }
    }
    served
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_limited_at_the_entry_and_another_workflow_is_served() {
    // The store serves 100 requests per second, and each request takes 20 ms.
    let config = Config { queue: 20, ..Config::default() };
    let disk = ResourceSpec { slots: 2, queue: 1_000 };
    let chain = store_and_entry(config, disk, ms(20), Workflow::default());
    let (flood, polite, entry) = tokio::join!(
        load(chain.clone(), "a", 1_000, 30),
        load(chain.clone(), "b", 20, 30),
        async {
            sleep(Duration::from_secs(29)).await;
            chain.entry_flow.snapshot()
        }
    );
    assert_eq!(polite.0, polite.1, "each polite request is served");
    assert_eq!(polite.1, 300);
    // The target is 95 requests per second. The polite workflow sends 20 of them, so 75 requests
    // per second are left for the other workflow. Requests are counted for 15 s.
    assert!((1_100..=1_200).contains(&flood.0), "{flood:?}");

    let a = entry.workflow("a").expect("configured");
    assert!((70.0..80.0).contains(&a.view.rate), "{a:?}");
    assert!(a.full > 26_000, "rejected where it enters: {a:?}");
    let store = chain.store_flow.snapshot();
    let of_store = store.workflow("a").expect("configured");
    // These requests arrived before the first announcement.
    assert!(of_store.full + of_store.late < 150, "{of_store:?}");
    let disk = store.resource("disk").expect("configured");
    assert_eq!((disk.running, disk.waiting, disk.full), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn rates_of_a_leaf_come_back_with_responses() {
    let disk = ResourceSpec { slots: 1, queue: 100 };
    let chain = store_and_entry(Config::default(), disk, ms(10), Workflow::default());
    assert!(view(&chain.entry_flow).downstream.is_infinite());
    let (served, _) = load(chain.clone(), "a", 50, 4).await;
    assert_eq!(served, 100);
    let after = view(&chain.entry_flow);
    assert!((60.0..=100.0).contains(&after.downstream), "{after:?}");
    assert!(after.downstream >= after.rate.min(95.0), "{after:?}");
    assert_eq!(after.silent, 0);
    sleep(Duration::from_secs(2)).await;
    let text = chain.entry_flow.render_prometheus();
    let admitted = "curtail_flow_admitted_total{service=\"entry\",workflow=\"a\"} 200\n";
    assert!(text.contains(admitted), "{text}");
    let late = "curtail_flow_rejected_total{service=\"entry\",workflow=\"a\",reason=\"late\"} 0\n";
    assert!(text.contains(late) && text.ends_with("# EOF\n"), "{text}");
    assert_eq!(text.matches("# HELP curtail_flow_").count(), 15, "{text}");
}

#[tokio::test(start_paused = true)]
async fn the_spending_of_calls_adds_up_at_the_entry() {
    let disk = ResourceSpec { slots: 2, queue: 100 };
    let chain = store_and_entry(Config::default(), disk, ms(30), Workflow::default());
    let begin = Instant::now();
    assert_eq!(call(chain.entry.clone(), "a").await, 200);
    assert_eq!(begin.elapsed(), ms(30));
    // The second request starts with the totals of the first one, before any time or work has been
    // spent on it.
    let admitted = chain.entry_flow.admit("a", &Default::default()).await.expect("no limit");
    let progress = admitted.context().progress();
    assert_eq!((progress.total_service_ns, progress.total_work_ns), (30_000_000, 30_000_000));
    assert_eq!(progress.elapsed_work_ns(), 0);
}
