//! `curtail completions`: shell completions and man pages, generated from the definition of the
//! command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap_complete::Shell;

use crate::exit::Stop;
use crate::{say, usage};

/// Print completions for a shell, or write man pages.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  curtail completions bash > ~/.local/share/bash-completion/completions/curtail
  curtail completions zsh --out ~/.zfunc
  curtail completions man --out ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// The shell, or `man` for one man page per verb
    #[arg(value_name = "SHELL", value_parser = ["bash", "elvish", "fish", "powershell", "zsh", "man"])]
    of: String,
    /// Write files to this directory, under the names that the shell or man expects [default:
    /// print]
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
