//! Progress on stderr, for people. Nothing is shown if stderr is not a terminal.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// A spinner with a message.
pub(crate) fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A progress bar whose length the caller sets.
pub(crate) fn bar(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(0).with_prefix(what);
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {left}  {msg}");
    if let Ok(style) = style {
        bar.set_style(style.with_key("left", |state: &ProgressState, text: &mut dyn Write| {
            let _ = text.write_str(&left(state.pos(), state.eta()));
        }));
    }
    bar
}

/// The remaining time; empty before the first step is done.
fn left(done: u64, eta: Duration) -> String {
    if done == 0 { String::new() } else { format!("{:#} left", HumanDuration(eta)) }
}

/// Number of columns of the terminal; 80 if stdout is not a terminal.
pub(crate) fn width() -> usize {
    let terminal = console::Term::stdout();
    terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_remaining_time_is_shown_before_the_first_step() {
        assert_eq!(left(0, Duration::ZERO), "");
        assert_eq!(left(1, Duration::from_secs(30)), "30s left");
    }
}
