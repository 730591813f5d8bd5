//! Phrases that may not stand in certain files.
//!
//! Where a rule's own text would break the rule, it is put together from halves.

use super::{Finding, Tree, is_test_code};

/// Where in a line the first phrase of a rule counts.
#[derive(Clone, Copy)]
enum Edge {
    /// Anywhere, in either case.
    Anywhere,
    /// As a whole word.
    Word,
    /// Where a path starts: not inside a longer path or an address.
    PathStart,
}

/// One rule: a line of `files` may not hold all of `phrases`.
struct Rule {
    files: fn(&str) -> bool,
    /// The first is looked for at an `edge`, the others anywhere.
    phrases: &'static [&'static str],
    edge: Edge,
    /// Continuations of the first phrase that are fine.
    except: &'static [&'static str],
    /// A remark that allows it on its line.
    pardon: Option<&'static str>,
    mend: &'static str,
}

const RULE: Rule =
    Rule { files: is_rust, phrases: &[], edge: Edge::Word, except: &[], pardon: None, mend: "" };
const LEFTOVER: Rule = Rule { mend: "finish it", ..RULE };
const UNBOUNDED: Rule = Rule {
    files: is_crate_source,
    mend: "give the channel a bound, and say what happens when it is full",
    ..RULE
};
const SLEEP: Rule = Rule {
    files: is_test_code,
    pardon: Some("// tidy: real time"),
    mend: "use paused or virtual time, or end the line with `// tidy: real time`",
    ..RULE
};
const MACHINE: Rule = Rule {
    files: |_| true,
    edge: Edge::PathStart,
    mend: "use a path that exists on every machine",
    ..RULE
};
const BRITISH: Rule =
    Rule { files: is_prose, edge: Edge::Anywhere, mend: "use the American spelling", ..RULE };

const RULES: &[Rule] = &[
    Rule { phrases: &[concat!("to", "do!")], ..LEFTOVER },
    Rule { phrases: &[concat!("unimple", "mented!")], ..LEFTOVER },
    Rule { phrases: &[concat!("FIX", "ME")], ..LEFTOVER },
    Rule { phrases: &[concat!("X", "XX")], ..LEFTOVER },
    Rule {
        phrases: &[concat!("#[", "ignore")],
        mend: "let it run, or print SKIPPED and the reason",
        ..RULE
    },
    Rule { phrases: &["unbounded_channel"], ..UNBOUNDED },
    Rule { phrases: &["mpsc::channel()"], ..UNBOUNDED },
    // Only the standard library's takes no capacity.
    Rule { phrases: &["mpsc::channel", "::<", ">()"], ..UNBOUNDED },
    Rule { phrases: &["thread::sleep"], ..SLEEP },
    Rule { phrases: &["time::sleep"], ..SLEEP },
    Rule { phrases: &[concat!("/ho", "me/")], ..MACHINE },
    Rule { phrases: &[concat!("/ro", "ot/")], ..MACHINE },
    Rule { phrases: &[concat!("/wo", "rk/")], ..MACHINE },
    Rule { phrases: &[concat!("utili", "s")], ..BRITISH },
    Rule { phrases: &[concat!("behavi", "our")], ..BRITISH },
    Rule { phrases: &[concat!("prioriti", "s")], ..BRITISH },
    Rule { phrases: &[concat!("optimi", "s")], except: &["t", "m"], ..BRITISH },
    Rule { phrases: &[concat!("seriali", "s")], ..BRITISH },
    Rule { phrases: &[concat!("randomi", "s")], ..BRITISH },
];

fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

fn is_crate_source(path: &str) -> bool {
    let inside = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    is_rust(path) && inside.is_some_and(|(_, rest)| rest.starts_with("src/"))
}

/// What people of the project write; not the licenses, not data.
fn is_prose(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let written = ["rs", "md", "toml", "py", "sh", "yml", "yaml", "json", "html"];
    name.rsplit_once('.').is_some_and(|(_, extension)| written.contains(&extension))
}

/// Lines that hold what a rule forbids.
pub(crate) fn leftovers(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let rules: Vec<&Rule> = RULES.iter().filter(|rule| (rule.files)(&file.path)).collect();
        for (i, line) in file.text.lines().enumerate() {
            for rule in rules.iter().filter(|rule| rule.is_broken_by(line)) {
                let what = format!("`{}`", rule.phrases.join("…"));
                findings.push(Finding::new(&file.path, i + 1, what, rule.mend));
            }
        }
    }
    findings
}

impl Rule {
    fn is_broken_by(&self, line: &str) -> bool {
        let Some((first, others)) = self.phrases.split_first() else { return false };
        self.finds(first, line)
            && others.iter().all(|phrase| line.contains(phrase))
            && !self.pardon.is_some_and(|remark| line.contains(remark))
    }

    fn finds(&self, phrase: &str, line: &str) -> bool {
        // Lowering only ASCII keeps every byte where it is.
        let line = match self.edge {
            Edge::Anywhere => line.to_ascii_lowercase(),
            Edge::Word | Edge::PathStart => line.to_owned(),
        };
        line.match_indices(phrase).any(|(start, _)| {
            let (before, after) = (&line[..start], &line[start + phrase.len()..]);
            self.edge.allows(phrase, before, after)
                && !self.except.iter().any(|end| after.starts_with(end))
        })
    }
}

impl Edge {
    fn allows(self, phrase: &str, before: &str, after: &str) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        match self {
            Self::Anywhere => true,
            // A phrase that ends in a mark, such as a bracket, needs no edge there.
            Self::Word => {
                let starts_inside = phrase.starts_with(is_word) && before.ends_with(is_word);
                let ends_inside = phrase.ends_with(is_word) && after.starts_with(is_word);
                !starts_inside && !ends_inside
            }
            Self::PathStart => {
                !before.ends_with(|c| is_word(c) || matches!(c, '.' | '-' | '/' | '~' | '*' | '}'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> bool {
        !leftovers(&Tree::of(&[(path, line)])).is_empty()
    }

    #[test]
    fn every_rule_finds_its_own_phrase_and_names_the_line() {
        for rule in RULES {
            let path = if (rule.files)("crates/a/src/b.rs") {
                "crates/a/src/b.rs"
            } else {
                "crates/a/tests/b.rs"
            };
            let phrase = rule.phrases.concat();
            let text = format!("fine\n  {phrase} ");
            let findings = leftovers(&Tree::of(&[(path, &text)]));
            let expected = format!("{path}:2: `{}`; {}", rule.phrases.join("…"), rule.mend);
            assert!(findings.iter().any(|f| f.to_string() == expected), "{expected}: {findings:?}");
        }
    }

    #[test]
    fn words_count_only_as_wholes() {
        assert!(!found("a.rs", concat!("let X", "X", "XX = 1;")));
        assert!(!found("a.md", concat!("FIX", "ME stands in a document")));
    }

    #[test]
    fn bounded_channels_are_fine() {
        let path = "crates/a/src/b.rs";
        assert!(found(path, "let (tx, rx) = mpsc::channel::<u8>();"));
        assert!(!found(path, "let (tx, rx) = mpsc::channel::<u8>(16);"));
        assert!(!found(path, "let (tx, rx) = mpsc::channel(16);"));
        assert!(!found("crates/a/tests/b.rs", "let (tx, rx) = mpsc::channel();"));
    }

    #[test]
    fn sleeping_in_tests_needs_a_remark() {
        let nap = "thread::sleep(pause);";
        assert!(found("crates/a/tests/b.rs", nap));
        assert!(!found("crates/a/tests/b.rs", &format!("{nap} // tidy: real time")));
        assert!(!found("crates/a/src/b.rs", nap));
    }

    #[test]
    fn paths_inside_others_are_fine() {
        let path = concat!("/wo", "rk/x");
        assert!(found("a.md", path) && found("a", &format!("DIR={path}")));
        for start in ["https://example.com", "target", "..", "${OUT}"] {
            assert!(!found("a.md", &format!("{start}{path}")), "{start}");
        }
    }

    #[test]
    fn spelling_is_american_in_what_people_write() {
        assert!(found("a.md", concat!("Optimi", "se it")));
        assert!(!found("a.md", "an optimistic guess, optimized, cancelled"));
        assert!(!found("LICENSE-MIT", concat!("behavi", "our")));
    }
}
