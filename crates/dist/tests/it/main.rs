//! Tests of distributions, sample files, histogram logs and seeds.

mod histogram_log;
mod moments;
mod parse;
mod samples;
mod seed;
