//! The names and the end of validity of a certificate (RFC 5280 §4.1.2.5 and §4.2.1.6).

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustls::pki_types::CertificateDer;
use x509_parser::extensions::GeneralName;

use super::error::TlsError;

/// When a certificate of a configuration expires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The file with the certificate.
    pub file: PathBuf,
    /// The host names and IP addresses in the certificate. If it has none, its common name.
    pub names: Vec<String>,
    /// The last second in which the certificate is valid.
    pub not_after: SystemTime,
}

impl Expiry {
    /// Parses a certificate that comes from `file`.
    pub(super) fn of(file: &Path, certificate: &CertificateDer<'_>) -> Result<Expiry, TlsError> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| TlsError::certificate(file, &error))?;
        let alternatives = parsed
            .subject_alternative_name()
            .map_err(|error| TlsError::certificate(file, &error))?;
        let mut names: Vec<String> = alternatives
            .iter()
            .flat_map(|extension| &extension.value.general_names)
            .filter_map(name)
            .collect();
        if names.is_empty() {
            let common = parsed.subject().iter_common_name();
            names.extend(common.filter_map(|name| name.as_str().ok()).map(str::to_owned));
        }
        let seconds = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or(0);
        let not_after = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        Ok(Expiry { file: file.to_owned(), names, not_after })
    }

    /// Returns whether the certificate is no longer valid. It is valid until the end of its last
    /// second, as in the verification of a full handshake.
    pub(super) fn is_past(&self) -> bool {
        self.not_after + Duration::from_secs(1) <= SystemTime::now()
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        GeneralName::IPAddress(bytes) => {
            let v4 = <[u8; 4]>::try_from(*bytes).map(IpAddr::from);
            let v6 = <[u8; 16]>::try_from(*bytes).map(IpAddr::from);
            v4.or(v6).ok().map(|address| address.to_string())
        }
        _ => None,
    }
}
