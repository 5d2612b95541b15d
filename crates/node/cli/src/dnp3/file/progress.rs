//! How far a transfer is, on a terminal.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Cells of the bar.
const CELLS: u64 = 30;
/// How often it is drawn.
const EVERY: Duration = Duration::from_millis(100);

/// A bar on standard error; nothing where that is no terminal.
#[derive(Debug)]
pub struct Progress {
    shows: bool,
    started: Instant,
    drawn: Option<Instant>,
    first: Option<u64>,
}

impl Progress {
    pub fn start(json: bool) -> Self {
        let shows = !json && std::io::stderr().is_terminal();
        Self { shows, started: Instant::now(), drawn: None, first: None }
    }

    /// So many bytes of so many are there.
    pub fn show(&mut self, bytes: u64, size: u64) {
        let first = *self.first.get_or_insert(bytes);
        let is_due = self.drawn.is_none_or(|at| at.elapsed() >= EVERY) || bytes >= size;
        if self.shows && is_due {
            self.drawn = Some(Instant::now());
            let seconds = self.started.elapsed().as_secs_f64().max(0.001);
            // Only an operator looks at it.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(bytes, size, bytes - first.min(bytes), seconds));
        }
    }

    /// Leaves the line to others.
    pub fn end(&self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(bytes: u64, size: u64, moved: u64, seconds: f64) -> String {
    let filled = usize::try_from((bytes.min(size) * CELLS).checked_div(size).unwrap_or(CELLS)).unwrap_or(0);
    let cells = usize::try_from(CELLS).unwrap_or(0);
    let percent = (bytes.min(size) * 100).checked_div(size).unwrap_or(100);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = moved as f64 / seconds / 1000.0;
    format!("[{:-<cells$}] {percent:>3} % {bytes} of {size} bytes, {rate:.1} kB/s", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let check = |bytes, size, expect: &str| assert_eq!(line(bytes, size, bytes, 2.0), expect);
        check(0, 100, "[------------------------------]   0 % 0 of 100 bytes, 0.0 kB/s");
        check(5000, 10_000, "[###############---------------]  50 % 5000 of 10000 bytes, 2.5 kB/s");
        check(0, 0, "[##############################] 100 % 0 of 0 bytes, 0.0 kB/s");
        check(20, 10, "[##############################] 100 % 20 of 10 bytes, 0.0 kB/s");
    }
}
