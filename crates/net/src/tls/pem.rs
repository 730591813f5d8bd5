//! Certificates and private keys in PEM files (RFC 7468).
//!
//! All files are read before any of them is parsed, so that the digest and the configuration come
//! from the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use super::error::TlsError;

/// The files with a certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CertificateFiles {
    /// The certificate, followed by the intermediate ones, in PEM.
    pub cert: PathBuf,
    /// The private key of the first certificate, in PEM.
    pub key: PathBuf,
}

/// The bytes of all files of a configuration, as they were at one time.
#[derive(Debug)]
pub(super) struct Contents(BTreeMap<PathBuf, Vec<u8>>);

impl Contents {
    pub(super) fn read<'a>(
        files: impl IntoIterator<Item = &'a Path>,
    ) -> Result<Contents, TlsError> {
        let read = |file: &Path| match fs::read(file) {
            Ok(bytes) => Ok((file.to_owned(), bytes)),
            Err(error) => {
                let problem = format!("cannot be read: {error}");
                Err(TlsError::file(file, problem, "check the path and its permissions"))
            }
        };
        files.into_iter().map(read).collect::<Result<_, _>>().map(Contents)
    }

    /// Returns a number that changes with the bytes.
    pub(super) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.0.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the certificates of a file, at least one.
    pub(super) fn certificates(
        &self,
        file: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        let fix = "use a file with `-----BEGIN CERTIFICATE-----`";
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(self.bytes(file)).collect();
        let found = found.map_err(|error| invalid(file, &error))?;
        if found.is_empty() {
            return Err(TlsError::file(file, "contains no certificate in PEM", fix));
        }
        Ok(found)
    }

    /// Returns a certificate with its intermediates and its private key.
    pub(super) fn certified_key(
        &self,
        files: &CertificateFiles,
        provider: &CryptoProvider,
    ) -> Result<CertifiedKey, TlsError> {
        let chain = self.certificates(&files.cert)?;
        let key = provider.key_provider.load_private_key(self.key(&files.key)?);
        let key = key.map_err(|error| {
            let problem = format!("contains a private key that cannot be used: {error}");
            let fix = "use RSA of at least 2048 bits, ECDSA P-256 or P-384, or Ed25519";
            TlsError::file(&files.key, problem, fix)
        })?;
        let certified = CertifiedKey::new(chain, key);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
                Ok(certified)
            }
            Err(rustls::Error::InconsistentKeys(_)) => {
                let cert = files.cert.display();
                let problem = format!("the key does not match the first certificate of {cert}");
                let fix = "use the key that the certificate was issued for";
                Err(TlsError::file(&files.key, problem, fix))
            }
            Err(error) => Err(TlsError::certificate(&files.cert, &error)),
        }
    }

    /// Returns the authorities of a file.
    pub(super) fn roots(&self, file: &Path) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in self.certificates(file)? {
            roots.add(certificate).map_err(|error| TlsError::certificate(file, &error))?;
        }
        Ok(roots)
    }

    fn key(&self, file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
        let fix = "use a file with `-----BEGIN PRIVATE KEY-----` that is not encrypted";
        PrivateKeyDer::from_pem_slice(self.bytes(file)).map_err(|error| match error {
            pem::Error::NoItemsFound => TlsError::file(file, "contains no private key in PEM", fix),
            error => invalid(file, &error),
        })
    }

    fn bytes(&self, file: &Path) -> &[u8] {
        self.0.get(file).expect("a specification lists all its files")
    }
}

fn invalid(file: &Path, error: &pem::Error) -> TlsError {
    TlsError::file(file, format!("is not valid PEM: {error}"), "write the file again")
}
