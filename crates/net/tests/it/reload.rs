//! Tests of reloads: new files for new connections, open connections, broken files, watching.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use curtail_net::{ClientAuth, ClientTls, ClientTlsSpec, Reload, ServerTls, ServerTlsSpec};
use tokio::sync::Notify;

use crate::common::{Authority, Handshake, assert_contains, der};

#[tokio::test]
async fn new_connections_get_the_new_certificate_and_open_ones_stay() {
    let authority = Authority::new();
    let server = authority.server();
    let client = authority.client();
    let mut open = Handshake::new(&client, &server, "localhost").await.unwrap();
    open.exchange().await;
    let old = open.certificate();
    assert!(!server.reload().unwrap());
    let files = authority.issue(&["localhost"]);
    assert!(server.reload().unwrap());
    assert!(!server.reload().unwrap());
    open.exchange().await;
    let mut new = Handshake::new(&client, &server, "localhost").await.unwrap();
    new.exchange().await;
    // The session of the old configuration is not resumed.
    assert!(!new.is_resumed());
    assert_eq!(new.certificate(), der(&files.cert));
    assert_ne!(new.certificate(), old);
    open.exchange().await;
}

#[tokio::test]
async fn broken_files_keep_the_previous_configuration() {
    let authority = Authority::new();
    let server = authority.server();
    let client = authority.client();
    let path = authority.path("localhost.pem");
    let good = std::fs::read(&path).unwrap();
    for broken in [Some(&b"-----BEGIN CERTIFICATE-----\nAAAA"[..]), Some(b""), None] {
        match broken {
            Some(bytes) => std::fs::write(&path, bytes).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        for _ in 0..2 {
            let error = server.reload().unwrap_err();
            assert_contains(&error.to_string(), &["localhost.pem: "]);
        }
        Handshake::new(&client, &server, "localhost").await.unwrap().exchange().await;
    }
    // The certificate was replaced and the key not yet.
    let key = std::fs::read(authority.path("localhost.key")).unwrap();
    authority.issue(&["localhost"]);
    let new_key = std::fs::read(authority.path("localhost.key")).unwrap();
    std::fs::write(authority.path("localhost.key"), key).unwrap();
    assert_contains(&server.reload().unwrap_err().to_string(), &["does not match"]);
    std::fs::write(authority.path("localhost.key"), new_key).unwrap();
    assert!(server.reload().unwrap());
    std::fs::write(&path, good).unwrap();
    assert!(server.reload().is_err());
    Handshake::new(&client, &server, "localhost").await.unwrap().exchange().await;
}

#[tokio::test]
async fn a_client_reloads_its_authority_and_its_certificate() {
    let [old, new] = [Authority::new(), Authority::new()];
    let [first, second] = [old.issue(&["client.test"]), new.issue(&["client.test"])];
    let spec = ClientTlsSpec { cert_key: Some(first.clone()), ..old.client_spec() };
    let client = ClientTls::load(&spec).unwrap();
    let server = |authority: &Authority| {
        let spec = ServerTlsSpec {
            certificates: vec![authority.issue(&["localhost"])],
            client_auth: ClientAuth::Required,
            client_ca: Some(authority.ca()),
            ..ServerTlsSpec::default()
        };
        ServerTls::load(&spec).unwrap()
    };
    let [old_server, new_server] = [server(&old), server(&new)];
    let mut open = Handshake::new(&client, &old_server, "localhost").await.unwrap();
    open.exchange().await;
    let copy = |from: &Path, to: &Path| std::fs::copy(from, to).unwrap();
    copy(&new.ca(), &old.ca());
    copy(&second.cert, &first.cert);
    assert_contains(&client.reload().unwrap_err().to_string(), &["does not match"]);
    Handshake::new(&client, &old_server, "localhost").await.unwrap().exchange().await;
    copy(&second.key, &first.key);
    assert!(client.reload().unwrap());
    Handshake::new(&client, &new_server, "localhost").await.unwrap().exchange().await;
    // The old session would be resumable, but its authority is no longer trusted.
    let error = Handshake::new(&client, &old_server, "localhost").await.client_error();
    assert_contains(&error, &["not from a trusted authority"]);
    open.exchange().await;
}

/// What a watch reported.
#[derive(Default)]
struct Log {
    lines: Mutex<VecDeque<String>>,
    added: Notify,
}

impl Log {
    fn add(&self, event: &Reload) {
        let line = match event {
            Reload::Reloaded => "reloaded".to_owned(),
            Reload::Failed(error) => error.to_string(),
        };
        self.lines.lock().unwrap().push_back(line);
        self.added.notify_one();
    }

    async fn next(&self) -> String {
        loop {
            if let Some(line) = self.lines.lock().unwrap().pop_front() {
                return line;
            }
            self.added.notified().await;
        }
    }
}

#[tokio::test]
async fn a_watch_reports_each_change_and_each_problem_once() {
    let authority = Authority::new();
    let server = authority.server();
    let client = authority.client();
    let log = Log::default();
    let edits = async {
        authority.issue(&["localhost"]);
        // A reload may see the certificate before its key.
        while log.next().await != "reloaded" {}
        let key = authority.path("localhost.key");
        let good = std::fs::read(&key).unwrap();
        std::fs::write(&key, "").unwrap();
        assert_contains(&log.next().await, &["localhost.key: contains no private key"]);
        // Meanwhile the same problem is found again, but not reported.
        for _ in 0..20 {
            Handshake::new(&client, &server, "localhost").await.unwrap().exchange().await;
        }
        std::fs::remove_file(&key).unwrap();
        assert_contains(&log.next().await, &["localhost.key: cannot be read"]);
        std::fs::write(authority.path("other"), &good).unwrap();
        std::fs::rename(authority.path("other"), &key).unwrap();
        let files = authority.issue(&["localhost"]);
        while log.next().await != "reloaded" {}
        let connected = Handshake::new(&client, &server, "localhost").await.unwrap();
        assert_eq!(connected.certificate(), der(&files.cert));
    };
    tokio::select! {
        () = server.watch(Duration::from_millis(1), |event| log.add(&event)) => panic!("it ended"),
        () = edits => {}
    }
}

#[test]
fn expiries_are_listed_with_their_names() {
    let authority = Authority::named("Test Authority");
    let seconds = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    // With and without 32 bits of seconds.
    let [soon, late] = [seconds(1_900_000_000), seconds(4_500_000_000)];
    let first = authority.issue_until(&["One.test", "*.one.test", "127.0.0.1", "::1"], soon);
    let second = authority.issue_until(&["two.test"], late);
    let spec = ServerTlsSpec {
        certificates: vec![first.clone(), second.clone()],
        client_auth: ClientAuth::Optional,
        client_ca: Some(authority.ca()),
        ..ServerTlsSpec::default()
    };
    let server = ServerTls::load(&spec).unwrap();
    let expiries = server.expiries();
    assert_eq!(expiries.len(), 3);
    assert_eq!(expiries[0].names, ["one.test", "*.one.test", "127.0.0.1", "::1"]);
    assert_eq!((&expiries[0].file, expiries[0].not_after), (&first.cert, soon));
    assert_eq!((&expiries[1].file, expiries[1].not_after), (&second.cert, late));
    assert_eq!(expiries[2].names, ["Test Authority"]);
    assert_eq!(expiries[2].file, authority.ca());
    // A reload changes them.
    let later = authority.issue_until(&["two.test"], soon);
    assert_eq!(later, second);
    assert!(server.reload().unwrap());
    assert_eq!(server.expiries()[1].not_after, soon);
    let client =
        ClientTls::load(&ClientTlsSpec { cert_key: Some(first), ..authority.client_spec() });
    assert_eq!(client.unwrap().expiries()[0].not_after, soon);
}
