//! Tests of runs in which several agents send the load.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::{MS, STEADY, Server, answer, echo, next_head, target};
use crate::crew::{Agent, agents, measured};
use curtail_load::agents::{Event, run};
use curtail_load::{Extent, Invalid, Pace, Precision};
use tokio::sync::{Notify, Semaphore};

/// Starts a server that records the request targets, and responds after `latency`. It sends a notification
/// when it has received `enough` requests.
async fn recording(
    enough: usize,
    latency: Duration,
) -> (Server, Arc<Mutex<Vec<String>>>, Arc<Notify>) {
    let (targets, reached) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Notify::new()));
    let (record, notify) = (targets.clone(), Arc::clone(&reached));
    let server = Server::start(move |mut stream| {
        let (record, notify) = (record.clone(), Arc::clone(&notify));
        async move {
            while let Some(head) = next_head(&mut stream).await {
                record.lock().unwrap().push(target(&head).to_owned());
                if record.lock().unwrap().len() == enough {
                    notify.notify_one();
                }
                tokio::time::sleep(latency).await; // tidy: real time
                answer(&mut stream, 200, "").await;
            }
        }
    })
    .await;
    (server, targets, reached)
}

async fn two() -> [Agent; 2] {
    [Agent::start(None).await, Agent::start(None).await]
}

fn named(agents: &[Agent]) -> curtail_load::agents::Agents {
    crate::crew::agents(agents.iter().map(|agent| &agent.address))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_together_send_the_whole_schedule_and_their_counts_add_up() {
    for pace in [Pace::poisson(1_000.0), Pace::constant(1_000.0)] {
        let (server, targets, _) = recording(0, Duration::ZERO).await;
        let two = two().await;
        let mut plan = server.plan(1.0, 700);
        plan.pace = pace;
        plan.queries = (0..700).map(|i| format!("/{i}")).collect();
        let mut seen = curtail_load::histogram();
        let progress = |at: &curtail_load::Snapshot| seen.add(&at.recent).unwrap();
        let report = run(&plan, &named(&two), pending(), progress).await.unwrap();

        let mut every = targets.lock().unwrap().clone();
        every.sort_by_key(|target| target[1..].parse::<u32>().unwrap());
        assert_eq!(every, plan.queries, "each request once, by one of them");
        assert_eq!((report.requests, report.histogram.len(), report.errors.total()), (700, 700, 0));
        assert!(!report.partial);
        let parts: Vec<u64> = report.agents.iter().map(|agent| agent.requests).collect();
        assert_eq!(parts.iter().sum::<u64>(), 700);
        assert!(parts.iter().all(|part| part.abs_diff(350) < 80), "{parts:?}");
        assert_eq!(seen, report.histogram, "live and at the end");
        assert_eq!(report.agents[0].offered_rate, Some(500.0));
        let most = report.agents.iter().map(|agent| agent.latency_ns.max).max().unwrap();
        assert_eq!(most, report.latency_ns.max);
        assert!(report.start_skew_ns.unwrap() < 100 * MS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_and_requests_of_a_closed_loop_are_divided() {
    let server = Server::start(echo).await;
    let two = two().await;
    let mut plan = server.plan(1.0, 501);
    (plan.pace, plan.connections, plan.threads) = (Pace::Closed, 5, 2);
    let report = measured(&plan, &named(&two)).await.unwrap();
    assert_eq!((report.requests, report.errors.total()), (501, 0));
    assert!(report.closed_loop);
    assert_eq!(report.connections_opened, 5);
    let parts: Vec<u64> = report.agents.iter().map(|agent| agent.requests).collect();
    assert_eq!(parts, [251, 250]);

    plan.connections = 3;
    let message = measured(&plan, &named(&two)).await.unwrap_err().to_string();
    assert!(
        message.contains("2 agents of 2 threads each") && message.contains("use 4"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_agents_stop_once_the_sum_is_precise_enough() {
    let (server, targets, _) = recording(0, STEADY).await;
    let two = two().await;
    let mut plan = server.plan(500.0, 0);
    plan.extent = Extent::Duration { ns: 60_000 * MS };
    plan.until = Some(Precision { relative: 0.9, per_mille: vec![500] });
    let report = measured(&plan, &named(&two)).await.unwrap();
    assert!(report.requests < 30_000 && !report.partial);
    assert_eq!(
        report.requests,
        targets.lock().unwrap().len() as u64,
        "every request that was sent has a response"
    );
    let unsure = |reason: &Invalid| matches!(reason, Invalid::NotSure { .. });
    assert!(!report.invalid_because.iter().any(unsure), "{:?}", report.invalid_because);
    assert!(report.latency_ci95_ns.p50.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_agent_ends_the_run_and_its_records_are_reported() {
    // This is enough time for agents to send records, which they do twice per second.
    let (server, _, reached) = recording(900, Duration::ZERO).await;
    let two = two().await;
    let mut plan = server.plan(600.0, 0);
    plan.extent = Extent::Duration { ns: 3_600_000 * MS };
    let kill = async {
        reached.notified().await;
        two[1].kill();
        pending::<()>().await;
    };
    let all = named(&two);
    let report = tokio::select! {
        report = measured(&plan, &all) => report.unwrap(),
        () = kill => unreachable!(),
    };
    assert!(report.partial && !report.valid);
    assert!(report.requests > 100);
    let Invalid::AgentLost { agent, why } = &report.invalid_because[0] else {
        panic!("{:?}", report.invalid_because)
    };
    assert_eq!((agent, &why[..]), (&two[1].address, "it closed the connection"));
    let interrupted = |reason: &Invalid| matches!(reason, Invalid::Interrupted { .. });
    assert!(!report.invalid_because.iter().any(interrupted), "it was not interrupted");
    assert_eq!(report.arrival_test, None, "a part of the requests is missing");
    let sum: u64 = report.agents.iter().map(|agent| agent.requests).sum();
    let answered = report.histogram.len();
    assert_eq!((sum, answered + report.errors.total()), (report.requests, report.requests));
    // The lost agent's last record was up to half a second old, and the agent sent half of the 600
    // requests per second.
    let [fine, lost] = [0, 1].map(|agent| report.agents[agent].errors);
    assert_eq!((fine.unreported, lost.unreported), (0, report.errors.unreported));
    assert!(lost.unreported > 0, "{lost:?}");
    assert!(report.invalid_because[1].to_string().contains("in none of its records"));
    // Both parts cover the same period.
    let [fine, lost] = [0, 1].map(|agent| report.agents[agent].requests);
    assert!(fine.abs_diff(lost) < report.requests / 5, "{fine} {lost}");
    assert!(matches!(report.agents[1].invalid_because[0], Invalid::AgentLost { .. }));
    // The other agent is free for the next run.
    plan.extent = Extent::Requests(20);
    let again = measured(&plan, &agents([&two[0].address])).await.unwrap();
    assert_eq!(again.requests, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_in_flight_when_an_agent_shuts_down_are_counted() {
    // No request gets a response, and each agent has two of the four connections.
    // A semaphore counts the arrivals. Of two notifications without a waiter, one would be lost.
    let arrived = Arc::new(Semaphore::new(0));
    let count = Arc::clone(&arrived);
    let server = Server::start(move |mut stream| {
        let count = Arc::clone(&count);
        async move {
            next_head(&mut stream).await;
            count.add_permits(1);
            pending::<()>().await;
        }
    })
    .await;
    let two = two().await;
    let mut plan = server.plan(1_000.0, 0);
    (plan.extent, plan.connections) = (Extent::Duration { ns: 3_600_000 * MS }, 4);
    let all = named(&two);
    let measured = measured(&plan, &all);
    let end = async {
        arrived.acquire_many(4).await.unwrap().forget();
        two[1].end();
        pending::<()>().await;
    };
    let report = tokio::select! {
        report = measured => report.unwrap(),
        () = end => unreachable!(),
    };
    let of = |agent: usize| report.agents[agent].errors;
    assert_eq!((of(0).in_flight, of(1).in_flight, report.errors.in_flight), (2, 2, 4));
    assert_eq!(of(0).overdue + of(1).overdue, report.errors.overdue);
    assert_eq!(report.requests, report.errors.unfinished());
    assert_eq!(report.at_least_histogram.len(), report.requests);
    let Invalid::AgentLost { why, .. } = &report.invalid_because[0] else { panic!("{report:?}") };
    assert_eq!(why, "the agent was shut down");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_load_has_a_partial_report() {
    let (server, _, reached) = recording(200, Duration::ZERO).await;
    let two = two().await;
    let mut plan = server.plan(500.0, 0);
    plan.extent = Extent::Duration { ns: 3_600_000 * MS };
    let report = run(&plan, &named(&two), reached.notified(), |_| {}).await.unwrap();
    assert!(report.partial);
    assert!(report.requests >= 190, "all responses are reported: {}", report.requests);
    assert!(matches!(report.invalid_because[0], Invalid::Interrupted { .. }));
    let agent = |reason: &Invalid| matches!(reason, Invalid::AgentLost { .. });
    assert!(!report.invalid_because.iter().any(agent), "{:?}", report.invalid_because);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_stops_when_its_coordinator_disconnects() {
    let (server, _, reached) = recording(50, Duration::ZERO).await;
    let mut agent = Agent::start(None).await;
    let mut plan = server.plan(500.0, 0);
    plan.extent = Extent::Duration { ns: 3_600_000 * MS };
    let of = agents([&agent.address]);
    tokio::select! {
        _ = measured(&plan, &of) => unreachable!("it takes an hour"),
        () = reached.notified() => {}
    }
    assert!(matches!(agent.events.recv().await, Some(Event::Began { .. })));
    let Some(Event::Ended { why, .. }) = agent.events.recv().await else { panic!() };
    assert_eq!(why.as_deref(), Some("the coordinator closed the connection"));
    plan.extent = Extent::Requests(20);
    assert_eq!(measured(&plan, &of).await.unwrap().requests, 20, "it takes the next one");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_agent_that_fell_behind_is_named() {
    // The server sends no response before the timeout, so requests wait for the only connection.
    let server = Server::start(async |mut stream| {
        next_head(&mut stream).await;
        pending::<()>().await;
    })
    .await;
    let two = two().await;
    let mut plan = server.plan(200.0, 40);
    (plan.connections, plan.timeout_ns, plan.backlog) = (2, 300 * MS, 4);
    let report = measured(&plan, &named(&two)).await.unwrap();
    for agent in &two {
        let of = |reason: &&Invalid| matches!(reason, Invalid::Agent { agent: of, .. } if *of == agent.address);
        let message = report.invalid_because.iter().find(of).expect("it is listed").to_string();
        assert!(message.starts_with(&format!("agent {} ", agent.address)), "{message}");
    }
    let all: u64 = report.agents.iter().map(|agent| agent.errors.total()).sum();
    assert_eq!(all, report.errors.total());
    let fell_short = |reason: &&Invalid| reason.to_string().contains("fell short");
    assert_eq!(report.invalid_because.iter().filter(fell_short).count(), 1, "of the server, once");
}
