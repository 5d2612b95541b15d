//! Asks before something is removed for good.

use anyhow::{Result, bail};
use std::io::{self, IsTerminal, Write};

/// Goes on where `yes` was given, or where somebody at a terminal says so; `what` says what will be done.
pub fn ask(yes: bool, what: &str) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        bail!("{what}, expected --yes");
    }
    eprint!("{what}. Continue? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    match answer.trim().to_ascii_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => bail!("nothing was changed"),
    }
}
