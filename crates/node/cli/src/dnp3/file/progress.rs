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

    /// So many octets of so many are there.
    pub fn show(&mut self, octets: u64, size: u64) {
        let first = *self.first.get_or_insert(octets);
        let is_due = self.drawn.is_none_or(|at| at.elapsed() >= EVERY) || octets >= size;
        if self.shows && is_due {
            self.drawn = Some(Instant::now());
            let seconds = self.started.elapsed().as_secs_f64().max(0.001);
            // Only an operator looks at it.
            let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(octets, size, octets - first.min(octets), seconds));
        }
    }

    /// Leaves the line to others.
    pub fn end(&self) {
        if self.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(octets: u64, size: u64, moved: u64, seconds: f64) -> String {
    let filled = usize::try_from((octets.min(size) * CELLS).checked_div(size).unwrap_or(CELLS)).unwrap_or(0);
    let cells = usize::try_from(CELLS).unwrap_or(0);
    let percent = (octets.min(size) * 100).checked_div(size).unwrap_or(100);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = moved as f64 / seconds / 1000.0;
    format!("[{:-<cells$}] {percent:>3} % {octets} of {size} octets, {rate:.1} kB/s", "#".repeat(filled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_how_far_it_is() {
        let check = |octets, size, expect: &str| assert_eq!(line(octets, size, octets, 2.0), expect);
        check(0, 100, "[------------------------------]   0 % 0 of 100 octets, 0.0 kB/s");
        check(5000, 10_000, "[###############---------------]  50 % 5000 of 10000 octets, 2.5 kB/s");
        check(0, 0, "[##############################] 100 % 0 of 0 octets, 0.0 kB/s");
        check(20, 10, "[##############################] 100 % 20 of 10 octets, 0.0 kB/s");
    }
}
