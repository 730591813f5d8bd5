//! Tests that probes eject servers and restore them.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::servers::{HELLO, cell, get, idle, kernel, read_request, say, server};
use curtail_kernel::{Limits, ServerId};
use curtail_runtime::http::{Health, Http, Settings, watch};
use curtail_runtime::{Cell, EjectionCause, Observer, ProbeFailure, QueryError, Timers};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

#[tokio::test]
async fn a_server_that_responds_to_no_probes_loses_what_no_client_waits_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits { attempt_timeout_ns: 1_000_000, ..Limits::default() };
    let cell = cell(address, limits);
    assert!(matches!(cell.query(get()).await, Err(QueryError::Timeout)));
    assert_eq!(cell.look(|core| core.server(ServerId(0)).outstanding), 1, "it may be at work");
    let period = Duration::from_millis(2);
    let health = Health { interval: period, timeout: period, ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    idle(&cell).await;
    assert!(!cell.look(|core| core.server(ServerId(0)).up));
    watching.abort();
    drop(listener);
}

#[tokio::test]
async fn probes_bring_a_server_back_and_take_it_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let cell = cell(address, Limits::default());
    let health = Health { interval: Duration::from_millis(2), ..Health::default() };
    let up = || cell.look(|core| core.server(ServerId(0)).up);
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    while up() {
        tokio::task::yield_now().await;
    }
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_request(&mut stream).await;
            let _ = stream.write_all(HELLO.as_bytes()).await;
        }
    });
    while !up() {
        tokio::task::yield_now().await;
    }
    watching.abort();
}

/// Records the servers that were ejected and restored.
struct Book(Arc<Mutex<Vec<String>>>);

impl Observer for Book {
    fn ejected(&self, server: ServerId, why: EjectionCause) {
        self.0.lock().unwrap().push(format!("{} out: {why:?}", server.0));
    }

    fn restored(&self, server: ServerId) {
        self.0.lock().unwrap().push(format!("{} back", server.0));
    }
}

fn watched(address: SocketAddr) -> (Cell<Http>, Arc<Mutex<Vec<String>>>) {
    let kernel = kernel("psq", 1, Limits::default());
    let transport = Http::new([address], Settings::default());
    let written = Arc::default();
    let book = Book(Arc::clone(&written));
    (Cell::observed(kernel, transport, Timers::precise(), book), written)
}

#[tokio::test]
async fn an_observer_gets_the_reason_of_an_ejection() {
    let ill = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = ill.clone();
    let (address, _requests) = server(move |stream, _| {
        let ill = state.load(std::sync::atomic::Ordering::Relaxed);
        let status = if ill { "503 Later" } else { "404 No such page" };
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        async move { say(stream, &text).await }
    })
    .await;
    let (cell, written) = watched(address);
    let health = Health { interval: Duration::from_millis(2), ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    let lines = |count: usize| {
        let written = Arc::clone(&written);
        async move {
            while written.lock().unwrap().len() < count {
                tokio::task::yield_now().await;
            }
        }
    };
    lines(1).await;
    ill.store(false, std::sync::atomic::Ordering::Relaxed);
    lines(2).await;
    watching.abort();
    let out = format!("0 out: {:?}", EjectionCause::Probes(ProbeFailure::Status(503)));
    assert_eq!(*written.lock().unwrap(), [out.as_str(), "0 back"]);
}

#[tokio::test]
async fn a_server_that_failed_meanwhile_is_not_taken_out_twice() {
    // The server reads probes but sends no response.
    let (address, mut probed) = server(|stream, _| async move {
        std::future::pending::<()>().await;
        Some(stream)
    })
    .await;
    let (cell, written) = watched(address);
    let period = Duration::from_millis(20);
    let health = Health { interval: period, timeout: period, ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    probed.recv().await.unwrap();
    probed.recv().await.unwrap();
    // The second probe is under way.
    cell.server_draining(ServerId(0));
    probed.recv().await.unwrap();
    watching.abort();
    assert_eq!(*written.lock().unwrap(), [""; 0]);
}
