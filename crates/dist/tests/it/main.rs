//! Tests of distributions: parsing, samples and moments; seeds, sample files and histogram logs.

mod histogram_log;
mod moments;
mod parse;
mod samples;
mod seed;
