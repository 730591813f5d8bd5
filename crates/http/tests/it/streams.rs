//! Tests one request of an HTTP/2 connection, at the server.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};

use curtail_http::h1::{BodyLength, Limits, Timeouts};
use curtail_http::h2::server::Accepted;

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Before each piece, the task waits for a reset of the stream. The capacity for the piece resumes
/// those who wait.
#[tokio::test]
async fn a_piece_does_not_resume_the_task_that_sends_it() {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (client, server) = tokio::join!(h2::client::handshake(near), h2::server::handshake(far));
    let ((mut client, connection), mut server) = (client.expect("h2"), server.expect("h2"));
    tokio::spawn(connection);
    let request = http::Request::get("http://x/").body(()).expect("a request");
    let (response, _) = client.send_request(request, true).expect("sent");
    let (request, respond) = server.accept().await.expect("a request").expect("a request");
    let accepted = Accepted::new(request, respond, &Limits::default(), Timeouts::default());
    accepted.head.expect("a head");
    let mut exchange = accepted.exchange;
    tokio::spawn(async move { while server.accept().await.is_some() {} });
    let nothing: [(&[u8], &[u8]); 0] = [];
    exchange.start_response(200, nothing, BodyLength::Chunked).expect("begun");
    let mut body = response.await.expect("a response").into_body();

    let woken = Arc::new(Count::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut context = Context::from_waker(&waker);
    for _ in 0..3 {
        assert!(exchange.poll_peer_closed(&mut context).is_pending());
        assert!(pin!(exchange.write_body(&b"piece"[..])).poll(&mut context).is_ready());
        assert_eq!(body.data().await.expect("a piece").expect("a piece"), "piece");
        assert_eq!(woken.0.load(Ordering::Relaxed), 0);
    }
    // The client leaves.
    assert!(exchange.poll_peer_closed(&mut context).is_pending());
    drop(body);
    exchange.peer_closed().await;
}
