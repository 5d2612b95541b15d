//! `tieline fabric config`: what a nats-server of a centre is told.

use super::make_folder;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_fabric::{KeyKind, Keys, ServerCluster, ServerConfig, ServerTls};
use tieline_node::joining::FabricFiles;

/// What the routes of a cluster show is made from the issuer's key, for this purpose.
const ROUTES: &str = "routes";

/// `tieline fabric config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(flatten)]
    pub server: ServerArgs,
    /// Write to this file in place of standard output
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A server, as the operator wants it.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Data folder of the centre, in which its keys are
    #[arg(long, value_name = "DIR", env = "TIELINE_DATA", default_value = "tieline-data")]
    pub data: PathBuf,
    /// Name of the server; each server of a cluster has another one [default: centre]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
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
    /// Certificates of the authorities of the other servers of a cluster, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_ca: Option<PathBuf>,
    /// Address on which it tells about itself over HTTP, to this machine alone
    #[arg(long, value_name = "ADDR")]
    pub monitor: Option<String>,
    /// Another server of a cluster of three; twice
    #[arg(long = "peer", value_name = "HOST:PORT")]
    pub peers: Vec<String>,
    /// Address on which it listens for the other servers
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:6222", requires = "peers")]
    pub cluster_listen: String,
}

impl ServerArgs {
    /// What the server is told. The keys of the centre are made, if they are not there; a cluster needs the same ones everywhere.
    pub fn config(&self) -> Result<ServerConfig> {
        let files = FabricFiles::of(&self.data);
        let name = match (&self.name, self.peers.as_slice()) {
            (Some(name), [] | [_, _]) => name.clone(),
            (None, []) => "centre".to_owned(),
            (None, [_, _]) => bail!("--name is missing: each server of a cluster has a name of its own"),
            (_, peers) => bail!("a cluster has three servers, expected --peer twice, found it {} times", peers.len()),
        };
        if !self.peers.is_empty() && !files.issuer().exists() {
            bail!(
                "{} is not there, and the servers of a cluster need the same keys; expected those that `tieline fabric config` has \
                 made on one machine: copy issuer.nk, door.nk and centre.nk to this one",
                files.issuer().display()
            );
        }
        make_folder(&files)?;
        let issuer = Keys::read_or_make(&files.issuer(), KeyKind::Account)?;
        Ok(ServerConfig {
            name,
            listen: any_port(&self.listen),
            store: absolute(&self.store),
            tls: self
                .tls_cert
                .as_ref()
                .zip(self.tls_key.as_ref())
                .map(|(certificate, key)| ServerTls { certificate: absolute(certificate), key: absolute(key) }),
            door: Keys::read_or_make(&files.door(), KeyKind::User)?.public(),
            centre: Keys::read_or_make(&files.centre(), KeyKind::User)?.public(),
            monitor: self.monitor.as_deref().map(any_port),
            cluster: self.cluster(&issuer)?,
            issuer: issuer.public(),
        })
    }

    fn cluster(&self, issuer: &Keys) -> Result<Option<ServerCluster>> {
        if self.peers.is_empty() {
            return Ok(None);
        }
        if self.tls_cert.is_some() && self.tls_ca.is_none() {
            bail!("--tls-ca is missing: the servers of a cluster check the certificates of each other");
        }
        Ok(Some(ServerCluster {
            listen: self.cluster_listen.clone(),
            peers: self.peers.clone(),
            password: issuer.shared_secret(ROUTES),
            authorities: self.tls_ca.as_deref().map(absolute),
        }))
    }

    /// What the centre's own configuration needs, where clients reach the server at a port.
    pub fn settings(&self, port: &str) -> String {
        let scheme = if self.tls_cert.is_some() { "tls" } else { "nats" };
        let seed = absolute(&FabricFiles::of(&self.data).centre());
        format!(
            "the centre's configuration needs:\n[fabric]\nservers = [\"{scheme}://HOST:{port}\"]\nseed_file = \"{}\"\n[centre]",
            seed.display()
        )
    }
}

/// The text of the file.
pub fn text(config: &ServerConfig) -> Result<String> {
    config
        .text()
        .context("a name or a path has a character that the file cannot have, expected none of \" \\ and controls")
}

/// The server takes paths from where its configuration is, people from where they are.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Port 0 selects a free port, as everywhere; the server says -1.
fn any_port(address: &str) -> String {
    match address.rsplit_once(':') {
        Some((host, "0")) => format!("{host}:-1"),
        _ => address.to_owned(),
    }
}

/// Prints or writes the configuration of a server.
pub fn config(args: &ConfigArgs) -> Result<ExitCode> {
    let text = text(&args.server.config()?)?;
    match &args.output {
        Some(path) => std::fs::write(path, text).with_context(|| path.display().to_string())?,
        None => std::io::stdout().write_all(text.as_bytes())?,
    }
    let port = args.server.listen.rsplit_once(':').map_or("4222", |(_, port)| port);
    eprintln!("{}", args.server.settings(port));
    Ok(ExitCode::SUCCESS)
}
