//! Progress bars, where there is a terminal to draw them on.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `length` steps, hidden unless standard error is a terminal.
pub(super) fn bar(length: u64, what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {human_pos}/{human_len} {eta}");
    start(
        ProgressBar::with_draw_target(Some(length), target()),
        style,
        what,
    )
}

/// The same for work of unknown length.
pub(super) fn spinner(what: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = start(ProgressBar::with_draw_target(None, target()), style, what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn start(
    bar: ProgressBar,
    style: Result<ProgressStyle, indicatif::style::TemplateError>,
    what: &'static str,
) -> ProgressBar {
    bar.set_message(what);
    match style {
        Ok(style) => bar.with_style(style),
        // A plain bar will do.
        Err(_) => bar,
    }
}

fn target() -> ProgressDrawTarget {
    if stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}
