//! Rules for documents: the map lists every crate, the README shows exactly two commands, and links
//! have targets.

use std::ops::Range;

use pulldown_cmark::{Event, Parser, Tag};

use super::{Finding, Tree};

/// The only commands that the README shows.
const COMMANDS: [&str; 2] = ["cargo run --release -- demo", "cargo xtask test"];

/// Finds crates that are missing from the map.
pub(crate) fn architecture(tree: &Tree) -> Vec<Finding> {
    const MAP: &str = "ARCHITECTURE.md";
    let Some(map) = tree.file(MAP) else {
        return vec![Finding::new(MAP, 1, "it is missing", "write the map of the crates")];
    };
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mapped = |name: &str| map.text.split(|c| !is_word(c)).any(|word| word == name);
    tree.crates()
        .filter(|name| !mapped(name))
        .map(|name| Finding::new(MAP, 1, format!("crates/{name} is missing"), "describe it there"))
        .collect()
}

/// Checks that the README shows how to try the product and how to test it, and no other command.
pub(crate) fn readme(tree: &Tree) -> Vec<Finding> {
    const README: &str = "README.md";
    let Some(readme) = tree.file(README) else {
        return vec![Finding::new(README, 1, "it is missing", "describe the project")];
    };
    let missing = COMMANDS
        .into_iter()
        .filter(|command| !readme.text.contains(command))
        .map(|c| Finding::new(README, 1, format!("`{c}` is missing"), "show it in a fenced block"));
    let other = fenced_commands(&readme.text).filter(|(_, command)| !COMMANDS.contains(command));
    let other = other.map(|(line, command)| {
        let fix = "keep to the two commands; details belong in docs";
        Finding::new(README, line, format!("`{command}` is not one of them"), fix)
    });
    missing.chain(other).collect()
}

/// Finds links inside the repository that have no target.
pub(crate) fn links(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("md") {
        for (event, range) in Parser::new(&file.text).into_offset_iter() {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            else {
                continue;
            };
            if let Some(target) = local_target(&file.path, &dest_url)
                && !tree.has(&target)
            {
                let what = format!("the link to `{dest_url}` leads nowhere");
                let line = line_of(&file.text, &range);
                findings.push(Finding::new(&file.path, line, what, "fix or remove it"));
            }
        }
    }
    findings
}

/// Returns the path, relative to the root, that a link in `file` points to. Returns `None` if the
/// link does not point to a file in the repository, because it is a URL or a heading in the same
/// document.
fn local_target(file: &str, link: &str) -> Option<String> {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let has_scheme = link.split('/').next().is_some_and(|start| start.contains(':'));
    if path.is_empty() || has_scheme || link.starts_with("//") {
        return None;
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    if path.starts_with('/') {
        parts.clear();
    }
    for part in path.split('/') {
        match part {
            "" | "." => {}
            // There is no path above the root. The `..` is kept, so that the target is not found.
            ".." if parts.is_empty() => parts.push(".."),
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Returns the command lines in fenced blocks, with their line numbers: all lines of shell blocks,
/// and lines that start with a prompt or with one of our commands. A comment at the end is not part
/// of the command.
fn fenced_commands(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut block: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let line = line.trim();
        if let Some(language) = line.strip_prefix("```").or_else(|| line.strip_prefix("~~~")) {
            block = if block.is_some() { None } else { Some(language) };
            return None;
        }
        let is_shell = matches!(block?, "sh" | "bash" | "shell" | "console" | "zsh");
        let starts = ["$ ", "cargo ", "curtail ", "./"];
        let is_command = is_shell || starts.iter().any(|start| line.starts_with(start));
        let command = line.strip_prefix("$ ").unwrap_or(line).split(" #").next()?.trim();
        (is_command && !command.is_empty() && !command.starts_with('#'))
            .then_some((at + 1, command))
    })
}

/// Returns the line, counted from 1, on which a range of the text starts.
fn line_of(text: &str, range: &Range<usize>) -> usize {
    text.as_bytes().iter().take(range.start).filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# It\n\n```sh\ncargo run --release -- demo  # a minute\n\
                        $ cargo xtask test\n```\n\n```text\na -> b\n```\n";

    fn shown(findings: &[Finding]) -> String {
        findings.iter().map(|finding| format!("{finding}\n")).collect()
    }

    #[test]
    fn every_crate_is_on_the_map() {
        let crates = [("crates/kernel/Cargo.toml", ""), ("crates/http/Cargo.toml", "")];
        assert!(
            shown(&architecture(&Tree::of(&crates)))
                .starts_with("ARCHITECTURE.md:1: it is missing")
        );
        let map = ("ARCHITECTURE.md", "`crates/kernel/`; not http11 nor x-http1");
        let findings = architecture(&Tree::of(&[crates[0], crates[1], map]));
        assert_eq!(
            shown(&findings),
            "ARCHITECTURE.md:1: crates/http is missing; describe it there\n"
        );
    }

    #[test]
    fn the_readme_shows_the_two_commands_and_no_other() {
        assert!(readme(&Tree::of(&[("README.md", GOOD)])).is_empty());
        let missing = shown(&readme(&Tree::of(&[("README.md", "# It\n")])));
        assert_eq!(missing.matches("is missing").count(), COMMANDS.len(), "{missing}");
        assert!(shown(&readme(&Tree::default())).contains("README.md:1: it is missing"));
        for (block, line) in [
            ("```bash\n\nmake all\n```", 14),
            ("```\nx\ncargo build\n```", 14),
            ("~~~\n$ ls\n~~~", 13),
        ] {
            let text = shown(&readme(&Tree::of(&[("README.md", &format!("{GOOD}\n{block}\n"))])));
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.starts_with(&format!("README.md:{line}: ")), "{text}");
        }
    }

    #[test]
    fn links_lead_somewhere() {
        let good = "[a](b.md#part) [c](../README.md) ![d](/docs/) <https://example.com/x> [e](#f)\n\
                    `[code](nowhere.md)` [m](mailto:a@example.com) [r]\n\n[r]: ./b.md\n";
        let files = [("docs/a.md", good), ("docs/b.md", ""), ("README.md", "")];
        assert_eq!(shown(&links(&Tree::of(&files))), "");

        let bad = "one\n\n[a](gone.md) and [up](../../x.md)\n";
        let findings = links(&Tree::of(&[("docs/a.md", bad), ("gone.md", "")]));
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(shown(&findings).starts_with("docs/a.md:3: the link to `gone.md` leads nowhere"));
    }
}
