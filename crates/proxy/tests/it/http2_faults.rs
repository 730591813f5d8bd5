//! Tests replicas of HTTP/2 that go away, refuse, break off, or send what is not valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use h2::Reason;

use crate::harness::http2::{
    Act, Backend2, DATA, END_HEADERS, END_STREAM, H2, HEADERS, Http2Client, frame, goaway, hpack,
    raw_backend, request, values, whole,
};
use crate::harness::{Backend, HELLO, Proxy, Step, eventually, say, within};

#[tokio::test]
async fn a_server_that_goes_away_before_a_request_gets_it_on_a_new_connection() {
    for method in ["GET", "POST"] {
        let posts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&posts);
        // The first connection serves one request and accepts no further one.
        let ok = |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &[0x88]);
        let replica = raw_backend(move |connection, received| {
            Some(match (received.kind, connection, received.stream) {
                (HEADERS, 0, 1) => ok(1),
                (HEADERS, 0, _) => goaway(1),
                (HEADERS, ..) => {
                    counted.fetch_add(1, Ordering::SeqCst);
                    ok(received.stream)
                }
                _ => vec![],
            })
        })
        .await;
        let proxy = Proxy::serving(H2, &[&replica]).await;
        let client = Http2Client::connect(proxy.http).await;
        let body = if method == "POST" { &b"hello"[..] } else { b"" };
        for _ in 0..3 {
            let reply = client.send(request(method, "/"), body).await.expect("a reply");
            assert_eq!((reply.status, reply.text()), (200, String::new()), "{method}");
        }
        assert_eq!(posts.load(Ordering::SeqCst), 2, "{method}");
        proxy.up(1).await;
    }
}

#[tokio::test]
async fn a_server_that_went_away_while_idle_gets_a_new_connection() {
    let backend = Backend2::new(|seen| match seen.connection {
        0 => [whole("hello"), vec![Act::Close]].concat(),
        _ => whole("again"),
    })
    .await;
    let proxy = Proxy::serving(H2, &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    assert_eq!(client.post("/", b"x").await.text(), "hello");
    eventually("the end", async || backend.closed() == 1).await;
    // The end of the connection may arrive later than the request, so a GET comes first.
    assert_eq!(client.get("/").await.text(), "again");
    assert_eq!(client.post("/", b"x").await.text(), "again");
    assert_eq!(backend.connections(), 2);
}

#[tokio::test]
async fn a_refused_stream_is_sent_again() {
    for method in ["GET", "POST"] {
        let seen = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&seen);
        let backend = Backend2::new(move |_| match counted.fetch_add(1, Ordering::SeqCst) {
            1 => vec![Act::Reset(Reason::REFUSED_STREAM)],
            _ => whole("hello"),
        })
        .await;
        let proxy = Proxy::serving(H2, &[&backend]).await;
        let client = Http2Client::connect(proxy.http).await;
        for _ in 0..2 {
            let reply = client.send(request(method, "/"), b"").await.expect("a reply");
            assert_eq!((reply.status, reply.text()), (200, "hello".into()), "{method}");
        }
        assert_eq!(seen.load(Ordering::SeqCst), 3, "{method}");
        proxy.up(1).await;
    }
}

#[tokio::test]
async fn a_reset_before_the_response_is_not_repeated_for_a_post() {
    for reason in [Reason::INTERNAL_ERROR, Reason::CANCEL, Reason::PROTOCOL_ERROR] {
        let backend = Backend2::new(move |_| vec![Act::Reset(reason)]).await;
        let proxy = Proxy::serving(H2, &[&backend]).await;
        let client = Http2Client::connect(proxy.http).await;
        let reply = client.post("/", b"x").await;
        assert_eq!(reply.status, 502, "{reason:?}: {}", reply.text());
        assert_eq!(backend.seen().len(), 1, "{reason:?}");
        proxy.idle().await;
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_never_ends_cleanly() {
    let long = || vec![("content-length", "1000000".to_owned())];
    for end in [
        vec![Act::Reset(Reason::INTERNAL_ERROR)],
        vec![Act::Reset(Reason::NO_ERROR)],
        vec![Act::Reset(Reason::CANCEL)],
        vec![Act::Close],
        vec![Act::Data(b"end".into(), true)],
    ] {
        for (fields, length_is_wrong) in [(vec![], false), (long(), true)] {
            if !length_is_wrong && matches!(end[..], [Act::Data(..)]) {
                continue;
            }
            let begun = vec![Act::Head(200, fields, false), Act::Data(b"hello".into(), false)];
            // The client has the beginning before the end comes.
            let steps = [begun, vec![Act::Gate], end.clone()].concat();
            let case = format!("{steps:?}");
            let backend = Backend2::new(move |_| steps.clone()).await;
            let proxy = Proxy::serving(H2, &[&backend]).await;
            let client = Http2Client::connect(proxy.http).await;
            let mut stream = client.start(request("GET", "/"), true).await;
            let mut response = (&mut stream.response).await.expect("a head");
            assert_eq!(response.status(), 200);
            assert_eq!(response.body_mut().data().await.expect("data").expect("data"), "hello");
            backend.open(1);
            loop {
                match response.body_mut().data().await {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        assert!(error.is_reset() && error.is_remote(), "{case}: {error}");
                        break;
                    }
                    None => panic!("{case}: a clean end"),
                }
            }
            // HTTP/1.1 clients see it, too.
            let mut client = proxy.client().await;
            client.ask("/").await;
            client.receives("hello").await;
            backend.open(1);
            let response = client.response().await;
            assert!(response.status == 200 && !response.whole, "{case}: {response:?}");
            proxy.idle().await;
            assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "cut")]).await, 2);
        }
    }
}

#[tokio::test]
async fn a_server_that_dies_between_head_and_data_is_replaced() {
    let head = |fields| Act::Head(200, fields, false);
    let short = vec![head(vec![("content-length", "5".to_owned())]), Act::Close];
    // A short response is read before it wins, so another replica can still respond.
    let (dying, good) =
        (Backend2::new(move |_| short.clone()).await, Backend2::responding("hello").await);
    let lines = "protocol = \"h2\"\npolicy = \"round-robin\"\nretry_budget = 1.0";
    let proxy = Proxy::serving(lines, &[&dying, &good]).await;
    let client = Http2Client::connect(proxy.http).await;
    for _ in 0..4 {
        assert_eq!(client.get("/").await.text(), "hello");
    }
    assert!(!dying.seen().is_empty());
    // A POST is sent once.
    let alone = Proxy::serving(H2, &[&dying]).await;
    let before = dying.seen().len();
    let reply = Http2Client::connect(alone.http).await.post("/", b"x").await;
    assert_eq!((reply.status, dying.seen().len()), (502, before + 1), "{}", reply.text());
}

#[tokio::test]
async fn a_head_over_the_limit_is_not_retried_and_ejects_nothing() {
    for length in [600, 3_000, 40_000] {
        let fields = vec![("x-long", "y".repeat(length)), ("content-length", "0".to_owned())];
        let backend = Backend2::new(move |_| vec![Act::Head(200, fields.clone(), true)]).await;
        let lines = "protocol = \"h2\"\nmax_response_header_bytes = \"512B\"";
        let proxy = Proxy::serving(lines, &[&backend]).await;
        let client = Http2Client::connect(proxy.http).await;
        for requests in 1..=10 {
            let reply = client.get("/").await;
            assert_eq!(reply.status, 502, "{length}");
            assert!(reply.text().contains("limit of the proxy"), "{length}: {}", reply.text());
            assert_eq!(backend.seen().len(), requests, "{length}: not sent again");
        }
        let cause = [("cause", "head_too_large")];
        assert!(proxy.count("curtail_copy_failures_total", &cause).await >= 10, "{length}");
        assert!(proxy.count("curtail_ejections_total", &[]).await == 0, "{length}");
    }
}

#[tokio::test]
async fn interim_responses_are_skipped() {
    let backend = Backend2::new(|_| {
        let interim = |status| Act::Head(status, vec![("link", "</a>".into())], false);
        [vec![interim(103), interim(103), interim(102)], whole("hello")].concat()
    })
    .await;
    let proxy = Proxy::serving(H2, &[&backend]).await;
    let reply = Http2Client::connect(proxy.http).await.get("/").await;
    assert_eq!((reply.status, reply.text()), (200, "hello".into()));
    assert_eq!(values(&reply.fields, "link"), [""; 0]);
    assert_eq!(proxy.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_server_of_http1_in_place_of_http2_gets_502() {
    let backend =
        Backend::new(|_| vec![say("HTTP/1.1 400 Bad Request\r\n\r\n"), Step::Close]).await;
    let proxy = Proxy::serving(H2, &[&backend]).await;
    let reply = Http2Client::connect(proxy.http).await.post("/", b"x").await;
    assert_eq!(reply.status, 502, "{}", reply.text());
    proxy.idle().await;
}

#[tokio::test]
async fn the_same_targets_and_hosts_pass_in_both_versions() {
    let (old, new) = (Backend::responding(HELLO).await, Backend2::responding("hello").await);
    let proxies = [Proxy::serving("", &[&old]).await, Proxy::serving(H2, &[&new]).await];
    let bytes = (b'!'..=b'~').map(|byte| format!("/a{}b", char::from(byte)));
    let targets = bytes.map(|target| (target, "x"));
    let hosts = ["x:80", "[::1]:80", "a_b", "127.1", "-"];
    for (target, host) in targets.chain(hosts.map(|host| ("/".to_owned(), host))) {
        let mut statuses = Vec::new();
        for proxy in &proxies {
            let mut client = proxy.client().await;
            client.send(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n\r\n")).await;
            statuses.push(client.response().await.status);
        }
        assert_eq!(statuses[0], statuses[1], "{target} {host}");
        if statuses[0] == 200 {
            let one = old.seen().pop().expect("a request");
            let two = new.seen().pop().expect("a request");
            // Some bytes are percent-encoded on the way.
            let path = percent_encoding::percent_decode_str(two.path()).decode_utf8_lossy();
            assert_eq!(one.line(), format!("GET {path} HTTP/1.1"));
            assert_eq!(one.header("host"), [two.authority()]);
        }
    }
}

#[tokio::test]
async fn a_client_that_waits_for_100_may_send_its_body() {
    let backend = Backend2::responding("hello").await;
    let proxy = Proxy::serving(H2, &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut expecting = request("POST", "/");
    expecting.headers_mut().append("expect", "100-continue".parse().expect("a value"));
    let mut stream = client.start(expecting, false).await;
    let response = &mut stream.response;
    let interim =
        within("100", std::future::poll_fn(|context| response.poll_informational(context)));
    assert_eq!(interim.await.expect("a response").expect("no error").status(), 100);
    stream.sending.send_data(Bytes::from_static(b"body"), true).expect("it can be sent");
    assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    let seen = backend.seen().remove(0);
    assert_eq!((&*seen.body, seen.header("expect").len()), (&b"body"[..], 0));
}

#[tokio::test]
async fn responses_that_are_not_valid_reach_no_client() {
    const STATUS: (&str, &[u8]) = (":status", b"200");
    for (fields, ends) in [
        (vec![(":status", &b"101"[..])], true),
        (vec![(":status", b"100")], true),
        (vec![(":status", b"101")], false),
        (vec![(":status", b"abc")], true),
        (vec![(":status", b"999")], true),
        (vec![(":status", b"")], true),
        (vec![("x-a", b"1")], true),
        (vec![STATUS, STATUS], true),
        (vec![STATUS, ("connection", b"close")], true),
        (vec![STATUS, ("transfer-encoding", b"chunked")], true),
        (vec![STATUS, ("upgrade", b"x")], true),
        (vec![STATUS, ("X-Upper", b"1")], true),
        (vec![STATUS, ("x-line", b"1\r\nx-more: 2")], true),
        (vec![STATUS, ("x bad", b"1")], true),
        (vec![STATUS, ("content-length", b"5")], true),
        (vec![STATUS, ("content-length", b"-5")], true),
        (vec![STATUS, ("content-length", b"5"), ("content-length", b"6")], false),
    ] {
        let case = format!("{fields:?}");
        let block = hpack(&fields);
        let flags = if ends { END_HEADERS | END_STREAM } else { END_HEADERS };
        let replica = raw_backend(move |_, received| {
            Some(match received.kind {
                HEADERS if ends => frame(HEADERS, flags, received.stream, &block),
                HEADERS => {
                    let body = frame(DATA, END_STREAM, received.stream, b"hello");
                    [frame(HEADERS, flags, received.stream, &block), body].concat()
                }
                _ => vec![],
            })
        })
        .await;
        let proxy = Proxy::serving(H2, &[&replica]).await;
        let response = proxy.client().await.post("/", "x").await;
        assert_eq!(response.status, 502, "{case}: {}", response.text());
        proxy.idle().await;
    }
}

#[tokio::test]
async fn a_server_that_goes_away_finishes_what_it_has_begun() {
    let replica = raw_backend(|connection, received| {
        Some(match (received.kind, connection) {
            (HEADERS, 0) => {
                let head = frame(HEADERS, END_HEADERS, received.stream, &[0x88]);
                let body = frame(DATA, END_STREAM, received.stream, b"first");
                [goaway(received.stream), head, body].concat()
            }
            (HEADERS, _) => frame(HEADERS, END_HEADERS | END_STREAM, received.stream, &[0x88]),
            _ => vec![],
        })
    })
    .await;
    let proxy = Proxy::serving(H2, &[&replica]).await;
    let mut client = proxy.client().await;
    assert_eq!(client.get("/").await.text(), "first");
    for _ in 0..3 {
        let response = client.post("/", "x").await;
        assert_eq!((response.status, response.text()), (200, String::new()));
    }
}

#[tokio::test]
async fn a_server_that_accepts_no_stream_at_all_is_replaced_also_for_a_post() {
    let bad = raw_backend(|_, received| match received.kind {
        HEADERS => Some(goaway(0)),
        _ => Some(vec![]),
    })
    .await;
    let good = Backend2::responding("hello").await;
    let lines = "protocol = \"h2\"\npolicy = \"round-robin\"\nretry_budget = 1.0";
    let proxy = Proxy::serving(lines, &[&bad, &good]).await;
    let client = Http2Client::connect(proxy.http).await;
    for requests in 1..5 {
        assert_eq!(client.post("/", b"x").await.text(), "hello");
        assert_eq!(good.seen().len(), requests);
    }
}

#[tokio::test]
async fn health_checks_and_load_probes_use_the_protocol_of_the_service() {
    let backend = Backend2::new(|seen| match seen.path() {
        "/health" => vec![Act::Head(503, vec![], true)],
        _ => whole("hello"),
    })
    .await;
    for (path, up) in [("/health", 0), ("/", 1)] {
        let health = format!("health = {{ path = \"{path}\", interval = \"20ms\" }}");
        let proxy = Proxy::serving(&format!("{H2}\n{health}"), &[&backend]).await;
        eventually("a check", async || backend.seen().iter().any(|seen| seen.path() == path)).await;
        proxy.up(up).await;
    }
}
