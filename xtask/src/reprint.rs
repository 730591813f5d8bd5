//! `cargo xtask reprint`: runs the commands of documentation pages and replaces the output that the
//! pages show.
//!
//! It is intended for pages that contain measurements, whose figures differ from run to run. It
//! needs an otherwise idle machine.

use std::path::Path;

use anyhow::{Context as _, Result};

use xtask::cargo;
use xtask::page::{self, Ran};

/// Reprints pages. Returns false if a command failed. In that case, its page is left unchanged.
pub(crate) fn run(root: &Path, pages: &[String]) -> Result<bool> {
    let mut good = true;
    for name in pages {
        let file = root.join(name);
        let text = std::fs::read_to_string(&file).with_context(|| name.clone())?;
        let folder = cargo::target_folder(root)?.join("reprint");
        let all = cargo::run_page(root, &page::commands(&text), &folder)?;
        // A run with an invalid load exits with 1, but its output is complete.
        let failed = |ran: &&Ran| !matches!(ran.code, Some(0 | 1));
        if let Some(ran) = all.iter().find(failed) {
            eprintln!("{name}: {} ended with {:?}: {}", ran.command, ran.code, ran.stderr);
            good = false;
            continue;
        }
        std::fs::write(&file, reprinted(&text, &all))?;
        eprintln!("{name}: {} commands", all.len());
    }
    Ok(good)
}

/// Returns the page with the new output below each command.
fn reprinted(text: &str, all: &[Ran]) -> String {
    let mut printed = all.iter();
    let (mut page, mut inside) = (String::new(), false);
    for line in text.lines() {
        if line.starts_with("```") {
            if inside && page.ends_with("\n\n") {
                page.pop();
            }
            inside = line == "```console";
        } else if inside && !line.starts_with("$ ") {
            continue;
        }
        page += line;
        page.push('\n');
        if inside && line.starts_with("$ ") {
            let ran = printed.next().map(|ran| ran.printed.trim_end()).unwrap_or_default();
            for line in ran.lines() {
                page += line.trim_end();
                page.push('\n');
            }
            if !ran.is_empty() {
                page.push('\n');
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_output_below_a_command_is_replaced() {
        let ran = |printed: &str| Ran {
            command: String::new(),
            printed: printed.to_owned(),
            stderr: String::new(),
            code: Some(0),
        };
        let text =
            "# A\n\n```console\n$ one &\n$ two\nold\nolder\n```\n\n```sh\n$ kept\nold\n```\n";
        let expected =
            "# A\n\n```console\n$ one &\n$ two\nnew  x\n```\n\n```sh\n$ kept\nold\n```\n";
        assert_eq!(reprinted(text, &[ran(""), ran("new  x \n")]), expected);
        assert_eq!(page::commands(text), ["one &", "two"]);
    }
}
