//! Recipes of the repository.
fn main() {}
