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
