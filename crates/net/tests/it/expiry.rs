//! A test of certificates that expire: open connections go on, and new ones fail even if they could
//! resume a session.

use std::time::{Duration, SystemTime};

use curtail_net::{ClientAuth, ClientTls, ClientTlsSpec, ServerTls, ServerTlsSpec};

use crate::common::{Authority, Connected, Handshake, assert_contains, server};

/// Connects with certificates that are valid for some seconds. Longer on a machine that is too slow.
async fn connect_before(
    expiring: impl Fn(SystemTime) -> (ClientTls, ServerTls),
) -> (ClientTls, ServerTls, Connected) {
    for seconds in [2, 8, 32] {
        let (client, server) = expiring(SystemTime::now() + Duration::from_secs(seconds));
        let handshake = Handshake::new(&client, &server, "localhost").await;
        if handshake.client.is_ok() && handshake.server.is_ok() {
            let mut open = handshake.unwrap();
            open.exchange().await;
            return (client, server, open);
        }
    }
    panic!("no handshake takes less than 32 s");
}

/// Connects until it fails, and returns the last result. Each success resumes a session. Gives up
/// long after the certificate has expired.
async fn connect_until_failure(client: &ClientTls, server: &ServerTls) -> Handshake {
    for _ in 0..3000 {
        let handshake = Handshake::new(client, server, "localhost").await;
        if handshake.client.is_err() || handshake.server.is_err() {
            return handshake;
        }
        let mut connected = handshake.unwrap();
        connected.exchange().await;
        assert!(connected.is_resumed());
        tokio::time::sleep(Duration::from_millis(20)).await; // tidy: real time
    }
    panic!("sessions of an expired certificate are resumed");
}

#[tokio::test]
async fn an_expired_server_is_refused_although_its_session_could_be_resumed() {
    let authority = Authority::new();
    let (client, tls, mut open) = connect_before(|end| {
        (authority.client(), server(&[authority.issue_until(&["localhost"], end)]))
    })
    .await;
    let error = connect_until_failure(&client, &tls).await.client_error();
    assert_contains(&error, &["server `localhost` has expired", "renew it"]);
    open.exchange().await;
    // The old sessions are forgotten, so the next connection verifies the certificate.
    let error = Handshake::new(&client, &tls, "localhost").await.client_error();
    assert_contains(&error, &["server `localhost` has expired", " s ago"]);
    authority.issue(&["localhost"]);
    assert!(tls.reload().unwrap());
    let mut renewed = Handshake::new(&client, &tls, "localhost").await.unwrap();
    renewed.exchange().await;
    assert!(!renewed.is_resumed());
    open.exchange().await;
}

#[tokio::test]
async fn an_expired_client_is_refused_although_its_session_could_be_resumed() {
    let authority = Authority::new();
    let spec = ServerTlsSpec {
        certificates: vec![authority.issue(&["localhost"])],
        client_auth: ClientAuth::Required,
        client_ca: Some(authority.ca()),
        ..ServerTlsSpec::default()
    };
    let (client, tls, mut open) = connect_before(|end| {
        let cert_key = Some(authority.issue_until(&["client.test"], end));
        let client = ClientTls::load(&ClientTlsSpec { cert_key, ..authority.client_spec() });
        (client.unwrap(), ServerTls::load(&spec).unwrap())
    })
    .await;
    let error = connect_until_failure(&client, &tls).await.server.unwrap_err().to_string();
    assert_contains(&error, &["the certificate of the client has expired", "renew it"]);
    open.exchange().await;
}
