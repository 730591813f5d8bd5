//! Checks single values. Each check returns a usable value even if the key is missing or wrong, so
//! that the rest of the file is also checked.

use std::ops::Range;

use curtail_config::{Fraction, Given, Key, Report};

/// Checks a fraction. `example` says what a fraction means.
pub(super) fn fraction<const PERCENT: u32>(
    report: &mut Report<'_>,
    key: &str,
    given: &Key<Fraction<PERCENT>>,
    example: &str,
) -> f64 {
    let (checked, span) = (given.get().checked(), given.span());
    if let (None, Some(at)) = (checked, span) {
        let fix = format!("use a fraction from 0 to 1; {example}");
        report.error(&at, &format!("{key} is out of range"), &fix);
    }
    checked.unwrap_or_default()
}

/// Checks a fraction whose default depends on other keys. `None` if it is not set.
pub(super) fn optional_fraction(
    report: &mut Report<'_>,
    key: &str,
    given: Option<&Given<Fraction<0>>>,
    example: &str,
) -> Option<f64> {
    let given = given?;
    let checked = given.get().checked();
    if checked.is_none() {
        let fix = format!("use a fraction from 0 to 1; {example}");
        report.error(&given.span(), &format!("{key} is out of range"), &fix);
    }
    Some(checked.unwrap_or_default())
}

/// Checks that a number, such as a rate or a weight, is finite and at least `least`.
pub(super) fn rate(
    report: &mut Report<'_>,
    key: &str,
    given: &Given<f64>,
    least: f64,
) -> Option<f64> {
    let number = Some(*given.get()).filter(|number| number.is_finite() && *number >= least);
    if number.is_none() {
        let range = if least > 0.0 { "above 0" } else { "of at least 0" };
        let fix = format!("use a number {range}");
        report.error(&given.span(), &format!("{key} is out of range"), &fix);
    }
    number
}

/// Checks the name of a header, and returns it in lower case.
pub(super) fn header(report: &mut Report<'_>, given: &Given<String>, example: &str) -> String {
    if !is_token(given.get()) {
        let fix = format!("use letters, digits and hyphens, like {example:?}");
        report.error(&given.span(), "header is not a valid header name", &fix);
    }
    given.get().to_ascii_lowercase()
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
