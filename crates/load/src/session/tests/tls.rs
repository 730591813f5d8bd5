//! Tests of TLS against an in-memory server.

use std::io::Write as _;
use std::sync::{Arc, OnceLock};

use bytes::BytesMut;
use proptest::prelude::*;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::plan::Plan;
use crate::plan::protocol::Trust;
use crate::session::fault::Fault;
use crate::session::tests::{cuts, feed};
use crate::session::{OUTPUT_BYTES_MAX, Out, Reply, Session, Sessions, Token};

fn sessions() -> &'static Arc<Sessions> {
    static SESSIONS: OnceLock<Arc<Sessions>> = OnceLock::new();
    SESSIONS.get_or_init(|| {
        let mut plan = Plan::new("https://h.example".parse().unwrap(), 1.0);
        plan.protocol.trust = Trust::Anyone;
        Arc::new(Sessions::prepare(&plan, false).unwrap())
    })
}

fn client() -> Box<dyn Session> {
    sessions().open()
}

fn server() -> ServerConnection {
    static CONFIG: OnceLock<Arc<ServerConfig>> = OnceLock::new();
    let config = CONFIG.get_or_init(|| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["h.example".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private);
        Arc::new(config.unwrap())
    });
    ServerConnection::new(Arc::clone(config)).unwrap()
}

fn read(server: &mut ServerConnection, out: &mut Out) {
    let mut from_client = &out.bytes.split()[..];
    while !from_client.is_empty() {
        server.read_tls(&mut from_client).unwrap();
        server.process_new_packets().unwrap();
    }
}

fn written(server: &mut ServerConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while server.wants_write() {
        server.write_tls(&mut wire).unwrap();
    }
    wire
}

fn ask(session: &mut dyn Session, server: &mut ServerConnection, out: &mut Out, size: usize) {
    let mut input = BytesMut::new();
    session.send(0, 7, out);
    assert!(session.holds());
    while session.holds() {
        read(server, out);
        for piece in written(server).chunks(size) {
            input.extend_from_slice(piece);
            session.receive(&mut input, out).unwrap();
        }
    }
    read(server, out);
}

/// Returns the replies that a client receives. The client receives `response` over TLS, then
/// close_notify if `notifies` is true, and then `after` without encryption. All data arrives in
/// pieces of the given sizes.
fn drive(response: &[u8], notifies: bool, after: &[u8], sizes: &[usize]) -> Vec<String> {
    let (mut session, mut server) = (client(), server());
    let size = sizes.first().copied().unwrap_or(usize::MAX);
    ask(&mut *session, &mut server, &mut Out::default(), size);
    server.writer().write_all(response).unwrap();
    if notifies {
        server.send_close_notify();
    }
    feed(&mut *session, &[&written(&mut server)[..], after].concat(), sizes)
}

#[test]
fn a_server_without_tls_is_reported() {
    for (input, text) in [
        (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "does not use TLS; leave out the s"),
        (
            b"",
            "closed the connection during the TLS handshake; if it does not use TLS, leave out \
             the s",
        ),
    ] {
        let results = super::drive(client(), &[7], input, &[]);
        assert!(results.len() == 1 && results[0].contains(text), "{results:?}");
    }
}

#[test]
fn a_response_before_a_broken_record_counts() {
    let results =
        drive(b"HTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n", false, &[23, 3, 3, 0, 1, 0], &[]);
    assert!(results[0].contains("Http(200)") && results[1].contains("Tls("), "{results:?}");
}

#[test]
fn a_body_delimited_by_the_close_needs_close_notify() {
    let (endless, head) =
        ("HTTP/1.1 200 \r\n\r\nabc", "HTTP/1.1 200 \r\ncontent-length: 3\r\n\r\nabc");
    let whole = |results: &[String]| results.len() == 2 && results[0].contains("body_bytes: 3");
    for sizes in [&[][..], &[1]] {
        let results = |response: &str, notifies| drive(response.as_bytes(), notifies, &[], sizes);
        let ended = results(endless, true);
        assert!(whole(&ended) && ended[1] == "Closed", "{ended:?}");
        assert_eq!(results(endless, false), ["IncompleteMessage"]);
        // With a content-length, or without an outstanding request, close_notify is optional.
        for notifies in [false, true] {
            let ended = results(head, notifies);
            assert!(whole(&ended) && ended[1] == "Closed", "{ended:?}");
        }
    }
}

#[test]
fn a_close_notify_ends_the_session() {
    let (mut session, mut server) = (client(), server());
    let (mut input, mut out) = (BytesMut::new(), Out::default());
    ask(&mut *session, &mut server, &mut out, usize::MAX);
    server.writer().write_all(b"HTTP/1.1 200 \r\n\r\nabc").unwrap();
    server.send_close_notify();
    input.extend_from_slice(&written(&mut server));
    // The TCP connection is still open.
    let ended = session.receive(&mut input, &mut out);
    assert!(matches!(ended, Err(Fault::Closed)), "{ended:?}");
    assert!(matches!(&out.replies[..], [Reply { token: 7, result: Ok(_) }]), "{out:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_verdict_does_not_depend_on_the_cuts(
        length in 0..40_000_usize, sizes in prop::collection::vec(1..5_000_usize, 1..6), more in any::<bool>(),
        after in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
        let response = [head.as_bytes(), &vec![b'x'; length], if more { b"x" } else { b"" }].concat();
        prop_assert_eq!(drive(&response, false, &after, &[]), drive(&response, false, &after, &sizes));
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        first in 20..24_u8, input in prop::collection::vec(any::<u8>(), 0..300), sizes in cuts(),
    ) {
        let whole = [&[first, 3, 3][..], &input].concat();
        for input in [&whole, &input] {
            let _ = super::drive(client(), &[7], input, &sizes);
        }
    }
}

/// A session that responds to any input with a large output.
struct Talker;

impl Session for Talker {
    fn capacity(&self) -> usize {
        1
    }

    fn send(&mut self, _: usize, _: Token, out: &mut Out) {
        out.bytes.extend_from_slice(b"x");
    }

    fn receive(&mut self, input: &mut BytesMut, out: &mut Out) -> Result<(), Fault> {
        input.clear();
        out.bytes.resize(out.bytes.len() + (4 << 20), 0);
        Ok(())
    }

    fn end(&mut self, _: &mut Out) -> Fault {
        Fault::Closed
    }

    fn abandon(&mut self, _: Token, _: &mut Out) -> bool {
        false
    }

    fn reusable(&self) -> bool {
        true
    }
}

#[test]
fn a_server_that_does_not_read_is_disconnected() {
    let (mut session, mut server) =
        (sessions().tls.as_ref().unwrap().wrap(Box::new(Talker)), server());
    let (mut input, mut out) = (BytesMut::new(), Out::default());
    ask(&mut *session, &mut server, &mut out, usize::MAX);
    // From this point on, the server does not read.
    let fault = (0..100).find_map(|_| {
        server.writer().write_all(b"?").unwrap();
        input.extend_from_slice(&written(&mut server));
        session.receive(&mut input, &mut out).err()
    });
    assert!(format!("{fault:?}").contains("requests more replies than it reads"), "{fault:?}");
    assert!(out.bytes.len() < OUTPUT_BYTES_MAX + (5 << 20), "{}", out.bytes.len());
}
