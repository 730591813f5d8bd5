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
