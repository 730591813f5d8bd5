//! The points that a request passes through inside an application. Each application is described by
//! a small TOML file. Some of these files are built in.
//!
//! ```
//! let app = curtail_probe::app::App::parse(r#"
//!     name = "memcached"
//!     response = "parse-to-response"
//!
//!     [[mark]]
//!     stage = "socket-to-parse"
//!     function = "process_command_ascii"
//!     unread = { argument = 0, field = "conn.rbytes" }
//! "#)?;
//! assert_eq!(app.stages()[3..5], ["socket-to-parse", "parse-to-response"]);
//! # Ok::<(), curtail_probe::app::AppError>(())
//! ```

use serde::Deserialize;

/// The maximum number of marks per application. It matches the size of the tables in the eBPF
/// program.
pub const MARKS_MAX: usize = 4;

/// The marks and stages of an application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// The name of the application.
    pub name: String,
    /// The name of the stage that ends with the write. This stage starts at the last mark, or at
    /// the read if there are no marks.
    pub response: String,
    /// The marks, in the order in which a request passes them. The first one begins a request.
    #[serde(default)]
    pub mark: Vec<Mark>,
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

/// The reason why an application's description was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// The text is not TOML, or has unknown or missing fields. The message names the line.
    #[error("{0}")]
    Toml(String),
    /// A value is out of range.
    #[error("{field}: {problem}; {fix}")]
    Value {
        /// The field.
        field: String,
        /// The problem.
        problem: String,
        /// The fix.
        fix: &'static str,
    },
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
        Some(App::parse(text).expect("built-in descriptions are tested"))
    }

    /// Returns an application without marks. It can be used for any server, because everything
    /// between read and write is one stage.
    #[must_use]
    pub fn unknown() -> App {
        App { name: "any".to_owned(), response: "socket-to-response".to_owned(), mark: Vec::new() }
    }

    /// Parses a description.
    ///
    /// # Errors
    ///
    /// If the description is invalid. The error names the line or field, and the fix.
    pub fn parse(text: &str) -> Result<App, AppError> {
        let app: App = toml::from_str(text).map_err(|error| AppError::Toml(error.to_string()))?;
        let wrong = |field: &str, problem: String, fix| {
            Err(AppError::Value { field: field.to_owned(), problem, fix })
        };
        if app.mark.len() > MARKS_MAX {
            return wrong("mark", format!("there are {}", app.mark.len()), "keep at most 4");
        }
        for (at, mark) in app.mark.iter().enumerate() {
            let field = format!("mark[{at}]");
            if mark.function.is_some() == mark.tracepoint.is_some() {
                return wrong(
                    &field,
                    "it needs exactly one location".to_owned(),
                    "set `function` or `tracepoint`",
                );
            }
            if mark.tracepoint.as_ref().is_some_and(|name| !name.contains(':')) {
                return wrong(
                    &field,
                    "no provider".to_owned(),
                    "write `tracepoint` as provider:name",
                );
            }
            if mark.key.is_some_and(|key| key > 5 || app.mark[0].key.is_none()) {
                let fix = "use 0 to 5, and give the first mark a key, too";
                return wrong(&field, "`key` is invalid".to_owned(), fix);
            }
            let Some(unread) = &mark.unread else { continue };
            if at > 0 {
                return wrong(
                    &field,
                    "`unread` is allowed only in the first mark".to_owned(),
                    "move it there",
                );
            }
            if unread.argument > 5 || unread.field.is_some() == unread.offset.is_some() {
                let fix = "set `argument` from 0 to 5, and `field` or `offset`";
                return wrong(&field, "`unread` is incomplete".to_owned(), fix);
            }
        }
        let stages = app.stages();
        for (at, stage) in stages.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
            if stage.is_empty() || stage.len() > 40 || !stage.chars().all(plain) {
                let fix = "use up to 40 letters, digits, blanks, and -_.";
                return wrong("stage", format!("{stage:?} is not a valid stage name"), fix);
            }
            if stages[..at].contains(stage) {
                return wrong(
                    "stage",
                    format!("{stage:?} is used twice"),
                    "give every stage its own name",
                );
            }
        }
        Ok(app)
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
            let error = App::parse(text).expect_err(text).to_string();
            assert!(error.contains(with), "{text}: {error}");
        };
        let head = "name = 'a'\nresponse = 'r'\n";
        let of = |rest: &str| format!("{head}[[mark]]\nstage = 's'\n{rest}");
        refused("name = 'a'", "response");
        refused(&format!("{head}colour = 1"), "line 3");
        refused(&of(""), "mark[0]: it needs exactly one location");
        refused(
            &of("function = 'f'\ntracepoint = 'a:b'"),
            "mark[0]: it needs exactly one location",
        );
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
