//! The bytes of the requests, rendered before the run so that sending is one write.

use bytes::{Bytes, BytesMut};
use curtail_http1::{BodyLength, Persistence, WriteError, write_request};

use crate::error::PlanError;
use crate::plan::Plan;

/// One request per query, in their order.
pub(crate) fn render(plan: &Plan) -> Result<Vec<Bytes>, PlanError> {
    let authority = plan.target.authority();
    let named = plan.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"));
    let host = (!named).then_some(("host", authority.as_str()));
    let given = plan.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<(&str, &str)> = host.into_iter().chain(given).collect();

    let own = [plan.target.path().to_owned()];
    let queries = if plan.queries.is_empty() { &own } else { plan.queries.as_slice() };
    // One allocation that all requests share.
    let mut buffer = BytesMut::new();
    let mut rendered = Vec::with_capacity(queries.len());
    for query in queries {
        let persistence = Persistence::Default;
        write_request(
            &mut buffer,
            "GET",
            query,
            headers.iter().copied(),
            BodyLength::None,
            persistence,
        )
        .map_err(|fault| blame(&headers, query, fault))?;
        rendered.push(buffer.len());
    }
    let whole = buffer.freeze();
    let starts = std::iter::once(0).chain(rendered.iter().copied());
    Ok(starts.zip(&rendered).map(|(start, end)| whole.slice(start..*end)).collect())
}

/// Says which part cannot be sent.
fn blame(headers: &[(&str, &str)], query: &str, source: WriteError) -> PlanError {
    let sendable = |header: &(&str, &str)| {
        let mut scratch = BytesMut::new();
        let (length, persistence) = (BodyLength::None, Persistence::Default);
        write_request(&mut scratch, "GET", "/", [*header], length, persistence).is_ok()
    };
    let what = match headers.iter().find(|header| !sendable(header)) {
        Some((name, value)) => format!("header `{name}: {value}`"),
        None => format!("query `{query}`"),
    };
    PlanError::Unsendable { what, source }
}
