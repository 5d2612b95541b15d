//! `tieline dnp3 profile`: device profiles as XML.

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_node::config::ConfigError;
use tieline_node::config::outstation::load;
use tieline_node::profile;

/// `tieline dnp3 profile`.
#[derive(Debug, Subcommand)]
pub enum ProfileVerb {
    /// Write the device profile of an outstation
    Write(WriteArgs),
    /// Read a device profile, and print what a node or an outstation makes of it
    Read(ReadArgs),
}

/// `tieline dnp3 profile write`.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// The outstation's file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
}

/// What is made of a device profile.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum As {
    /// A device's table and its point list, for a node
    Device,
    /// The point list alone
    Points,
    /// The file of an outstation that serves these points
    Station,
}

/// `tieline dnp3 profile read`.
#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The device profile
    pub file: PathBuf,
    /// What to print
    #[arg(long = "as", value_enum, default_value = "device")]
    pub to: As,
    /// The device's name
    #[arg(long, default_value = "device1")]
    pub name: String,
}

/// Does what the verb says; warnings go to standard error.
pub fn profile(verb: &ProfileVerb) -> Result<ExitCode> {
    match verb {
        ProfileVerb::Write(args) => match load(&args.config) {
            Ok(file) => print(&profile::write(&file)),
            Err(error) => Ok(refuse(&error)),
        },
        ProfileVerb::Read(args) => read(args),
    }
}

fn read(args: &ReadArgs) -> Result<ExitCode> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {name}"))?;
    let found = match profile::read(&name, &text) {
        Ok(found) => found,
        Err(error) => return Ok(refuse(&error)),
    };
    for path in &found.unread {
        eprintln!("tieline: not read: {path}");
    }
    match args.to {
        As::Station => print(&found.to_station()),
        As::Points => print(&found.to_points()),
        As::Device => {
            let list = format!("{}.csv", args.name);
            let points: String = found.to_points().lines().map(|line| format!("# {line}\n")).collect();
            print(&format!("{}\n# {list}:\n{points}", found.to_device(&args.name, &list)))
        }
    }
}

fn refuse(error: &ConfigError) -> ExitCode {
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn print(text: &str) -> Result<ExitCode> {
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}
