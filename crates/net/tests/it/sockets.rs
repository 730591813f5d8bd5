//! Tests of listeners and plain streams over TCP and Unix sockets.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt as _;

use bytes::Bytes;
use curtail_net::{Endpoint, Listener, Stream, connect};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _, AsyncWriteExt as _};

struct Pair {
    client: Stream,
    server: Stream,
    listener: Listener,
}

impl Pair {
    async fn new(endpoint: &Endpoint) -> Pair {
        let listener = Listener::bind(endpoint).unwrap();
        let local = listener.local().unwrap();
        let (client, server) = tokio::join!(connect(&local), listener.accept());
        Pair { client: client.unwrap(), server: server.unwrap(), listener }
    }

    async fn exchange(&mut self) {
        self.client.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        self.server.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
        let slices = [IoSlice::new(b"po"), IoSlice::new(b"ng")];
        assert!(self.server.is_write_vectored());
        assert_eq!(self.server.write_vectored(&slices).await.unwrap(), 4);
        self.client.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"pong");
    }
}

fn loopback(text: &str) -> Endpoint {
    Endpoint::from(text.parse::<SocketAddr>().unwrap())
}

/// Returns false if the machine has no IPv6 loopback address.
fn has_ipv6() -> bool {
    let bound = std::net::TcpListener::bind("[::1]:0").is_ok();
    if !bound {
        println!("SKIPPED: this machine has no IPv6");
    }
    bound
}

#[tokio::test]
async fn tcp_streams_report_both_ends_and_take_options() {
    let addresses = if has_ipv6() { &["127.0.0.1:0", "[::1]:0"][..] } else { &["127.0.0.1:0"] };
    for address in addresses {
        let mut pair = Pair::new(&loopback(address)).await;
        pair.exchange().await;
        let Pair { client, server, listener } = &pair;
        assert_eq!(server.peer(), client.local());
        assert_eq!(client.peer(), Some(listener.local().unwrap()));
        assert_eq!(server.local(), client.peer());
        server.set_nodelay().unwrap();
        server.set_type_of_service(0xb8).unwrap();
        let class = if address.starts_with('[') {
            rustix::net::sockopt::ipv6_tclass(server).unwrap()
        } else {
            rustix::net::sockopt::ip_tos(server).unwrap().into()
        };
        assert_eq!(class, 0xb8);
        assert!(rustix::net::sockopt::tcp_nodelay(client).unwrap());
        assert!(!server.is_tls() && server.tls().is_none() && server.alpn().is_none());
        assert!(format!("{server:?}").contains("tcp"));
    }
}

#[tokio::test]
async fn a_dual_stack_listener_reports_ipv4_clients_as_such() {
    if !has_ipv6() {
        return;
    }
    let listener = Listener::bind(&loopback("[::]:0")).unwrap();
    let Endpoint::Ip(address) = listener.local().unwrap() else { panic!("not TCP") };
    let target = loopback(&format!("127.0.0.1:{}", address.port()));
    let Ok(client) = connect(&target).await else { return println!("SKIPPED: IPv6 only") };
    let server = listener.accept().await.unwrap();
    assert_eq!(server.peer().unwrap().ip(), client.local().unwrap().ip());
    server.set_type_of_service(0x20).unwrap();
    assert_eq!(rustix::net::sockopt::ip_tos(&server).unwrap(), 0x20);
}

#[tokio::test]
async fn zero_linger_resets_the_connection() {
    let Pair { mut client, server, .. } = Pair::new(&loopback("127.0.0.1:0")).await;
    server.set_zero_linger().unwrap();
    drop(server);
    let error = client.read(&mut [0; 1]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn try_write_reaches_a_client_that_was_just_accepted() {
    let Pair { mut client, server, .. } = Pair::new(&loopback("127.0.0.1:0")).await;
    assert_eq!(server.try_write(b"full").unwrap(), 4);
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "full");
}

#[tokio::test]
async fn a_prefix_is_read_first_and_a_later_prefix_before_it() {
    let Pair { mut client, server, .. } = Pair::new(&loopback("127.0.0.1:0")).await;
    client.write_all(b"ef").await.unwrap();
    client.shutdown().await.unwrap();
    let server = server.with_prefix(Bytes::from_static(b"cd")).with_prefix(Bytes::new());
    let mut server = server.with_prefix(Bytes::from_static(b"ab"));
    let mut first = [0; 3];
    assert_eq!(server.read(&mut first).await.unwrap(), 3);
    assert_eq!(&first, b"abc");
    let mut left = Vec::new();
    server.read_to_end(&mut left).await.unwrap();
    assert_eq!(left, b"def");
}

#[tokio::test]
async fn unix_sockets_carry_bytes_and_remove_their_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let endpoint = Endpoint::Unix(path.clone());
    let mut pair = Pair::new(&endpoint).await;
    pair.exchange().await;
    let Pair { client, server, listener } = pair;
    assert_eq!((client.peer(), server.peer()), (Some(endpoint.clone()), None));
    assert_eq!((client.local(), server.local()), (None, Some(endpoint)));
    assert!(format!("{server:?}").contains("unix"));
    server.set_nodelay().unwrap();
    server.set_zero_linger().unwrap();
    server.set_type_of_service(0xb8).unwrap();
    assert_eq!(server.try_write(b"full").unwrap(), 4);
    assert!(path.exists());
    drop(listener);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_stale_socket_file_is_replaced_and_a_used_one_is_not() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.sock");
    let endpoint = Endpoint::Unix(path.clone());
    // The listener of the standard library leaves its file behind, as a killed process does.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(std::fs::metadata(&path).unwrap().file_type().is_socket());
    let mut pair = Pair::new(&endpoint).await;
    pair.exchange().await;
    let error = Listener::bind(&endpoint).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let text = error.to_string();
    assert!(text.contains("x.sock") && text.contains("another process listens"), "{text}");
    pair.exchange().await;
    // The file of a later listener outlives the drop of an earlier one.
    std::fs::remove_file(&path).unwrap();
    let later = Listener::bind(&endpoint).unwrap();
    drop(pair);
    assert!(path.exists());
    drop(later);
    assert!(!path.exists());
}

#[tokio::test]
async fn other_files_are_never_replaced_and_errors_contain_the_endpoint() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(&path, "keep").unwrap();
    let error = Listener::bind(&Endpoint::Unix(path.clone())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "keep");
    let missing = directory.path().join("no").join("x.sock");
    let error = Listener::bind(&Endpoint::Unix(missing.clone())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert_eq!(
        connect(&Endpoint::Unix(missing)).await.unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    let listener = Listener::bind(&loopback("127.0.0.1:0")).unwrap();
    let error = Listener::bind(&listener.local().unwrap()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    assert!(error.to_string().contains(&listener.local().unwrap().to_string()), "{error}");
    let closed = listener.local().unwrap();
    drop(listener);
    let error = connect(&closed).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}
