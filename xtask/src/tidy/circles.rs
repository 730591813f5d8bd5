//! Files of a crate that use each other, directly or through others.
//!
//! A file uses the file that defines what it names, even if a third file passes the name on. A
//! circle is a set of files each of which reaches every other one. A module and the modules inside
//! it may use each other if the circle contains nothing else.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, Tree, source};

/// Finds the circles.
pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let circles = circles(tree).into_iter();
    circles
        .map(|circle| {
            let what = format!("it uses, and is used by, {}", circle[1..].join(", "));
            let fix = "move what both sides need to a file that uses neither";
            Finding::new(circle[0], 1, what, fix)
        })
        .collect()
}

/// Returns the circles of all crates.
pub(super) fn circles(tree: &Tree) -> Vec<Vec<&str>> {
    source::crates(tree)
        .values()
        .flat_map(|room| {
            let edges: Edges<'_> =
                room.iter().map(|(name, module)| (module.path, source::uses(room, name))).collect();
            components(&edges)
        })
        .filter(|circle| !is_one_module(circle))
        .collect()
}

/// Whether a circle consists of a module and modules inside it.
fn is_one_module(circle: &[&str]) -> bool {
    circle.iter().any(|path| {
        let folder = path.strip_suffix("mod.rs").map(str::to_owned);
        let folder = folder.unwrap_or_else(|| format!("{}/", path.trim_end_matches(".rs")));
        circle.iter().all(|other| other == path || other.starts_with(&folder))
    })
}

type Edges<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Returns the strongly connected components of two and more files, each sorted.
fn components<'a>(edges: &Edges<'a>) -> Vec<Vec<&'a str>> {
    let reached: Edges<'a> = edges.keys().map(|from| (*from, reach(edges, from))).collect();
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (from, to) in &reached {
        let circle: Vec<&str> =
            to.iter().copied().filter(|other| reached[other].contains(from)).collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// Returns the files that a file reaches.
fn reach<'a>(edges: &Edges<'a>, from: &str) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        for next in &edges[file] {
            if reached.insert(*next) {
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(files: &[(&'a str, &'a str)]) -> Vec<String> {
        let tree = Tree::of(files);
        circles(&tree).iter().map(|circle| circle.join(" ")).collect()
    }

    #[test]
    fn a_circle_may_have_any_length() {
        let files = [
            ("x/src/lib.rs", "mod a;\nmod b;\nmod c;\npub use a::A;\n"),
            ("x/src/a.rs", "use std::fmt;\nuse crate::{b::{self, B}};\nstruct A;"),
            ("x/src/b.rs", "//! crate::a\nfn f() { crate::c::g(); }\n"),
            ("x/src/c.rs", "use crate::A;\n"),
        ];
        let circle = "x/src/a.rs x/src/b.rs x/src/c.rs";
        assert_eq!(of(&files), [circle], "the root only passes A on");
        let apart = [
            files[0],
            files[1],
            files[2],
            ("x/src/c.rs", "#[cfg(test)]\nmod tests { use crate::A; }"),
        ];
        assert_eq!(of(&apart), [""; 0], "tests may use what they test");
        assert_eq!(findings(&Tree::of(&files)).len(), 1);
    }

    #[test]
    fn a_module_and_the_modules_inside_it_may_use_each_other() {
        let files = [
            ("x/src/lib.rs", "mod net;\n"),
            ("x/src/net/mod.rs", "mod books;\npub struct Net;\nfn f(of: books::Book) {}"),
            ("x/src/net/books.rs", "use super::Net;\npub struct Book(Net);"),
        ];
        assert_eq!(of(&files), [""; 0]);
        let beside = ("x/src/sink.rs", "use crate::net::Net;\npub struct Sink(Net);");
        let book = ("x/src/net/books.rs", "use crate::sink::Sink;\npub struct Book(Sink);");
        let circle = "x/src/net/books.rs x/src/net/mod.rs x/src/sink.rs";
        assert_eq!(of(&[files[0], files[1], book, beside]), [circle]);
    }

    /// The circle that the kernel had: a cell's parts work on the core, and the core names the traits
    /// of the picks and hedges, which name the core's tables.
    #[test]
    fn the_circle_of_the_kernel_is_found_without_a_mutual_pair() {
        let files = [
            ("k/src/lib.rs", "mod balance; mod cell; mod hedge; mod levels;"),
            (
                "k/src/balance/mod.rs",
                "use crate::levels::Levels;\npub trait Pick { fn f(of: Levels); }",
            ),
            ("k/src/levels.rs", "use crate::cell::Members;\npub struct Levels(Members);"),
            (
                "k/src/cell/mod.rs",
                "mod core; mod servers;\npub use servers::Members;\nuse self::core::Core;",
            ),
            (
                "k/src/cell/core.rs",
                "use crate::hedge::Hedge;\nuse super::servers::State;\npub struct Core;",
            ),
            (
                "k/src/cell/servers.rs",
                "use crate::balance::Pick;\npub struct Members; pub struct State;",
            ),
            ("k/src/hedge/mod.rs", "use crate::cell::Members;\npub trait Hedge {}"),
        ];
        assert_eq!(of(&files), ["k/src/balance/mod.rs k/src/cell/servers.rs k/src/levels.rs"]);
    }
}
