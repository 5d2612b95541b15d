//! The servers that are compared, each as a process of its own that one run starts and ends.

use super::plan::Plan;
use super::speech::Speech;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_node::{Node, config};

/// How long a server may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is looked whether it does.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What other connections a server has besides subscribers.
const SESSIONS_OTHER: usize = 16;

/// Who serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// This program.
    Tieline,
    /// Eclipse Mosquitto, where it is installed.
    Mosquitto,
    /// The NATS server, where it is installed.
    Nats,
    /// Writes without logic.
    Floor,
}

impl Kind {
    /// All that can be run here.
    pub fn installed() -> Vec<Self> {
        let all = [Self::Tieline, Self::Mosquitto, Self::Nats, Self::Floor];
        all.into_iter().filter(|kind| kind.program().is_none_or(|program| found(program).is_some())).collect()
    }

    /// What it speaks.
    pub const fn speech(self) -> Speech {
        match self {
            Self::Tieline | Self::Mosquitto => Speech::Mqtt,
            Self::Nats => Speech::Nats,
            Self::Floor => Speech::Raw,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tieline => "tieline",
            Self::Mosquitto => "mosquitto",
            Self::Nats => "nats",
            Self::Floor => "floor",
        }
    }

    const fn program(self) -> Option<&'static str> {
        match self {
            Self::Mosquitto => Some("mosquitto"),
            Self::Nats => Some("nats-server"),
            Self::Tieline | Self::Floor => None,
        }
    }
}

/// A server that runs. Dropped, it is ended.
pub struct Server {
    _folder: TempDir,
    _node: Option<Node>,
    child: Option<Child>,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Starts a server for so many sessions; ours from `program`, or in this process where there is none.
    pub fn start(kind: Kind, program: Option<&Path>, plan: &Plan, sessions: usize) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        match kind {
            Kind::Tieline => Self::start_ours(folder, program, plan, sessions),
            Kind::Mosquitto => {
                let address = free_address()?;
                let file = folder.path().join("mosquitto.conf");
                let text = format!(
                    "listener {} {}\nallow_anonymous true\npersistence false\nset_tcp_nodelay true\n\
                     max_queued_messages 0\nlog_dest none\n",
                    address.port(),
                    address.ip()
                );
                std::fs::write(&file, text)?;
                Self::start_peer(folder, "mosquitto", &["-c".into(), file.display().to_string()], address)
            }
            Kind::Nats => {
                let address = free_address()?;
                let arguments = ["-a".into(), address.ip().to_string(), "-p".into(), address.port().to_string()];
                Self::start_peer(folder, "nats-server", &arguments, address)
            }
            Kind::Floor => bail!("the floor is no server"),
        }
    }

    fn start_ours(folder: TempDir, program: Option<&Path>, plan: &Plan, sessions: usize) -> Result<Self> {
        let text = format!(
            "[http]\nlisten = \"127.0.0.1:0\"\n[mqtt]\nlisten = \"127.0.0.1:0\"\nsessions_max = {}\ntopics_max = {}\n\
             [history]\nenabled = false\n",
            sessions + SESSIONS_OTHER,
            plan.topics + 1000,
        );
        let Some(program) = program else {
            let config = config::from_text("bench.toml", &text, folder.path())?;
            let node = Node::start(&config, folder.path())?;
            return Ok(Self { address: node.mqtt(), _folder: folder, _node: Some(node), child: None });
        };
        let file = folder.path().join("bench.toml");
        std::fs::write(&file, text)?;
        let mut command = Command::new(program);
        command.args(["run", "--json", "--config"]).arg(&file).arg("--data").arg(folder.path().join("data"));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let unknown = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut server = Self { _folder: folder, _node: None, child: Some(child), address: unknown };
        let hello: Value = serde_json::from_str(&line).context("the node did not start")?;
        server.address = hello["mqtt"].as_str().context("the node says no address")?.parse()?;
        Ok(server)
    }

    fn start_peer(folder: TempDir, program: &str, arguments: &[String], address: SocketAddr) -> Result<Self> {
        let path = found(program).with_context(|| format!("{program} is not installed"))?;
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self { _folder: folder, _node: None, child: Some(command.spawn()?), address };
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            if began.elapsed() > PATIENCE {
                bail!("{program} does not listen on {address} after {PATIENCE:?}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    /// The process that it runs in.
    pub fn process(&self) -> u32 {
        self.child.as_ref().map_or_else(std::process::id, Child::id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Where a peer can listen that cannot be told to choose for itself.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Programs are looked for where a shell finds them, and where distributions keep servers.
fn found(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
