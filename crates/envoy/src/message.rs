//! A response that the module keeps until it is complete: that of a duplicate.

use curtail_kernel::{Fault, Outcome, OutcomeTable};
use curtail_runtime::http::retry_after;
use curtail_runtime::{Failure, PushBack};

use crate::abi::Field;

/// A header field.
pub(crate) struct OwnField {
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl From<&Field<'_>> for OwnField {
    fn from(field: &Field<'_>) -> Self {
        Self { name: field.name.bytes().into(), value: field.value.bytes().into() }
    }
}

/// A response.
#[derive(Default)]
pub(crate) struct Message {
    pub(crate) head: Vec<OwnField>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<OwnField>,
}

/// Borrows fields, for Envoy.
pub(crate) fn borrowed(fields: &[OwnField]) -> Vec<Field<'_>> {
    fields.iter().map(|field| Field::new(&field.name, &field.value)).collect()
}

fn find<'m>(fields: &'m [OwnField], name: &str) -> Option<&'m [u8]> {
    let found = fields.iter().find(|field| *field.name == *name.as_bytes());
    found.map(|field| &*field.value)
}

/// The field that Envoy's router adds to the response of a server, but not to its own.
pub(crate) const FROM_UPSTREAM: &str = "x-envoy-upstream-service-time";

impl Message {
    /// Returns the value of a field of the head.
    pub(crate) fn header(&self, name: &str) -> Option<&[u8]> {
        find(&self.head, name)
    }

    /// Returns the value of a field of the trailers, or of the head if there are no trailers.
    pub(crate) fn trailer(&self, name: &str) -> Option<&[u8]> {
        find(&self.trailers, name).or_else(|| self.header(name))
    }

    /// Why there is no response of a server, if Envoy's router has made up this one.
    pub(crate) fn failure(&self) -> Option<Failure> {
        if self.header(FROM_UPSTREAM).is_some() {
            return None;
        }
        Some(failure(&self.body))
    }
}

/// The failure that Envoy's router describes, in a response of its own or in the details of one.
pub(crate) fn failure(details: &[u8]) -> Failure {
    let has = |part: &str| details.windows(part.len()).any(|window| window == part.as_bytes());
    let unsent = ["connection failure", "connection_failure", "no healthy upstream"];
    let unsent = unsent.into_iter().chain(["no_healthy_upstream", "connection_timeout"]);
    if unsent.into_iter().any(has) {
        return Failure::ConnectFailed(std::io::ErrorKind::ConnectionRefused);
    }
    if has("overflow") {
        return Failure::Resources(std::io::ErrorKind::QuotaExceeded);
    }
    Failure::Reset
}

/// Parses a number in a header field.
pub(crate) fn number<N: std::str::FromStr>(value: &[u8]) -> Option<N> {
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// What the head of a response means to the kernel.
#[derive(Clone, Copy)]
pub(crate) struct Verdict {
    pub(crate) outcome: Outcome,
    pub(crate) push_back: Option<PushBack>,
}

impl Verdict {
    /// `header` returns the value of a field of the head. `grpc` is the status of a call of gRPC,
    /// once it is known.
    pub(crate) fn of<'m>(
        table: &OutcomeTable,
        header: impl Fn(&str) -> Option<&'m [u8]>,
        grpc: Option<u16>,
    ) -> Self {
        let Some(status) = header(":status").and_then(number) else {
            return Self { outcome: Outcome::Failed(Fault::Malformed), push_back: None };
        };
        let by_status = table.status(status);
        let outcome = match grpc {
            Some(code) if by_status.wins() => table.grpc(code),
            _ => by_status,
        };
        let pause = retry_after(status, header("retry-after"));
        let push_back = pause.filter(|_| outcome == Outcome::Refused).map(PushBack::After);
        Self { outcome, push_back }
    }
}
