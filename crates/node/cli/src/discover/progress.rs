//! How far a discovery is: one line on a terminal, which results push down.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};

/// The line, as it is shown.
#[derive(Debug)]
pub struct Progress {
    is_shown: bool,
    shown: RefCell<String>,
}

impl Default for Progress {
    fn default() -> Self {
        Self { is_shown: std::io::stderr().is_terminal(), shown: RefCell::default() }
    }
}

impl Progress {
    /// Shows a line in place of the last one.
    pub fn show(&self, text: &str) {
        if self.is_shown && *self.shown.borrow() != text {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K{text}");
            text.clone_into(&mut self.shown.borrow_mut());
        }
    }

    /// Makes room for other output.
    pub fn clear(&self) {
        if self.is_shown && !self.shown.take().is_empty() {
            let _ = write!(std::io::stderr(), "\r\u{1b}[K");
        }
    }
}

/// How many of the addresses have been looked at.
#[derive(Debug)]
pub struct Counted {
    pub line: Progress,
    of: usize,
    done: usize,
    found: usize,
    what: &'static str,
}

impl Counted {
    /// Of so many addresses, behind which there are `what`.
    pub fn new(of: usize, what: &'static str) -> Self {
        Self { line: Progress::default(), of, done: 0, found: 0, what }
    }

    /// Another address has been looked at.
    pub const fn count(&mut self, found: usize) {
        self.done += 1;
        self.found += found;
    }

    /// Shows it.
    pub fn show(&self) {
        let Self { line, of, done, found, what } = self;
        line.show(&format!("{done} of {of} addresses, {found} {what} "));
    }
}
