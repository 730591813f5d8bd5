//! Everything about addresses, listeners and byte streams below HTTP, for both sides of a proxy.
//!
//! # Map
//!
//! - [`Address`] is what a person writes; [`Address::resolve`] turns it into [`Endpoint`]s.
//! - [`Listener`] and [`connect`] turn an endpoint into [`Stream`]s, which are plain at first.
//! - [`proxy_protocol`] reads the client's address that a load balancer sends ahead of the stream.
//! - [`ServerTls`] and [`ClientTls`] do the TLS handshake and return an encrypted [`Stream`].

mod address;
mod endpoint;
mod listener;
pub mod proxy_protocol;
mod stream;
mod tls;

pub use address::{Address, AddressError};
pub use endpoint::Endpoint;
pub use listener::{Listener, connect};
pub use proxy_protocol::ProxyHeaderError;
pub use stream::Stream;
pub use tls::{
    CertificateFiles, ClientAuth, ClientTls, ClientTlsSpec, Expiry, HandshakeError, Reload,
    ServerTls, ServerTlsSpec, TlsError,
};
