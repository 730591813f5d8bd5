//! Tests bodies in many small frames of HTTP/2 that wait to be relayed. The crate `h2` bounds their
//! overhead per connection, and ends a connection that exceeds the bound.

use bytes::Bytes;

use crate::harness::http2::{Act, Backend2, Http2Client, SLOTS, before, request, whole};

#[tokio::test]
async fn an_upload_in_small_frames_that_waits_for_a_slot_keeps_its_connection() {
    let backend = Backend2::new(|_| [vec![Act::Gate], whole("hello")].concat()).await;
    let proxy =
        before("", "protocol = \"h2\"\nslots = 1\nreplay_bytes = \"0B\"", backend.address).await;
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
    let proxy = before("", &lines, backend.address).await;
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
