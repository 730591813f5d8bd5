//! Tests valid and invalid requests from clients, and the requests that replicas receive.

use crate::harness::{self, Backend, Client, HELLO, Proxy, say, service};

/// Sends bytes on a new connection. Returns the client and the first response.
async fn sent(proxy: &Proxy, bytes: &str) -> (Client, harness::Response) {
    let mut client = proxy.client().await;
    client.send(bytes).await;
    let response = client.response().await;
    (client, response)
}

#[tokio::test]
async fn each_service_has_its_own_body_limit() {
    let (small, large) = (Backend::responding(HELLO).await, Backend::responding(HELLO).await);
    let of = |name: &str, most: u32, backend: &Backend| {
        let lines = format!(
            "name = \"{name}\"\nmax_request_body = \"{most}B\"\nroute = {{ path_prefix = \"/{name}\" }}"
        );
        service(&lines, &[backend])
    };
    let services = of("small", 10, &small) + &of("large", 20, &large);
    let proxy = Proxy::start(&harness::config("", &services)).await;
    for (target, most) in [("/large", 20), ("/small", 10)] {
        let mut client = proxy.client().await;
        assert_eq!(client.post(target, &"x".repeat(most)).await.status, 200);
        let refused = client.post(target, &"x".repeat(most + 1)).await;
        assert_eq!((refused.status, refused.closes()), (413, true));
        assert!(refused.text().contains(&format!("{most} bytes")), "{}", refused.text());
        client.is_closed().await;
    }
    assert_eq!((small.seen().len(), large.seen().len()), (1, 1));
    assert_eq!(proxy.count("curtail_rejected_total", &[("reason", "body_too_large")]).await, 2);
}

#[tokio::test]
async fn a_request_with_a_bad_head_is_refused_before_its_body_is_read() {
    let (small, large) = (Backend::responding(HELLO).await, Backend::responding(HELLO).await);
    let lines = "name = \"small\"\nmax_request_body = \"10B\"\nroute = { path_prefix = \"/small\" }\n\
        shard_by = { header = \"s\" }";
    let services = service(lines, &[&small])
        + &service(
            "name = \"large\"\nmax_request_body = \"1GiB\"\nroute = { path_prefix = \"/large\" }",
            &[&large],
        );
    let proxy = Proxy::start(&harness::config("", &services)).await;
    // No body follows, so the proxy responds without waiting for one.
    let lengths =
        ["content-length: 1000000000\r\n", "expect: 100-continue\r\ncontent-length: 11\r\n"];
    for length in lengths {
        for (target, status) in
            [("/none", 404), ("/small", 400), ("/small\r\ns: 1", 404), ("/small\r\ns: 0", 413)]
        {
            let (target, field) = target.split_once("\r\n").unwrap_or((target, "a: b"));
            let head = format!("POST {target} HTTP/1.1\r\nhost: x\r\n{field}\r\n{length}\r\n");
            let (mut client, response) = sent(&proxy, &head).await;
            assert_eq!((response.status, response.closes()), (status, true), "{head}");
            client.is_closed().await;
        }
    }
    assert!(small.seen().is_empty() && large.seen().is_empty());
    // If a request has no body, the connection can be used for the next one.
    let mut client = proxy.client().await;
    assert_eq!(
        (client.get("/none").await.status, client.post("/none", "").await.status),
        (404, 404)
    );
    assert_eq!(client.post("/large", &"x".repeat(20)).await.status, 200);
}

#[tokio::test]
async fn a_chunked_body_reaches_the_replica_with_a_length() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let body = "3;x=y\r\nabc\r\n02\r\nde\r\n0\r\ntrailer: t\r\n\r\n";
    let head =
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\ntrailer: trailer\r\n\r\n";
    let (_client, response) = sent(&proxy, &format!("{head}{body}")).await;
    assert_eq!(response.status, 200);
    let seen = &backend.seen()[0];
    assert_eq!((seen.body.as_slice(), seen.header("content-length")), (&b"abcde"[..], vec!["5"]));
    assert!(seen.header("transfer-encoding").is_empty() && seen.header("trailer").is_empty());
}

#[tokio::test]
async fn http_1_0_clients_get_responses_in_their_version() {
    let text = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let backend =
        Backend::new(move |seen| vec![say(if seen.line().contains("/c") { text } else { HELLO })])
            .await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let (mut client, response) = sent(&proxy, "GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!((response.status, response.text(), response.closes()), (200, "hello".into(), true));
    client.is_closed().await;
    let seen = &backend.seen()[0];
    assert_eq!(seen.line(), "GET / HTTP/1.1");
    assert_eq!(seen.header("host"), [proxy.http.to_string()], "every request of ours has one");
    assert_eq!(seen.header("via"), ["1.0 curtail"]);

    // HTTP/1.0 has no chunks, so the body ends with the connection.
    let (_, response) = sent(&proxy, "GET /c HTTP/1.0\r\nconnection: keep-alive\r\n\r\n").await;
    assert_eq!((response.text(), response.whole, response.closes()), ("hello".into(), true, true));
    assert_eq!(response.header("transfer-encoding"), None);
}

#[tokio::test]
async fn head_gets_the_head_alone() {
    let length = "HTTP/1.1 200 OK\r\ncontent-length: 1234567\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let backend = Backend::new(move |seen| {
        vec![say(if seen.line().contains("/c") { chunked } else { length })]
    })
    .await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut client = proxy.client().await;
    for target in ["/", "/c", "/"] {
        client.send(format!("HEAD {target} HTTP/1.1\r\nhost: x\r\n\r\n")).await;
        let response = client.response_to_head().await;
        let expected = (target == "/").then_some("1234567");
        assert_eq!((response.status, response.header("content-length")), (200, expected));
    }
    assert!(backend.seen().iter().all(|seen| seen.connection == 0), "the connection is kept");
}

#[tokio::test]
async fn an_absolute_target_rules_the_host() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    for (target, path) in [("http://a.example:81/p?q", "/p?q"), ("http://a.example:81", "/")] {
        let (_, response) =
            sent(&proxy, &format!("GET {target} HTTP/1.1\r\nhost: evil\r\n\r\n")).await;
        assert_eq!(response.status, 200);
        let seen = backend.seen().pop().expect("a request");
        assert_eq!(seen.line(), format!("GET {path} HTTP/1.1"));
        assert_eq!(seen.header("host"), ["a.example:81"]);
    }
    let (_, response) = sent(&proxy, "OPTIONS * HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert_eq!(response.status, 200, "the service accepts all requests");
    assert_eq!(backend.seen().pop().expect("a request").line(), "OPTIONS * HTTP/1.1");
}

#[tokio::test]
async fn hop_by_hop_fields_are_not_relayed() {
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: x-mine\r\nx-mine: 1\r\n\
        keep-alive: timeout=5\r\nproxy-authenticate: p\r\nupgrade: h2c\r\nx-kept: 2\r\n\r\n";
    let backend = Backend::responding(text).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let (_, response) = sent(
        &proxy,
        "GET / HTTP/1.1\r\nHost: h:1\r\nConnection: X-One, keep-alive, host\r\nConnection: x-two\r\n\
         X-One: 1\r\nx-two: 2\r\nTE: trailers\r\nUpgrade: websocket\r\nKeep-Alive: 5\r\n\
         Proxy-Connection: close\r\nProxy-Authorization: secret\r\nTrailer: t\r\n\
         X-Forwarded-For: 1.2.3.4\r\nX-Forwarded-For: 5.6.7.8, 9.9.9.9\r\nVia: 1.0 other\r\n\
         X-Kept: yes\r\n\r\n",
    )
    .await;
    let seen = &backend.seen()[0];
    for name in ["connection", "x-one", "x-two", "te", "upgrade", "keep-alive", "proxy-connection"]
    {
        assert!(seen.header(name).is_empty(), "{name}: {}", seen.head);
    }
    for name in ["proxy-authorization", "trailer", "content-length", "transfer-encoding"] {
        assert!(seen.header(name).is_empty(), "{name}: {}", seen.head);
    }
    assert_eq!(seen.header("host"), ["h:1"]);
    assert_eq!(seen.header("x-kept"), ["yes"]);
    assert_eq!(seen.header("x-forwarded-for"), ["1.2.3.4, 5.6.7.8, 9.9.9.9, 127.0.0.1"]);
    assert_eq!(seen.header("via"), ["1.0 other", "1.1 curtail"]);
    for name in ["connection", "x-mine", "keep-alive", "proxy-authenticate", "upgrade"] {
        assert_eq!(response.header(name), None, "{}", response.head);
    }
    assert_eq!(
        (response.header("x-kept"), response.header("via")),
        (Some("2"), Some("1.1 curtail"))
    );
}

#[tokio::test]
async fn no_second_request_is_smuggled_to_a_replica() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let evil = "GET /evil HTTP/1.1\r\nhost: x\r\n\r\n";
    let post = "POST /good HTTP/1.1\r\nhost: x\r\n";
    let length = format!("content-length: {}\r\n", evil.len());
    for refused in [
        format!("{post}{length}transfer-encoding: chunked\r\n\r\n0\r\n\r\n{evil}"),
        format!("{post}transfer-encoding: chunked\r\n\r\n1\r\nA{evil}"),
    ] {
        let (mut client, response) = sent(&proxy, &refused).await;
        assert_eq!(response.status, 400, "{refused:?}");
        client.is_closed().await;
    }
    assert!(backend.seen().is_empty(), "{:?}", backend.seen());
    // A body that looks like a request is still treated as a body.
    assert_eq!(proxy.client().await.post("/good", evil).await.status, 200);
    let seen = backend.seen();
    assert_eq!((seen.len(), seen[0].body.as_slice()), (1, evil.as_bytes()));
}

/// The header names the client, so the address of the load balancer is not in `X-Forwarded-For`.
#[tokio::test]
async fn a_proxy_header_names_the_client() {
    let backend = Backend::new(|_| vec![say(HELLO)]).await;
    let proxy = Proxy::listening("proxy_protocol = true", "", &[&backend]).await;
    let header = curtail_net::proxy_protocol::Header::Ip {
        source: "192.0.2.7:4711".parse().unwrap(),
        destination: "192.0.2.8:80".parse().unwrap(),
    };
    let mut client = proxy.client().await;
    client.send(header.to_bytes()).await;
    assert_eq!(client.get("/").await.status, 200);
    assert_eq!(backend.seen()[0].header("x-forwarded-for"), ["192.0.2.7"]);
    // A connection without the header is not a request.
    let mut client = proxy.client().await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let (rest, _) = client.rest().await;
    assert_eq!(rest, "");
    assert_eq!(backend.seen().len(), 1);
}

#[tokio::test]
async fn every_request_has_one_valid_id() {
    let backend = Backend::responding(HELLO).await;
    let proxy = Proxy::listening("request_id = true", "", &[&backend]).await;
    let longest = "x".repeat(128);
    let mut client = proxy.client().await;
    let mut new = Vec::new();
    for (fields, kept) in [
        ("x-request-id: 4bf92f35-77b3.4d_a6~/+==:1\r\n", Some("4bf92f35-77b3.4d_a6~/+==:1")),
        (&*format!("X-Request-ID: {longest}\r\n"), Some(&*longest)),
        (&format!("x-request-id: {longest}y\r\n"), None),
        ("x-request-id: a\r\nx-request-id: a\r\n", None),
        ("x-request-id: a, b\r\n", None),
        ("x-request-id: a\"b\r\n", None),
        ("x-request-id:\r\n", None),
        ("", None),
        ("", None),
    ] {
        client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n")).await;
        assert_eq!(client.response().await.header("x-request-id"), None);
        let seen = backend.seen().pop().expect("a request");
        let ids = seen.header("x-request-id");
        let [id] = *ids else { panic!("{ids:?} for {fields:?}") };
        match kept {
            Some(kept) => assert_eq!(id, kept),
            None => {
                assert!(id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
                new.push(id.to_owned());
            }
        }
    }
    new.sort_unstable();
    new.dedup();
    assert_eq!(new.len(), 7, "they are random");
    // Without the option, the field is relayed like any other.
    let proxy = Proxy::serving("", &[&backend]).await;
    let (_, response) =
        sent(&proxy, "GET / HTTP/1.1\r\nhost: x\r\nx-request-id: a, b\r\n\r\n").await;
    assert_eq!(response.status, 200);
    assert_eq!(backend.seen().pop().expect("a request").header("x-request-id"), ["a, b"]);
}

#[tokio::test]
async fn the_normalized_path_decides_the_route_and_is_relayed() {
    let (public, admin) = (Backend::responding(HELLO).await, Backend::responding(HELLO).await);
    let of = |name: &str, backend: &Backend| {
        let lines = format!("name = \"{name}\"\nroute = {{ path_prefix = \"/{name}\" }}");
        service(&lines, &[backend])
    };
    let services = of("public", &public) + &of("admin", &admin);
    let crossing = "/public/%2e%2E/admin/./a?b=/../c";
    let proxy = Proxy::start(&harness::config("", &services)).await;
    assert_eq!(proxy.get(crossing).await.status, 200);
    assert_eq!(public.seen()[0].line(), format!("GET {crossing} HTTP/1.1"));

    let proxy = Proxy::start(&harness::config("normalize_path = true", &services)).await;
    for target in [crossing, &format!("http://x{crossing}")] {
        assert_eq!(proxy.get(target).await.status, 200);
        let seen = admin.seen().pop().expect("a request");
        assert_eq!(seen.line(), "GET /admin/a?b=/../c HTTP/1.1", "{target}");
    }
    let refused = proxy.get("/public/../../admin").await;
    assert_eq!((refused.status, &*refused.text()), (400, "the path climbs above the root\n"));
    assert_eq!(proxy.count("curtail_rejected_total", &[("reason", "malformed")]).await, 1);
    assert_eq!((public.seen().len(), admin.seen().len()), (1, 2));
}
