//! Tests the streams of HTTP/2: how many there are, how they end, and how connections end.

use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use tokio::task::JoinSet;

use crate::harness::http2::{
    Act, Backend2, END_HEADERS, END_STREAM, Fate, GET, HEADERS, Http2Client, RawClient, SLOTS,
    Seen2, frame, hpack, request, whole,
};
use crate::harness::{Backend, Client, HELLO, Proxy, eventually};

#[tokio::test]
async fn many_streams_share_one_connection() {
    let backend = Backend2::new(|seen| {
        let mut steps = vec![Act::Gate];
        steps.extend(whole(&seen.path().repeat(1000)));
        steps
    })
    .await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    let mut tasks = JoinSet::new();
    for at in 0..80 {
        let client = Arc::clone(&client);
        tasks.spawn(async move { (at, client.get(&format!("/{at}")).await) });
    }
    backend.has_seen(80).await;
    proxy.load(80, 0, 80).await;
    assert_eq!(backend.connections(), 1);
    backend.open(80);
    while let Some(done) = tasks.join_next().await {
        let (at, reply) = done.expect("no panic");
        assert_eq!((reply.status, reply.text()), (200, format!("/{at}").repeat(1000)));
    }
    proxy.idle().await;
}

#[tokio::test]
async fn a_server_that_permits_few_streams_gets_more_connections() {
    let backend = Backend2::limited(3, |_| [vec![Act::Gate], whole("hello")].concat()).await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    backend.open(1);
    // The proxy has received the limit before it has a response.
    assert_eq!(client.get("/").await.text(), "hello");
    let mut tasks = JoinSet::new();
    for _ in 0..9 {
        let client = Arc::clone(&client);
        tasks.spawn(async move { client.get("/").await });
    }
    backend.has_seen(10).await;
    assert!((3..=9).contains(&backend.connections()), "{}", backend.connections());
    backend.open(9);
    while let Some(done) = tasks.join_next().await {
        assert_eq!(done.expect("no panic").text(), "hello");
    }
}

#[tokio::test]
async fn a_client_that_resets_a_stream_abandons_this_request_only() {
    let script = |seen: &Seen2| match seen.path() {
        "/head" => vec![Act::Hang],
        "/body" => {
            vec![Act::Head(200, vec![], false), Act::Data(b"begun".into(), false), Act::Hang]
        }
        _ => [vec![Act::Gate], whole("hello")].concat(),
    };
    let backend = Backend2::new(script).await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let client = Arc::new(Http2Client::connect(proxy.http).await);
    let head = client.start(request("GET", "/head"), true).await;
    let body = client.start(request("GET", "/body"), true).await;
    let other = {
        let client = Arc::clone(&client);
        tokio::spawn(async move { client.get("/other").await })
    };
    backend.has_seen(3).await;
    // A response that is being relayed is no longer a live query, but holds its slot.
    proxy.load(2, 0, 3).await;
    head.reset(Reason::CANCEL);
    proxy.load(1, 0, 2).await;
    let cancelled = |path: &str| (path.to_owned(), Some(Reason::CANCEL));
    eventually("a reset", async || backend.resets() == [cancelled("/head")]).await;
    body.reset(Reason::CANCEL);
    proxy.load(1, 0, 1).await;
    let both = [cancelled("/head"), cancelled("/body")];
    eventually("both resets", async || backend.resets() == both).await;
    backend.open(1);
    assert_eq!(other.await.expect("no panic").text(), "hello");
    assert_eq!((backend.connections(), backend.closed()), (1, 0));
    proxy.idle().await;
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "abandoned")]).await, 2);
    // The slots are free.
    backend.open(1);
    assert_eq!(client.get("/").await.text(), "hello");
}

#[tokio::test]
async fn a_reset_stream_resets_the_connection_to_a_server_of_http1() {
    let backend = Backend::silent().await;
    let proxy = Proxy::serving("cancel = \"reset\"", &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    for closed in 1..4 {
        let stream = client.start(request("GET", "/"), true).await;
        backend.has_seen(closed).await;
        proxy.load(1, 0, 1).await;
        stream.reset(Reason::CANCEL);
        proxy.load(0, 0, 0).await;
        eventually("the end", async || backend.closed() == closed).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_abandons_all_its_streams() {
    let backend = Backend2::new(|_| vec![Act::Hang]).await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.start(request("GET", "/"), true).await);
    }
    proxy.load(20, 0, 20).await;
    drop(client);
    proxy.load(0, 0, 0).await;
    eventually("the resets", async || backend.resets().len() == 20).await;
    assert!(backend.resets().iter().all(|(_, reason)| *reason == Some(Reason::CANCEL)));
    proxy.disconnected().await;
    assert_eq!(backend.closed(), 0, "the connection to the server remains");
}

#[tokio::test]
async fn a_stream_that_is_not_read_stops_no_other_stream() {
    let large = "x".repeat(60_000);
    let backend = Backend2::new(move |seen| match seen.path() {
        "/whole" => whole(&large),
        "/pieces" => vec![Act::Head(200, vec![], false), Act::Data(large.clone().into(), true)],
        _ => whole("hello"),
    })
    .await;
    // One slot: a stream that held it would stop all others.
    let proxy = Proxy::serving("protocol = \"h2\"\ncancel = \"reset\"", &[&backend]).await;
    let client = Http2Client::with_window(proxy.http, 10).await;
    let mut unread = Vec::new();
    for path in ["/whole", "/pieces", "/whole", "/pieces"] {
        let mut stream = client.start(request("GET", path), true).await;
        let response = (&mut stream.response).await.expect("a head");
        assert_eq!(response.status(), 200);
        unread.push((stream, response));
    }
    for _ in 0..10 {
        assert_eq!(client.get("/").await.text(), "hello");
    }
    // The slot of each response that fits the buffers is free, although the client has not read it.
    eventually("free slots", async || {
        proxy.status().await["services"][0]["shards"][0]["servers"][0]["busy"] == 0
    })
    .await;
    for (_, response) in &mut unread {
        let mut body = 0;
        while let Some(piece) = response.body_mut().data().await {
            let piece = piece.expect("a whole body");
            body += piece.len();
            let flow = response.body_mut().flow_control();
            flow.release_capacity(piece.len()).expect("it was received");
        }
        assert_eq!(body, 60_000);
    }
    proxy.idle().await;
}

#[tokio::test]
async fn streams_that_are_reset_at_once_are_bounded_and_others_are_served() {
    let backend = Backend2::new(|seen| match seen.path() {
        "/reset" => vec![Act::Hang],
        _ => whole("hello"),
    })
    .await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let good = Http2Client::connect(proxy.http).await;
    let mut fields = GET;
    fields[3].1 = b"/reset";
    // All frames at once: the streams are reset before they are accepted.
    let mut client = RawClient::connect(proxy.http).await;
    let mut bytes = Vec::new();
    for at in 0..1_000 {
        let stream = 2 * at + 1;
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &hpack(&fields)));
        bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    client.send(&bytes).await;
    for _ in 0..20 {
        assert_eq!(good.get("/").await.text(), "hello");
    }
    assert_eq!(client.fate(u32::MAX).await, Fate::Ended, "the client is disconnected");
    proxy.load(0, 0, 0).await;

    // One after the other: each is abandoned.
    let client = Http2Client::connect(proxy.http).await;
    for _ in 0..300 {
        let Ok(stream) = client.try_start(request("GET", "/reset"), true).await else { break };
        tokio::task::yield_now().await;
        stream.reset(Reason::CANCEL);
    }
    assert_eq!(good.get("/").await.text(), "hello");
    proxy.load(0, 0, 0).await;
}

#[tokio::test]
async fn a_list_of_fields_over_the_limit_is_refused() {
    let backend = Backend::responding(HELLO).await;
    let proxy =
        Proxy::listening("max_header_bytes = \"1KiB\"\nmax_headers = 20", "", &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let long = |fields: usize, length: usize| {
        let mut request = request("GET", "/");
        for at in 0..fields {
            let name: http::HeaderName = format!("x-{at}").parse().expect("a name");
            request.headers_mut().append(name, "y".repeat(length).parse().expect("a value"));
        }
        request
    };
    for (fields, length) in [(1, 1_100), (1, 3_000), (21, 1), (100, 1)] {
        let refused = client.send(long(fields, length), b"").await;
        match &refused {
            Ok(reply) => assert_eq!(reply.status, 431, "{fields} of {length}"),
            Err(error) => assert!(error.is_reset(), "{fields} of {length}: {error}"),
        }
    }
    let refused = Http2Client::connect(proxy.http).await.send(long(1, 100_000), b"").await;
    let error = refused.expect_err("a list that is much too long ends the connection");
    assert_eq!(error.reason(), Some(Reason::ENHANCE_YOUR_CALM));
    assert_eq!(backend.seen().len(), 0);
    let reply = client.send(long(5, 50), b"").await.expect("a reply");
    assert_eq!(reply.text(), "hello");
}

#[tokio::test]
async fn draining_finishes_running_streams_and_refuses_new_ones() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let mut proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let mut client = Http2Client::connect(proxy.http).await;
    let mut idle = Http2Client::connect(proxy.http).await;
    backend.open(1);
    assert_eq!(idle.get("/").await.text(), "hello");
    let mut running = Vec::new();
    for _ in 0..3 {
        running.push(client.start(request("GET", "/"), true).await);
    }
    backend.has_seen(4).await;
    proxy.drain();
    idle.ended().await.expect("a clean end");
    // Once GOAWAY has arrived, the client sends nothing more.
    eventually("GOAWAY", async || client.try_start(request("GET", "/late"), true).await.is_err())
        .await;
    backend.open(99);
    for stream in running {
        assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    }
    client.ended().await.expect("a clean end");
    assert_eq!(proxy.ended().await, 0, "no response was cut off");
}

#[tokio::test]
async fn a_connection_that_is_idle_is_closed() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let listen = "idle_timeout = \"150ms\"\nheader_timeout = \"1s\"";
    let proxy = Proxy::listening(listen, SLOTS, &[&backend]).await;
    let mut client = Http2Client::connect(proxy.http).await;
    let stream = client.start(request("GET", "/"), true).await;
    backend.has_seen(1).await;
    // A running request is not idleness, even if it lasts longer.
    tokio::time::sleep(std::time::Duration::from_millis(400)).await; // tidy: real time
    backend.open(1);
    assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    client.ended().await.expect("a clean end");
    // A client that answers nothing is disconnected, too.
    let mut silent = RawClient::connect(proxy.http).await;
    assert_eq!(silent.fate(1).await, Fate::Ended);
    proxy.disconnected().await;
}

#[tokio::test]
async fn a_body_that_stalls_gets_408() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::listening("body_timeout = \"100ms\"", "", &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut stream = client.start(request("POST", "/"), false).await;
    stream.sending.send_data(Bytes::from_static(b"begun"), false).expect("it can be sent");
    assert_eq!(stream.reply().await.expect("a reply").status, 408);
    assert_eq!(client.get("/").await.text(), "hello");
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn on_a_route_with_first_chunk_a_head_alone_does_not_win() {
    let lines = |route: &str| {
        format!(
            "protocol = \"h2\"\npolicy = \"delayed:20ms:cc+round-robin\"\nhedge_budget = 1.0\n\
             cancel = \"reset\"\nroute = {{ idempotent = true, {route} }}"
        )
    };
    for (route, wins) in [("first_chunk = true", true), ("unary = true", true), ("", false)] {
        let stuck = Backend2::new(|_| vec![Act::Head(200, vec![], false), Act::Hang]).await;
        let good = Backend2::new(|_| whole("hello")).await;
        let proxy = Proxy::serving(&lines(route), &[&stuck, &good]).await;
        let client = Http2Client::connect(proxy.http).await;
        // The pick alternates, so one of the two begins at the replica that is stuck.
        let mut streams = Vec::new();
        for _ in 0..2 {
            streams.push(client.start(request("GET", "/"), true).await);
        }
        stuck.has_seen(1).await;
        if wins {
            for stream in streams {
                assert_eq!(stream.reply().await.expect("a reply").text(), "hello", "{route}");
            }
            eventually("a reset", async || stuck.resets().len() == 1).await;
            proxy.idle().await;
        } else {
            for stream in streams {
                assert_eq!(stream.response.await.expect("a head").status(), 200);
            }
            assert!(stuck.resets().is_empty() && good.seen().len() == 1);
        }
    }
}

#[tokio::test]
async fn clients_that_do_not_read_leave_the_connection_to_the_others() {
    let backend = Backend2::new(|seen| match seen.path() {
        // More than the buffers of the system hold.
        "/big" => whole(&"x".repeat(6 << 20)),
        _ => whole("hello"),
    })
    .await;
    let proxy = Proxy::serving(SLOTS, &[&backend]).await;
    let mut deaf = Vec::new();
    for _ in 0..24 {
        let mut client = Client::narrow(proxy.http).await;
        client.ask("/big").await;
        deaf.push(client);
    }
    backend.has_seen(24).await;
    // The replica fills the windows meanwhile.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await; // tidy: real time
    for _ in 0..3 {
        assert_eq!(proxy.client().await.get("/small").await.text(), "hello");
    }
}

#[tokio::test]
async fn uploads_that_wait_for_a_slot_leave_the_connection_to_the_others() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let proxy = Proxy::serving("protocol = \"h2\"\nslots = 1", &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut streams = vec![client.start(request("GET", "/"), true).await];
    backend.has_seen(1).await;
    for _ in 0..20 {
        let mut upload = client.start(request("POST", "/"), false).await;
        upload.sending.send_data(Bytes::from(vec![0; 64 << 10]), true).expect("sent");
        streams.push(upload);
    }
    proxy.load(21, 20, 1).await;
    // A short body of known length is read before it waits.
    let mut short = request("POST", "/");
    short.headers_mut().insert("content-length", 5.into());
    let mut short = client.start(short, false).await;
    short.sending.send_data(Bytes::from_static(b"short"), true).expect("sent");
    streams.push(short);
    proxy.load(22, 21, 1).await;
    backend.open(22);
    for stream in streams {
        assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    }
}

#[tokio::test]
async fn a_declared_length_over_the_limit_is_refused_whatever_the_versions() {
    let backend = Backend2::responding("hello").await;
    let lines = format!("{SLOTS}\nmax_request_body = \"100KB\"");
    let proxy = Proxy::serving(&lines, &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let mut long = request("POST", "/");
    long.headers_mut().insert("content-length", 100_001.into());
    let refused = client.start(long, false).await;
    assert_eq!(refused.reply().await.expect("a reply").status, 413);
    assert!(backend.seen().is_empty());
}

/// The crate `h2` bounds the overhead of small frames per connection, and ends a connection that
/// exceeds the bound.
#[tokio::test]
async fn an_upload_in_small_frames_that_waits_for_a_slot_keeps_its_connection() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let proxy =
        Proxy::serving("protocol = \"h2\"\nslots = 1\nreplay_bytes = \"0B\"", &[&backend]).await;
    let client = Http2Client::connect(proxy.http).await;
    let first = client.start(request("GET", "/first"), true).await;
    backend.has_seen(1).await;
    let mut upload = client.start(request("POST", "/upload"), false).await;
    for _ in 0..3_000 {
        upload.sending.send_data(Bytes::from_static(&[0; 20]), false).expect("sent");
    }
    upload.sending.send_data(Bytes::new(), true).expect("sent");
    proxy.load(2, 1, 1).await;
    // The frames arrive meanwhile.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await; // tidy: real time
    backend.open(2);
    for stream in [first, upload] {
        assert_eq!(stream.reply().await.expect("a reply").text(), "hello");
    }
    assert_eq!(backend.seen()[1].body.len(), 60_000);
}

#[tokio::test]
async fn clients_that_do_not_read_small_frames_leave_the_connection_to_the_others() {
    let backend = Backend2::new(|seen| match seen.path() {
        // More than all buffers hold.
        "/deaf" => {
            let frames = vec![Act::Data(vec![0; 8], false); 1 << 16];
            [vec![Act::Head(200, vec![], false)], frames, vec![Act::Hang]].concat()
        }
        _ => whole("hello"),
    })
    .await;
    let lines = format!("{SLOTS}\nresponse_buffer = \"0B\"");
    let proxy = Proxy::serving(&lines, &[&backend]).await;
    let client = Http2Client::with_window(proxy.http, 1).await;
    let mut deaf = Vec::new();
    for _ in 0..8 {
        deaf.push(client.start(request("GET", "/deaf"), true).await);
    }
    backend.has_seen(8).await;
    // The replica fills the windows meanwhile.
    tokio::time::sleep(std::time::Duration::from_millis(700)).await; // tidy: real time
    assert_eq!(proxy.client().await.get("/small").await.text(), "hello");
    assert!(backend.resets().is_empty() && backend.connections() == 1);
}
