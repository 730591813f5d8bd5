//! Relays a long response, piece by piece, while its copy keeps its slot.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Settings;
use super::incoming::Incoming;
use super::message::BodySender;
use crate::failure::Failure;
use crate::transport::CopyHandle;

/// How often the kernel hears that a server which sends is not silent. Cancel timeouts are longer.
const PROGRESS: Duration = Duration::from_millis(50);

/// The rest of a long response.
pub(super) struct Relay {
    incoming: Incoming,
    settings: Settings,
    copy: CopyHandle,
    /// When the kernel last heard that the copy is at work.
    last_progress: Instant,
    /// Since when no client wants it.
    unwanted: Option<Instant>,
}

impl Relay {
    pub(super) fn new(incoming: Incoming, settings: Settings, copy: CopyHandle) -> Self {
        Self { incoming, settings, copy, last_progress: Instant::now(), unwanted: None }
    }

    /// Reads it for a client that may be slow, or gone.
    pub(super) async fn run(mut self, sender: BodySender) -> Result<(), Failure> {
        let end = loop {
            match self.next(&sender).await {
                Ok(Some(piece)) if self.unwanted.is_none() => {
                    if !self.forward(&sender, piece).await {
                        self.unwanted();
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) => break self.incoming.trailers().await,
                Err(failure) => break Err(failure),
            }
        };
        let result = end.as_ref().map(|_| ()).map_err(|why| *why);
        sender.end(end);
        if result.is_ok() {
            self.incoming.release();
        }
        result
    }

    async fn next(&mut self, sender: &BodySender) -> Result<Option<Bytes>, Failure> {
        let silent = Instant::now() + self.settings.read_timeout;
        let piece = loop {
            let cut = self.unwanted.map(|since| since + self.settings.unwanted_timeout);
            // A server that always has a piece ready would never let a timer go off.
            if cut.is_some_and(|cut| cut <= Instant::now()) {
                return Err(Failure::GivenUp);
            }
            let until = cut.map_or(silent, |cut| cut.min(silent));
            tokio::select! {
                piece = timeout_at(until, self.incoming.body()) => match piece {
                    Ok(piece) => break piece,
                    Err(_) if until < silent => return Err(Failure::GivenUp),
                    Err(_) => return Err(Failure::Stalled(self.settings.read_timeout)),
                },
                // Not only when the next piece comes: a server may be silent for long.
                () = sender.closed(), if self.unwanted.is_none() => self.unwanted(),
            }
        };
        self.report_progress();
        piece
    }

    /// Hands a piece to a client, who may be slow: that is not the server's silence. False when
    /// no client takes it.
    async fn forward(&mut self, sender: &BodySender, piece: Bytes) -> bool {
        let passing = sender.send(piece);
        tokio::pin!(passing);
        loop {
            tokio::select! {
                taken = &mut passing => return taken,
                () = sleep_until(self.last_progress + PROGRESS) => self.report_progress(),
            }
        }
    }

    /// Tells the kernel now and then that the copy is at work: for every piece would be a lock for
    /// every piece.
    fn report_progress(&mut self) {
        if self.last_progress.elapsed() >= PROGRESS {
            self.last_progress = Instant::now();
            self.copy.progress();
        }
    }

    /// The server is still busy: the kernel decides whether to stop it.
    fn unwanted(&mut self) {
        self.unwanted = Some(Instant::now());
        self.copy.unwanted();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Weak};

    use curtail_kernel::{CopyId, Role};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::super::message::{Request, channel};
    use super::super::upstream::Upstream;
    use super::*;
    use crate::transport::Listener;

    #[derive(Default)]
    struct Heard(AtomicU32);

    impl Listener for Heard {
        fn unwanted(&self, _: CopyId) {}

        fn began(&self, _: CopyId) {}

        fn progress(&self, _: CopyId) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_slow_client_is_not_the_silence_of_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (mut server, _) = listener.accept().await.unwrap();
            let response = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                3\r\none\r\n3\r\ntwo\r\n5\r\nthree\r\n0\r\n\r\n";
            server.write_all(response).await.unwrap();
        });
        let settings = Settings::default();
        let upstream = Upstream::new(address.into(), settings);
        let request = Request::new("GET", "/", [("host", "x")], "", true).unwrap();
        let (incoming, _) = upstream.exchange(&request, b"").await.unwrap();
        let heard = Arc::new(Heard::default());
        let cell = Arc::downgrade(&heard) as Weak<dyn Listener>;
        let copy = CopyHandle { cell, copy: CopyId { serial: 0, slot: 0 }, role: Role::Primary };
        // No client reads, so the channel has no room for the second piece.
        let (sender, mut body) = channel(1);
        let relay = Relay::new(incoming, settings, copy);
        let passing = tokio::spawn(relay.run(sender));
        while heard.0.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        let mut read = Vec::new();
        while let Some(piece) = body.next().await.unwrap() {
            read.extend_from_slice(&piece);
        }
        assert_eq!(read, b"onetwothree");
        passing.await.unwrap().unwrap();
    }
}
