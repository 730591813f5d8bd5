//! The output: a table, a document, pictures, and a page with all of them.

mod document;
mod figures;
mod page;
mod table;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

pub(crate) use document::document;
pub(crate) use table::text;

use crate::run::Results;
use curtail_plot::picture;

/// The file name of the page in the folder of results.
pub(crate) const PAGE: &str = "report.html";

/// Writes all output. Existing files with these names are overwritten.
pub(crate) fn write(folder: &Path, results: &Results) -> Result<()> {
    let why = || format!("{}: cannot write; use another --out", folder.display());
    fs::create_dir_all(folder).with_context(why)?;
    let put = |name: &str, text: &str| fs::write(folder.join(name), text).with_context(why);
    put("results.json", &format!("{:#}\n", document(results)))?;
    put("table.txt", &text(results))?;
    for figure in figures::all(results) {
        if let Some(svg) = picture(&figure.draw(figures::ALONE)) {
            put(&format!("{}.svg", figure.id), &svg)?;
        }
    }
    put(PAGE, &page::render(results))
}
