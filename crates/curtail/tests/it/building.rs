//! What a builder checks, and the defaults that it derives.

use std::time::Duration;

use curtail::{BuildError, Cancel, Curtail, Policy, Query, outcome};

use crate::scripted::{Act, Server, builder, echo};

fn policy(name: &str) -> Policy {
    name.parse().expect(name)
}

#[tokio::test(start_paused = true)]
async fn what_would_be_inert_or_wrong_is_not_built() {
    let server = Server::new(&[Act::Respond(1)]);
    let two = || builder::<String>(&[&server, &server]);
    let known = || two().classify(outcome::any_response);
    let all = || known().repeatable(|request| Some(request.clone()));
    for (error, says) in [
        (Curtail::<Server, String>::builder().build().unwrap_err(), "no shards"),
        (two().shard("a", [("x", server.clone())]).build().unwrap_err(), "two shards are called"),
        (two().shard("b", Vec::<(String, Server)>::new()).build().unwrap_err(), "has no servers"),
        (two().build().unwrap_err(), ".classify("),
        (known().build().unwrap_err(), ".repeatable("),
        (all().policy(policy("laedge")).build().unwrap_err(), ".slots("),
        (all().slots(1).policy(policy("laedge:cc")).build().unwrap_err(), "Cancel::OnDrop"),
        (all().policy(policy("naive")).build().unwrap_err(), "budget"),
        (all().cancellation(Cancel::OnDrop).policy(policy("das")).build().unwrap_err(), "stage"),
        (all().policy(policy("prequal")).build().unwrap_err(), ".probe("),
        (all().slots(4).policy(policy("bounded:2")).build().unwrap_err(), "slots"),
        (all().hedge_budget(1.5).build().unwrap_err(), "hedge_budget"),
        (all().timeout(Duration::ZERO).build().unwrap_err(), "timeout"),
        (all().health(Duration::ZERO, |_| async { true }).build().unwrap_err(), ".health()"),
        (all().slots(0).build().unwrap_err(), ".slots()"),
        (all().places(1).build().unwrap_err(), ".places(1)"),
        (all().places(usize::MAX).build().unwrap_err(), ".places("),
        (ring(&server, vec![7]).unwrap_err(), "server 7 of 3"),
        (ring(&server, vec![0, 0]).unwrap_err(), "listed twice"),
    ] {
        let text = error.to_string();
        assert!(text.contains(says), "{says:?} is not in {text:?}");
        assert!(!text.contains("cancel = \"") && !text.contains(" = "), "a key of TOML: {text:?}");
    }
    let twice = [("x", server.clone()), ("x", server.clone())];
    let error = known().shard("b", twice).build().unwrap_err();
    assert!(matches!(error, BuildError::SameServer(_)), "{error}");
}

/// A ring of three servers with one shard.
fn ring(server: &Server, members: Vec<usize>) -> Result<Curtail<Server, String>, BuildError> {
    let servers = (0..3).map(|at| (format!("n{at}"), server.clone()));
    let builder = Curtail::builder().ring(servers, [("r", members)]);
    builder.policy(policy("random")).classify(outcome::any_response).build()
}

#[tokio::test(start_paused = true)]
async fn a_shard_of_a_ring_has_only_its_own_servers_which_are_fixed() {
    let server = Server::new(&[Act::Respond(1)]);
    let shard = ring(&server, vec![0, 1]).unwrap().shard("r");
    let names = || shard.servers().iter().map(|server| server.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(), ["n0", "n1"]);
    assert!(!shard.remove("n2") && !shard.remove("n0") && shard.add("n3", server.clone()).is_err());
    assert_eq!(names(), ["n0", "n1"]);
}

#[tokio::test(start_paused = true)]
async fn every_default_is_finite_and_depends_on_the_policy() {
    let server = Server::new(&[Act::Respond(1)]);
    for (name, hedge_budget) in
        [("rescue", 0.2), ("laedge:cc", 1.0), ("laedge", 1.0), ("delayed:5ms", 0.2)]
    {
        let service = builder::<String>(&[&server, &server])
            .policy(policy(name))
            .slots(1)
            .cancellation(Cancel::OnDrop)
            .timeout(Duration::from_secs(2))
            .classify(outcome::any_response)
            .repeatable(|request| Some(request.clone()))
            .build()
            .expect(name);
        let limits = service.limits();
        assert_eq!(limits.timeout_ns, 2_000_000_000);
        assert_eq!(limits.attempt_timeout_ns, 1_000_000_000);
        assert!(limits.cancel_timeout_ns <= 60_000_000_000, "{}", limits.cancel_timeout_ns);
        assert_eq!(limits.hedge_budget, hedge_budget, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_defaults_are_those_of_the_page() {
    let server = Server::new(&[Act::Respond(1)]);
    let service = builder::<String>(&[&server, &server])
        .policy(policy("random"))
        .classify(outcome::any_response)
        .build()
        .unwrap();
    let limits = service.limits();
    let page = include_str!("../../../../docs/library.md");
    let s = |ns: u64| ns as f64 / 1e9;
    assert_eq!(s(limits.attempt_timeout_ns) * 2.0, s(limits.timeout_ns));
    for row in [
        format!("| `timeout` | {} s,", s(limits.timeout_ns)),
        format!("| `cancel_timeout` | {} s ", s(limits.cancel_timeout_ns)),
        format!("| `hedge_budget` | {} duplicates", limits.hedge_budget),
        format!("| `rescue_budget` | {} rescues", limits.rescue_budget),
        format!("| `retry_budget` | {} retries", limits.retry_budget),
        format!("| `queue` | {} waiting", limits.queue),
        format!("| `max_outstanding` | {} copies", limits.max_outstanding),
    ] {
        assert!(page.contains(&row), "docs/library.md has no row {row:?}");
    }
}

/// A silent server used to keep its slot for ever.
#[tokio::test(start_paused = true)]
async fn a_silent_server_costs_an_attempt_and_not_the_query() {
    let (silent, fine) = (Server::new(&[Act::Hang]), Server::new(&[Act::Respond(1)]));
    let service = builder::<String>(&[&silent, &fine])
        .policy(policy("round-robin"))
        .timeout(Duration::from_secs(2))
        .classify(outcome::any_response)
        .build()
        .unwrap();
    for _ in 0..2 {
        let answer = service.shard("a").query(Query::idempotent("x".to_owned())).await.unwrap();
        assert_eq!(&*answer.server, "a1");
        assert!(answer.took <= Duration::from_millis(1_100), "{:?}", answer.took);
    }
    tokio::time::sleep(Duration::from_secs(30)).await; // tidy: real time (it is paused)
    let states = service.shard("a").servers();
    assert_eq!(states.iter().map(|server| server.outstanding).sum::<u32>(), 0, "{states:?}");
}

#[test]
fn a_service_without_a_runtime_is_an_error() {
    let builder = Curtail::builder().shard("a", [("a0", echo())]).classify(outcome::any_response);
    assert_eq!(builder.build().unwrap_err(), BuildError::NoRuntime);
}
