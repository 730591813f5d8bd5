//! What prints results: numbers with their units, names of policies, tables for terminals and pages,
//! charts as SVG, HTML pages, and files of rows (CSV, and Parquet behind a feature).
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "the names of fields and variants document them")]

pub mod chart;
pub mod columns;
pub mod number;
pub mod page;
pub mod policy;
pub mod table;
