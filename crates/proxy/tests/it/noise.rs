//! Sends random bytes to both listeners, and checks that the proxy continues to serve and that no
//! connection or copy is left behind.

use crate::harness::{self, Backend, Client, HELLO, Proxy, Step, say};
use rand_core::Rng as _;

const CONNECTIONS: u64 = 1500;

/// Fragments of requests.
const PIECES: [&str; 16] = [
    "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "POST /status HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nhello",
    "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
    "5\r\nhello\r\n",
    "0\r\n\r\n",
    "GET /stream HTTP/1.0\r\n\r\n",
    "HEAD /metrics HTTP/1.1\r\nhost: x\r\n",
    "content-length: 5\r\n",
    "content-length: 18446744073709551615\r\n",
    "transfer-encoding: chunked\r\n",
    "expect: 100-continue\r\n",
    "connection: close\r\n",
    "\r\n",
    "GET http://x/ HTTP/1.1\r\nhost: y\r\n\r\n",
    "GET /oops HTTP/1.1\r\nhost: x\r\n\r\n",
    "x: \u{0}\r\n",
];

/// Returns fragments of requests, some with a changed byte, or plain noise.
fn noise(rng: &mut curtail_kernel::Rng) -> Vec<u8> {
    let mut next = |below: usize| (rng.next_u64() % below as u64) as usize;
    let mut bytes = Vec::new();
    if next(4) == 0 {
        return (0..next(2000)).map(|_| next(256) as u8).collect();
    }
    for _ in 0..next(12) {
        bytes.extend_from_slice(PIECES[next(PIECES.len())].as_bytes());
    }
    for _ in 0..next(3).min(bytes.len()) {
        let at = next(bytes.len());
        bytes[at] = next(256) as u8;
    }
    bytes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_bytes_leave_nothing_behind() {
    let script = |seen: &harness::Seen| match seen.line().split(' ').nth(1) {
        Some("/stream") => vec![
            say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n186a0\r\n"),
            Step::Flood(100_000),
            say("\r\n0\r\n\r\n"),
        ],
        Some("/oops") => vec![say("HTTP/1.1 500 Oops\r\n\r\n"), Step::Close],
        _ => vec![say(HELLO)],
    };
    for cancel in ["none", "reset"] {
        let (one, two) = (Backend::new(script).await, Backend::new(script).await);
        let lines = format!("policy = \"laedge\"\nslots = 2\ncancel = \"{cancel}\"");
        let proxy = Proxy::serving(&lines, &[&one, &two]).await;
        for seed in 0..CONNECTIONS {
            let mut rng = curtail_kernel::rng(seed);
            for address in [proxy.http, proxy.admin] {
                let mut client = Client::connect(address).await;
                client.send(noise(&mut rng)).await;
                match rng.next_u64() % 4 {
                    0 => client.reset(),
                    1 => drop(client),
                    _ => {
                        client.finish().await;
                        let _ = client.rest().await;
                    }
                }
            }
            if seed % 500 == 0 {
                assert_eq!(proxy.get("/").await.status, 200, "after seed {seed}");
            }
        }
        proxy.idle().await;
        proxy.up(2).await;
        assert_eq!(proxy.get("/").await.text(), "hello");
        proxy.disconnected().await;
        let odd =
            |seen: &harness::Seen| seen.header("host").len() != 1 || seen.header("via").is_empty();
        assert!(!one.seen().iter().chain(&two.seen()).any(odd), "only whole requests get through");
    }
}
