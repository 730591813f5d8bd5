//! Agents that cannot be had, or are none, and coordinators that are not let in.

use std::future::pending;

use crate::common::{MS, Server, echo, plan_for};
use crate::crew::{Agent, agents, hear, measured, nobody, scripted, tell};
use curtail_load::agents::{Agents, AgentsError, Event, Token};
use curtail_load::{Extent, Invalid, Plan, StampsBy};
use serde_json::{Value, json};
use tokio::net::TcpStream;

/// Of a server that nobody may ask: what is refused sends nothing.
fn plan() -> Plan {
    plan_for(nobody(), 100.0, 10)
}

async fn said(of: &Agents) -> String {
    measured(&plan(), of).await.unwrap_err().to_string()
}

#[tokio::test]
async fn an_agent_with_a_token_lets_nobody_in_without_it() {
    let server = Server::start(echo).await;
    let mut agent = Agent::start(Some("s3cret")).await;
    let mut of = agents([&agent.address]);
    for wrong in [None, Some("other")] {
        of.token = wrong.map(|token| Token::new(token).unwrap());
        let error = measured(&plan(), &of).await.unwrap_err();
        assert!(matches!(error, AgentsError::Refused { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains(&agent.address) && said.contains("another token"), "{said}");
        assert!(!said.contains("s3cret") && !said.contains("other."), "{said}");
        let event = agent.events.recv().await.unwrap();
        assert!(matches!(event, Event::TurnedAway { .. }));
        assert!(!event.to_string().contains("other"), "{event}");
    }
    of.token = Some(Token::new("s3cret").unwrap());
    assert_eq!(measured(&server.plan(500.0, 20), &of).await.unwrap().requests, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_coordinator_is_told_that_the_agent_is_busy() {
    let server = Server::start(echo).await;
    let mut agent = Agent::start(None).await;
    let mut endless = server.plan(100.0, 0);
    endless.extent = Extent::Duration { ns: 3_600_000 * MS };
    let of = agents([&agent.address]);
    tokio::select! {
        _ = measured(&endless, &of) => unreachable!("it takes an hour"),
        begun = agent.events.recv() => assert!(matches!(begun, Some(Event::Began { .. }))),
    };
    // The one before is gone, and its end may be noticed later than this is.
    let first = tokio::spawn({
        let (endless, of) = (endless.clone(), of.clone());
        assert!(matches!(agent.events.recv().await, Some(Event::Ended { .. })));
        async move { measured(&endless, &of).await }
    });
    assert!(matches!(agent.events.recv().await, Some(Event::Began { .. })));
    let refused = said(&of).await;
    assert!(refused.contains("busy with a run of another coordinator"), "{refused}");
    first.abort();
}

#[tokio::test]
async fn other_servers_are_no_agents() {
    // One that answers in HTTP, one that closes, and none.
    let http = Server::start(async |mut stream| {
        crate::common::say(&mut stream, "HTTP/1.1 400 Bad Request\r\n\r\n").await;
        pending::<()>().await;
    })
    .await;
    let closes = Server::start(async |stream| drop(stream)).await;
    for (address, why) in [
        (http.address, "is it a curtail agent?"),
        (closes.address, "agent 127.0.0.1:"),
        (nobody(), "cannot be reached: Connection refused"),
    ] {
        let said = said(&agents([&address.to_string()])).await;
        assert!(said.contains(why) && said.contains(&address.to_string()), "{said}");
    }
}

#[tokio::test]
async fn versions_tell_each_other_apart() {
    let refusal = json!({"refused": {"version": {"protocol": 9, "curtail": "9.1.0\u{1b}[2J"}}});
    let later = scripted(vec![vec![refusal]]).await;
    let refused = said(&agents([&later])).await;
    assert!(refused.contains("version 9 of the protocol (curtail 9.1.0 [2J)"), "{refused}");
    assert!(refused.contains("run the same curtail"), "{refused}");

    let agent = Agent::start(None).await;
    let mut stream = TcpStream::connect(&agent.address).await.unwrap();
    tell(&mut stream, &json!({"protocol": 9, "curtail": "9.1.0", "token": null, "new": 1})).await;
    let refused = hear(&mut stream).await.unwrap();
    assert_eq!(refused["refused"]["version"]["protocol"], 5);
    assert!(hear(&mut stream).await.is_none(), "and it closes");
}

#[tokio::test]
async fn what_agents_refuse_is_told_with_the_agent() {
    let agent = Agent::start(None).await;
    let mut plan = plan();
    plan.target = "http://no-such-host.invalid/".parse().unwrap();
    let error = measured(&plan, &agents([&agent.address])).await.unwrap_err();
    assert!(matches!(error, AgentsError::Refused { .. }), "{error}");
    assert!(error.to_string().contains("cannot resolve no-such-host.invalid"), "{error}");
    // The device is that of the agent's route.
    plan = self::plan();
    plan.stamps = StampsBy::Hardware;
    let error = measured(&plan, &agents([&agent.address])).await.unwrap_err();
    assert!(matches!(error, AgentsError::Lacking { .. }), "{error}");
    assert!(error.to_string().contains("lo takes no hardware timestamps"), "{error}");
}

#[tokio::test]
async fn what_cannot_be_a_run_with_agents_is_refused_before_anybody_is_asked() {
    let one = nobody().to_string();
    let of =
        |addresses: &[&str]| agents(&addresses.iter().map(|&a| a.to_owned()).collect::<Vec<_>>());
    assert!(said(&of(&[])).await.contains("0 agents"));
    assert!(said(&of(&[&one, &one])).await.contains("named twice"));
    assert!(said(&of(&["here"])).await.contains("HOST:PORT"));
    let mut schema = plan();
    schema.target = "grpc://127.0.0.1:1/a.B/C".parse().unwrap();
    schema.protocol.schema = Some("a.proto".into());
    let error = measured(&schema, &of(&[&one])).await.unwrap_err();
    assert!(error.to_string().contains("proto"), "{error}");
}

/// What a good agent says until the start, and then.
fn script(then: Value) -> Vec<Vec<Value>> {
    let mut answers = vec![vec![json!("welcome")], vec![json!({"ready": {"stamps": null}})]];
    answers.extend((0..16).map(|at| vec![json!({"pong": {"at_ns": at}})]));
    answers.push(vec![then]);
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_says_garbage_is_lost_and_the_others_are_stopped() {
    let server = Server::start(echo).await;
    let good = Agent::start(None).await;
    for (garbage, why) in [
        (json!({"record": {"requests": 1}}), "no message of an agent"),
        (json!({"failed": {"why": "no\u{7} more"}}), "no  more"),
        (json!("welcome"), "does not belong there"),
    ] {
        let bad = scripted(script(garbage)).await;
        let mut plan = server.plan(500.0, 0);
        plan.extent = Extent::Duration { ns: 3_600_000 * MS };
        let outcome = measured(&plan, &agents([&good.address, &bad])).await;
        // It says so before anything is measured, or when something was.
        let said = match outcome {
            Err(error @ AgentsError::Lacking { .. }) => error.to_string(),
            Ok(report) => {
                let lost = report.invalid_because.into_iter().next().unwrap();
                assert!(matches!(lost, Invalid::AgentLost { .. }));
                lost.to_string()
            }
            Err(other) => panic!("{other}"),
        };
        assert!(said.contains(why) && said.contains(&bad), "{said}");
    }
}

#[tokio::test]
async fn a_coordinator_that_says_garbage_ends_its_run_only() {
    let mut agent = Agent::start(None).await;
    let hello = json!({"protocol": 5, "curtail": "0", "token": null});
    for (garbage, heard) in [
        (json!("stop"), true),
        (json!({"plan": {"number": 1}}), false),
        (json!({"start": {"at_ns": 1}}), true),
    ] {
        let mut stream = TcpStream::connect(&agent.address).await.unwrap();
        tell(&mut stream, &hello).await;
        assert_eq!(hear(&mut stream).await, Some(json!("welcome")));
        tell(&mut stream, &garbage).await;
        let answer = hear(&mut stream).await;
        assert_eq!(answer.is_some(), heard, "{answer:?}");
        assert!(matches!(agent.events.recv().await, Some(Event::Ended { why: Some(_), .. })));
    }
    let server = Server::start(echo).await;
    let report = measured(&server.plan(500.0, 20), &agents([&agent.address])).await.unwrap();
    assert_eq!(report.requests, 20);
}
