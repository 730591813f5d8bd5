//! Parses the command line, and prints help, the version, errors in flags, shell completions and man
//! pages.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Command, Error, Parser};
use clap_complete::Shell;

use crate::exit::{Stop, lacking};
use crate::say;

/// Help template that prints the examples above the flags.
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n{all-args}";

/// The definition of the command line, for parsing, help and completions.
pub(crate) fn command<T: Parser>() -> Command {
    T::command().mut_subcommands(finished)
}

/// Parses arguments. Error messages name a fix.
pub(crate) fn parse<T: Parser>(line: impl IntoIterator<Item = OsString>) -> Result<T, Error> {
    let matches = command::<T>().try_get_matches_from(line).map_err(with_mend)?;
    T::from_arg_matches(&matches)
}

/// Prints the output of clap instead of running a verb. Help and the version are results; the rest
/// is bad input.
pub(crate) fn print(error: &Error) -> Result<ExitCode, Stop> {
    let strange = |word: OsString| word.to_string_lossy().chars().any(char::is_control);
    if error.use_stderr() && std::env::args_os().any(strange) {
        // Clap would print a flag's control characters unescaped.
        say::aside(error.render().to_string().trim_end());
        return Ok(ExitCode::from(2));
    }
    match error.print() {
        Err(unwritten) if !error.use_stderr() => Err(say::unwritten(&unwritten)),
        _ => Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))),
    }
}

/// Shows examples first, and accepts `-1` as a value, so that the error names the flag that rejects
/// it.
fn finished(command: Command) -> Command {
    let command = if command.has_subcommands() { command } else { command.help_template(TEMPLATE) };
    command
        .mut_args(|arg| match arg.get_action() {
            ArgAction::Set | ArgAction::Append => arg.allow_negative_numbers(true),
            _ => arg,
        })
        .mut_subcommands(finished)
}

/// Adds a fix to Rust's parse errors, which do not name a valid form.
fn with_mend(mut error: Error) -> Error {
    let mend = match error.source() {
        Some(why) if why.is::<ParseIntError>() => "give a whole number in digits, such as 100000",
        Some(why) if why.is::<ParseFloatError>() => "give a number, such as 0.3 or 1e-3",
        _ => return error,
    };
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![mend.into()]));
    error
}

/// Print completions for a shell, or write man pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail completions bash > ~/.local/share/bash-completion/completions/curtail
  curtail completions zsh --out ~/.zfunc
  curtail completions man --out ~/.local/share/man/man1")]
pub(crate) struct CompletionsArgs {
    /// The shell, or `man` for one man page per verb
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh", "man"])]
    of: String,
    /// Write files to this directory, under the names that the shell or man expects [default:
    /// print]
    #[arg(long, value_name = "DIR", help_heading = "Output", required_if_eq("of", "man"))]
    out: Option<PathBuf>,
}

pub(crate) fn completions<T: Parser>(args: &CompletionsArgs) -> Result<ExitCode, Stop> {
    let mut command = command::<T>();
    let shell = args.of.parse::<Shell>().ok();
    let Some(folder) = &args.out else {
        let mut text = Vec::new();
        if let Some(shell) = shell {
            clap_complete::generate(shell, &mut command, "curtail", &mut text);
        }
        say::result(String::from_utf8_lossy(&text).trim_end())?;
        return Ok(ExitCode::SUCCESS);
    };
    let written = std::fs::create_dir_all(folder).and_then(|()| match shell {
        Some(shell) => clap_complete::generate_to(shell, &mut command, "curtail", folder).map(drop),
        None => clap_mangen::generate_to(command, folder),
    });
    let shown = folder.display();
    written.map_err(|error| lacking!("cannot write to {shown}: {error}"))?;
    say::aside(format_args!("written to {shown}"));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Args;

    fn message(line: &str) -> String {
        let line = line.split(' ').map(OsString::from);
        parse::<Args>(line).map(|_| ()).expect_err("bad arguments").to_string()
    }

    #[test]
    fn errors_in_numbers_name_a_valid_form() {
        for (line, words) in [
            ("curtail sim --requests 1e5", "give a whole number in digits, such as 100000"),
            ("curtail sim --utilization 30%", "give a number, such as 0.3 or 1e-3"),
            ("curtail sim --percentiles 50,p99", "give a number, such as 0.3 or 1e-3"),
            ("curtail sim --shards -1", "'-1' for '--shards <N>': -1 is not in 1..=100000"),
            ("curtail advise --shards 0", "0 is not in 1..=100000"),
            ("curtail sim --requests 99", "99 is not in 100..=1000000000000"),
            ("curtail model unloaded --shards -1", "'-1' for '--shards <N>': -1 is not in 1..="),
            ("curtail sim --shards=5000000000", "5000000000 is not in 1..=100000"),
        ] {
            let message = message(line);
            assert!(message.contains(words), "{line}: {message}");
        }
        assert!(!message("curtail sim --nonsense").contains("give a"));
    }
}
