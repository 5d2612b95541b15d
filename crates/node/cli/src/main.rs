//! The binary: reads the command line, calls the rooms, prints.
//!
//! Exit codes: 0 done, 1 failed (the reason on standard error), 2 a wrong command line.

mod args;
mod config;
mod run;

use anyhow::Result;
use args::{Cli, Verb};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match dispatch(Cli::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tieline: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Run(args) => run::run(&args),
        Verb::Config(verb) => config::config(&verb),
        Verb::Completion { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "tieline", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Sub(_)
        | Verb::Pub(_)
        | Verb::Get(_)
        | Verb::Topics(_)
        | Verb::History(_)
        | Verb::Command(_)
        | Verb::Dnp3(_)
        | Verb::Bench(_) => anyhow::bail!("not here yet"),
    }
}
