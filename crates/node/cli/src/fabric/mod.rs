//! `tieline fabric`: the servers that join sites to a centre.

use crate::answer::{complain, say};
use crate::exit::Exit;
use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tieline_fabric::{About, Credentials, Fabric, FabricError, FabricOptions, KeyKind, Keys, ServerConfig, ServerTls};
use tieline_node::config::parse_duration;
use tieline_node::joining::FabricFiles;

/// `tieline fabric`.
#[derive(Debug, Subcommand)]
pub enum FabricVerb {
    /// Print the configuration of a nats-server for this centre; its keys are made in the data folder, if they are not there
    Config(ConfigArgs),
    /// Make the key pair of a site, in a file that only its owner may read, and print the public key
    Keygen(SeedArgs),
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

/// `tieline fabric config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// Data folder of the centre, in which its keys are
    #[arg(long, value_name = "DIR", env = "TIELINE_DATA", default_value = "tieline-data")]
    pub data: PathBuf,
    /// Name of the server
    #[arg(long, value_name = "NAME", default_value = "centre")]
    pub name: String,
    /// Address on which it listens
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:4222")]
    pub listen: String,
    /// Folder for its logs and leases
    #[arg(long, value_name = "DIR", default_value = "nats-data")]
    pub store: PathBuf,
    /// Its certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Write to this file in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
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

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "expected a duration such as 5s".to_owned())
}

/// Runs a verb.
pub fn fabric(verb: &FabricVerb) -> Result<ExitCode> {
    match verb {
        FabricVerb::Config(args) => config(args),
        FabricVerb::Keygen(args) => keygen(args),
        FabricVerb::Check(args) => check(args),
    }
}

fn config(args: &ConfigArgs) -> Result<ExitCode> {
    let files = FabricFiles::of(&args.data);
    make_folder(&files)?;
    let issuer = Keys::read_or_make(&files.issuer(), KeyKind::Account)?.public();
    let door = Keys::read_or_make(&files.door(), KeyKind::User)?.public();
    let centre = Keys::read_or_make(&files.centre(), KeyKind::User)?.public();
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let scheme = if tls.is_some() { "tls" } else { "nats" };
    let config = ServerConfig {
        name: args.name.clone(),
        listen: args.listen.clone(),
        store: args.store.clone(),
        tls: tls.map(|(certificate, key)| ServerTls { certificate, key }),
        issuer,
        door,
        centre,
    };
    let text = config
        .text()
        .context("a name or a path has a character that the file cannot have, expected none of \" \\ and controls")?;
    match &args.output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    let (seed, port) = (files.centre(), args.listen.rsplit_once(':').map_or("4222", |(_, port)| port));
    eprintln!(
        "the centre's configuration needs:\n[fabric]\nservers = [\"{scheme}://HOST:{port}\"]\nseed_file = \"{}\"\n[centre]",
        std::path::absolute(&seed).unwrap_or(seed).display()
    );
    Ok(ExitCode::SUCCESS)
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

fn check(args: &CheckArgs) -> Result<ExitCode> {
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
            let exit = exit_of(&error);
            complain(args.json, &error.into());
            Ok(exit.into())
        }
    }
}
