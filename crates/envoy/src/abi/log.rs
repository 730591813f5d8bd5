//! Writes the module's log lines through Envoy's logger.

use std::fmt::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::raw;

/// A subscriber that passes events to Envoy's logger `dynamic_modules`. Spans are ignored.
pub(crate) struct EnvoyLog;

/// Envoy's number of a level.
fn level(level: Level) -> u32 {
    match level {
        Level::TRACE => 0,
        Level::DEBUG => 1,
        Level::INFO => 2,
        Level::WARN => 3,
        Level::ERROR => 4,
    }
}

impl Subscriber for EnvoyLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // Libraries log what interests their authors.
        let is_ours = metadata.target().starts_with("curtail");
        // SAFETY: The function only reads the level of the logger.
        is_ours && unsafe { raw::log_enabled(level(*metadata.level())) }
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line("curtail:".to_owned());
        event.record(&mut line);
        // SAFETY: Envoy copies the text.
        unsafe { raw::log(level(*event.metadata().level()), (&line.0).into()) };
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A line of the log.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}
