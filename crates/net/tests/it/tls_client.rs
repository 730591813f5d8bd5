//! Tests of the client's side of TLS: verification, servers without TLS, errors in settings.

use std::time::{Duration, SystemTime};

use curtail_net::{ClientTls, ClientTlsSpec, HandshakeError, TlsError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::common::{Authority, Handshake, assert_contains, plain, server};

#[tokio::test]
async fn the_name_is_verified_and_can_be_set() {
    let authority = Authority::new();
    let server = server(&[authority.issue(&["api.internal", "127.0.0.1", "::1"])]);
    let client = authority.client();
    for host in ["api.internal", "api.internal.", "API.internal", "127.0.0.1", "::1"] {
        Handshake::new(&client, &server, host).await.unwrap().exchange().await;
    }
    let error = Handshake::new(&client, &server, "replica-1").await.client_error();
    let fix = "set `name` to one of these";
    assert_contains(&error, &["server `replica-1`", "only for", "api.internal", fix]);
    let spec = ClientTlsSpec { name: Some("api.internal".to_owned()), ..authority.client_spec() };
    let client = ClientTls::load(&spec).unwrap();
    let connected = Handshake::new(&client, &server, "replica-1").await.unwrap();
    assert_eq!(connected.server.server_name(), Some("api.internal"));
    let spec = ClientTlsSpec { name: Some("other.internal".to_owned()), ..authority.client_spec() };
    let client = ClientTls::load(&spec).unwrap();
    let error = Handshake::new(&client, &server, "api.internal").await.client_error();
    assert_contains(&error, &["server `other.internal`"]);
}

#[tokio::test]
async fn unknown_authorities_and_other_dates_are_refused() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let refused = Handshake::new(&stranger.client(), &authority.server(), "localhost").await;
    // The server receives the reason as an alert.
    let error = refused.server.unwrap_err();
    assert!(matches!(error, HandshakeError::Refused { .. }), "{error}");
    assert_contains(&error.to_string(), &["UnknownCA", "does not accept our certificate"]);
    let error = refused.client.unwrap_err().to_string();
    assert_contains(&error, &["server `localhost`", "add its authority to `ca`"]);

    // Authorities with the same name and different keys.
    let [ours, theirs] = [Authority::named("Twin"), Authority::named("Twin")];
    let refused = Handshake::new(&ours.client(), &theirs.server(), "localhost").await;
    assert_contains(&refused.client_error(), &["not from a trusted authority"]);

    let past = SystemTime::now() - Duration::from_secs(5000);
    let expired = server(&[authority.issue_until(&["localhost"], past)]);
    let error = Handshake::new(&authority.client(), &expired, "localhost").await.client_error();
    assert_contains(&error, &["server `localhost` has expired 50", " s ago; renew it"]);
}

#[tokio::test]
async fn a_server_without_tls_is_recognized() {
    let client = Authority::new().client();
    let [connecting, mut accepted] = plain().await;
    let answer = async {
        let mut hello = [0; 5];
        accepted.read_exact(&mut hello).await.unwrap();
        assert_eq!(hello[0], 22);
        accepted.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    };
    let (result, ()) = tokio::join!(client.connect(connecting, "localhost"), answer);
    let error = result.unwrap_err();
    assert!(matches!(error, HandshakeError::PlainServer), "{error}");
    assert_contains(&error.to_string(), &["does not use TLS on this port"]);

    let [connecting, mut accepted] = plain().await;
    let hang_up = async {
        // Everything is read, so that the client sees the end of the stream and no reset.
        let mut hello = [0; 4096];
        assert_ne!(accepted.read(&mut hello).await.unwrap(), 0);
        drop(accepted);
    };
    let (result, ()) = tokio::join!(client.connect(connecting, "localhost"), hang_up);
    let error = result.unwrap_err();
    assert!(matches!(error, HandshakeError::Closed { .. }), "{error}");
    assert_contains(&error.to_string(), &["check that its port uses TLS"]);
}

#[tokio::test]
async fn names_that_no_certificate_contains_are_refused_early() {
    let authority = Authority::new();
    let spec = ClientTlsSpec { name: Some("a b".to_owned()), ..authority.client_spec() };
    let error = ClientTls::load(&spec).unwrap_err();
    assert!(matches!(error, TlsError::Settings(_)), "{error:?}");
    assert_contains(&error.to_string(), &["name `a b`", "use a host name or an IP address"]);
    let [connecting, _accepted] = plain().await;
    let error = authority.client().connect(connecting, "a b").await.unwrap_err();
    assert_contains(&error.to_string(), &["host `a b`", "set `name`"]);
}

/// The system of a test may have authorities or not, but none of them signed this certificate.
#[tokio::test]
async fn the_authorities_of_the_system_are_the_default() {
    match ClientTls::load(&ClientTlsSpec::default()) {
        Ok(client) => {
            let server = Authority::new().server();
            let error = Handshake::new(&client, &server, "localhost").await.client_error();
            assert_contains(&error, &["not from a trusted authority"]);
            assert!(client.expiries().is_empty());
        }
        Err(error) => assert_contains(&error.to_string(), &["no trusted authorities", "set `ca`"]),
    }
}
