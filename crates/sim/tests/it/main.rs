//! Tests of the simulator, which compare it with theory, run small worlds, and use invalid input.

mod accounting;
mod advise;
mod any_text;
mod bad_input;
mod changes;
mod closed_forms;
mod common;
mod das;
mod extremes;
mod graph;
mod learned_delay;
mod manual;
mod net;
mod network;
mod outages;
mod own_policy;
mod pairing;
mod predictor;
mod reproducible;
mod rescue;
mod script;
mod speeds;
mod stability;
mod training;
