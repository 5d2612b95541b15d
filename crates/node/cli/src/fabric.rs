//! `tieline fabric`: the servers that join sites to a centre.

use crate::answer::{complain, say};
use crate::exit::Exit;
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tieline_fabric::{About, Credentials, Fabric, FabricError, FabricOptions};
use tieline_node::config::parse_duration;

/// `tieline fabric`.
#[derive(Debug, Subcommand)]
pub enum FabricVerb {
    /// Connect to a server, and say whether it can join sites to a centre
    Check(CheckArgs),
}

/// `tieline fabric check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Addresses, of which one must answer: nats://HOST:PORT, or tls://
    #[arg(required = true)]
    pub servers: Vec<String>,
    /// File with a JWT and the seed of its key
    #[arg(long, value_name = "FILE")]
    pub credentials: Option<PathBuf>,
    /// Name of the site whose inbox is used
    #[arg(long, default_value = "check")]
    pub site: String,
    /// Wait so long for an answer
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration)]
    pub timeout: Duration,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as 5s".to_owned())
}

/// Runs a verb.
pub fn fabric(verb: &FabricVerb) -> Result<ExitCode> {
    let FabricVerb::Check(args) = verb;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut options = FabricOptions::new(&args.site, args.servers.clone());
    (options.connect_timeout, options.server_timeout) = (args.timeout, args.timeout);
    if let Some(path) = &args.credentials {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        options.credentials = Credentials::Jwt(text);
    }
    let about = runtime.block_on(async { Fabric::connect(options).await?.about().await });
    match about {
        Ok(about) => {
            let About { name, version, message_bytes_max, keeps_logs, round_trip } = about;
            let (millis, keeps) =
                (round_trip.as_secs_f64() * 1e3, if keeps_logs { "yes" } else { "no: JetStream is off" });
            let words = format!(
                "{name}: nats-server {version}, messages of {message_bytes_max} bytes at most, answers in {millis:.1} ms\n\
                 logs and leases: {keeps}"
            );
            let object = json!({
                "name": name, "version": version, "message_bytes_max": message_bytes_max, "keeps_logs": keeps_logs,
                "round_trip_ms": millis,
            });
            say(args.json, &words, &object)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let exit = match &error {
                FabricError::Away(_) | FabricError::Nobody => Exit::Unreachable,
                FabricError::Refused(_) | FabricError::Version { .. } => Exit::Refused,
                FabricError::Misused(_) | FabricError::Gap { .. } => Exit::Failed,
            };
            complain(args.json, &error.into());
            Ok(exit.into())
        }
    }
}
