//! Finds the request to which a call by the application belongs. Both have the same trace.
//!
//! Source: W3C Trace Context, which instrumented applications propagate. All requests in a trace
//! share the context of the first request. An entry exists while a request in its trace is being
//! served, so there are no more entries than connections.
//!
//! Cost: a lock is taken briefly at the start and the end of each request, and once per call.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use curtail_flow::Context;
use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub(super) const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The traces of the requests that are being served.
#[derive(Debug, Default)]
pub(super) struct Traces(Mutex<HashMap<u128, Running>>);

#[derive(Debug)]
struct Running {
    context: Context,
    requests: usize,
}

/// Marks a request as being served until this value is dropped.
#[derive(Debug)]
pub(super) struct Traced<'t> {
    traces: &'t Traces,
    trace: u128,
}

impl Traces {
    /// Begins a request. The request gets a new trace if it has none. At a trust edge, the request
    /// also gets a new trace if its own trace belongs to another workflow. Otherwise, a client
    /// could have its calls charged to that workflow.
    pub(super) fn begin(
        &self,
        context: &Context,
        fields: &mut HeaderMap,
        is_edge: bool,
    ) -> Traced<'_> {
        let mut running = self.lock();
        let may = |trace: &u128| match running.get(trace) {
            Some(of) => !is_edge || of.context.workflow() == context.workflow(),
            None => true,
        };
        let trace = trace_of(fields).filter(may).unwrap_or_else(|| begin_trace(fields));
        match running.entry(trace) {
            Entry::Occupied(mut of) => of.get_mut().requests += 1,
            Entry::Vacant(place) => {
                place.insert(Running { context: context.clone(), requests: 1 });
            }
        }
        Traced { traces: self, trace }
    }

    /// Returns the context of the request that a call belongs to.
    pub(super) fn find(&self, fields: &HeaderMap) -> Option<Context> {
        let trace = trace_of(fields)?;
        self.lock().get(&trace).map(|running| running.context.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u128, Running>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Traced<'_> {
    fn drop(&mut self) {
        let mut running = self.traces.lock();
        if let Entry::Occupied(mut of) = running.entry(self.trace) {
            of.get_mut().requests -= 1;
            if of.get().requests == 0 {
                of.remove();
            }
        }
    }
}

/// Returns the trace in `traceparent`, or `None` if the field is missing, repeated or malformed.
fn trace_of(fields: &HeaderMap) -> Option<u128> {
    let mut values = fields.get_all(TRACEPARENT).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let mut parts = value.split('-');
    let (version, trace) = (parts.next()?, parts.next()?);
    let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let is_valid = version.len() == 2 && version != "ff" && trace.len() == 32;
    let trace = Some(trace).filter(|trace| is_valid && trace.bytes().all(digit))?;
    u128::from_str_radix(trace, 16).ok().filter(|&trace| trace != 0)
}

/// Creates a trace. The new trace is marked as sampled. Otherwise, tracers that adopt their
/// caller's decision would record nothing.
fn begin_trace(fields: &mut HeaderMap) -> u128 {
    // The keys of the standard hasher are random.
    let random = || RandomState::new().build_hasher().finish();
    let trace = u128::from(random()) << 64 | u128::from(random()) | 1;
    let span = random() | 1;
    fields.remove(TRACESTATE);
    match HeaderValue::try_from(format!("00-{trace:032x}-{span:016x}-01")) {
        Ok(value) => drop(fields.insert(TRACEPARENT, value)),
        Err(_) => drop(fields.remove(TRACEPARENT)),
    }
    trace
}

#[cfg(test)]
mod tests {
    use curtail_flow::{Flow, Workflow};

    use super::*;

    fn named(flow: &Flow, workflow: &str) -> Context {
        let mut fields = HeaderMap::new();
        let member = format!("curtail=1:{workflow}:0:0:0:0:0:0");
        fields.insert("baggage", member.try_into().expect("valid"));
        Context::of_call(flow, &fields)
    }

    fn parent(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(TRACEPARENT, HeaderValue::try_from(value).expect("valid"))])
    }

    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn calls_find_their_request_while_one_of_the_trace_is_served() {
        let flow = Flow::builder("s").workflow("a", Workflow::default()).build().expect("sound");
        let (traces, context) = (Traces::default(), named(&flow, "a"));
        let first = traces.begin(&context, &mut parent(TRACE), true);
        let second = traces.begin(&named(&flow, "b"), &mut parent(TRACE), false);
        let call = parent(&TRACE.replace("00f067", "111111"));
        drop(first);
        assert_eq!(traces.find(&call).expect("one is served").workflow(), "a");
        drop(second);
        assert!(traces.find(&call).is_none());
    }

    #[test]
    fn a_client_cannot_join_the_trace_of_another_workflow() {
        let flow = Flow::builder("s").build().expect("sound");
        let traces = Traces::default();
        let _victim = traces.begin(&named(&flow, "a"), &mut parent(TRACE), true);
        let mut fields = parent(TRACE);
        let _flood = traces.begin(&named(&flow, "flood"), &mut fields, true);
        assert!(fields[TRACEPARENT] != TRACE);
        assert_eq!(traces.find(&fields).expect("its own").workflow(), "flood");
        assert_eq!(traces.find(&parent(TRACE)).expect("untouched").workflow(), "a");
    }

    #[test]
    fn a_malformed_trace_is_replaced() {
        let flow = Flow::builder("s").build().expect("sound");
        let (traces, context) = (Traces::default(), named(&flow, "a"));
        for bad in [
            "",
            "00",
            "00-0-0-0",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-+bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            let mut fields = parent(bad);
            fields.insert(TRACESTATE, HeaderValue::from_static("a=1"));
            let _traced = traces.begin(&context, &mut fields, false);
            assert!(trace_of(&fields).is_some() && !fields.contains_key(TRACESTATE), "{bad}");
        }
        assert!(traces.lock().is_empty());
    }
}
