//! Tuples that hide parameters: the parameters of functions, and what public functions return.
//!
//! A tuple as a parameter hides the names of what it packs, so it may not be one. Closures and trait
//! methods that a library declares are exempt, because they have no choice.

use syn::visit::{self, Visit};
use syn::{FnArg, ReturnType, Type};

use super::source::is_for_tests;
use super::{Finding, Tree, is_test_code};

/// Finds tuples in signatures.
pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Found { path: String::new(), findings: Vec::new() };
    for file in tree.with_extension("rs").filter(|file| !is_test_code(&file.path)) {
        found.path.clone_from(&file.path);
        if let Ok(parsed) = syn::parse_file(&file.text) {
            found.visit_file(&parsed);
        }
    }
    found.findings
}

struct Found {
    path: String,
    findings: Vec<Finding>,
}

impl Found {
    fn check(&mut self, signature: &syn::Signature, is_public: bool) {
        let mut report = |what: &str| {
            let line = signature.ident.span().start().line;
            let what = format!("`{}` {what} a tuple", signature.ident);
            self.findings.push(Finding::new(&self.path, line, what, "name its parts in a struct"));
        };
        let is_tuple = |of: &Type| matches!(of, Type::Tuple(tuple) if tuple.elems.len() > 1);
        for input in &signature.inputs {
            if let FnArg::Typed(input) = input
                && (is_tuple(&input.ty) || matches!(&*input.pat, syn::Pat::Tuple(_)))
            {
                report("takes");
            }
        }
        if let ReturnType::Type(_, output) = &signature.output
            && is_public
            && is_tuple(output)
        {
            report("returns");
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_for_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.check(&item.sig, matches!(item.vis, syn::Visibility::Public(_)));
        visit::visit_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if item.trait_.is_none() {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        self.check(&item.sig, matches!(item.vis, syn::Visibility::Public(_)));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        self.check(&item.sig, true);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tuples_in_signatures_are_found() {
        let bad = "fn a((x, y): (u8, u8)) {}\npub fn b() -> (u8, u8) { (1, 2) }\n\
                   impl X { fn c(&self, of: (u8, u8)) {} }\ntrait T { fn d() -> (u8, u8); }";
        let good = "fn a() -> (u8, u8) { [(1, 2)].map(|(x, y)| (y, x))[0] }\npub fn b(of: ()) {}\n\
                    impl FromIterator<(u8, u8)> for X { fn c(of: (u8, u8)) {} }\n\
                    fn d(of: &[(u8, u8)]) {}\n#[cfg(test)]\nmod tests { fn a(x: (u8, u8)) {} }";
        let found = |text: &str| -> Vec<String> {
            let findings = findings(&Tree::of(&[("x/src/a.rs", text)]));
            findings.iter().map(ToString::to_string).collect()
        };
        assert_eq!(found(good), [""; 0]);
        let bad = found(bad);
        assert_eq!(bad.len(), 4, "{bad:?}");
        assert!(bad[1].starts_with("x/src/a.rs:2: `b` returns a tuple"), "{bad:?}");
    }
}
