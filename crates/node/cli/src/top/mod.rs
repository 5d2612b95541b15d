//! `tieline top`: rates, sessions by lag and busiest topics of a node, in a terminal or as text.

pub mod args;
mod dashboard;
mod look;
mod screen;
mod shown;

use crate::signals::Signals;
use crate::who;
use anyhow::{Result, bail};
use args::TopArgs;
use look::{Look, Rates, Wanted};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tieline_client::HttpClient;

/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Shows a node until it is told to stop.
pub fn top(args: &TopArgs) -> Result<ExitCode> {
    let client = who::http(&args.node, Some(PATIENCE))?;
    let wanted = Wanted { order: args.order, client: args.client.clone(), limit: args.limit };
    if args.once || args.json {
        print(args, &client, &wanted)?;
        return Ok(ExitCode::SUCCESS);
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal, expected --once or --json");
    }
    let stopped = stopped()?;
    screen::run(client, wanted, args.interval, &stopped)?;
    Ok(ExitCode::SUCCESS)
}

/// Set once the process is asked to end.
fn stopped() -> Result<Arc<AtomicBool>> {
    let (signals, stopped) = (Signals::listen()?, Arc::new(AtomicBool::new(false)));
    let told = Arc::clone(&stopped);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if let Err(error) = signals.until_done(std::future::pending::<()>()) {
            tracing::warn!(%error, "signals are not heard");
        }
        told.store(true, Ordering::Relaxed);
    })?;
    Ok(stopped)
}

/// Prints a look, or one after the other.
fn print(args: &TopArgs, client: &HttpClient, wanted: &Wanted) -> Result<()> {
    let mut before = Look::take(client, wanted)?;
    loop {
        std::thread::sleep(args.interval);
        let look = Look::take(client, wanted)?;
        let rates: Rates = look.rates_since(&before);
        let mut out = std::io::stdout().lock();
        match args.json {
            true => writeln!(out, "{}", serde_json::to_string(&look.printed(rates))?)?,
            false => shown::write(&look, &rates, &mut out)?,
        }
        out.flush()?;
        if args.once {
            return Ok(());
        }
        before = look;
    }
}
