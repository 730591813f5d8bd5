//! Processes that end with this one, however it ends.

use std::path::Path;
use std::process::Command;

/// A command whose process the system kills when this program ends: dropping is not enough where a
/// signal ends it. `core`: where it may run. Elsewhere than on Linux, nothing more than a command.
pub(crate) fn tied(program: &Path, core: Option<usize>) -> Command {
    if !cfg!(target_os = "linux") {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    if let Some(core) = core {
        command.args(["taskset", "-c"]).arg(core.to_string());
    }
    command.arg(program);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_program_comes_last_and_on_its_core() {
        let words = |core| {
            let command = tied(Path::new("/bin/true"), core);
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words(None), "--pdeathsig KILL -- /bin/true");
        assert_eq!(words(Some(3)), "--pdeathsig KILL -- taskset -c 3 /bin/true");
    }
}
