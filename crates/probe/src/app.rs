//! The points that a request passes through inside an application. Each application is described by
//! a small TOML file. Some of these files are built in.
//!
//! ```
//! let app = curtail_probe::app::App::parse("app.toml", r#"
//!     name = "memcached"
//!     response = "parse-to-response"
//!
//!     [[mark]]
//!     stage = "socket-to-parse"
//!     function = "process_command_ascii"
//!     unread = { argument = 0, field = "conn.rbytes" }
//! "#)?;
//! assert_eq!(app.stages()[3..5], ["socket-to-parse", "parse-to-response"]);
//! # Ok::<(), curtail_config::ConfigErrors>(())
//! ```

use std::ops::Range;

use curtail_config::{ConfigErrors, Given, Report, deserialize};
use serde::Deserialize;

/// The maximum number of marks per application. It matches the size of the tables in the eBPF
/// program.
pub const MARKS_MAX: usize = 4;

/// The marks and stages of an application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// The name of the application.
    pub name: String,
    /// The name of the stage that ends with the write. This stage starts at the last mark, or at
    /// the read if there are no marks.
    pub response: String,
    /// The marks, in the order in which a request passes them. The first one begins a request.
    pub mark: Vec<Mark>,
}

/// The description as it is written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    response: Given<String>,
    #[serde(default)]
    mark: Vec<Given<Mark>>,
}

/// A point that every request passes exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The name of the stage that ends at this mark.
    pub stage: String,
    /// The function whose entry is the mark: its linker symbol, or its Rust path.
    pub function: Option<String>,
    /// Alternatively, the name of a statically defined tracepoint (USDT): `provider:name`.
    pub tracepoint: Option<String>,
    /// The last part of the path of the shared library that contains the mark. `None` if the
    /// program itself contains it.
    pub library: Option<String>,
    /// The argument of the function (counted from 0) that identifies the request. It is required if
    /// another thread continues the request. In that case, the first mark, which runs on the thread
    /// that read the request, also needs a key.
    pub key: Option<u8>,
    /// The location of the number of bytes that the application has read but not yet parsed,
    /// including this request. This location is allowed only on the first mark. It separates
    /// pipelined requests that arrived in different packets of one read.
    pub unread: Option<Unread>,
}

impl Mark {
    /// Returns the name of the function or tracepoint.
    #[must_use]
    pub fn place(&self) -> &str {
        self.function.as_deref().or(self.tracepoint.as_deref()).unwrap_or_default()
    }
}

/// A 32-bit number in memory, behind a pointer that is an argument of the function.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unread {
    /// The argument, counted from 0.
    pub argument: u8,
    /// The field that holds the number: `structure.field`. Debug information gives its offset.
    pub field: Option<String>,
    /// Alternatively, the distance in bytes from the pointer to the number.
    pub offset: Option<u64>,
}

impl File {
    fn check(&self, report: &mut Report<'_>) {
        if let Some(extra) = self.mark.get(MARKS_MAX) {
            let wrong = format!("there are {} marks", self.mark.len());
            report.error(&extra.span(), &wrong, "keep at most 4");
        }
        let first_has_key = self.mark.first().is_some_and(|mark| mark.get().key.is_some());
        for (at, given) in self.mark.iter().enumerate() {
            given.get().check(at == 0, first_has_key, &given.span(), report);
        }
        let mut seen = App::unknown().stages();
        seen.retain(|stage| *stage != App::unknown().response);
        let marks = self.mark.iter().map(|mark| (&mark.get().stage, mark.span()));
        for (stage, span) in marks.chain([(self.response.get(), self.response.span())]) {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
            if stage.is_empty() || stage.len() > 40 || !stage.chars().all(plain) {
                let wrong = format!("{stage:?} is not a valid stage name");
                report.error(&span, &wrong, "use up to 40 letters, digits, blanks, and -_.");
            }
            if seen.contains(stage) {
                let wrong = format!("stage {stage:?} is used twice");
                report.error(&span, &wrong, "give every stage its own name");
            }
            seen.push(stage.clone());
        }
    }
}

impl Mark {
    fn check(
        &self,
        is_first: bool,
        first_has_key: bool,
        span: &Range<usize>,
        report: &mut Report<'_>,
    ) {
        let mut wrong = |wrong, fix| report.error(span, wrong, fix);
        if self.function.is_some() == self.tracepoint.is_some() {
            wrong("the mark needs exactly one location", "set `function` or `tracepoint`");
        }
        if self.tracepoint.as_ref().is_some_and(|name| !name.contains(':')) {
            wrong("`tracepoint` has no provider", "write it as provider:name");
        }
        if self.key.is_some_and(|key| key > 5 || !first_has_key) {
            wrong("`key` is invalid", "use 0 to 5, and give the first mark a key, too");
        }
        let Some(unread) = &self.unread else { return };
        if !is_first {
            wrong("`unread` is allowed only in the first mark", "move it there");
        }
        if unread.argument > 5 || unread.field.is_some() == unread.offset.is_some() {
            let fix = "set `argument` from 0 to 5, and `field` or `offset`";
            wrong("`unread` is incomplete", fix);
        }
    }
}

const BUILT_IN: [(&str, &str); 6] = [
    ("memcached", include_str!("../apps/memcached.toml")),
    ("httpd", include_str!("../apps/httpd.toml")),
    ("nginx", include_str!("../apps/nginx.toml")),
    ("redis", include_str!("../apps/redis.toml")),
    ("curtail-leaf", include_str!("../apps/curtail-leaf.toml")),
    ("curtail-proxy", include_str!("../apps/curtail-proxy.toml")),
];

impl App {
    /// Returns the names of the built-in applications.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Returns a built-in application by name.
    #[must_use]
    pub fn named(name: &str) -> Option<App> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(App::parse(name, text).expect("built-in descriptions are tested"))
    }

    /// Returns an application without marks. It can be used for any server, because everything
    /// between read and write is one stage.
    #[must_use]
    pub fn unknown() -> App {
        App { name: "any".to_owned(), response: "socket-to-response".to_owned(), mark: Vec::new() }
    }

    /// Parses a description. Errors refer to the file as `name`.
    ///
    /// # Errors
    ///
    /// If the description is invalid. Each error names the line, the value, and the fix.
    pub fn parse(name: &str, text: &str) -> Result<App, ConfigErrors> {
        let mut report = Report::new(name, text);
        let file: Option<File> = deserialize(&mut report);
        if let Some(file) = &file {
            file.check(&mut report);
        }
        report.finish()?;
        let File { name, response, mark } = file.expect("a file without errors has a value");
        let mark = mark.into_iter().map(Given::into_inner).collect();
        Ok(App { name, response: response.into_inner(), mark })
    }

    /// Returns all stages of a request, in order.
    #[must_use]
    pub fn stages(&self) -> Vec<String> {
        let kernel = ["device-to-tcp", "tcp", "tcp-to-socket"].map(str::to_owned);
        let marks = self.mark.iter().map(|mark| mark.stage.clone());
        let ends = [self.response.clone(), "response-to-device".to_owned()];
        kernel.into_iter().chain(marks).chain(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_built_in_applications_can_be_read() {
        for (name, _) in BUILT_IN {
            assert_eq!(App::named(name).expect("it is built in").name, name);
        }
        assert_eq!(App::named("other"), None);
        assert_eq!(App::unknown().stages().len(), 5);
    }

    #[test]
    fn errors_name_the_field_and_the_fix() {
        let refused = |text: &str, with: &str| {
            let error = App::parse("a", text).expect_err(text).to_string();
            assert!(error.contains(with), "{text}: {error}");
        };
        let head = "name = 'a'\nresponse = 'r'\n";
        let of = |rest: &str| format!("{head}[[mark]]\nstage = 's'\n{rest}");
        refused("name = 'a'", "response is missing; add it");
        refused(&format!("{head}colour = 1"), "a:3: colour: unknown key; valid keys here are name");
        refused(&of(""), "a:3: [[mark]]: the mark needs exactly one location; set `function`");
        refused(&of("function = 'f'\ntracepoint = 'a:b'"), "needs exactly one location");
        refused(&of("tracepoint = 'b'"), "provider:name");
        refused(&of("function = 'f'\nunread = { argument = 6, offset = 1 }"), "from 0 to 5");
        refused(
            &of("function = 'f'\n[[mark]]\nstage = 's'\nfunction = 'g'"),
            "\"s\" is used twice",
        );
        refused(&of("function = 'f'").replace("'s'", "'tcp'"), "\"tcp\" is used twice");
        refused(&of("function = 'f'").replace("'s'", "'<b>'"), "is not a valid stage name");
        refused(&format!("{head}{}", "[[mark]]\nstage = 's'\n".repeat(5)), "keep at most 4");
    }
}
