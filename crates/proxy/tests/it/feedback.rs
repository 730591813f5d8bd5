//! Policies that listen to what replicas say of themselves.

use crate::harness::{Backend, Proxy, say};

fn saying(report: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nendpoint-load-metrics: TEXT {report}\r\ncontent-length: 2\r\n\r\nok"
    )
}

async fn asked_of(proxy: &Proxy, times: usize) {
    let mut client = proxy.client().await;
    for _ in 0..times {
        assert_eq!(client.get("/").await.status, 200);
    }
}

#[tokio::test]
async fn c3_prefers_the_replica_that_says_that_it_is_idle() {
    let busy = Backend::says(saying("named_metrics.queue=40,named_metrics.service_ms=20")).await;
    let idle = Backend::says(saying("named_metrics.queue=0,named_metrics.service_ms=0.01")).await;
    let proxy = Proxy::serving("policy = \"c3+cubic\"\nclients = 3", &[&busy, &idle]).await;
    // Within the burst of its rate.
    asked_of(&proxy, 10).await;
    let (few, many) = (busy.seen().len(), idle.seen().len());
    assert!(few + many == 10 && many >= 8, "{few} and {many}");
    let metrics = proxy.metrics().await;
    assert!(metrics.sum("curtail_server_rate", &[]) > 0.0);
    let score = |backend: &Backend| {
        metrics.sum("curtail_server_score", &[("server", &backend.address.to_string())])
    };
    assert!(score(&idle) < score(&busy));
}

#[tokio::test]
async fn nonsense_from_a_replica_is_passed_over() {
    let liar =
        Backend::says(saying("named_metrics.queue=-1,named_metrics.service_ms=inf,=,,")).await;
    let mute = Backend::says(crate::harness::HELLO).await;
    let proxy = Proxy::serving("policy = \"c3\"", &[&liar, &mute]).await;
    asked_of(&proxy, 60).await;
    assert_eq!(liar.seen().len() + mute.seen().len(), 60);
    // Ranked by how long their responses took, as if neither had said anything.
    let metrics = proxy.metrics().await;
    for backend in [&liar, &mute] {
        let labels = [("server", &*backend.address.to_string())];
        let score = metrics.sum("curtail_server_score", &labels);
        assert!(score > 0.0 && score < 1e10, "{score}");
    }
}

#[tokio::test]
async fn prequal_sends_probes_and_goes_by_their_answers() {
    let replica = |report: &'static str| {
        Backend::new(move |seen| {
            let is_probe = seen.line().starts_with("GET /load ");
            vec![say(if is_probe { saying(report) } else { crate::harness::HELLO.to_owned() })]
        })
    };
    let slow = replica("named_metrics.in_flight=1,named_metrics.latency_ms=900").await;
    let fast = replica("named_metrics.in_flight=1,named_metrics.latency_ms=1").await;
    let lines = "policy = \"prequal\"\nprobe = \"/load\"";
    let proxy = Proxy::serving(lines, &[&slow, &fast]).await;
    asked_of(&proxy, 60).await;
    let count = |backend: &Backend, path: &str| {
        backend
            .seen()
            .iter()
            .filter(|seen| seen.line().starts_with(&format!("GET {path} ")))
            .count()
    };
    assert!(count(&slow, "/load") > 10 && count(&fast, "/load") > 10);
    let probes = proxy.count("curtail_load_probes_total", &[("outcome", "answered")]).await;
    assert!(probes > 20, "{probes}");
    let (few, many) = (count(&slow, "/"), count(&fast, "/"));
    assert!(few + many == 60 && many > 2 * few, "{few} and {many}");
    assert_eq!(proxy.count("curtail_requests_total", &[]).await, 60, "probes are no requests");
}

#[tokio::test]
async fn probes_without_an_answer_are_counted_and_harm_nothing() {
    let replica = Backend::new(|_| vec![say(crate::harness::HELLO)]).await;
    let proxy = Proxy::serving("policy = \"prequal\"\nprobe = \"/nothing\"", &[&replica]).await;
    asked_of(&proxy, 60).await;
    let unanswered = [("outcome", "unanswered")];
    assert!(proxy.count("curtail_load_probes_total", &unanswered).await > 10);
    assert_eq!(proxy.count("curtail_load_probes_total", &[("outcome", "answered")]).await, 0);
}
