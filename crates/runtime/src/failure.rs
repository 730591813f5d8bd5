//! Reasons why a copy has no response, each with its outcome for the kernel and a message for
//! clients.

use std::io;
use std::time::Duration;

use curtail_http::h1::client::ClientError;
use curtail_http::h1::{BadResponse, BodyError};
use curtail_kernel::{Fault, Outcome};

/// The reason why a server gave no response. Its text is for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There was no connection, so no part of the request was sent.
    #[error("no connection: {0}")]
    ConnectFailed(io::ErrorKind),
    /// There was no connection within the timeout.
    #[error("no connection within {0:?}")]
    ConnectTimeout(Duration),
    /// The TLS handshake failed, so no part of the request was sent.
    #[error("the TLS handshake failed; the debug log has the reason")]
    Handshake,
    /// The connection ended before the response began.
    #[error("the connection closed before the response")]
    Reset,
    /// The server reset the stream, with this error code (RFC 9113 §7).
    #[error("the server reset the stream with error code {0}")]
    StreamReset(u32),
    /// The connection ended in the middle of the response.
    #[error("the connection closed during the response")]
    Incomplete,
    /// The connection broke in another way.
    #[error("the connection broke: {0}")]
    Io(io::ErrorKind),
    /// No byte of the body arrived for this long.
    #[error("no byte of the body arrived for {0:?}")]
    Stalled(Duration),
    /// The bytes are not a valid response, or the response exceeds a limit of this side.
    #[error("{0}")]
    BadResponse(BadResponse),
    /// The body is longer than this limit of this side, in bytes.
    #[error("the body of the response is longer than {0} bytes")]
    BodyTooLarge(usize),
    /// This side has no descriptor, port or buffer left.
    #[error("no local descriptor, port or buffer is left: {0}")]
    Resources(io::ErrorKind),
    /// The request cannot be sent in the server's version of HTTP.
    #[error("the request cannot be sent in this version of HTTP")]
    Unsendable,
    /// This side no longer needed the result.
    #[error("given up")]
    GivenUp,
    /// The transport has a bug.
    #[error("the transport panicked")]
    Panicked,
}

impl Failure {
    /// Returns the outcome for the kernel.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::ConnectFailed(_) | Self::ConnectTimeout(_) | Self::Handshake => {
                Outcome::Failed(Fault::ConnectFailed)
            }
            Self::Reset
            | Self::StreamReset(_)
            | Self::Incomplete
            | Self::Io(_)
            | Self::Stalled(_) => Outcome::Failed(Fault::Reset),
            Self::BodyTooLarge(_) => Outcome::OverLimit,
            Self::BadResponse(why) if why.is_over_a_limit() => Outcome::OverLimit,
            Self::BadResponse(_) | Self::Panicked => Outcome::Failed(Fault::Malformed),
            Self::Resources(_) | Self::Unsendable | Self::GivenUp => Outcome::Local,
        }
    }

    /// The failure that an error of HTTP/2 means.
    #[cfg(feature = "http")]
    pub(crate) fn of_http2(error: &h2::Error) -> Self {
        match error.reason() {
            Some(reason) if error.is_reset() && error.is_remote() => {
                Self::StreamReset(reason.into())
            }
            // This side has reset the stream, for example because the client's body is invalid.
            Some(_) if error.is_reset() && !error.is_remote() && !error.is_library() => {
                Self::GivenUp
            }
            Some(_) => Self::BadResponse(BadResponse::NotHttp),
            None => error.get_io().map_or(Self::Reset, |error| Self::Io(error.kind())),
        }
    }

    /// Returns the kind of the failure, for labels of metrics.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::ConnectFailed(_) | Self::Handshake => Cause::ConnectFailed,
            Self::ConnectTimeout(_) => Cause::ConnectTimeout,
            Self::Reset | Self::StreamReset(_) | Self::Io(_) => Cause::Reset,
            Self::Incomplete => Cause::Incomplete,
            Self::Stalled(_) => Cause::Stalled,
            Self::BodyTooLarge(_) => Cause::BodyTooLarge,
            Self::BadResponse(why) => Cause::of(why),
            Self::Resources(_) | Self::Unsendable | Self::GivenUp | Self::Panicked => Cause::Local,
        }
    }
}

/// The kind of a failure. Its text is for clients, so it contains no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    /// The server accepted no connection.
    #[error("the replica accepts no connections")]
    ConnectFailed,
    /// The server accepted no connection within the timeout.
    #[error("the replica accepted no connection in time")]
    ConnectTimeout,
    /// The connection ended before the response.
    #[error("the replica closed the connection before it responded")]
    Reset,
    /// The connection ended in the middle of the response.
    #[error("the replica closed the connection during its response")]
    Incomplete,
    /// The response paused for too long.
    #[error("the replica stopped sending during its response")]
    Stalled,
    /// The response is not in the expected version of HTTP.
    #[error(
        "the replica's response is not in the version of HTTP that the service's protocol names"
    )]
    NotHttp,
    /// The head of the response is malformed.
    #[error("the head of the replica's response is malformed")]
    Malformed,
    /// The status is invalid, or an upgrade that was not requested.
    #[error("a proxy cannot relay the status of the replica's response")]
    Status,
    /// The length of the response is contradictory or unknown.
    #[error("the length of the replica's response is not reliable")]
    Framing,
    /// The chunked coding is malformed.
    #[error("the chunked body of the replica's response is malformed")]
    Chunks,
    /// The head exceeds a limit.
    #[error("the head of the replica's response is over a limit of the proxy")]
    HeadTooLarge,
    /// The body, or its framing, exceeds a limit.
    #[error("the body of the replica's response is over a limit of the proxy")]
    BodyTooLarge,
    /// By its status, the response is a refusal or a failure.
    #[error("the status of the response means a refusal or a failure")]
    BadStatus,
    /// A probe got no response within the timeout.
    #[error("the replica did not respond in time")]
    Silent,
    /// The copy ended on this side.
    #[error("the proxy could not send the request to a replica")]
    Local,
}

impl Cause {
    fn of(why: &BadResponse) -> Self {
        use BodyError::{ExtensionsTooLong, LineTooLong, TrailersTooLong};
        match why {
            BadResponse::NotHttp => Self::NotHttp,
            BadResponse::Malformed(_) => Self::Malformed,
            BadResponse::Status(_) | BadResponse::Upgrade => Self::Status,
            BadResponse::Framing(_) => Self::Framing,
            BadResponse::HeadTooLarge(_)
            | BadResponse::TooManyHeaders(_)
            | BadResponse::TooManyInterim(_) => Self::HeadTooLarge,
            BadResponse::Body(LineTooLong(_) | ExtensionsTooLong(_) | TrailersTooLong(_)) => {
                Self::BodyTooLarge
            }
            BadResponse::Body(_) => Self::Chunks,
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::TooLarge(bytes) => Self::BodyTooLarge(bytes),
            ClientError::Parse(response) => Self::BadResponse(response),
            ClientError::Unsent => Self::ConnectFailed(io::ErrorKind::NotConnected),
            ClientError::Closed | ClientError::NotReusable => Self::Reset,
            ClientError::IncompleteMessage => Self::Incomplete,
            ClientError::Io(error) => Self::Io(error.kind()),
        }
    }
}

/// Converts an error of connecting.
impl From<&io::Error> for Failure {
    fn from(error: &io::Error) -> Self {
        use io::ErrorKind::{AddrInUse, AddrNotAvailable, OutOfMemory};
        /// No descriptors, in the system or the process; no buffers, on Linux and on BSDs.
        const SCARCE: [i32; 4] = [23, 24, 105, 55];
        match error.kind() {
            // No port left.
            kind @ (AddrInUse | AddrNotAvailable | OutOfMemory) => Self::Resources(kind),
            kind if error.raw_os_error().is_some_and(|code| SCARCE.contains(&code)) => {
                Self::Resources(kind)
            }
            kind => Self::ConnectFailed(kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_connection_nothing_was_sent() {
        use io::ErrorKind::{ConnectionRefused, HostUnreachable, PermissionDenied, TimedOut};
        for kind in [ConnectionRefused, HostUnreachable, PermissionDenied, TimedOut] {
            assert_eq!(Failure::from(&kind.into()), Failure::ConnectFailed(kind));
        }
        let no_port = Failure::from(&io::ErrorKind::AddrNotAvailable.into());
        assert_eq!(no_port.outcome(), Outcome::Local);
    }

    #[test]
    #[cfg(unix)]
    fn a_lack_of_descriptors_is_our_own() {
        const EMFILE: i32 = 24;
        let failure = Failure::from(&io::Error::from_raw_os_error(EMFILE));
        assert_eq!(failure.outcome(), Outcome::Local);
    }

    #[test]
    fn a_limit_of_this_side_is_no_fault_of_the_server() {
        for failure in [
            Failure::BodyTooLarge(1),
            Failure::BadResponse(BadResponse::HeadTooLarge(1)),
            Failure::BadResponse(BadResponse::TooManyHeaders(1)),
            Failure::BadResponse(BadResponse::TooManyInterim(1)),
            Failure::BadResponse(BadResponse::Body(BodyError::LineTooLong(1))),
            Failure::BadResponse(BadResponse::Body(BodyError::TrailersTooLong(1))),
        ] {
            assert_eq!(failure.outcome(), Outcome::OverLimit, "{failure}");
            assert!(
                matches!(failure.cause(), Cause::HeadTooLarge | Cause::BodyTooLarge),
                "{failure}"
            );
        }
        let framing = Failure::BadResponse(BadResponse::NotHttp);
        assert_eq!(framing.outcome(), Outcome::Failed(Fault::Malformed));
    }
}
