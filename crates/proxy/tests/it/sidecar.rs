//! Tests which requests the sidecar admits, which metadata it adds to requests and calls, and what
//! it learns from responses.

use std::net::SocketAddr;

use curtail_flow::metadata::{CallMeta, MemberKey, WorkflowName, parse_rate};
use curtail_http::h1::server::Connection;
use curtail_http::h1::{Limits, RequestHead, Timeouts};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::harness::http2::{Backend2, Http2Client, request, values};
use crate::harness::{
    Backend, Client, HELLO, Proxy, Replica, Response, config, eventually, service,
};

const INGRESS: &str = "name = \"app\"\nflow = \"ingress\"";
const TENANTS: &str = "workflow_by = { header = \"x-tenant\" }\n\
    [[flow.workflow]]\nname = \"a\"\n[[flow.workflow]]\nname = \"b\"\n";
/// Metadata of another process, whose demand is 100 requests per second.
const CALL: &str = "baggage: curtail=1:a:0:0:0:0:beef:186a0\r\n";

/// Starts a sidecar for a process of the service `front`, whose application listens at `app`.
async fn sidecar(flow: &str, lines: &str, app: &dyn Replica, more: &str) -> Proxy {
    let app = service(&format!("{INGRESS}\n{lines}"), &[app]);
    Proxy::start(&config("", &format!("[flow]\nservice = \"front\"\n{flow}\n{app}{more}"))).await
}

async fn ask(address: SocketAddr, fields: &str) -> Response {
    let mut client = Client::connect(address).await;
    client.send(format!("GET / HTTP/1.1\r\nhost: x\r\n{fields}\r\n")).await;
    client.response().await
}

async fn workflow(proxy: &Proxy, name: &str) -> Value {
    let status = proxy.status().await;
    let all = status["flow"]["workflows"].as_array().cloned().expect("a list");
    all.into_iter().find(|workflow| workflow["name"] == name).expect("it is configured")
}

#[tokio::test]
async fn at_an_edge_a_request_gets_its_workflow_and_loses_client_metadata() {
    let app = Backend::responding(
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncurtail-rate: inf:inf:\r\n\r\n",
    );
    let app = app.await;
    let proxy = sidecar(&format!("edge = true\n{TENANTS}"), "", &app, "").await;
    let lie = "baggage: user=7;p, curtail=1:b:0:0:0:0:beef:186a0\r\ncurtail-rate: 5\r\n";
    for (tenant, named) in [("a", "a"), ("none", "default")] {
        let response = ask(proxy.http, &format!("x-tenant: {tenant}\r\n{lie}")).await;
        assert_eq!(response.status, 200);
        assert!(!response.head.contains("curtail-"), "{}", response.head);
        let seen = app.seen().pop().expect("a request reached it");
        let [baggage] = &seen.header("baggage")[..] else { panic!("one line: {}", seen.head) };
        assert!(baggage.starts_with(&format!("curtail=1:{named}:0:0:")), "{baggage}");
        assert!(baggage.ends_with(":0,user=7;p"), "{baggage}");
        assert_eq!(seen.header("curtail-rate"), [""; 0]);
        assert_eq!(workflow(&proxy, named).await["admitted"], 1);
    }
    assert_eq!(workflow(&proxy, "b").await["admitted"], 0);
    let labels = [("service", "front"), ("workflow", "a")];
    assert_eq!(proxy.count("curtail_flow_admitted_total", &labels).await, 1);
    assert_eq!(proxy.count("curtail_flow_resource_slots", &[("resource", "app")]).await, 1);
}

#[tokio::test]
async fn callers_inside_get_the_rate_of_the_process_and_the_time_spent() {
    let app = Backend::responding(HELLO).await;
    let proxy = sidecar(TENANTS, "", &app, "").await;
    let response = ask(proxy.http, CALL).await;
    assert!(response.header("curtail-rate").and_then(parse_rate).is_some(), "{}", response.head);
    let spent = response.header("curtail-spent").expect("it was served");
    assert!(!spent.starts_with("0:"), "the time in the application counts: {spent}");
    let without = ask(proxy.http, "x-tenant: a\r\n").await;
    assert!(!without.head.contains("curtail-"), "{}", without.head);
    assert_eq!(workflow(&proxy, "a").await["admitted"], 2);
}

#[tokio::test]
async fn workflows_take_turns_and_a_full_queue_rejects() {
    let app = Backend::gated(HELLO).await;
    let proxy = sidecar(TENANTS, "queue = 2", &app, "").await;
    let mut clients = Vec::new();
    for (waiting, tenant) in ["a", "a", "a", "b"].into_iter().enumerate() {
        let mut client = proxy.client().await;
        client.send(format!("GET / HTTP/1.1\r\nhost: x\r\nx-tenant: {tenant}\r\n\r\n")).await;
        let waits = format!("{waiting} to wait");
        let resource = [("resource", "app")];
        eventually(&waits, async || {
            proxy.count("curtail_flow_resource_waiting", &resource).await == waiting as u64
        })
        .await;
        clients.push(client);
    }
    let full = ask(proxy.http, "x-tenant: a\r\n").await;
    assert_eq!((full.status, full.header("retry-after")), (503, Some("1")));
    app.open(4);
    for mut client in clients {
        assert_eq!(client.response().await.text(), "hello");
    }
    let seen = app.seen();
    let tenants: Vec<_> = seen.iter().flat_map(|seen| seen.header("x-tenant")).collect();
    assert_eq!(tenants.iter().position(|tenant| *tenant == "b"), Some(2), "{tenants:?}");
}

#[tokio::test]
async fn the_timeout_bounds_the_wait_for_a_slot() {
    let app = Backend::gated(HELLO).await;
    let proxy = sidecar(TENANTS, "timeout = \"200ms\"", &app, "").await;
    let mut first = proxy.client().await;
    first.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    eventually("the application", async || !app.seen().is_empty()).await;
    let late = ask(proxy.http, "").await;
    assert_eq!(late.status, 503, "{}", late.text());
    assert_eq!(first.response().await.status, 504);
}

#[tokio::test]
async fn a_request_that_cannot_be_in_time_is_rejected_with_an_announcement() {
    let app = Backend::responding(HELLO).await;
    let limited = "[[flow.workflow]]\nname = \"a\"\nlimit = 0.001\n";
    let proxy = sidecar(limited, "", &app, "").await;
    let mut late = ask(proxy.http, CALL).await;
    eventually("the limit", async || workflow(&proxy, "a").await["rate"] == 0.001).await;
    eventually("a rejection", async || {
        late = ask(proxy.http, &format!("{CALL}grpc-timeout: 50m\r\n")).await;
        late.status != 200
    })
    .await;
    assert_eq!((late.status, late.header("retry-after")), (503, Some("1")));
    assert!(late.text().contains("deadline"), "{}", late.text());
    assert_eq!(
        late.header("curtail-rate").and_then(parse_rate).map(|of| of.rate < 1.0),
        Some(true)
    );
    assert_eq!(late.header("curtail-spent"), None);
    let reason = [("workflow", "a"), ("reason", "late")];
    assert_eq!(proxy.count("curtail_flow_rejected_total", &reason).await, 1);
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "shed")]).await, 1);
}

#[tokio::test]
async fn a_plain_proxy_removes_only_our_metadata_unless_it_is_inside() {
    let fields = "baggage: user=7, x=1\r\nbaggage: curtail=1:b:0:0:0:0:1:1\r\ncurtail-rate: 5\r\n";
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\ncurtail-rate: inf:inf:\r\n\r\n";
    let backend = Backend::responding(text).await;
    let plain = service("", &[&backend]);
    for (flow, is_inside) in [("", false), ("[flow]\nedge = true\n", false), ("[flow]\n", true)] {
        let proxy = Proxy::start(&config("", &format!("{flow}{plain}"))).await;
        let response = ask(proxy.http, fields).await;
        let seen = backend.seen().pop().expect("a request reached it");
        let baggage = seen.header("baggage").join(",");
        assert_eq!(baggage.contains("curtail"), is_inside, "{flow} {baggage}");
        assert!(baggage.contains("user=7"), "{flow} {baggage}");
        assert_eq!(!seen.header("curtail-rate").is_empty(), is_inside, "{flow}");
        assert_eq!(response.header("curtail-rate").is_some(), is_inside, "{flow}");
    }
    let proxy = Proxy::serving("", &[&backend]).await;
    let others = "baggage:  user = 7 , x=1\r\nbaggage: curtailed=1\r\n";
    ask(proxy.http, others).await;
    let seen = backend.seen().pop().expect("a request reached it");
    assert_eq!(seen.header("baggage"), ["user = 7 , x=1", "curtailed=1"], "it is unchanged");
}

#[tokio::test]
async fn metadata_counts_only_from_trusted_networks_and_with_a_valid_signature() {
    let app = Backend::responding(HELLO).await;
    let folder = std::env::temp_dir().join(format!("curtail-key-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let key_file = folder.join("key");
    std::fs::write(&key_file, "sixteen bytes at least\n").expect("a file");
    let keyed = format!("key_file = {key_file:?}\n");
    let key = MemberKey::new(b"sixteen bytes at least").expect("long enough");
    let other = MemberKey::new(b"another key of sixteen bytes").expect("long enough");
    let call = CallMeta { caller: 7, ..CallMeta::of(WorkflowName::new("b").expect("a name")) };
    let member = |key| format!("baggage: {}\r\n", call.to_member(key));
    for (flow, member, counts) in [
        ("", member(None), true),
        ("trusts = [\"127.0.0.1\"]\n", member(None), true),
        ("trusts = [\"10.0.0.0/8\"]\n", member(None), false),
        ("trusts = []\n", member(None), false),
        (&keyed, member(Some(&key)), true),
        (&keyed, member(Some(&other)), false),
        (&keyed, member(None), false),
    ] {
        let proxy = sidecar(&format!("{flow}{TENANTS}"), "", &app, "").await;
        let response = ask(proxy.http, &member).await;
        assert_eq!(response.header("curtail-rate").is_some(), counts, "{flow} {member}");
        assert_eq!(workflow(&proxy, "b").await["admitted"], u64::from(counts), "{flow} {member}");
        let seen = app.seen().pop().expect("a request reached it");
        let ours = seen.header("baggage").concat();
        assert_eq!(ours.split(':').count(), if flow == keyed { 9 } else { 8 }, "{flow} {ours}");
    }
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[tokio::test]
async fn a_caller_that_claims_much_and_sends_little_starves_no_other() {
    let store = Backend::responding(HELLO).await;
    let limit = 1_000.0;
    let workflow = format!("[[flow.workflow]]\nname = \"a\"\nlimit = {limit:?}\n");
    let proxy = sidecar(&workflow, "", &store, "").await;
    let call = |caller, wanted| {
        let workflow = WorkflowName::new("a").expect("a name");
        let call = CallMeta { caller, wanted, ..CallMeta::of(workflow) };
        format!("baggage: {}\r\n", call.to_member(None))
    };
    let (honest, liar) = (call(1, limit), call(2, 100.0 * limit));
    let mut parts = [0.0; 2];
    let mut intervals = 0;
    eventually("the part of the honest caller", async || {
        for (at, call) in [&honest, &liar].into_iter().enumerate() {
            for _ in 0..[10, 1][at] {
                let response = ask(proxy.http, call).await;
                let announced = response.header("curtail-rate").and_then(parse_rate);
                parts[at] = announced.expect("callers get one").rate;
            }
        }
        intervals += 1;
        // The honest caller gets ten twelfths of the rate, because the dishonest caller's claim is
        // limited to twice the rate at which it sends. Without this bound, the honest caller would
        // get about one hundredth of the rate.
        intervals > 10 && parts[0] > 0.7 * limit && parts[1] < 0.3 * limit
    })
    .await;
}

/// Serves as an application that calls a service once per request, and propagates these fields.
async fn serve(listener: TcpListener, next: SocketAddr, propagates: &'static [&'static str]) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut caller = Connection::new(stream, Limits::default(), Timeouts::default());
            while let Ok(Some(request)) = caller.next_request().await {
                let called = call(&request.head, next, propagates).await;
                let head = called.head.into_bytes();
                let _ = caller.respond(called.status, [("x", "y")], &head).await;
            }
        });
    }
}

async fn call(head: &RequestHead, next: SocketAddr, propagates: &[&str]) -> Response {
    let text = |value| String::from_utf8_lossy(value).into_owned();
    let values = |name: &'static str| head.values(name).map(move |value| (name, text(value)));
    let fields = propagates.iter().flat_map(|name| match *name {
        "traceparent" => values("traceparent").collect::<Vec<_>>(),
        _ => values("baggage").collect(),
    });
    let fields: String = fields.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    ask(next, &fields).await
}

struct Chain {
    front: Proxy,
    store: Proxy,
    disk: Backend,
    app: JoinHandle<()>,
}

impl Drop for Chain {
    fn drop(&mut self) {
        self.app.abort();
    }
}

/// Starts a front at a trust edge. The application of the front calls a store, at which workflow a
/// has a rate limit.
async fn chain(disk: Backend, propagates: &'static [&'static str]) -> Chain {
    let of_store =
        "[[flow.workflow]]\nname = \"a\"\nlimit = 50.0\n[[flow.workflow]]\nname = \"b\"\n";
    let store = sidecar(of_store, "", &disk, "").await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let app = listener.local_addr().expect("an address");
    let next = service(
        "name = \"store\"\npolicy = \"random\"\nflow = \"egress\"\nlisten = \"127.0.0.1:0\"",
        &[&store.http],
    );
    let front = sidecar(&format!("edge = true\n{TENANTS}"), "slots = 8", &app, &next).await;
    let egress = front.own.expect("the store has an address");
    let app = tokio::spawn(serve(listener, egress, propagates));
    Chain { front, store, disk, app }
}

#[tokio::test]
async fn calls_carry_the_workflow_of_their_request_and_bring_back_rates() {
    let chain = chain(Backend::responding(HELLO).await, &["traceparent"]).await;
    assert_eq!(workflow(&chain.front, "a").await["downstream_rate"], Value::Null);
    eventually("an announcement", async || {
        let response = ask(chain.front.http, "x-tenant: a\r\n").await;
        assert_eq!(response.status, 200);
        let text = response.text();
        assert!(!text.contains("curtail-"), "the application got {text}");
        workflow(&chain.front, "a").await["downstream_rate"].as_f64().is_some()
    })
    .await;
    let rate = workflow(&chain.front, "a").await["downstream_rate"].as_f64().expect("a number");
    assert!(rate <= 50.0, "the store serves 50 per second, and each request calls it once: {rate}");
    let seen = chain.disk.seen().pop().expect("a request reached it");
    let baggage = seen.header("baggage").join(",");
    assert!(baggage.starts_with("curtail=1:a:"), "{baggage}");
    assert_eq!(seen.header("x-tenant"), [""; 0], "only the trace identifies the request");
    assert_eq!(workflow(&chain.store, "b").await["admitted"], 0);
    assert!(workflow(&chain.store, "a").await["admitted"].as_u64() >= Some(1));
}

#[tokio::test]
async fn without_a_trace_baggage_names_the_workflow_and_without_both_none() {
    for (propagates, named) in [(&["baggage"][..], "b"), (&[], "default")] {
        let chain = chain(Backend::responding(HELLO).await, propagates).await;
        assert_eq!(ask(chain.front.http, "x-tenant: b\r\n").await.status, 200);
        assert_eq!(workflow(&chain.store, named).await["admitted"], 1, "{propagates:?}");
        let seen = chain.disk.seen().pop().expect("a request reached it");
        assert!(seen.header("baggage")[0].starts_with(&format!("curtail=1:{named}:")));
    }
}

#[tokio::test]
async fn calls_are_at_their_own_address_only_and_go_on_while_the_proxy_drains() {
    let mut chain = chain(Backend::gated(HELLO).await, &["traceparent"]).await;
    let mut client = chain.front.client().await;
    client.send("GET / HTTP/1.1\r\nhost: x\r\nx-tenant: a\r\n\r\n").await;
    chain.disk.has_seen(1).await;
    let second = Client::connect(chain.front.own.expect("an address")).await;
    chain.front.drain();
    eventually("the listener to close", async || {
        tokio::net::TcpStream::connect(chain.front.http).await.is_err()
    })
    .await;
    let mut second = second;
    second.ask("/").await;
    chain.disk.open(2);
    assert_eq!(client.response().await.status, 200);
    assert_eq!(second.response().await.text(), "hello");
    drop(client);
    drop(second);
    assert_eq!(chain.front.ended().await, 0);
}

#[tokio::test]
async fn metadata_crosses_http2_in_both_directions() {
    let app = Backend2::responding("hello").await;
    let proxy = sidecar(TENANTS, "protocol = \"h2\"", &app, "").await;
    let client = Http2Client::connect(proxy.http).await;
    let mut call = request("GET", "/");
    let member = "curtail=1:a:0:0:0:0:beef:186a0".parse().expect("a value");
    call.headers_mut().insert("baggage", member);
    let reply = client.send(call, b"").await.expect("a reply");
    assert_eq!((reply.status, reply.text().as_str()), (200, "hello"));
    let rate = values(&reply.fields, "curtail-rate");
    assert!(rate.first().is_some_and(|rate| parse_rate(rate).is_some()), "{rate:?}");
    let seen = app.seen();
    assert!(seen[0].header("baggage").concat().starts_with("curtail=1:a:"), "{seen:?}");
    assert_eq!(workflow(&proxy, "a").await["admitted"], 1);
}
