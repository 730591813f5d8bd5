//! Reads a long response into the buffer of its receiver, while its copy keeps its slot.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use curtail_http::Timer;
use curtail_kernel::{Outcome, OutcomeTable};
use http::HeaderMap;
use tokio::time::Instant;

use super::incoming::Incoming;
use super::pipe::BodySender;
use super::{Settings, grpc};
use crate::failure::Failure;
use crate::transport::{CopyContext, TailEnd};

/// Time between two reports to the kernel that the copy makes progress. Cancel timeouts are longer.
const PROGRESS: Duration = Duration::from_millis(50);

/// The future of the rest of a long response. Resolves to the outcome that the end decides.
pub(super) struct Relay {
    /// `None` after the end.
    ends: Option<(Incoming, BodySender)>,
    read_timeout: Duration,
    unwanted_timeout: Duration,
    copy: CopyContext,
    timer: Timer,
    last_read: Instant,
    last_progress: Instant,
    /// The time since when no client wants the response.
    unwanted: Option<Instant>,
    body_ended: bool,
    /// The number of bytes that were read.
    bytes: u64,
    /// The table of outcomes, if the trailers contain a status of gRPC.
    grpc: Option<Arc<OutcomeTable>>,
}

impl Relay {
    /// Relays the rest of a response after `read`, the part that has been read. `grpc` is the
    /// table of outcomes if the trailers contain a status of gRPC.
    pub(super) fn new(
        incoming: Incoming,
        sender: BodySender,
        settings: &Settings,
        copy: CopyContext,
        read: Bytes,
        grpc: Option<Arc<OutcomeTable>>,
    ) -> Self {
        let now = Instant::now();
        let bytes = read.len() as u64;
        if !read.is_empty() {
            sender.send(read);
        }
        Self {
            ends: Some((incoming, sender)),
            read_timeout: settings.read_timeout,
            unwanted_timeout: settings.unwanted_timeout,
            copy,
            timer: Timer::default(),
            last_read: now,
            last_progress: now,
            unwanted: None,
            body_ended: false,
            bytes,
            grpc,
        }
    }

    fn poll_end(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Option<Box<HeaderMap>>, Failure>> {
        let now = Instant::now();
        // A server that always has a piece ready would never let the timer pass.
        if self.is_given_up(now) {
            return Poll::Ready(Err(Failure::GivenUp));
        }
        let Some((incoming, sender)) = &mut self.ends else { return Poll::Pending };
        loop {
            if self.unwanted.is_none() {
                match sender.poll_room(context) {
                    Poll::Ready(true) => {}
                    Poll::Ready(false) => {
                        self.unwanted = Some(now);
                        // The server is still busy. The kernel decides whether to stop it.
                        self.copy.unwanted();
                    }
                    Poll::Pending => {
                        // The client is slow, which is not the silence of the server.
                        self.last_read = now;
                        report_progress(&self.copy, &mut self.last_progress, now);
                        self.timer.poll_passed(self.last_progress + PROGRESS, context);
                        return Poll::Pending;
                    }
                }
            }
            if self.body_ended {
                return incoming.poll_trailers(context);
            }
            match incoming.poll_body(context) {
                Poll::Ready(Ok(Some(piece))) => {
                    self.last_read = now;
                    report_progress(&self.copy, &mut self.last_progress, now);
                    self.bytes += piece.len() as u64;
                    let has_bytes = !piece.is_empty();
                    if self.unwanted.is_none()
                        && sender.send(piece)
                        && has_bytes
                        && !incoming.has_buffered()
                    {
                        return Poll::Pending;
                    }
                }
                Poll::Ready(Ok(None)) => self.body_ended = true,
                Poll::Ready(Err(why)) => return Poll::Ready(Err(why)),
                Poll::Pending => return self.poll_silence(context),
            }
        }
    }

    fn is_given_up(&self, now: Instant) -> bool {
        self.unwanted.is_some_and(|since| since + self.unwanted_timeout <= now)
    }

    /// Fails if the server has sent nothing for too long.
    fn poll_silence<T>(&mut self, context: &mut Context<'_>) -> Poll<Result<T, Failure>> {
        let silent = self.last_read + self.read_timeout;
        let given_up = self.unwanted.map(|since| since + self.unwanted_timeout);
        let until = given_up.map_or(silent, |given_up| given_up.min(silent));
        if !self.timer.poll_passed(until, context) {
            return Poll::Pending;
        }
        Poll::Ready(Err(if until < silent {
            Failure::GivenUp
        } else {
            Failure::Stalled(self.read_timeout)
        }))
    }
}

/// Reports now and then that the copy makes progress. Each report locks the cell.
fn report_progress(copy: &CopyContext, last: &mut Instant, now: Instant) {
    if now.saturating_duration_since(*last) >= PROGRESS {
        *last = now;
        copy.progress();
    }
}

impl Future for Relay {
    type Output = Result<TailEnd, Failure>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let end = ready!(this.poll_end(context));
        let result = match (&end, &this.grpc) {
            (Ok(trailers), Some(table)) => {
                grpc::outcome(table, None, trailers.as_deref()).map(Some)
            }
            (Ok(_), None) => Ok(None),
            (Err(why), _) => Err(*why),
        };
        if let Some((incoming, sender)) = this.ends.take() {
            sender.end(end);
            if result.is_ok() {
                incoming.release();
            }
        }
        let bytes = this.bytes;
        Poll::Ready(result.map(|outcome: Option<Outcome>| TailEnd { outcome, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::sync::atomic::{AtomicU32, Ordering};

    use curtail_kernel::{CopyId, GroupId, Role, ServerId, StartReason};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpListener;

    use super::super::budget::Budget;
    use super::super::message::Request;
    use super::super::pipe::pipe;
    use super::super::upstream::Upstream;
    use super::*;
    use crate::observe::CopyInfo;
    use crate::transport::Listener;

    #[derive(Default)]
    struct Heard(AtomicU32);

    impl Listener for Heard {
        fn unwanted(&self, _: CopyId) {}

        fn began(&self, _: CopyId) {}
        fn bind(&self, _: CopyId) {}

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
        let id = CopyId { serial: 0, slot: 0 };
        let copy = CopyContext {
            cell,
            copy: id,
            info: CopyInfo {
                group: GroupId(0),
                server: ServerId(0),
                role: Role::Primary,
                why: StartReason::Arrival,
            },
            attempt: 0,
            deadline: None,
        };
        // No client reads, so the buffer has no room for the second piece.
        let (sender, mut body) = pipe(1, &Budget::default());
        let relay = Relay::new(incoming, sender, &settings, copy, Bytes::new(), None);
        let passing = tokio::spawn(relay);
        while heard.0.load(Ordering::Relaxed) < 3 {
            tokio::task::yield_now().await;
        }
        let mut read = Vec::new();
        while let Some(pieces) = body.next().await.unwrap() {
            read.extend_from_slice(&pieces.join());
        }
        assert_eq!(read, b"onetwothree");
        passing.await.unwrap().unwrap();
    }
}
