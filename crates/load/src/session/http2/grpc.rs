//! Unary gRPC calls (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md). A message consists of a flag, a
//! 4-byte length, and the number of bytes that the length specifies. The status is in the trailers,
//! or in the headers if there is no message. Messages are counted and discarded.

use curtail_http::grpc::CODES;
use http::HeaderMap;
use percent_encoding::percent_decode;

use crate::session::Status;
use crate::session::fault::Fault;

const PREFIX_BYTES: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Unary {
    prefix: Vec<u8>,
    bytes: u64,
    status: Option<(Vec<u8>, Vec<u8>)>,
}

impl Unary {
    pub(super) fn headers(&mut self, headers: &HeaderMap) {
        let value = |name| headers.get(name).map(|value| value.as_bytes().to_vec());
        if let Some(code) = value("grpc-status") {
            self.status = Some((code, value("grpc-message").unwrap_or_default()));
        }
    }

    pub(super) fn data(&mut self, data: &[u8]) {
        let missing = PREFIX_BYTES - self.prefix.len();
        self.prefix.extend_from_slice(&data[..missing.min(data.len())]);
        self.bytes += data.len() as u64;
    }

    pub(super) fn status(&mut self) -> Result<Status, Fault> {
        let malformed = |message: String| Err(Fault::Malformed(message));
        let Some((code, message)) = self.status.take() else {
            return malformed("the response has no grpc-status; is it a gRPC server?".to_owned());
        };
        let number = std::str::from_utf8(&code).ok().and_then(|code| code.parse::<usize>().ok());
        let Some(number) = number else {
            return malformed("the grpc-status of the response is not a number".to_owned());
        };
        if number > 0 {
            let name = CODES.get(number).copied().unwrap_or("a code that is not known");
            let message: Vec<u8> = percent_decode(&message).collect();
            let reason = [format!("{number} {name}: ").as_bytes(), &message].concat();
            return Ok(Status::refused(&reason));
        }
        match *self.prefix {
            [_, a, b, c, d] => {
                let length = u64::from(u32::from_be_bytes([a, b, c, d]));
                let received = self.bytes - PREFIX_BYTES as u64;
                if length == received {
                    Ok(Status::Fine)
                } else {
                    malformed(format!("a message of {length} bytes, but {received} arrived"))
                }
            }
            _ => malformed("the response to a successful call has no message".to_owned()),
        }
    }
}
