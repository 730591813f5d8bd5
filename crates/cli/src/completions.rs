//! `curtail completions`: what shells and `man` know of the command line, from its own definition.

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::exit::Stop;
use crate::{say, usage};

/// Print what a shell completes, or the man pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail completions bash > ~/.local/share/bash-completion/completions/curtail
  curtail completions zsh --out ~/.zfunc
  curtail completions man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// For whom: a shell, or a page of `man` for each verb
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh", "man"])]
    of: String,
    /// Write files there, as the shell or man looks for them [default: print]
    #[arg(long, value_name = "DIR", help_heading = "Output", required_if_eq("of", "man"))]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Stop> {
    let mut command = usage::command::<crate::Args>();
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
    written.map_err(|error| Stop::Lacking(format!("cannot write to {shown}: {error}")))?;
    say::aside(format_args!("written to {shown}"));
    Ok(ExitCode::SUCCESS)
}
