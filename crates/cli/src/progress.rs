//! Progress on stderr, for people: nothing is shown where stderr is no terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

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
    let style =
        ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {eta} left  {msg}");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Columns of the terminal; 80 where there is none.
pub(crate) fn width() -> usize {
    let terminal = console::Term::stdout();
    terminal.size_checked().map_or(80, |(_, columns)| usize::from(columns))
}
