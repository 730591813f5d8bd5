//! TLS 1.2 and 1.3 for both sides of the proxy (RFC 5246, RFC 8446).
//!
//! - [`ServerTls`] accepts connections from clients. It chooses a certificate by the requested name
//!   and may require a certificate from the client.
//! - [`ClientTls`] connects to servers and verifies their certificates.
//!
//! Both load PEM files and build a configuration from them. `reload` builds a new one if the files
//! changed. Handshakes that start later use it, and open connections stay as they are: a certificate
//! matters only during a handshake. A reload forgets all sessions, so that no client or server that
//! the new files exclude resumes an old session.

mod choice;
mod client;
mod error;
mod expiry;
mod handshake;
mod pem;
mod reload;
mod server;

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};

pub use client::{ClientTls, ClientTlsSpec};
pub use error::TlsError;
pub use expiry::Expiry;
pub use handshake::HandshakeError;
pub use pem::CertificateFiles;
pub use reload::Reload;
pub use server::{ClientAuth, ServerTls, ServerTlsSpec};

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
