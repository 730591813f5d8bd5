//! Tracing spans: The spans `admission` and `subtask`, which record the workflow, the waiting time,
//! and the outcome.
//!
//! Source: the `tracing` crate; `tracing-opentelemetry` shows them as spans of a trace.
//!
//! Cost: one atomic load if no subscriber listens to debug-level spans.

use tokio::time::Instant;
use tracing::Span;

use crate::reject::Reason;

/// A span that begins with a wait.
pub(crate) struct Wait {
    span: Span,
    since: Option<Instant>,
}

impl Wait {
    /// Starts the wait in a span whose fields `wait_us` and `outcome` are still empty.
    pub(crate) fn begin(span: Span) -> Self {
        let since = (!span.is_disabled()).then(Instant::now);
        Self { span, since }
    }

    /// Ends the wait. A request that is dropped while it waits never reaches this point, so its
    /// span has no outcome.
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
