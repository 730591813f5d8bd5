//! Versions of dependencies. The lab, the Python package and the example are workspaces of their own,
//! but they share the target directory, and what has the same version is compiled once.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use super::{Finding, Tree};

/// The lock file of the product, with which the others agree.
const PRODUCT: &str = "Cargo.lock";
const OTHERS: [&str; 3] = ["lab/Cargo.lock", "python/Cargo.lock", "examples/policy/Cargo.lock"];

#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
}

/// The versions of each package. Incompatible versions may stand side by side.
type Versions = BTreeMap<String, BTreeSet<String>>;

/// Finds packages of which another workspace has only versions that the product does not have.
pub(super) fn findings(tree: &Tree) -> Result<Vec<Finding>> {
    let product = versions(tree, PRODUCT)?;
    let mut findings = Vec::new();
    for path in OTHERS {
        for (name, locked) in versions(tree, path)? {
            let Some(versions) = product.get(&name).filter(|other| other.is_disjoint(&locked))
            else {
                continue;
            };
            let list = |versions: &BTreeSet<String>| Vec::from_iter(versions.clone()).join(", ");
            let what =
                format!("{name} is {}, but {} in the product", list(&locked), list(versions));
            let fix = "run `cargo update` in both workspaces";
            findings.push(Finding::new(path, 1, what, fix));
        }
    }
    Ok(findings)
}

fn versions(tree: &Tree, path: &str) -> Result<Versions> {
    // A tree without the file is that of a test.
    let Some(file) = tree.file(path) else { return Ok(Versions::new()) };
    let lock: Lock = toml::from_str(&file.text).with_context(|| path.to_owned())?;
    let mut versions = Versions::new();
    for Package { name, version } in lock.package {
        versions.entry(name).or_default().insert(version);
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_the_product_does_not_have_is_reported() {
        let one = |name, version| format!("[[package]]\nname = {name:?}\nversion = {version:?}\n");
        let product = [one("a", "1.0.0"), one("a", "2.0.0"), one("b", "1.0.0")].concat();
        let lab = [one("a", "2.0.0"), one("b", "1.0.1"), one("c", "3.0.0")].concat();
        let tree = Tree::of(&[(PRODUCT, &product), (OTHERS[0], &lab)]);
        let findings: Vec<String> =
            findings(&tree).expect("valid").iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [
                "lab/Cargo.lock:1: b is 1.0.1, but 1.0.0 in the product; run `cargo update` in both workspaces"
            ]
        );
    }
}
