//! `tieline fabric check`: whether a server can be used, with the same access as a node.

use crate::answer::say;
use crate::args::duration;
use crate::tls::ClientTlsArgs;
use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::ClientTls;
use tieline_fabric::{About, Credentials, Fabric, FabricOptions};

/// `tieline fabric check`.
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Addresses, of which one must answer: nats://HOST:PORT, or tls://
    #[arg(required = true)]
    pub servers: Vec<String>,
    /// File with a JWT and the seed of its key
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "user"])]
    pub credentials: Option<PathBuf>,
    /// File with the seed of an nkey
    #[arg(long, value_name = "FILE", conflicts_with = "user")]
    pub seed: Option<PathBuf>,
    /// Name of a user
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub user: Option<String>,
    /// File with the password of the user
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: ClientTlsArgs,
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

impl CheckArgs {
    fn options(&self) -> Result<FabricOptions> {
        let mut options = FabricOptions::new(&self.site, self.servers.clone());
        (options.connect_timeout, options.server_timeout) = (self.timeout, self.timeout);
        options.credentials = match (&self.credentials, &self.seed, &self.user, &self.password_file) {
            (Some(file), ..) => Credentials::Jwt(read(file)?),
            (None, Some(file), ..) => Credentials::SeedFile(file.clone()),
            (None, None, Some(user), Some(file)) => {
                Credentials::Password { user: user.clone(), password: read(file)?.trim_end().to_owned() }
            }
            (None, None, ..) => Credentials::None,
        };
        if self.servers.iter().any(|server| server.starts_with("tls://")) || self.tls.ca.is_some() {
            let identity = self.tls.cert.as_deref().zip(self.tls.key.as_deref());
            options.tls = Some((*ClientTls::load(self.tls.ca.as_deref(), identity)?.config()).clone());
        }
        Ok(options)
    }
}

fn read(file: &Path) -> Result<String> {
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}

/// Connects and says what is there.
pub fn check(args: &CheckArgs) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let options = args.options()?;
    let about = runtime.block_on(async { Fabric::connect(options).await?.about().await });
    let About { name, version, message_bytes_max, keeps_logs, round_trip } = about?;
    let (millis, keeps) = (round_trip.as_secs_f64() * 1e3, if keeps_logs { "yes" } else { "no: JetStream is off" });
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
