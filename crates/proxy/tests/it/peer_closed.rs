//! Tests with clients that disconnect while their query waits, while it runs, and during its
//! response.

use crate::harness::{Backend, Client, HELLO, Proxy, Step, eventually, say};

const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";

/// Returns clients that have sent a request.
async fn asking(proxy: &Proxy, clients: usize) -> Vec<Client> {
    let mut asking = Vec::new();
    for _ in 0..clients {
        let mut client = proxy.client().await;
        client.ask("/").await;
        asking.push(client);
    }
    asking
}

#[tokio::test]
async fn clients_that_disconnect_while_they_wait_leave_the_queue() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut first = asking(&proxy, 1).await;
    backend.has_seen(1).await;
    let mut waiting = asking(&proxy, 9).await;
    proxy.load(10, 9, 1).await;
    waiting.pop().expect("nine").reset();
    waiting.truncate(2);
    proxy.load(3, 2, 1).await;
    drop(waiting);
    proxy.load(1, 0, 1).await;
    backend.open(1);
    assert_eq!(first[0].response().await.text(), "hello");
    proxy.idle().await;
    assert_eq!(backend.seen().len(), 1, "no other request was served");
    assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "abandoned")]).await, 9);
}

#[tokio::test]
async fn a_replica_that_stops_is_reset_at_once() {
    let backend = Backend::silent().await;
    let proxy = Proxy::serving("cancel = \"reset\"\nslots = 4", &[&backend]).await;
    let clients = asking(&proxy, 4).await;
    backend.has_seen(4).await;
    proxy.load(4, 0, 4).await;
    drop(clients);
    proxy.idle().await;
    eventually("its connections are closed", async || backend.closed() == 4).await;
    proxy.up(1).await;
    assert_eq!(proxy.count("curtail_cancellations_total", &[("reason", "cleanup")]).await, 4);
}

#[tokio::test]
async fn a_replica_that_cannot_stop_is_left_to_finish() {
    let backend = Backend::gated(HELLO).await;
    let proxy = Proxy::serving("", &[&backend]).await;
    let mut clients = asking(&proxy, 1).await;
    backend.has_seen(1).await;
    drop(clients.pop());
    proxy.load(0, 0, 1).await;
    // The slot of the abandoned query is still occupied.
    let mut next = asking(&proxy, 1).await;
    proxy.load(1, 1, 1).await;
    assert_eq!((backend.closed(), backend.seen().len()), (0, 1));
    backend.open(2);
    assert_eq!(next[0].response().await.text(), "hello");
    proxy.idle().await;
    assert_eq!((backend.closed(), backend.connections()), (0, 1), "and its connection is kept");
}

#[tokio::test]
async fn clients_that_leave_a_stalled_response_free_the_slot() {
    // The replica sends nothing more, so only the end of the client's connection shows that it has
    // left.
    for text in [CHUNKED, &CHUNKED.replace("200 OK", "500 Oops")] {
        let steps = vec![say(text), Step::Hang];
        let backend = Backend::new(move |_| steps.clone()).await;
        let proxy = Proxy::serving("cancel = \"reset\"", &[&backend]).await;
        for (round, reset) in [(1, false), (2, true)] {
            let mut client = asking(&proxy, 1).await.remove(0);
            client.receives("hello").await;
            proxy.load(0, 0, 1).await;
            if reset {
                client.reset();
            } else {
                drop(client);
            }
            proxy.idle().await;
            eventually("the replica sees it", async || backend.closed() == round).await;
        }
        proxy.up(1).await;
        assert_eq!(proxy.count("curtail_requests_total", &[("outcome", "abandoned")]).await, 2);
    }
}

/// On the wire, a client that closes its sending half looks like one that has left.
#[tokio::test]
async fn a_client_that_closes_its_half_has_left() {
    let backend = Backend::silent().await;
    let proxy = Proxy::serving("cancel = \"reset\"", &[&backend]).await;
    for half in ["", "G", "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf"] {
        let mut client = proxy.client().await;
        client.send(half).await;
        client.finish().await;
        client.is_closed().await;
    }
    assert!(backend.seen().is_empty());
    let mut client = asking(&proxy, 1).await.remove(0);
    backend.has_seen(1).await;
    client.finish().await;
    client.is_closed().await;
    proxy.idle().await;
}
