//! Progress on stderr, for people: nothing is shown where stderr is no terminal.

use std::fmt::Write;
use std::time::Duration;

use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};

/// A line that changes.
pub(crate) fn spinner() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg}");
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A bar with a length.
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

/// How long it still takes; before anything is done, nobody knows.
fn left(done: u64, eta: Duration) -> String {
    if done == 0 { String::new() } else { format!("{:#} left", HumanDuration(eta)) }
}

/// Columns of the terminal; 80 where there is none.
pub(crate) fn width() -> usize {
    let terminal = console::Term::stdout();
    terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_left_before_there_is_something_to_go_by() {
        assert_eq!(left(0, Duration::ZERO), "");
        assert_eq!(left(1, Duration::from_secs(30)), "30s left");
    }
}
