//! Tests policies that use the load reports of replicas.

use crate::harness::{Backend, HELLO, Proxy, say};

fn reporting(report: &str) -> String {
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
async fn c3_prefers_the_replica_that_reports_that_it_is_idle() {
    let busy =
        Backend::responding(reporting("named_metrics.queue=40,named_metrics.service_ms=20")).await;
    let idle =
        Backend::responding(reporting("named_metrics.queue=0,named_metrics.service_ms=0.01")).await;
    let proxy = Proxy::serving("policy = \"c3+cubic\"\nclients = 3", &[&busy, &idle]).await;
    // The rate limit permits this number of requests in a burst.
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
async fn prequal_sends_probes_and_picks_by_their_responses() {
    let replica = |report: &'static str| {
        Backend::new(move |seen| {
            let is_probe = seen.line().starts_with("GET /load ");
            vec![say(if is_probe { reporting(report) } else { HELLO.to_owned() })]
        })
    };
    let slow = replica("named_metrics.in_flight=1,named_metrics.latency_ms=900").await;
    let fast = replica("named_metrics.in_flight=1,named_metrics.latency_ms=1").await;
    let lines = "policy = \"prequal\"\nprobe = \"/load\"";
    let proxy = Proxy::serving(lines, &[&slow, &fast]).await;
    asked_of(&proxy, 60).await;
    let count = |backend: &Backend, path: &str| {
        let line = format!("GET {path} HTTP/1.1");
        backend.seen().iter().filter(|seen| seen.line() == line).count()
    };
    assert!(count(&slow, "/load") > 10 && count(&fast, "/load") > 10);
    let probes = proxy.count("curtail_load_probes_total", &[("outcome", "answered")]).await;
    assert!(probes > 20, "{probes}");
    let (few, many) = (count(&slow, "/"), count(&fast, "/"));
    assert!(few + many == 60 && many > 2 * few, "{few} and {many}");
    assert_eq!(
        proxy.count("curtail_requests_total", &[]).await,
        60,
        "probes do not count as requests"
    );
}

#[tokio::test]
async fn probes_without_a_report_are_counted_and_harmless() {
    let replica = Backend::new(|_| vec![say(HELLO)]).await;
    let proxy = Proxy::serving("policy = \"prequal\"\nprobe = \"/nothing\"", &[&replica]).await;
    asked_of(&proxy, 60).await;
    let unanswered = [("outcome", "unanswered")];
    assert!(proxy.count("curtail_load_probes_total", &unanswered).await > 10);
    assert_eq!(proxy.count("curtail_load_probes_total", &[("outcome", "answered")]).await, 0);
}
