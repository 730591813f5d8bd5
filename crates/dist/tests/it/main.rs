//! Distributions: how they parse, sample and know their moments; seeds, samples and histogram logs.

mod histogram_log;
mod moments;
mod parse;
mod samples;
mod seed;
