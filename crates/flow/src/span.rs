//! Spans for tracing: `admission` and `subtask`, with the workflow, the time that it waited, and how it ended.
//!
//! Source: the `tracing` crate; `tracing-opentelemetry` shows them as spans of a trace.
//!
//! Cost: one load of an atomic where nothing subscribes to spans of level debug.

use tokio::time::Instant;
use tracing::Span;

use crate::reject::Reason;

/// A span around something that waits first.
pub(crate) struct Wait {
    span: Span,
    since: Option<Instant>,
}

impl Wait {
    /// Of a span with the fields `wait_us` and `outcome`, both empty.
    pub(crate) fn begin(span: Span) -> Self {
        let since = (!span.is_disabled()).then(Instant::now);
        Self { span, since }
    }

    /// It waits no more. What never comes here was dropped while it waited, and has no outcome.
    pub(crate) fn end<T>(self, verdict: &Result<T, Reason>) -> Span {
        let Self { span, since } = self;
        if let Some(since) = since {
            let wait_us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
            span.record("wait_us", wait_us);
            span.record(
                "outcome",
                match verdict {
                    Ok(_) => "served",
                    Err(Reason::Late) => "late",
                    Err(Reason::Full) => "full",
                },
            );
        }
        if let Err(reason) = verdict {
            tracing::debug!(parent: &span, ?reason, "rejected");
        }
        span
    }
}
