//! The parsed Rust files of a tree: which file is which module, what it defines, and what it uses.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Ident, Item, UseTree};

use super::{Tree, is_test_code};

/// The modules of a crate's `src` folder by their path from the crate's root.
pub(super) type Crate<'a> = BTreeMap<Vec<String>, Module<'a>>;

/// A file.
pub(super) struct Module<'a> {
    pub(super) path: &'a str,
    /// Names that the file takes from elsewhere, with the paths that it takes them from.
    names: BTreeMap<String, Vec<String>>,
    /// Paths from which the file takes all names.
    globs: Vec<Vec<String>>,
    /// Paths in the code.
    used: BTreeSet<Vec<String>>,
}

/// Parses the files of every crate, without tests.
pub(super) fn crates(tree: &Tree) -> BTreeMap<&str, Crate<'_>> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for file in tree.with_extension("rs").filter(|file| !is_test_code(&file.path)) {
        let Some((room, inside)) = file.path.split_once("/src/") else { continue };
        // A file that does not parse does not compile either, and another check reports it.
        let Ok(parsed) = syn::parse_file(&file.text) else { continue };
        let mut module = Module {
            path: &file.path,
            names: BTreeMap::new(),
            globs: Vec::new(),
            used: BTreeSet::new(),
        };
        module.visit_file(&parsed);
        crates.entry(room).or_default().insert(name(inside), module);
    }
    crates
}

/// Returns the path of a module from its file in `src`.
fn name(inside: &str) -> Vec<String> {
    let path = inside.strip_suffix(".rs").unwrap_or(inside);
    let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&&**last)) {
        parts.pop();
    }
    parts
}

impl<'a> Module<'a> {
    fn add(&mut self, tree: &UseTree, before: &mut Vec<String>, is_used: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.add(&path.tree, before, is_used);
                before.pop();
            }
            UseTree::Name(name) => self.take(&name.ident, before, &name.ident, is_used),
            UseTree::Rename(name) => self.take(&name.rename, before, &name.ident, is_used),
            UseTree::Glob(_) => self.globs.extend(is_used.then(|| before.clone())),
            UseTree::Group(group) => {
                group.items.iter().for_each(|item| self.add(item, before, is_used));
            }
        }
    }

    fn take(&mut self, name: &Ident, before: &[String], original: &Ident, is_used: bool) {
        let mut path = before.to_vec();
        let last = path.last().cloned().unwrap_or_default();
        path.extend((original != "self").then(|| original.to_string()));
        if is_used {
            self.used.insert(path.clone());
        }
        self.names.insert(if name == "self" { last } else { name.to_string() }, path);
    }
}

impl<'ast> Visit<'ast> for Module<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(of) => &of.attrs,
            Item::Fn(of) => &of.attrs,
            Item::Impl(of) => &of.attrs,
            Item::Use(of) => &of.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    /// A name that the file only passes on is not used, unless the code names it.
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let is_used = matches!(item.vis, syn::Visibility::Inherited);
        self.add(&item.tree, &mut Vec::new(), is_used);
    }

    /// The path of `pub(crate)` uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.used.insert(path.segments.iter().map(|part| part.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

/// Whether an item exists only in tests.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

/// Returns the files that define what a module uses, other than its own file.
pub(super) fn uses<'a>(room: &Crate<'a>, module: &[String]) -> BTreeSet<&'a str> {
    let of = &room[module];
    // A module as a whole is not used: what the code names in it is.
    let all =
        |path: &Vec<String>| defining(room, module, &[&**path, &["*".to_owned()]].concat(), 0);
    let globs = of.globs.iter().filter_map(all);
    let used = of.used.iter().filter_map(|path| defining(room, module, path, 0));
    globs.chain(used).filter(|path| *path != of.path).collect()
}

/// Returns the file that defines what a path in a module names: the module that the path ends in,
/// or, if that module only passes the name on, the file from which it takes the name.
fn defining<'a>(
    room: &Crate<'a>,
    module: &[String],
    path: &[String],
    depth: u32,
) -> Option<&'a str> {
    let mut at: Vec<String> = module.to_vec();
    let mut rest = path;
    let first = rest.first()?;
    match first.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => drop(at.pop()),
        name => {
            let child = [&*at, std::slice::from_ref(first)].concat();
            if !room.contains_key(&child) {
                // A name that the file takes from elsewhere starts a longer path.
                let taken = room[module].names.get(name).filter(|taken| **taken != path)?;
                let longer = [&**taken, &rest[1..]].concat();
                return if depth < 8 { defining(room, module, &longer, depth + 1) } else { None };
            }
            at = child;
        }
    }
    rest = &rest[1..];
    while let Some(next) = rest.first() {
        if next == "super" {
            at.pop();
        } else {
            let child = [&*at, std::slice::from_ref(next)].concat();
            if !room.contains_key(&child) {
                break;
            }
            at = child;
        }
        rest = &rest[1..];
    }
    let target = room.get(&at)?;
    let name = rest.first()?;
    if let Some(taken) = target.names.get(name)
        && depth < 8
        && let Some(file) = defining(room, &at, taken, depth + 1)
    {
        return Some(file);
    }
    Some(target.path)
}
