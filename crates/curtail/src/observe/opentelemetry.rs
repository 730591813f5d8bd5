//! Records with OpenTelemetry, under the names of the proxy's metrics.

use std::sync::Arc;
use std::time::Duration;

use curtail_kernel::StopReason;
use curtail_runtime::{CopyEnd, EjectionCause};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use super::{Copy, Observer};

/// Records with a meter of OpenTelemetry.
#[derive(Clone, Debug)]
pub struct OpenTelemetry {
    started: Counter<u64>,
    cancelled: Counter<u64>,
    ended: Counter<u64>,
    won: Counter<u64>,
    ejected: Counter<u64>,
    ran: Histogram<f64>,
    queued: Histogram<f64>,
}

impl OpenTelemetry {
    /// Returns an observer that records with this meter.
    #[must_use]
    pub fn new(meter: &Meter) -> Self {
        let counter = |name: &'static str| meter.u64_counter(name).build();
        let histogram = |name: &'static str| meter.f64_histogram(name).with_unit("s").build();
        Self {
            started: counter("curtail.copies_started"),
            cancelled: counter("curtail.cancellations"),
            ended: counter("curtail.copies_ended"),
            won: counter("curtail.copies_won"),
            ejected: counter("curtail.ejections"),
            ran: histogram("curtail.copy_duration"),
            queued: histogram("curtail.queue_duration"),
        }
    }
}

fn server(shard: &str, server: &str) -> [KeyValue; 2] {
    [KeyValue::new("shard", shard.to_owned()), KeyValue::new("server", server.to_owned())]
}

fn labels(copy: Copy<'_>, key: &'static str, value: &'static str) -> [KeyValue; 3] {
    let [shard, server] = server(copy.shard, copy.server);
    [shard, server, KeyValue::new(key, value)]
}

impl Observer for OpenTelemetry {
    fn copy_started(&self, copy: Copy<'_>) {
        self.started.add(1, &labels(copy, "reason", copy.why.name()));
    }

    fn copy_cancelled(&self, copy: Copy<'_>, why: StopReason) {
        self.cancelled.add(1, &labels(copy, "reason", why.name()));
    }

    fn copy_ended(&self, copy: Copy<'_>, end: CopyEnd, won: bool, ran: Duration) {
        self.ended.add(1, &labels(copy, "outcome", end.name()));
        self.ran.record(ran.as_secs_f64(), &server(copy.shard, copy.server));
        if won {
            self.won.add(1, &labels(copy, "role", copy.role.name()));
        }
    }

    fn query_started(&self, shard: &str, queued: Duration) {
        self.queued.record(queued.as_secs_f64(), &[KeyValue::new("shard", shard.to_owned())]);
    }

    fn ejected(&self, shards: &[Arc<str>], name: &str, _: EjectionCause) {
        self.ejected.add(1, &server(&shards.join(","), name));
    }
}
