//! `tieline fabric`: the servers that join sites to a centre.

mod check;
mod config;
mod start;
mod status;

use crate::answer::say;
use crate::exit::Exit;
use anyhow::{Context as _, Result, bail};
use check::CheckArgs;
use clap::{Args, Subcommand};
use config::ConfigArgs;
use serde_json::json;
use start::StartArgs;
use status::StatusArgs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_fabric::{FabricError, KeyKind, Keys};
use tieline_node::joining::FabricFiles;

/// `tieline fabric`.
#[derive(Debug, Subcommand)]
pub enum FabricVerb {
    /// Run a nats-server for this centre: its configuration is written, and it is started again whenever it ends
    Start(StartArgs),
    /// Show servers, their streams and connections, by their monitoring addresses; exit code 1 if one is not healthy
    Status(StatusArgs),
    /// Print the configuration of a nats-server for this centre; its keys are made in the data folder, if they are not there
    Config(ConfigArgs),
    /// Make the key pair of a site, in a file that only its owner may read, and print the public key
    Keygen(SeedArgs),
    /// Connect to a server, and say whether it can join sites to a centre
    Check(CheckArgs),
}

/// `tieline fabric keygen`.
#[derive(Debug, Args)]
pub struct SeedArgs {
    /// File to write; it must not exist
    pub file: PathBuf,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs a verb.
pub fn fabric(verb: &FabricVerb) -> Result<ExitCode> {
    match verb {
        FabricVerb::Start(args) => start::start(args),
        FabricVerb::Status(args) => status::status(args),
        FabricVerb::Config(args) => config::config(args),
        FabricVerb::Keygen(args) => keygen(args),
        FabricVerb::Check(args) => check::check(args),
    }
}

/// Its owner alone may see which keys there are.
pub fn make_folder(files: &FabricFiles) -> Result<()> {
    let folder = files.folder();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.with_context(|| folder.display().to_string())
}

fn keygen(args: &SeedArgs) -> Result<ExitCode> {
    let file = args.file.display();
    if args.file.exists() {
        bail!("{file} is there already, and a key is not overwritten; expected the name of a new file");
    }
    let keys = Keys::generate(KeyKind::User);
    keys.write(&args.file)?;
    let words = format!("{file}: the seed, which only its owner may read\npublic key  {}", keys.public());
    say(args.json, &words, &json!({ "file": args.file, "key": keys.public() }))?;
    Ok(ExitCode::SUCCESS)
}

/// What a failure of the fabric comes to.
pub const fn exit_of(error: &FabricError) -> Exit {
    match error {
        FabricError::Away(_) | FabricError::Nobody => Exit::Unreachable,
        FabricError::Refused(_) | FabricError::Version { .. } => Exit::Refused,
        FabricError::Misused(_) | FabricError::Gap { .. } => Exit::Failed,
    }
}
