//! Checks single values. Each check returns a usable value even if the key is missing or wrong, so
//! that the rest of the file is also checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::{Range, RangeInclusive};
use std::time::Duration;

use super::address;
use super::report::Report;
use super::values::{Given, Size, Span};

/// Checks a key of a table. Errors contain the name of the key.
macro_rules! key {
    ($check:ident, $report:expr, $raw:ident.$key:ident, $($rest:expr),+) => {
        $crate::config::check::$check($report, stringify!($key), $raw.$key.as_ref(), $($rest),+)
    };
}
pub(super) use key;

/// Checks a duration that must be above zero. The error suggests the default, or 500 ms if the
/// default is zero.
pub(super) fn duration(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<Span>>,
    default: Duration,
) -> Duration {
    let Some(given) = given else { return default };
    let span = Duration::from_nanos(given.get().0);
    if span.is_zero() {
        let usual = if default.is_zero() { Duration::from_millis(500) } else { default };
        let fix = format!("use a longer duration, like \"{usual:?}\"");
        report.error(&given.span(), &format!("{key} is zero"), &fix);
    }
    span
}

/// Checks a duration that has a minimum.
pub(super) fn at_least(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<Span>>,
    least: Duration,
    default: Duration,
) -> Duration {
    let Some(given) = given else { return default };
    let span = Duration::from_nanos(given.get().0);
    if span < least {
        let wrong = if span.is_zero() {
            format!("{key} is zero")
        } else {
            format!("{key} is shorter than {least:?}")
        };
        report.error(&given.span(), &wrong, &format!("use at least \"{least:?}\""));
    }
    span
}

/// Checks an integer in a range.
pub(super) fn count(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<u64>>,
    range: RangeInclusive<u32>,
    default: u32,
) -> u32 {
    let Some(given) = given else { return default };
    match u32::try_from(*given.get()).ok().filter(|count| range.contains(count)) {
        Some(count) => count,
        None => {
            let (least, most) = range.into_inner();
            let wrong = format!("{key} is out of range");
            report.error(&given.span(), &wrong, &format!("use {least} to {most}"));
            default
        }
    }
}

/// Checks a fraction from 0 to 1.
pub(super) fn fraction(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<f64>>,
    example: &str,
    default: f64,
) -> f64 {
    let Some(given) = given else { return default };
    if !(0.0..=1.0).contains(given.get()) {
        let fix = format!("use a fraction from 0 to 1; {example}");
        report.error(&given.span(), &format!("{key} is out of range"), &fix);
        return default;
    }
    *given.get()
}

/// Checks an address to listen on.
pub(super) fn listener<T>(given: &Given<T>, text: &str, report: &mut Report<'_>) -> SocketAddr {
    address::read(text).unwrap_or_else(|(wrong, fix)| {
        report.error(&given.span(), wrong, &fix);
        // Port 0 clashes with no other address, so this error causes no further ones.
        SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0)
    })
}

/// Checks that a number, such as a rate or a weight, is finite and at least `least`.
pub(super) fn rate(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<f64>>,
    least: f64,
    default: f64,
) -> f64 {
    let Some(given) = given else { return default };
    if given.get().is_finite() && *given.get() >= least {
        return *given.get();
    }
    let range = if least > 0.0 { "above 0" } else { "of at least 0" };
    report.error(
        &given.span(),
        &format!("{key} is out of range"),
        &format!("use a number {range}"),
    );
    default
}

/// Checks the name of a header, and returns it in lower case.
pub(super) fn header(report: &mut Report<'_>, given: &Given<String>, example: &str) -> String {
    if !is_token(given.get()) {
        let fix = format!("use letters, digits and hyphens, like {example:?}");
        report.error(&given.span(), "header is not a valid header name", &fix);
    }
    given.get().to_ascii_lowercase()
}

/// Checks a size in bytes. `written` is the range with units, as the error shows it.
pub(super) fn size(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<Size>>,
    (range, written): (RangeInclusive<usize>, &str),
    default: usize,
) -> usize {
    let Some(given) = given else { return default };
    match usize::try_from(given.get().0).ok().filter(|size| range.contains(size)) {
        Some(size) => size,
        None => {
            let wrong = format!("{key} is out of range");
            report.error(&given.span(), &wrong, &format!("use {written}"));
            default
        }
    }
}

/// Checks the name of a service, shard or workflow. Names appear in labels, header values and URLs.
pub(super) fn name(
    report: &mut Report<'_>,
    what: &str,
    given: Option<&Given<String>>,
    table: &Range<usize>,
) -> String {
    let Some(given) = given else {
        let fix = "add name = \"…\", the name in metrics and in the status";
        report.missing(table, &format!("this {what} has no name"), fix);
        return String::new();
    };
    if given.get().is_empty() || given.get().chars().any(char::is_control) {
        let wrong = format!("the name of this {what} is empty or has control characters");
        report.error(&given.span(), &wrong, "use visible characters");
    }
    given.get().clone()
}

/// Checks a value with which a request target starts. The value must begin with a slash, and is
/// sent unchanged. `query` permits a query string.
pub(super) fn path(report: &mut Report<'_>, key: &str, given: &Given<String>, query: bool) {
    let fine = |c: char| c.is_ascii_graphic() && c != '#' && (query || c != '?');
    let text = given.get();
    if !text.starts_with('/') {
        let fix = format!("write it like \"/{}\"", text.trim_start_matches('/'));
        report.error(&given.span(), &format!("{key} does not begin with a slash"), &fix);
    } else if !text.chars().all(fine) {
        let but = if query { "'#'" } else { "'?' and '#'" };
        let wrong = format!("{key} has characters that are not allowed in a path");
        let fix = format!("use visible ASCII without {but}, and percent-encode the rest");
        report.error(&given.span(), &wrong, &fix);
    }
}

/// Checks a method. Methods are case-sensitive.
pub(super) fn method(report: &mut Report<'_>, key: &str, given: &Given<String>) {
    if !is_token(given.get()) || given.get().chars().any(|c| c.is_ascii_lowercase()) {
        let wrong = format!("{key} is not a method");
        let upper = given.get().to_ascii_uppercase();
        let like = if is_token(&upper) { upper } else { "GET".into() };
        report.error(&given.span(), &wrong, &format!("write it in capitals, like {like:?}"));
    }
}

/// Returns whether the text is an HTTP token (RFC 9110 §5.6.2), as methods and header names are.
pub(super) fn is_token(text: &str) -> bool {
    let fine = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !text.is_empty() && text.chars().all(fine)
}
