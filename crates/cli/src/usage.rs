//! What clap says instead of arguments: help, the version, and what is wrong with a flag.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Command, Error, Parser};

use crate::exit::Stop;
use crate::say;

/// Examples stand above the flags.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

/// The command line as it is read, shown and completed.
pub(crate) fn command<T: Parser>() -> Command {
    T::command().mut_subcommands(finished)
}

/// Reads arguments; an error tells how to mend them.
pub(crate) fn parse<T: Parser>(line: impl IntoIterator<Item = OsString>) -> Result<T, Error> {
    let matches = command::<T>().try_get_matches_from(line).map_err(with_mend)?;
    T::from_arg_matches(&matches)
}

/// Prints an error of arguments. Help and the version are results, the rest is bad input.
pub(crate) fn print(said: &Error) -> Result<ExitCode, Stop> {
    let strange = |word: OsString| word.to_string_lossy().chars().any(char::is_control);
    if said.use_stderr() && std::env::args_os().any(strange) {
        // Clap would hand to a terminal what a flag has for it.
        say::aside(said.render().to_string().trim_end());
        return Ok(ExitCode::from(2));
    }
    match said.print() {
        Err(error) if !said.use_stderr() => Err(say::unwritten(&error)),
        _ => Ok(ExitCode::from(u8::try_from(said.exit_code()).unwrap_or(2))),
    }
}

/// Shows examples first, and lets `-1` be a value, which the flag it follows can then refuse by its
/// name.
fn finished(command: Command) -> Command {
    let command = if command.has_subcommands() { command } else { command.help_template(TEMPLATE) };
    command
        .mut_args(|arg| match arg.get_action() {
            ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
            _ => arg,
        })
        .mut_subcommands(finished)
}

/// Rust's words for what is no number do not say what would be one.
fn with_mend(mut error: Error) -> Error {
    let mend = match error.source() {
        Some(why) if why.is::<ParseIntError>() => "give a whole number in digits, as 100000",
        Some(why) if why.is::<ParseFloatError>() => "give a number, as 0.3 or 1e-3",
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![mend.into()]));
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Args;

    fn said(line: &str) -> String {
        let line = line.split(' ').map(OsString::from);
        parse::<Args>(line).map(|_| ()).expect_err("bad arguments").to_string()
    }

    #[test]
    fn numbers_are_told_how_to_write_them() {
        for (line, words) in [
            ("curtail sim --requests 1e5", "give a whole number in digits, as 100000"),
            ("curtail sim --utilization 30%", "give a number, as 0.3 or 1e-3"),
            ("curtail sim --percentiles 50,p99", "give a number, as 0.3 or 1e-3"),
            ("curtail sim --shards -1", "'-1' for '--shards <N>': -1 is not in 1..=100000"),
            ("curtail advise --shards 0", "0 is not in 1..=100000"),
            ("curtail sim --requests 99", "99 is not in 100..=1000000000000"),
            ("curtail model unloaded --shards -1", "'-1' for '--shards <N>': -1 is not in 1..="),
            ("curtail sim --shards=5000000000", "5000000000 is not in 1..=100000"),
        ] {
            let said = said(line);
            assert!(said.contains(words), "{line}: {said}");
        }
        assert!(!said("curtail sim --nonsense").contains("give a"));
    }
}
