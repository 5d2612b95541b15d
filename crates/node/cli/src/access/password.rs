//! A password from a file, a pipe, or a person whose typing is not shown.

use anyhow::{Context, Result, bail};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use zeroize::Zeroizing;

/// The first line of a file or of standard input. A person is asked twice.
pub fn read(file: Option<&Path>) -> Result<Zeroizing<String>> {
    let word = match file {
        Some(file) => first_line(&std::fs::read(file).with_context(|| file.display().to_string())?)?,
        None if std::io::stdin().is_terminal() => {
            let (first, second) = (asked("Password: ")?, asked("Once more: ")?);
            if first != second {
                bail!("the two passwords differ");
            }
            first
        }
        None => line()?,
    };
    if word.is_empty() {
        bail!("the password is empty: expected it as the first line of what is read");
    }
    Ok(word)
}

fn first_line(bytes: &[u8]) -> Result<Zeroizing<String>> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = std::str::from_utf8(line).context("the password is not UTF-8")?;
    Ok(Zeroizing::new(text.trim_end_matches('\r').to_owned()))
}

fn line() -> Result<Zeroizing<String>> {
    let mut line = Zeroizing::new(Vec::new());
    std::io::stdin().lock().read_until(b'\n', &mut line)?;
    first_line(&line)
}

fn asked(prompt: &str) -> Result<Zeroizing<String>> {
    let stdin = std::io::stdin();
    let shown = tcgetattr(&stdin)?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    eprint!("{prompt}");
    std::io::stderr().flush()?;
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let typed = line();
    tcsetattr(&stdin, OptionalActions::Now, &shown)?;
    eprintln!();
    typed
}
