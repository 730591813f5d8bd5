//! Tests of runs in which several agents send the load, and of agents and coordinators that refuse each
//! other. The agents are real or scripted, on loopback.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use curtail_load::agents::{Agents, AgentsError, Event, Token, run, serve};
use curtail_load::{Extent, Invalid, Pace, Plan, Precision, Report, StampsBy};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinHandle;

use crate::common::{FINE, MS, STEADY, Server, Then, echo, plan_for, target};

/// An agent in this process. It stops when this value is dropped.
struct Agent {
    address: String,
    events: mpsc::Receiver<Event>,
    end: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Agent {
    async fn start(token: Option<&str>) -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let token = token.map(|token| Token::new(token).unwrap());
        let (send, events) = mpsc::channel(100);
        let send = move |event| send.try_send(event).expect("a test has few events");
        let end = Arc::new(Notify::new());
        let ended = Arc::clone(&end);
        let stop = async move { ended.notified().await };
        let task = tokio::spawn(serve(listener, token, stop, send));
        Agent { address, events, end, task }
    }

    /// Stops the agent as SIGTERM would.
    fn end(&self) {
        self.end.notify_one();
    }

    /// Stops the agent as SIGKILL would, which closes its connections.
    fn kill(&self) {
        self.task.abort();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Starts an agent that sends the given list of messages in response to each message.
async fn scripted(answers: Vec<Vec<Value>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        for answers in answers {
            if receive(&mut stream).await.is_none() {
                return;
            }
            for answer in answers {
                send(&mut stream, &answer).await;
            }
        }
        while receive(&mut stream).await.is_some() {}
    });
    address
}

/// Returns the next message on a connection. Returns `None` if the connection has ended.
async fn receive(stream: &mut TcpStream) -> Option<Value> {
    let length = stream.read_u32().await.ok()?;
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(serde_json::from_slice(&bytes).unwrap())
}

async fn send(stream: &mut TcpStream, value: &Value) {
    let bytes = serde_json::to_vec(value).unwrap();
    stream.write_u32(bytes.len() as u32).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
}

fn agents<'a>(addresses: impl IntoIterator<Item = &'a String>) -> Agents {
    Agents { addresses: addresses.into_iter().cloned().collect(), token: None }
}

async fn measured(plan: &curtail_load::Plan, of: &Agents) -> Result<Report, AgentsError> {
    run(plan, of, pending(), |_| {}).await
}

fn unused_address() -> SocketAddr {
    // The system never assigns port 1.
    "127.0.0.1:1".parse().unwrap()
}

/// Starts a server that records the request targets, and responds after `latency`. It sends a notification
/// when it has received `enough` requests.
async fn recording(
    enough: usize,
    latency: Duration,
) -> (Server, Arc<Mutex<Vec<String>>>, Arc<Notify>) {
    let (targets, reached) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(Notify::new()));
    let (record, notify) = (targets.clone(), Arc::clone(&reached));
    let server = Server::each(move |number, head| {
        record.lock().unwrap().push(target(head).to_owned());
        if number + 1 == enough {
            notify.notify_one();
        }
        if latency.is_zero() { FINE } else { Then::Late(latency) }
    })
    .await;
    (server, targets, reached)
}

async fn two() -> [Agent; 2] {
    [Agent::start(None).await, Agent::start(None).await]
}

fn named(of: &[Agent]) -> Agents {
    agents(of.iter().map(|agent| &agent.address))
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
    let server = Server::each(move |_, _| {
        count.add_permits(1);
        Then::Silence
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
    let server = Server::each(|_, _| Then::Silence).await;
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

/// Returns a plan whose server does not exist, because a refused run sends nothing.
fn plan() -> Plan {
    plan_for(unused_address(), 100.0, 10)
}

async fn refusal(of: &Agents) -> String {
    measured(&plan(), of).await.unwrap_err().to_string()
}

#[tokio::test]
async fn an_agent_with_a_token_refuses_coordinators_without_it() {
    let server = Server::start(echo).await;
    let mut agent = Agent::start(Some("s3cret")).await;
    let mut of = agents([&agent.address]);
    for wrong in [None, Some("other")] {
        of.token = wrong.map(|token| Token::new(token).unwrap());
        let error = measured(&plan(), &of).await.unwrap_err();
        assert!(matches!(error, AgentsError::Refused { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains(&agent.address) && message.contains("another token"), "{message}");
        assert!(!message.contains("s3cret") && !message.contains("other."), "{message}");
        let event = agent.events.recv().await.unwrap();
        assert!(matches!(event, Event::TurnedAway { .. }));
        assert!(!event.to_string().contains("other"), "{event}");
    }
    of.token = Some(Token::new("s3cret").unwrap());
    assert_eq!(measured(&server.plan(500.0, 20), &of).await.unwrap().requests, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_agent_refuses_a_second_coordinator() {
    let server = Server::start(echo).await;
    let mut agent = Agent::start(None).await;
    let mut endless = server.plan(100.0, 0);
    endless.extent = Extent::Duration { ns: 3_600_000 * MS };
    let of = agents([&agent.address]);
    tokio::select! {
        _ = measured(&endless, &of) => unreachable!("it takes an hour"),
        begun = agent.events.recv() => assert!(matches!(begun, Some(Event::Began { .. }))),
    };
    // The first coordinator has disconnected, but the agent may detect that only after the next one
    // connects.
    let first = tokio::spawn({
        let (endless, of) = (endless.clone(), of.clone());
        assert!(matches!(agent.events.recv().await, Some(Event::Ended { .. })));
        async move { measured(&endless, &of).await }
    });
    assert!(matches!(agent.events.recv().await, Some(Event::Began { .. })));
    let refused = refusal(&of).await;
    assert!(refused.contains("busy with a run of another coordinator"), "{refused}");
    first.abort();
}

#[tokio::test]
async fn a_server_that_is_not_an_agent_is_reported() {
    // The addresses belong to a server that uses HTTP, to a server that closes the connection, and
    // to no server at all.
    let http = Server::start(async |mut stream| {
        crate::common::say(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
        pending::<()>().await;
    })
    .await;
    let closes = Server::start(async |stream| drop(stream)).await;
    for (address, why) in [
        (http.address, "is it a curtail agent?"),
        (closes.address, "agent 127.0.0.1:"),
        (unused_address(), "cannot be reached: Connection refused"),
    ] {
        let message = refusal(&agents([&address.to_string()])).await;
        assert!(message.contains(why) && message.contains(&address.to_string()), "{message}");
    }
}

#[tokio::test]
async fn different_versions_refuse_each_other() {
    let version = json!({"refused": {"version": {"protocol": 9, "curtail": "9.1.0\u{1b}[2J"}}});
    let later = scripted(vec![vec![version]]).await;
    let refused = refusal(&agents([&later])).await;
    assert!(refused.contains("version 9 of the protocol (curtail 9.1.0 [2J)"), "{refused}");
    assert!(refused.contains("run the same version of curtail"), "{refused}");

    let agent = Agent::start(None).await;
    let mut stream = TcpStream::connect(&agent.address).await.unwrap();
    send(&mut stream, &json!({"protocol": 9, "curtail": "9.1.0", "token": null, "new": 1})).await;
    let refused = receive(&mut stream).await.unwrap();
    assert_eq!(refused["refused"]["version"]["protocol"], 6);
    assert!(receive(&mut stream).await.is_none(), "and it closes");
}

#[tokio::test]
async fn a_refusal_names_the_agent() {
    let agent = Agent::start(None).await;
    let mut plan = plan();
    plan.target = "http://no-such-host.invalid/".parse().unwrap();
    let error = measured(&plan, &agents([&agent.address])).await.unwrap_err();
    assert!(matches!(error, AgentsError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cannot resolve no-such-host.invalid"), "{error}");
    // The device is on the agent's route.
    plan = self::plan();
    plan.stamps = StampsBy::Hardware;
    let error = measured(&plan, &agents([&agent.address])).await.unwrap_err();
    assert!(matches!(error, AgentsError::Lacking { .. }), "{error}");
    assert!(error.to_string().contains("lo does not timestamp all packets"), "{error}");
}

#[tokio::test]
async fn a_plan_that_agents_cannot_run_is_refused_before_connecting() {
    let one = unused_address().to_string();
    let of =
        |addresses: &[&str]| agents(&addresses.iter().map(|&a| a.to_owned()).collect::<Vec<_>>());
    assert!(refusal(&of(&[])).await.contains("0 agents"));
    assert!(refusal(&of(&[&one, &one])).await.contains("used twice"));
    assert!(refusal(&of(&["here"])).await.contains("HOST:PORT"));
    let mut schema = plan();
    schema.target = "grpc://127.0.0.1:1/a.B/C".parse().unwrap();
    schema.protocol.schema = Some("a.proto".into());
    let error = measured(&schema, &of(&[&one])).await.unwrap_err();
    assert!(error.to_string().contains("proto"), "{error}");
}

/// Returns the messages that a correct agent sends before the start, followed by `then`.
fn script(then: Value) -> Vec<Vec<Value>> {
    let mut answers = vec![vec![json!("welcome")], vec![json!({"ready": {"stamps": null}})]];
    answers.extend((0..16).map(|at| vec![json!({"pong": {"at_ns": at}})]));
    answers.push(vec![then]);
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_sends_garbage_is_lost_and_the_others_are_stopped() {
    let server = Server::start(echo).await;
    let good = Agent::start(None).await;
    for (garbage, why) in [
        (json!({"record": {"requests": 1}}), "an invalid message"),
        (json!({"failed": {"why": "no\u{7} more"}}), "no  more"),
        (json!("welcome"), "sent an unexpected message"),
    ] {
        let bad = scripted(script(garbage)).await;
        let mut plan = server.plan(500.0, 0);
        plan.extent = Extent::Duration { ns: 3_600_000 * MS };
        let outcome = measured(&plan, &agents([&good.address, &bad])).await;
        // The message arrives either before anything is measured or later.
        let message = match outcome {
            Err(error @ AgentsError::Lacking { .. }) => error.to_string(),
            Ok(report) => {
                let lost = report.invalid_because.into_iter().next().unwrap();
                assert!(matches!(lost, Invalid::AgentLost { .. }));
                lost.to_string()
            }
            Err(other) => panic!("{other}"),
        };
        assert!(message.contains(why) && message.contains(&bad), "{message}");
    }
}

#[tokio::test]
async fn a_coordinator_that_sends_garbage_ends_only_its_own_run() {
    let mut agent = Agent::start(None).await;
    let hello = json!({"protocol": 6, "curtail": "0", "token": null});
    for (garbage, responds) in [
        (json!("stop"), true),
        (json!({"plan": {"number": 1}}), false),
        (json!({"start": {"at_ns": 1}}), true),
    ] {
        let mut stream = TcpStream::connect(&agent.address).await.unwrap();
        send(&mut stream, &hello).await;
        assert_eq!(receive(&mut stream).await, Some(json!("welcome")));
        send(&mut stream, &garbage).await;
        let answer = receive(&mut stream).await;
        assert_eq!(answer.is_some(), responds, "{answer:?}");
        assert!(matches!(agent.events.recv().await, Some(Event::Ended { why: Some(_), .. })));
    }
    let server = Server::start(echo).await;
    let report = measured(&server.plan(500.0, 20), &agents([&agent.address])).await.unwrap();
    assert_eq!(report.requests, 20);
}
