//! Where requests pass inside an application: a small TOML file per application, some built in.
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

/// The most marks that an application may have: what the kernel's side has room for.
pub const MARKS_MAX: usize = 4;

/// What a request passes in an application.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct App {
    /// What people call it.
    pub name: String,
    /// The name of the stage from the last mark (without marks: from the read) until the write.
    pub response: String,
    /// In the order in which a request passes them. The first begins a request.
    #[serde(default)]
    pub mark: Vec<Mark>,
}

/// A place that every request passes once.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mark {
    /// The stage that ends here.
    pub stage: String,
    /// The function whose entry is the mark, as the linker or as Rust names it.
    pub function: Option<String>,
    /// Or a statically defined tracepoint (USDT): `provider:name`.
    pub tracepoint: Option<String>,
    /// The shared library that it is in; without, the program itself. Matched with the end of the path.
    pub library: Option<String>,
    /// Which argument of the function, from 0, names the request: needed where another thread goes on with it. Then
    /// the first mark, on the thread that has read the request, has a key, too.
    pub key: Option<u8>,
    /// Only of the first mark: where to read how many bytes the application has read and not parsed, this request
    /// included. Separates pipelined requests that came in different packets of one read.
    pub unread: Option<Unread>,
}

impl Mark {
    /// The function or tracepoint.
    #[must_use]
    pub fn place(&self) -> &str {
        self.function.as_deref().or(self.tracepoint.as_deref()).unwrap_or_default()
    }
}

/// A 32-bit number behind a pointer that is an argument of the function.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unread {
    /// Which argument, from 0.
    pub argument: u8,
    /// A field of a structure, `structure.field`, found by debug information.
    pub field: Option<String>,
    /// Or how many bytes behind the pointer.
    pub offset: Option<u64>,
}

/// Why a description of an application is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppError {
    /// It is not TOML, or has unknown or missing fields. The text names the line.
    #[error("{0}")]
    Toml(String),
    /// A value is not possible.
    #[error("{field}: {problem}; {fix}")]
    Value {
        /// Which.
        field: String,
        /// What is wrong.
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
    /// The names of those that are built in.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// One that is built in.
    #[must_use]
    pub fn named(name: &str) -> Option<App> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(App::parse(text).expect("what is built in is tested"))
    }

    /// Any server: nothing is known of what happens between read and write.
    #[must_use]
    pub fn unknown() -> App {
        App { name: "any".to_owned(), response: "socket-to-response".to_owned(), mark: Vec::new() }
    }

    /// Reads a description.
    ///
    /// # Errors
    ///
    /// Says which line or field is wrong, and the fix.
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
                    "it needs one place".to_owned(),
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
                let fix = "count from 0 to 5, and give the first mark a key, too";
                return wrong(&field, "`key` names no request".to_owned(), fix);
            }
            let Some(unread) = &mark.unread else { continue };
            if at > 0 {
                return wrong(
                    &field,
                    "`unread` is of no use".to_owned(),
                    "move it to the first mark",
                );
            }
            if unread.argument > 5 || unread.field.is_some() == unread.offset.is_some() {
                let fix = "set `argument` from 0 to 5, and `field` or `offset`";
                return wrong(&field, "`unread` names no place".to_owned(), fix);
            }
        }
        let stages = app.stages();
        for (at, stage) in stages.iter().enumerate() {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_. ".contains(c);
            if stage.is_empty() || stage.len() > 40 || !stage.chars().all(plain) {
                let fix = "use up to 40 letters, digits, blanks, and -_.";
                return wrong("stage", format!("{stage:?} is no name of a stage"), fix);
            }
            if stages[..at].contains(stage) {
                return wrong(
                    "stage",
                    format!("{stage:?} is there twice"),
                    "name stages differently",
                );
            }
        }
        Ok(app)
    }

    /// All stages of a request, in order.
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
    fn what_is_wrong_is_named() {
        let refused = |text: &str, with: &str| {
            let error = App::parse(text).expect_err(text).to_string();
            assert!(error.contains(with), "{text}: {error}");
        };
        let head = "name = 'a'\nresponse = 'r'\n";
        let of = |rest: &str| format!("{head}[[mark]]\nstage = 's'\n{rest}");
        refused("name = 'a'", "response");
        refused(&format!("{head}colour = 1"), "line 3");
        refused(&of(""), "mark[0]: it needs one place");
        refused(&of("function = 'f'\ntracepoint = 'a:b'"), "mark[0]: it needs one place");
        refused(&of("tracepoint = 'b'"), "provider:name");
        refused(&of("function = 'f'\nunread = { argument = 6, offset = 1 }"), "from 0 to 5");
        refused(
            &of("function = 'f'\n[[mark]]\nstage = 's'\nfunction = 'g'"),
            "\"s\" is there twice",
        );
        refused(&of("function = 'f'").replace("'s'", "'tcp'"), "\"tcp\" is there twice");
        refused(&of("function = 'f'").replace("'s'", "'<b>'"), "no name of a stage");
        refused(&format!("{head}{}", "[[mark]]\nstage = 's'\n".repeat(5)), "keep at most 4");
    }
}
