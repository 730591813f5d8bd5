//! Tests what the status of gRPC decides, and the errors of the proxy for clients of gRPC.

use std::time::Duration;

use http::Request;

use crate::harness::http2::{Act, Backend2, Http2Client, Reply, values};
use crate::harness::{Proxy, Replica, eventually};

const UNARY: &str = "protocol = \"grpc\"\npolicy = \"round-robin\"\nretry_budget = 1.0\n\
    route = [{ grpc = \"a.B/Query\", unary = true, idempotent = true }, { grpc = \"a.B\" }]";

fn call(method: &str) -> Request<()> {
    let builder = Request::builder().method("POST").uri(format!("http://x/a.B/{method}"));
    let builder = builder.header("content-type", "application/grpc").header("te", "trailers");
    builder.body(()).expect("a request")
}

/// A response with a body, and a status in its trailers.
fn status(code: &'static str) -> Vec<Act> {
    pushed(code, "60000")
}

fn pushed(code: &'static str, push_back: &'static str) -> Vec<Act> {
    message(b"hello".into(), vec![("grpc-status", code), ("grpc-retry-pushback-ms", push_back)])
}

fn message(body: Vec<u8>, trailers: Vec<(&'static str, &'static str)>) -> Vec<Act> {
    let kind = vec![("content-type", "application/grpc".to_owned())];
    vec![Act::Head(200, kind, false), Act::Data(body, false), Act::Trailers(trailers)]
}

/// A status without a body.
fn head_only(code: &str, push_back: &str) -> Vec<Act> {
    let fields = [
        ("content-type", "application/grpc"),
        ("grpc-status", code),
        ("grpc-retry-pushback-ms", push_back),
    ];
    vec![Act::Head(200, fields.map(|(name, value)| (name, value.to_owned())).into(), true)]
}

async fn before(lines: &str, replicas: &[&dyn Replica]) -> (Proxy, Http2Client) {
    let proxy = Proxy::serving(lines, replicas).await;
    let client = Http2Client::connect(proxy.http).await;
    (proxy, client)
}

fn code(reply: &Reply) -> String {
    let fields = reply.trailers.as_ref().unwrap_or(&reply.fields);
    values(fields, "grpc-status").concat()
}

/// The first response of a replica decides whether the call is repeated at the other one.
#[tokio::test]
async fn a_unary_call_is_repeated_if_the_status_and_the_replica_permit_it() {
    type Script = fn() -> Vec<Act>;
    let statuses = "outcome = { refused = [\"ABORTED\"], request = [\"UNAVAILABLE\"] }";
    for (lines, first, expected, asked) in [
        ("", (|| status("14")) as Script, "0 0 0 0", Some(1)),
        ("", || status("8"), "0 0 0 0", Some(1)),
        ("", || status("13"), "0 0 0 0", Some(1)),
        ("", || status("5"), "0 0 5 5", Some(2)),
        ("", || status("0"), "0 0 0 0", Some(2)),
        ("", || pushed("14", "0"), "0 0", None),
        ("", || pushed("14", "-1"), "0 14", Some(1)),
        ("", || pushed("14", "never"), "0 14", Some(1)),
        ("", || head_only("14", "0"), "0 0", None),
        ("", || head_only("14", "-1"), "0 14", Some(1)),
        (statuses, || status("10"), "0 0", None),
        (statuses, || status("14"), "0 14", Some(1)),
    ] {
        let bad = Backend2::new(move |_| first()).await;
        let good = Backend2::new(|_| status("0")).await;
        let (_proxy, client) = before(&format!("{UNARY}\n{lines}"), &[&bad, &good]).await;
        let case = format!("{lines} {:?}", first());
        // The pick alternates between the replicas.
        let mut codes = Vec::new();
        for _ in expected.split(' ') {
            let reply = client.send(call("Query"), b"").await.expect("a reply");
            assert_eq!(reply.status, 200, "{case}");
            // A status may have no body.
            assert!(reply.text() == "hello" || code(&reply) == "14", "{case}");
            codes.push(code(&reply));
        }
        codes.sort_unstable();
        assert_eq!(codes.join(" "), expected, "{case}");
        // A replica that pushes back gets no further calls, unless its responses are good.
        assert!(asked.is_none_or(|asked| bad.seen().len() == asked), "{case}");
        assert!(bad.seen().iter().all(|seen| seen.header("te") == ["trailers"]));
    }
}

#[tokio::test]
async fn each_copy_states_its_number_and_the_time_that_is_left() {
    let bad = Backend2::new(|_| status("14")).await;
    let good = Backend2::new(|_| status("0")).await;
    let (_proxy, client) = before(UNARY, &[&bad, &good]).await;
    let left = |seen: &crate::harness::http2::Seen2| {
        let values = seen.header("grpc-timeout");
        let [value] = values[..] else { panic!("one timeout: {values:?}") };
        curtail_http::grpc::parse_timeout(value.as_bytes()).expect("a timeout")
    };
    let mut attempts = Vec::new();
    for previous in [None, Some("2")] {
        let mut request = call("Query");
        request.headers_mut().insert("grpc-timeout", "3S".parse().expect("a value"));
        if let Some(previous) = previous {
            let value = previous.parse().expect("a value");
            request.headers_mut().insert("grpc-previous-rpc-attempts", value);
        }
        assert_eq!(code(&client.send(request, b"").await.expect("a reply")), "0");
    }
    // The first call is the one that meets the server that refuses.
    for seen in bad.seen().iter().chain(&good.seen()) {
        assert!(left(seen) < Duration::from_secs(3), "{:?}", left(seen));
        attempts.push(seen.header("grpc-previous-rpc-attempts").concat());
    }
    assert_eq!(attempts, ["", "1", "2"]);
    assert!(left(&good.seen()[0]) < left(&bad.seen()[0]), "the deadline is that of all attempts");

    // A call without a deadline gets that of the service.
    client.send(call("Query"), b"").await.expect("a reply");
    assert!(left(&good.seen()[2]) <= Duration::from_secs(99));
}

#[tokio::test]
async fn probes_call_the_health_service_of_grpc() {
    const CHECK: &str = "/grpc.health.v1.Health/Check";
    fn respond(name: &str) -> Vec<Act> {
        let ok = |body: &[u8]| message(body.into(), vec![("grpc-status", "0")]);
        match name {
            "SERVING" => ok(&[0, 0, 0, 0, 2, 8, 1]),
            "NOT_SERVING" => ok(&[0, 0, 0, 0, 2, 8, 2]),
            "no message" => ok(b""),
            "UNIMPLEMENTED" => head_only("12", "0"),
            "NOT_FOUND" => head_only("5", "0"),
            _ => vec![Act::Head(404, vec![], true)],
        }
    }
    for (name, up) in [
        ("SERVING", true),
        ("NOT_SERVING", false),
        ("no message", false),
        ("UNIMPLEMENTED", true),
        ("NOT_FOUND", false),
        ("no gRPC", false),
    ] {
        let probed = Backend2::new(move |seen| {
            assert_eq!((seen.path(), &seen.body[..]), (CHECK, &b"\0\0\0\0\x05\x0a\x03a.B"[..]));
            respond(name)
        })
        .await;
        let spare = Backend2::new(|_| respond("SERVING")).await;
        let health = "health = { grpc = \"a.B\", interval = \"5ms\" }";
        let lines = format!("protocol = \"grpc\"\npolicy = \"round-robin\"\n{health}");
        let proxy = Proxy::serving(&lines, &[&probed, &spare]).await;
        eventually("probes", async || probed.seen().len() >= 4).await;
        let replica = probed.address.to_string();
        let is_up = async || proxy.count("curtail_server_up", &[("server", &*replica)]).await == 1;
        eventually(name, async || is_up().await == up).await;
    }
}

#[tokio::test]
async fn a_call_that_is_not_unary_is_streamed_and_sent_once() {
    let bad = Backend2::new(|_| status("14")).await;
    let (proxy, client) = before(UNARY, &[&bad]).await;
    let reply = client.send(call("Watch"), b"x").await.expect("a reply");
    assert_eq!((reply.text(), code(&reply)), ("hello".to_owned(), "14".to_owned()));
    assert_eq!(bad.seen().len(), 1);
    // The end of the response decides what it was worth.
    let refused = [("outcome", "refused")];
    eventually("the outcome", async || {
        proxy.count("curtail_copies_ended_total", &refused).await == 1
    })
    .await;
}

#[tokio::test]
async fn errors_of_the_proxy_are_statuses_of_grpc() {
    let silent = Backend2::new(|_| vec![Act::Hang]).await;
    let (_proxy, client) = before(UNARY, &[&silent]).await;
    let mut late = call("Query");
    late.headers_mut().insert("grpc-timeout", "50m".parse().expect("a value"));
    let unknown = Request::builder().method("POST").uri("http://x/other.C/D");
    let unknown = unknown.header("content-type", "application/grpc").body(()).expect("a request");
    // `timeout` is far longer than the deadline of the client.
    for (request, expected, why) in [(late, "4", "the client's deadline"), (unknown, "12", "route")]
    {
        let reply = client.send(request, b"").await.expect("a reply");
        assert_eq!((reply.status, code(&reply).as_str()), (200, expected));
        assert!(reply.body.is_empty() && reply.trailers.is_none());
        let message = values(&reply.fields, "grpc-message").concat();
        assert!(message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn a_call_that_is_shed_is_pushed_back() {
    let busy = Backend2::new(|_| vec![Act::Hang]).await;
    let (_proxy, client) =
        before(&format!("{UNARY}\nqueue = 0\nslots = 1").replace("round-robin", "psq"), &[&busy])
            .await;
    let _first = client.start(call("Query"), true).await;
    busy.has_seen(1).await;
    let shed = client.send(call("Query"), b"").await.expect("a reply");
    assert_eq!(code(&shed), "14");
    assert_eq!(values(&shed.fields, "grpc-retry-pushback-ms"), ["1000"]);
}

#[tokio::test]
async fn a_stream_beyond_the_timeout_and_a_call_without_time_have_exceeded_their_deadlines() {
    let endless = Backend2::new(|_| {
        let kind = vec![("content-type", "application/grpc".to_owned())];
        vec![Act::Head(200, kind, false), Act::Data(b"hello".into(), false), Act::Hang]
    })
    .await;
    let times = "timeout = \"300ms\"\nattempt_timeout = \"300ms\"\ncancel_timeout = \"9s\"";
    let (_proxy, client) = before(&format!("{UNARY}\n{times}"), &[&endless]).await;
    let reply = client.send(call("Watch"), b"").await.expect("trailers, and no reset");
    assert_eq!((reply.text(), code(&reply)), ("hello".to_owned(), "4".to_owned()));
    let mut late = call("Query");
    late.headers_mut().insert("grpc-timeout", "1n".parse().expect("a value"));
    let reply = client.send(late, b"").await.expect("a reply");
    assert_eq!(code(&reply), "4");
    assert!(values(&reply.fields, "grpc-retry-pushback-ms").is_empty());
}

#[tokio::test]
async fn a_response_without_a_status_is_a_failure() {
    let kind = || vec![("content-type", "application/grpc".to_owned())];
    let bad = Backend2::new(move |_| vec![Act::Head(200, kind(), true)]).await;
    let (_proxy, client) = before(UNARY, &[&bad]).await;
    let reply = client.send(call("Query"), b"").await.expect("a reply");
    assert_eq!(code(&reply), "14");
}
