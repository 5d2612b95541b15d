//! Two servers as processes of their own, with keys made for one run.

use crate::process;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tieline_crypto::PrivateKey;
use tieline_seal::Ispb;
use tieline_seal::access::{digest, draw_token, hex};
use tieline_seal::client::{Cluster, ClusterConfig};
use tieline_seal::x509::{Subject, pem, self_signed};

/// Days that the certificates of a run are valid.
const DAYS: u64 = 2;

/// Keys, certificates and configurations of one run.
pub(super) struct Folder {
    folder: TempDir,
    token: String,
    /// The key that both sides use.
    pub(super) key: PrivateKey,
    /// The institution that both sides are.
    pub(super) ispb: Ispb,
}

impl Folder {
    /// Makes a key that seals to itself: one domain serves both ways.
    pub(super) fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let ispb = Ispb::from_text("11111111").context("an institution's number")?;
        let (key, pkcs8) = PrivateKey::generate()?;
        let subject = Subject { name: "BENCH T001".to_owned(), ispb, authority: Some(1) };
        let from = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let certificate = self_signed(&key, &subject, from, from + DAYS * 86_400)?;
        let mut file = std::fs::OpenOptions::new();
        let mut file = file.write(true).create_new(true).mode(0o600).open(folder.path().join("key"))?;
        std::io::Write::write_all(&mut file, pem("PRIVATE KEY", &pkcs8).as_bytes())?;
        std::fs::write(folder.path().join("certificate"), pem("CERTIFICATE", &certificate))?;
        let token = draw_token().context("no random bytes")?;
        Ok(Self { folder, token, key, ispb })
    }

    fn config(&self, batch: bool) -> Result<std::path::PathBuf> {
        let token = hex(&digest(&self.token));
        let text = format!(
            "[seal]\nworkers = 1\nbatch = {batch}\n[audit]\nfile = \"audit.jsonl\"\n\
             [client.bench]\ntoken_sha256 = \"{token}\"\nrights = [\"pack:bench\", \"unpack:bench\"]\n\
             [domain.bench]\nispb = \"{}\"\n\
             [[domain.bench.key]]\nversion = 1\nfile = \"key\"\ncertificate = \"certificate\"\n\
             [[domain.bench.peer]]\ncertificate = \"certificate\"\n",
            self.ispb
        );
        let path = self.folder.path().join(format!("seal-{batch}.toml"));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Starts two servers.
    pub(super) fn start(&self, batch: bool) -> Result<Servers> {
        let config = self.config(batch)?;
        let servers = [Server::start(&config)?, Server::start(&config)?];
        Ok(Servers { servers, token: self.token.clone() })
    }
}

/// Two servers; they end with this.
pub(super) struct Servers {
    servers: [Server; 2],
    token: String,
}

impl Servers {
    /// A client of both, with equal weights.
    pub(super) async fn connect(&self) -> Result<Cluster> {
        let addresses = self.servers.iter().map(|server| server.address.clone());
        let cluster = Cluster::start(&ClusterConfig::new(addresses, self.token.clone()));
        for _ in 0..500 {
            if cluster.connected() == self.servers.len() {
                return Ok(cluster);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("the servers cannot be reached")
    }

    /// Processor time of both so far, user and system, in seconds.
    pub(super) fn cpu_s(&self) -> Result<f64> {
        self.servers.iter().map(|server| process::cpu_s_of(server.child.id())).sum()
    }
}

struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(config: &Path) -> Result<Self> {
        let free = "127.0.0.1:0";
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["seal", "serve", "--http", free, "--protocol", free, "--json", "--config"]).arg(config);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let mut server = Self { child, address: String::new() };
        let hello: Value = serde_json::from_str(&line).context("a server did not start")?;
        server.address = hello["protocol"].as_str().context("a server says no address")?.to_owned();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
