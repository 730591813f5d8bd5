//! Tests of agents that are unreachable or are not agents, and of coordinators that agents refuse.

use std::future::pending;

use crate::common::{MS, Server, echo, plan_for};
use crate::crew::{Agent, agents, measured, receive, scripted, send, unused_address};
use curtail_load::agents::{Agents, AgentsError, Event, Token};
use curtail_load::{Extent, Invalid, Plan, StampsBy};
use serde_json::{Value, json};
use tokio::net::TcpStream;

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
    assert_eq!(refused["refused"]["version"]["protocol"], 5);
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
    let hello = json!({"protocol": 5, "curtail": "0", "token": null});
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
