//! Tests the outcomes of responses over real sockets: refusals, responses that break off, and
//! responses that exceed the proxy's limits.

use std::sync::{Arc, Mutex};

use tracing::Level;
use tracing::subscriber::DefaultGuard;

use crate::harness::{Backend, HELLO, Proxy, Seen, Step, eventually, say};

const BUSY: &str = "HTTP/1.1 429 Too Many Requests\r\ncontent-length: 4\r\n\r\nbusy";
const PAUSE: &str = "HTTP/1.1 503 Busy\r\nretry-after: 30\r\ncontent-length: 4\r\n\r\nbusy";

async fn copies(proxy: &Proxy, outcome: &str) -> u64 {
    proxy.count("curtail_copies_ended_total", &[("outcome", outcome)]).await
}

#[tokio::test]
async fn a_replica_that_refuses_at_once_draws_no_traffic_and_no_client_sees_it() {
    for policy in ["least-outstanding", "peak-ewma", "least-response-time", "c3", "rescue"] {
        let [bad, good] = [Backend::responding(BUSY).await, Backend::responding(HELLO).await];
        let lines = format!("policy = \"{policy}\"\nretry_budget = 1.0");
        let proxy = Proxy::serving(&lines, &[&bad, &good]).await;
        for _ in 0..200 {
            assert_eq!(proxy.get("/").await.text(), "hello", "{policy}");
        }
        let refused = bad.seen().len();
        assert!(refused <= 100, "{policy}: {refused} of 200");
        assert!(copies(&proxy, "refused").await > 0, "{policy}");
    }
}

#[tokio::test]
async fn a_service_configures_the_outcomes_of_statuses() {
    let missing = "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone";
    for (line, from_both) in [
        ("", false),
        ("outcome = { refused = [404] }", true),
        ("outcome = { failed = [\"4xx\"] }", true),
    ] {
        let replicas = [Backend::responding(missing).await, Backend::responding(missing).await];
        let proxy = Proxy::serving(line, &[&replicas[0], &replicas[1]]).await;
        let response = proxy.get("/").await;
        assert_eq!((response.status, response.text()), (404, "none".into()), "{line}");
        let seen: Vec<usize> = replicas.iter().map(|replica| replica.seen().len()).collect();
        assert_eq!(seen.iter().sum::<usize>() == 2, from_both, "{line}: {seen:?}");
    }
}

#[tokio::test]
async fn a_replica_that_asks_for_a_pause_gets_one_and_no_longer_than_the_limit() {
    let [busy, good] = [Backend::responding(PAUSE).await, Backend::responding(HELLO).await];
    let lines = "policy = \"round-robin\"\nmax_retry_after = \"300ms\"\nretry_budget = 1.0";
    let proxy = Proxy::serving(lines, &[&busy, &good]).await;
    let begun = tokio::time::Instant::now();
    for _ in 0..50 {
        assert_eq!(proxy.get("/").await.text(), "hello");
    }
    // Two requests reach the replica only if this test took longer than the pause.
    let most = 1 + begun.elapsed().as_millis() as usize / 300;
    assert!((1..=most).contains(&busy.seen().len()), "{} requests", busy.seen().len());
    eventually("the pause to end", async || {
        proxy.get("/").await;
        busy.seen().len() > most
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_breaks_off_inside_of_its_bodies_is_ejected() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for end in [vec![Step::Close], vec![say("zz\r\n"), Step::Close]] {
        let broken = move |_: &Seen| [vec![say(head)], end.clone()].concat();
        let [bad, good] = [Backend::new(broken).await, Backend::responding(HELLO).await];
        let lines = "policy = \"round-robin\"";
        let proxy = Proxy::serving(lines, &[&bad, &good]).await;
        for _ in 0..40 {
            proxy.get("/").await;
        }
        eventually("an ejection", async || proxy.count("curtail_ejections_total", &[]).await > 0)
            .await;
    }
}

/// The bytes that a replica sends, the cause in the metrics, and words from the response to the
/// client.
fn causes() -> Vec<(String, &'static str, &'static str)> {
    let ok = "HTTP/1.1 200 OK\r\n";
    let field = |n| format!("x-{n}: y\r\n");
    vec![
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n".into(), "not_http", "not in the version of HTTP"),
        ("HTTP/1.1 999 What\r\n\r\n".into(), "status", "status"),
        (format!("{ok}bad name: y\r\n\r\n"), "malformed", "malformed"),
        (format!("{ok}content-length: 5\r\ncontent-length: 6\r\n\r\nhello"), "framing", "length"),
        (format!("{ok}x: {}\r\n\r\n", "y".repeat(600)), "head_too_large", "limit of the proxy"),
        (format!("{ok}{}\r\n", (0..20).map(field).collect::<String>()), "head_too_large", "limit"),
        (format!("{ok}content-length: 9\r\n\r\nhello"), "incomplete", "during its response"),
        (String::new(), "reset", "before it responded"),
    ]
}

#[tokio::test]
async fn the_reason_reaches_the_log_the_metrics_and_the_client() {
    for (text, cause, words) in causes() {
        let lines = Lines::default();
        let _guard = lines.collect();
        let replica = Backend::new(move |_| vec![say(&text), Step::Close]).await;
        let limits = "max_response_header_bytes = \"512B\"\nmax_response_headers = 10";
        let proxy = Proxy::serving(limits, &[&replica]).await;
        for _ in 0..5 {
            let response = proxy.get("/").await;
            assert_eq!(response.status, 502, "{cause}");
            assert!(response.text().contains(words), "{cause}: {}", response.text());
            let address = replica.address.to_string();
            assert!(!response.text().contains(&address), "no address: {}", response.text());
        }
        let counted = proxy.count("curtail_copy_failures_total", &[("cause", cause)]).await;
        assert!(counted >= 5, "{cause}: {counted}");
        let logged = lines.of("no whole response from a replica");
        let address = replica.address.to_string();
        assert!((1..5).contains(&logged.len()), "bounded in rate: {logged:?}");
        assert!(
            logged[0].contains(&address) && logged[0].contains("service"),
            "{cause}: {logged:?}"
        );
        let is_limit = cause == "head_too_large";
        assert_eq!(logged[0].contains("max_response_header"), is_limit, "{cause}: {logged:?}");
    }
}

#[tokio::test]
async fn refusals_and_failures_by_status_are_logged_and_counted() {
    for status in ["500 Internal Server Error", "503 Service Unavailable"] {
        let lines = Lines::default();
        let _guard = lines.collect();
        let replica =
            Backend::responding(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).await;
        let proxy = Proxy::serving("", &[&replica]).await;
        proxy.get("/").await;
        let cause = [("cause", "bad_status")];
        assert!(proxy.count("curtail_copy_failures_total", &cause).await > 0, "{status}");
        let logged = lines.of("no good response from a replica");
        assert!(logged[0].contains(&replica.address.to_string()), "{logged:?}");
    }
}

#[tokio::test]
async fn a_response_over_a_limit_of_the_proxy_is_not_retried_and_ejects_nothing() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\ncontent-length: 0\r\n\r\n", "y".repeat(600));
    let replicas = [Backend::responding(&long).await, Backend::responding(&long).await];
    let lines = "max_response_header_bytes = \"512B\"";
    let proxy = Proxy::serving(lines, &[&replicas[0], &replicas[1]]).await;
    for requests in 1..=20 {
        assert_eq!(proxy.get("/").await.status, 502);
        let seen: usize = replicas.iter().map(|replica| replica.seen().len()).sum();
        assert_eq!(seen, requests, "not sent again");
    }
    assert!(copies(&proxy, "over_limit").await >= 20);
    assert_eq!(proxy.count("curtail_ejections_total", &[]).await, 0);
}

#[tokio::test]
async fn refused_requests_are_logged_within_bounds() {
    let lines = Lines::default();
    let _guard = lines.collect();
    let replica = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&replica]).await;
    for _ in 0..5 {
        let mut client = proxy.client().await;
        client.send("GET / HTTP/1.1\r\nhost: x\r\nbad name: y\r\n\r\n").await;
        assert_eq!(client.response().await.status, 400);
    }
    let logged = lines.of("request refused");
    assert!((1..5).contains(&logged.len()), "{logged:?}");
    assert!(logged[0].contains("malformed"), "{logged:?}");
}

/// The warnings of this thread, as text.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Collects the warnings until the guard is dropped.
    fn collect(&self) -> DefaultGuard {
        let lines = self.clone();
        let subscriber = tracing_subscriber::fmt().with_max_level(Level::WARN).with_ansi(false);
        tracing::subscriber::set_default(subscriber.with_writer(move || lines.clone()).finish())
    }

    fn of(&self, message: &str) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.0.lock().expect("no panic under it")).into_owned();
        text.lines().filter(|line| line.contains(message)).map(str::to_owned).collect()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no panic under it").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
