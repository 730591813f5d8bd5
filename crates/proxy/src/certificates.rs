//! When the certificates of TLS expire: a metric, and warnings before it is too late.

use std::fmt;
use std::time::{Duration, SystemTime};

use curtail_net::{ClientTls, Expiry, Reload, ServerTls};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use tokio::time::Instant;

/// Time between two looks at the files of TLS.
const RELOAD: Duration = Duration::from_secs(5);

const DAY: Duration = Duration::from_secs(24 * 3600);

/// Time before the end of validity from which a certificate causes warnings.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);

/// The certificates of one side of the proxy.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// `listen.https`, or the name of the service.
    place: String,
    tls: Tls,
}

#[derive(Clone, Debug)]
enum Tls {
    Server(ServerTls),
    Client(ClientTls),
}

impl Certificates {
    /// Returns the certificates that the proxy presents to clients, and those that sign theirs.
    pub(crate) fn of_listener(tls: ServerTls) -> Self {
        Self { place: "listen.https".to_owned(), tls: Tls::Server(tls) }
    }

    /// Returns the certificates that the proxy presents to replicas, and those that sign theirs.
    pub(crate) fn of_service(name: &str, tls: ClientTls) -> Self {
        Self { place: name.to_owned(), tls: Tls::Client(tls) }
    }

    fn expiries(&self) -> Vec<Expiry> {
        match &self.tls {
            Tls::Server(tls) => tls.expiries(),
            Tls::Client(tls) => tls.expiries(),
        }
    }

    /// Loads files that have changed. Warns of certificates that expire soon, at the start, after each
    /// reload and once a day. Never returns.
    pub(crate) async fn watch(self) {
        let warned = std::sync::Mutex::default();
        let warn = || {
            if let Ok(mut warned) = warned.lock() {
                for Expiry { file, names, not_after } in due(self.expiries(), &mut warned) {
                    let (place, file, names) = (&self.place, file.display(), names.join(", "));
                    let left = not_after.duration_since(SystemTime::now()).unwrap_or_default();
                    let days = left.as_secs() / DAY.as_secs();
                    tracing::warn!(place, %file, names, days, "a certificate expires soon; renew it");
                }
            }
        };
        let daily = async {
            loop {
                warn();
                tokio::time::sleep(DAY).await;
            }
        };
        let reload = |event| {
            let place = &self.place;
            match event {
                Reload::Reloaded => {
                    tracing::info!(place, "TLS files changed and were loaded");
                    warn();
                }
                Reload::Failed(error) => {
                    tracing::warn!(place, %error, "TLS files changed, but the old ones stay in use");
                }
            }
        };
        let watched = async {
            match &self.tls {
                Tls::Server(tls) => tls.watch(RELOAD, reload).await,
                Tls::Client(tls) => tls.watch(RELOAD, reload).await,
            }
        };
        tokio::join!(daily, watched);
    }
}

/// Returns the certificates that expire soon and that were not returned in the last day.
fn due(mut expiries: Vec<Expiry>, returned: &mut Vec<(Instant, Expiry)>) -> Vec<Expiry> {
    let (now, soon) = (Instant::now(), SystemTime::now() + SOON);
    returned.retain(|(at, _)| now - *at < DAY);
    expiries.retain(|expiry| {
        expiry.not_after <= soon && !returned.iter().any(|(_, other)| other == expiry)
    });
    returned.extend(expiries.iter().map(|expiry| (now, expiry.clone())));
    expiries
}

/// Exports when certificates expire. A reload may change that, so they are asked whenever the metrics
/// are read.
#[derive(Debug)]
pub(crate) struct ExpiryCollector(pub(crate) Vec<Certificates>);

impl Collector for ExpiryCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut series = Vec::new();
        for certificates in &self.0 {
            for Expiry { file, not_after, .. } in certificates.expiries() {
                let since = not_after.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let seconds = since.as_secs() as f64;
                let labels =
                    [("place", certificates.place.clone()), ("file", file.display().to_string())];
                series.push((labels, seconds));
            }
        }
        // A file may contain several authorities. The first one that expires counts.
        series.sort_by(|(a, first), (b, second)| a.cmp(b).then(first.total_cmp(second)));
        series.dedup_by(|(later, _), (first, _)| later == first);
        if series.is_empty() {
            return Ok(());
        }
        let help = "Unix time at which a certificate in the file expires.";
        let (unit, kind) = (Some(&Unit::Seconds), MetricType::Gauge);
        let mut encoder = encoder.encode_descriptor("certificate_expiry", help, unit, kind)?;
        for (labels, seconds) in series {
            ConstGauge::new(seconds).encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_certificate_that_expires_soon_is_reported_once_a_day() {
        let expiry = |name: &str, days: u32| Expiry {
            file: name.into(),
            names: vec![name.to_owned()],
            not_after: SystemTime::now() + DAY * days,
        };
        let all = [expiry("a", 13), expiry("b", 15), expiry("c", 0)];
        let mut returned = Vec::new();
        let mut names = |all: &[Expiry]| {
            due(all.to_vec(), &mut returned)
                .into_iter()
                .map(|due| due.names.concat())
                .collect::<String>()
        };
        assert_eq!(names(&all), "ac");
        tokio::time::advance(DAY / 2).await;
        // A new certificate, after a reload.
        let all = [all[0].clone(), expiry("d", 1)];
        assert_eq!(names(&all), "d");
        tokio::time::advance(DAY / 2).await;
        assert_eq!(names(&all), "a");
        tokio::time::advance(DAY / 2).await;
        assert_eq!(names(&all), "d");
    }
}
