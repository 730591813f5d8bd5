//! The HTTP transport against raw sockets: servers that answer well, badly, half, twice or never.

use std::net::SocketAddr;
use std::time::Duration;

use curtail_kernel::{GroupId, Limits, Policy, ServerId, Topology, rng};
use curtail_runtime::http::{Body, Health, Http, Request, Settings, watch};
use curtail_runtime::{Cell, Failure, Observer, ProbeFailure, Query, QueryError, TakenOut, Timers};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A server that reads a request and hands the connection to a script, which may go on with it.
async fn server<F, Fut>(script: F) -> (SocketAddr, mpsc::Receiver<usize>)
where
    F: Fn(TcpStream, usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Option<TcpStream>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (seen, requests) = mpsc::channel(64);
    tokio::spawn(async move {
        let script = std::sync::Arc::new(script);
        for connection in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let (seen, script) = (seen.clone(), script.clone());
            tokio::spawn(async move {
                while read_request(&mut stream).await {
                    let _ = seen.try_send(connection);
                    match script(stream, connection).await {
                        Some(same) => stream = same,
                        None => return,
                    }
                }
            });
        }
    });
    (address, requests)
}

async fn read_request(stream: &mut TcpStream) -> bool {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => request.push(byte),
            Err(_) => return false,
        }
    }
    true
}

async fn say(mut stream: TcpStream, text: &str) -> Option<TcpStream> {
    stream.write_all(text.as_bytes()).await.ok()?;
    Some(stream)
}

fn cell(addresses: &[SocketAddr], limits: Limits) -> Cell<Http> {
    cell_with(addresses, limits, Settings::default())
}

fn cell_with(addresses: &[SocketAddr], limits: Limits, settings: Settings) -> Cell<Http> {
    let topology = Topology::replicated(addresses.len() as u32, 1);
    let kernel = Policy::PerShardQueue.build(&topology, limits, rng(1)).unwrap();
    let transport = Http::new(addresses.iter().copied(), settings);
    Cell::new(kernel, transport, Timers::precise())
}

fn get() -> Query<Request> {
    Query::new(Request::new("GET", "/", [("host", "x")], b"", true).unwrap())
}

async fn idle(cell: &Cell<Http>) {
    while cell.look(|core| core.server(ServerId(0)).outstanding > 0) {
        tokio::task::yield_now().await;
    }
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn connections_are_kept_and_used_again() {
    let (address, mut requests) = server(|stream, _| say(stream, HELLO)).await;
    let cell = cell(&[address], Limits::default());
    for _ in 0..3 {
        let answer = cell.query(get()).await.unwrap();
        assert_eq!(answer.response.head.status(), 200);
        assert_eq!(answer.response.whole(100).await.unwrap(), "hello");
        assert_eq!(requests.recv().await, Some(0), "all on the first connection");
    }
}

#[tokio::test]
async fn a_connection_that_nobody_used_for_long_is_not_trusted() {
    let (address, mut requests) = server(|stream, _| say(stream, HELLO)).await;
    let settings = Settings { idle_timeout: Duration::ZERO, ..Settings::default() };
    let cell = cell_with(&[address], Limits::default(), settings);
    for connection in 0..3 {
        cell.query(get()).await.unwrap();
        assert_eq!(requests.recv().await, Some(connection), "a new one each time");
    }
}

#[tokio::test]
async fn an_old_connection_that_was_closed_is_replaced() {
    // Every connection serves one request and is then closed, without saying so.
    let (address, mut requests) = server(|stream, _| async {
        say(stream, HELLO).await;
        None
    })
    .await;
    let cell = cell(&[address], Limits { retries: 0, ..Limits::default() });
    for connection in 0..3 {
        cell.query(get()).await.unwrap();
        assert_eq!(requests.recv().await, Some(connection));
    }
}

#[tokio::test]
async fn broken_answers_fail_and_free_the_slot() {
    let broken = [
        "",
        "HTTP/1.1 2",
        "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf",
        "garbage\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    ];
    for text in broken {
        let (address, _requests) = server(move |stream, _| async move {
            say(stream, text).await;
            None
        })
        .await;
        let cell = cell(&[address], Limits::default());
        let error = cell.query(get()).await.unwrap_err();
        assert!(matches!(error, QueryError::Failed { response: None }), "{text:?}: {error:?}");
        idle(&cell).await;
    }
}

#[tokio::test]
async fn a_second_answer_is_never_taken_for_the_next_one() {
    let twice = format!("{HELLO}HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
    let (address, mut requests) = server(move |stream, _| {
        let twice = twice.clone();
        async move { say(stream, &twice).await }
    })
    .await;
    let cell = cell(&[address], Limits::default());
    for connection in 0..3 {
        let answer = cell.query(get()).await.unwrap();
        assert_eq!(answer.response.whole(100).await.unwrap(), "hello");
        assert_eq!(requests.recv().await, Some(connection), "a new connection each time");
    }
}

#[tokio::test]
async fn a_bad_status_is_handed_over_when_nothing_better_comes() {
    let text = "HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops";
    let (address, _requests) = server(move |stream, _| say(stream, text)).await;
    let cell = cell(&[address], Limits::default());
    let QueryError::Failed { response: Some(response) } = cell.query(get()).await.unwrap_err()
    else {
        panic!("the answer was there")
    };
    assert_eq!(response.head.status(), 500);
    assert_eq!(response.whole(100).await.unwrap(), "oops");
}

#[tokio::test]
async fn long_answers_stream_and_hold_the_slot() {
    let (address, _requests) = server(|stream, _| async {
        let stream =
            say(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n")
                .await?;
        say(stream, "3\r\ntwo\r\n0\r\n\r\n").await
    })
    .await;
    let cell = cell(&[address], Limits::default());
    let answer = cell.query(get()).await.unwrap();
    assert!(matches!(answer.response.body, Body::Pieces(_)));
    assert_eq!(answer.response.whole(100).await.unwrap(), "onetwo");
    idle(&cell).await;
}

/// The first half of an answer, and silence.
async fn half(stream: TcpStream) -> Option<TcpStream> {
    let mut stream =
        say(stream, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n").await?;
    // Until the connection is closed.
    let _ = stream.read_u8().await;
    None
}

#[tokio::test]
async fn half_an_answer_is_not_taken_for_the_whole_when_its_server_goes_down() {
    let (address, _requests) = server(|stream, _| half(stream)).await;
    let cell = cell(&[address], Limits::default());
    let Body::Pieces(mut pieces) = cell.query(get()).await.unwrap().response.body else {
        panic!("it is long")
    };
    assert_eq!(pieces.next().await.unwrap().unwrap(), "one");
    cell.server_down(ServerId(0));
    assert_eq!(pieces.next().await, Err(Failure::Reset));
}

#[tokio::test]
async fn a_silent_server_is_told_as_soon_as_nobody_reads_its_answer() {
    let (address, _requests) = server(|stream, _| half(stream)).await;
    let cell = cell(&[address], Limits { cancel: true, ..Limits::default() });
    let answer = cell.query(get()).await.unwrap();
    assert_eq!(cell.look(|core| core.server(ServerId(0)).outstanding), 1);
    drop(answer);
    idle(&cell).await;
}

/// An answer without an end.
async fn endless(stream: TcpStream) -> Option<TcpStream> {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let mut stream = say(stream, head).await?;
    loop {
        stream = say(stream, "3\r\none\r\n").await?;
    }
}

#[tokio::test]
async fn an_endless_answer_that_nobody_wants_is_cut_off() {
    let (address, _requests) = server(|stream, _| endless(stream)).await;
    let settings = Settings { unwanted_timeout: Duration::from_millis(20), ..Settings::default() };
    let limits = Limits { eject_after: 1, ..Limits::default() };
    let cell = cell_with(&[address], limits, settings);
    let answer = cell.query(get()).await.unwrap();
    drop(answer);
    idle(&cell).await;
    assert!(cell.look(|core| core.server(ServerId(0)).up), "it has done nothing wrong");
}

#[tokio::test]
async fn a_server_that_stops_listening_finishes_what_it_has() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (finish, told) = tokio::sync::oneshot::channel::<()>();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        assert!(read_request(&mut stream).await);
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
        let stream = say(stream, head).await.unwrap();
        told.await.unwrap();
        say(stream, "3\r\ntwo\r\n0\r\n\r\n").await
    });
    let cell = cell(&[address], Limits::default());
    let answer = cell.query(get()).await.unwrap();
    let health = Health { interval: Duration::from_millis(2), ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    while cell.look(|core| core.server(ServerId(0)).up) {
        tokio::task::yield_now().await;
    }
    finish.send(()).unwrap();
    assert_eq!(answer.response.whole(100).await.unwrap(), "onetwo");
    idle(&cell).await;
    watching.abort();
}

#[tokio::test]
async fn a_server_that_answers_no_probes_loses_what_nobody_waits_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limits = Limits { attempt_timeout_ns: 1_000_000, ..Limits::default() };
    let cell = cell(&[address], limits);
    assert!(matches!(cell.query(get()).await, Err(QueryError::Timeout)));
    assert_eq!(cell.look(|core| core.server(ServerId(0)).outstanding), 1, "it may be at work");
    let patience = Duration::from_millis(2);
    let health = Health { interval: patience, timeout: patience, ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    idle(&cell).await;
    assert!(!cell.look(|core| core.server(ServerId(0)).up));
    watching.abort();
    drop(listener);
}

#[tokio::test]
async fn servers_that_hang_are_told_from_those_that_fail() {
    let (address, _requests) = server(|mut stream, _| async move {
        let _ = stream.read_u8().await;
        None
    })
    .await;
    let limits = Limits { attempt_timeout_ns: 1_000_000, cancel: true, ..Limits::default() };
    let cell = cell(&[address], limits);
    assert!(matches!(cell.query(get()).await, Err(QueryError::Timeout)));
    idle(&cell).await;
}

#[tokio::test]
async fn nobody_listens() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dead = listener.local_addr().unwrap();
    drop(listener);
    let (alive, _requests) = server(|stream, _| say(stream, HELLO)).await;
    let cell = cell(&[dead, alive], Limits::default());
    for _ in 0..10 {
        cell.query(get()).await.unwrap();
    }
    let down = cell.look(|core| !core.server(ServerId(0)).up);
    let lucky = cell.look(|core| core.waiting(GroupId(0)) == 0);
    assert!(down && lucky, "the first refusal takes it down");
}

#[tokio::test]
async fn probes_bring_a_server_back_and_take_it_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let cell = cell(&[address], Limits::default());
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

/// Writes down who was taken out and who returned.
struct Book(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

impl Observer for Book {
    fn taken_out(&self, server: ServerId, why: TakenOut) {
        self.0.lock().unwrap().push(format!("{} out: {why:?}", server.0));
    }

    fn returned(&self, server: ServerId) {
        self.0.lock().unwrap().push(format!("{} back", server.0));
    }
}

#[tokio::test]
async fn whoever_watches_hears_why_a_server_was_taken_out() {
    let ill = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let state = ill.clone();
    let (address, _requests) = server(move |stream, _| {
        let ill = state.load(std::sync::atomic::Ordering::Relaxed);
        let status = if ill { "503 Later" } else { "404 No such page" };
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
        async move { say(stream, &text).await }
    })
    .await;
    let kernel = Policy::PerShardQueue
        .build(&Topology::replicated(1, 1), Limits::default(), rng(1))
        .unwrap();
    let transport = Http::new([address], Settings::default());
    let written = std::sync::Arc::default();
    let book = Book(std::sync::Arc::clone(&written));
    let cell = Cell::observed(kernel, transport, Timers::precise(), book);
    let health = Health { interval: Duration::from_millis(2), ..Health::default() };
    let watching = tokio::spawn(watch(cell.clone(), ServerId(0), health));
    let lines = |count: usize| {
        let written = std::sync::Arc::clone(&written);
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
    let out = format!("0 out: {:?}", TakenOut::Probes(ProbeFailure::Status(503)));
    assert_eq!(*written.lock().unwrap(), [out.as_str(), "0 back"]);
}
