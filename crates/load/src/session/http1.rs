//! HTTP/1.1: one request at a time.

use std::sync::Arc;

use bytes::BytesMut;
use curtail_http1::{BadResponse, BodyDecoder, Decoded, Limits, ResponseHead, parse_response};

use crate::session::fault::Fault;
use crate::session::fault::Greeting;
use crate::session::{Reply, Session, Sessions, Status, Token, Whole};

/// Most interim answers (1xx) before one answer.
const INTERIM_MAX: usize = 16;

/// One connection.
#[derive(Debug)]
pub(crate) struct Http1 {
    sessions: Arc<Sessions>,
    limits: Limits,
    /// Someone wants to see the heads.
    heads: bool,
    /// The longest body, in bytes.
    body_bytes_max: u64,
    state: State,
    keep_alive: bool,
    /// The server is known not to speak something else.
    greeted: bool,
}

#[derive(Debug)]
enum State {
    Idle,
    /// Waits for the head of the answer, after so many interim ones.
    Head {
        token: Token,
        begun: bool,
        interim: usize,
        /// The request was a HEAD, whose answer has no body.
        to_head: bool,
    },
    Body {
        token: Token,
        head: ResponseHead,
        decoder: BodyDecoder,
        body_bytes: u64,
    },
}

impl Http1 {
    pub(crate) fn new(sessions: Arc<Sessions>) -> Http1 {
        let (heads, body_bytes_max) = (sessions.heads, sessions.body_bytes_max);
        let limits = Limits::default();
        let (state, keep_alive) = (State::Idle, true);
        Http1 { sessions, limits, heads, body_bytes_max, state, keep_alive, greeted: false }
    }

    /// Reads the body on; the reply once it is whole.
    fn body(&mut self, input: &mut BytesMut) -> Result<Option<Reply>, Fault> {
        let State::Body { decoder, body_bytes, .. } = &mut self.state else { return Ok(None) };
        loop {
            match decoder.decode(input).map_err(BadResponse::Body)? {
                Decoded::Data(data) => {
                    *body_bytes += data.len() as u64;
                    if *body_bytes > self.body_bytes_max {
                        return Err(Fault::TooLarge { limit: self.body_bytes_max });
                    }
                }
                // What is announced is not waited for where it is too much.
                Decoded::NeedMore if self.body_bytes_max - *body_bytes < decoder.announced() => {
                    return Err(Fault::TooLarge { limit: self.body_bytes_max });
                }
                Decoded::NeedMore => return Ok(None),
                Decoded::End => return Ok(self.whole()),
            }
        }
    }

    /// The answer is complete.
    fn whole(&mut self) -> Option<Reply> {
        let state = std::mem::replace(&mut self.state, State::Idle);
        let State::Body { token, head, body_bytes, .. } = state else { return None };
        self.keep_alive &= head.keep_alive();
        let status = Status::Http(head.status());
        let head = self.heads.then_some(head);
        Some(Reply { token, result: Ok(Whole { status, head, body_bytes }) })
    }

    /// Reads the head, if it is there.
    fn head(&mut self, input: &mut BytesMut) -> Result<(), Fault> {
        while let State::Head { token, begun, interim, to_head } = &mut self.state {
            *begun |= !input.is_empty();
            if !self.greeted {
                match Greeting::of(input) {
                    Greeting::Http1 | Greeting::Other => self.greeted = true,
                    Greeting::Unknown => return Ok(()),
                    Greeting::Http2 => {
                        return Err(Fault::Mismatch(
                            "the server answered HTTP/2 to HTTP/1; add --http2",
                        ));
                    }
                    Greeting::Tls => {
                        return Err(Fault::Mismatch(
                            "the server speaks TLS; write https:// instead of http://",
                        ));
                    }
                }
            }
            let parsed = parse_response(input, &self.limits, *to_head);
            if matches!(parsed, Err(BadResponse::NotHttp)) {
                let what = "the answer is not HTTP/1; is it the right port?";
                return Err(Fault::Mismatch(what));
            }
            let Some(head) = parsed? else { return Ok(()) };
            // Nobody asked for another protocol, so the server is done with this one.
            let switches = head.status() == 101;
            self.keep_alive &= !switches;
            if head.is_interim() && !switches {
                *interim += 1;
                if *interim > INTERIM_MAX {
                    return Err(BadResponse::TooManyInterim(INTERIM_MAX).into());
                }
                continue;
            }
            let decoder = BodyDecoder::new(head.framing(), &self.limits);
            self.state = State::Body { token: *token, head, decoder, body_bytes: 0 };
        }
        Ok(())
    }
}

impl Session for Http1 {
    fn capacity(&self) -> usize {
        usize::from(self.keep_alive && matches!(self.state, State::Idle))
    }

    fn send(&mut self, query: usize, token: Token, out: &mut BytesMut) {
        assert!(self.capacity() > 0, "one request at a time");
        let request = self.sessions.rendered(query);
        out.extend_from_slice(request);
        let to_head = request.starts_with(b"HEAD ");
        self.state = State::Head { token, begun: false, interim: 0, to_head };
    }

    fn receive(
        &mut self,
        input: &mut BytesMut,
        _: &mut BytesMut,
        replies: &mut Vec<Reply>,
    ) -> Result<(), Fault> {
        self.head(input)?;
        replies.extend(self.body(input)?);
        match self.state {
            // Nobody asked for it, so it would pass for the answer to the next request.
            State::Idle if !input.is_empty() => Err(Fault::Surplus),
            _ => Ok(()),
        }
    }

    fn end(&mut self, replies: &mut Vec<Reply>) -> Fault {
        self.keep_alive = false;
        match &self.state {
            State::Body { decoder, .. } if decoder.eof().is_ok() => {
                replies.extend(self.whole());
                Fault::Closed
            }
            State::Body { .. } | State::Head { begun: true, .. } => Fault::HalfAnswer,
            State::Head { .. } | State::Idle => Fault::Closed,
        }
    }

    fn cut(&self, fault: Fault) -> Fault {
        match (&self.state, fault) {
            (State::Body { .. } | State::Head { begun: true, .. }, Fault::Closed) => {
                Fault::HalfAnswer
            }
            (_, fault) => fault,
        }
    }

    fn abandon(&mut self, _: Token, _: &mut BytesMut) -> bool {
        // Its answer may still come, and would be taken for another's.
        false
    }

    fn reusable(&self) -> bool {
        self.keep_alive
    }
}
