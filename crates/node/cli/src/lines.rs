//! Lines of an operator on standard input, each answered by one: `ok`, or `error: …`.

use std::io::{BufRead, Read, Write};

/// Bytes of the longest line.
const LINE_BYTES_MAX: u64 = 4096;

/// What is done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It was obeyed.
    Obeyed,
    /// It was the last.
    Quit,
}

/// Answers each line by one until the input ends; whether the last was to quit.
pub fn read_lines(
    input: &mut impl BufRead,
    out: &mut impl Write,
    mut obey: impl FnMut(&str) -> Result<Done, String>,
) -> bool {
    loop {
        let mut bytes = Vec::new();
        match input.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
        let whole = bytes.ends_with(b"\n") || bytes.len() < usize::try_from(LINE_BYTES_MAX).unwrap_or(0);
        if !whole && input.skip_until(b'\n').is_err() {
            return false;
        }
        let text = String::from_utf8_lossy(&bytes);
        let done = match whole {
            true => obey(text.trim()),
            false => Err(format!("the line is longer than {LINE_BYTES_MAX} bytes")),
        };
        let told = match &done {
            Ok(_) => writeln!(out, "ok"),
            Err(error) => writeln!(out, "error: {error}"),
        };
        if told.and_then(|()| out.flush()).is_err() {
            return false;
        }
        if done == Ok(Done::Quit) {
            return true;
        }
    }
}
