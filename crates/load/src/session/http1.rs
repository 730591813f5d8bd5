//! Finds the end of an HTTP/1.1 response.

use bytes::BytesMut;
use curtail_http::h1::{BadResponse, BodyDecoder, Decoded, Limits, ResponseHead, parse_response};

use crate::session::fault::{Expected, Fault};
use crate::session::pipelined::Scan;
use crate::session::{Body, Status, Whole};

/// Maximum number of interim responses (1xx) before the final response.
const INTERIM_MAX: usize = 16;

pub(crate) struct Http1 {
    limits: Limits,
    heads: bool,
    body: Body,
    /// Whether the request is a HEAD, whose response has no body.
    to_head: bool,
    interim: usize,
    response: Option<(ResponseHead, BodyDecoder)>,
    keep_alive: bool,
    /// Whether the first bytes have ruled out HTTP/2 and TLS.
    greeted: bool,
}

impl Http1 {
    pub(crate) fn new(heads: bool, body: Body) -> Http1 {
        let (limits, to_head, interim, response) = (Limits::default(), false, 0, None);
        Http1 { limits, heads, body, to_head, interim, response, keep_alive: true, greeted: false }
    }

    fn head(&mut self, input: &mut BytesMut) -> Result<(), Fault> {
        while self.response.is_none() {
            if !self.greeted {
                self.greeted = Expected::Http1.check(input)?;
                if !self.greeted {
                    return Ok(());
                }
            }
            let parsed = parse_response(input, &self.limits, self.to_head);
            if matches!(parsed, Err(BadResponse::NotHttp)) {
                let message = "the response is not HTTP/1; is it the right port?";
                return Err(Fault::Mismatch(message));
            }
            let Some(head) = parsed? else { return Ok(()) };
            // The client requested no upgrade, so this response is final and ends the connection.
            let switches = head.status() == 101;
            self.keep_alive &= !switches;
            if head.is_interim() && !switches {
                self.interim += 1;
                if self.interim > INTERIM_MAX {
                    return Err(BadResponse::TooManyInterim(INTERIM_MAX).into());
                }
                continue;
            }
            let decoder = BodyDecoder::new(head.framing(), &self.limits);
            self.response = Some((head, decoder));
        }
        Ok(())
    }

    fn whole(&mut self) -> Option<Whole> {
        let (head, _) = self.response.take()?;
        self.keep_alive &= head.keep_alive();
        let status = Status::Http(head.status());
        let head = self.heads.then_some(head);
        Some(Whole { status, head, body_bytes: self.body.bytes })
    }
}

impl Scan for Http1 {
    fn begin(&mut self, request: &[u8]) {
        self.to_head = request.starts_with(b"HEAD ");
        (self.interim, self.body.bytes) = (0, 0);
    }

    fn scan(&mut self, input: &mut BytesMut) -> Result<Option<Whole>, Fault> {
        self.head(input)?;
        let Some((_, decoder)) = &mut self.response else { return Ok(None) };
        loop {
            match decoder.decode(input).map_err(BadResponse::Body)? {
                Decoded::Data(data) => self.body.add(data.len() as u64)?,
                Decoded::NeedMore => return self.body.expect(decoder.announced()).map(|()| None),
                Decoded::End => return Ok(self.whole()),
            }
        }
    }

    fn end(&mut self) -> Option<Whole> {
        self.response.as_ref().filter(|(_, decoder)| decoder.eof().is_ok())?;
        self.whole()
    }

    fn reusable(&self) -> bool {
        self.keep_alive
    }
}
