//! The choice of a certificate by the name that the client requests (SNI, RFC 6066 §3).
//!
//! Exact names come before wildcards, and wildcards before the first certificate of the
//! configuration, which is the default. Among certificates with the same name, the first whose
//! kind of key the client supports is chosen. A wildcard stands for one label (RFC 9525 §6.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

#[derive(Debug, Default)]
pub(super) struct ByName {
    /// In the order of the configuration.
    all: Vec<Arc<CertifiedKey>>,
    by_name: BTreeMap<String, Vec<Arc<CertifiedKey>>>,
}

impl ByName {
    /// Adds a certificate with its names in lower case.
    pub(super) fn add(&mut self, names: &[String], certificate: CertifiedKey) {
        let certificate = Arc::new(certificate);
        for name in names {
            self.by_name.entry(name.clone()).or_default().push(Arc::clone(&certificate));
        }
        self.all.push(certificate);
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        [Some(name), wildcard]
            .into_iter()
            .flatten()
            .filter_map(|name| self.by_name.get(&name))
            .flatten()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let supported = |certificate: &&Arc<CertifiedKey>| {
            certificate.key.choose_scheme(hello.signature_schemes()).is_some()
        };
        let named = hello.server_name().into_iter().flat_map(|name| self.named(name));
        named.chain(&self.all).find(supported).or(self.all.first()).cloned()
    }
}
