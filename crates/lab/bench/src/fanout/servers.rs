//! The servers that are compared, each as a process of its own that one run starts and ends.

use super::plan::Plan;
use super::player::stand_back;
use super::speech::Speech;
use super::transport::{Credentials, Door, Transport};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
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

    /// Whether its subscribers can come so.
    pub const fn listens(self, transport: Transport) -> bool {
        match (self, transport) {
            (Self::Tieline | Self::Mosquitto, _) | (Self::Nats | Self::Floor, Transport::Tcp) => true,
            (Self::Nats | Self::Floor, Transport::Tls | Transport::Ws) => false,
        }
    }

    /// Its name.
    #[must_use]
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
    /// Where ours answers HTTP.
    http: Option<SocketAddr>,
    /// Where the publisher comes in.
    pub address: SocketAddr,
    /// Where subscribers do.
    pub door: Door,
}

/// What last values outlive, where the server is ours. The peers keep nothing on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// Nothing.
    #[default]
    Memory,
    /// The end of the process.
    Written,
    /// A power cut.
    Synced,
}

impl Durability {
    /// Its word in a configuration.
    const fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Written => "written",
            Self::Synced => "synced",
        }
    }
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = [Self::Memory, Self::Written, Self::Synced].into_iter().find(|known| known.word() == word);
        known.ok_or_else(|| "expected memory, written or synced".to_owned())
    }
}

/// What a server is for.
#[derive(Clone, Copy, Debug)]
pub struct Purpose<'a> {
    /// Ours is started from it, or in this process where there is none.
    pub program: Option<&'a Path>,
    /// What it will be asked.
    pub plan: &'a Plan,
    /// How many will be connected at a time.
    pub sessions: usize,
    /// How they come.
    pub transport: Transport,
    /// What last values outlive.
    pub durability: Durability,
    /// Threads that have the sockets, where the server is ours; 1 is the bus itself.
    pub shards: usize,
    /// Whose edge it is, where it is one.
    pub upstream: Option<Upstream>,
}

/// What an edge mirrors: all topics of another node of ours.
#[derive(Clone, Copy, Debug)]
pub struct Upstream {
    /// Where that one is.
    pub address: SocketAddr,
    /// Which of its edges this is.
    pub number: usize,
    /// How long it may collect values for one write.
    pub window: Duration,
}

impl Upstream {
    /// The table of a configuration.
    fn table(self) -> String {
        let Self { address, number, window } = self;
        let window_us = window.as_micros();
        format!(
            "[edge]\nupstream = \"mqtt://{address}\"\nclient_id = \"edge-{number}\"\nkeep = [\"#\"]\nretry_max = \"250ms\"\nsilence = \"2s\"\nwindow = \"{window_us}us\"\n"
        )
    }
}

impl Server {
    /// Starts a server.
    pub fn start(kind: Kind, purpose: &Purpose<'_>) -> Result<Self> {
        let folder = tempfile::tempdir().context("a folder for the server")?;
        if purpose.transport == Transport::Tls {
            Credentials::make(folder.path())?;
        }
        match kind {
            Kind::Tieline => Self::start_ours(folder, purpose),
            Kind::Mosquitto => Self::start_mosquitto(folder, purpose.transport),
            Kind::Nats => {
                let address = free_address()?;
                let arguments = ["-a".into(), address.ip().to_string(), "-p".into(), address.port().to_string()];
                Self::start_peer(folder, "nats-server", &arguments, address, (address, Transport::Tcp))
            }
            Kind::Floor => bail!("the floor is no server"),
        }
    }

    fn start_ours(folder: TempDir, purpose: &Purpose<'_>) -> Result<Self> {
        let Purpose { program, plan, sessions, transport, durability, shards, upstream } = *purpose;
        let (door, member) = match transport {
            Transport::Tcp => ("", "mqtt"),
            Transport::Tls => (
                "tls = { listen = \"127.0.0.1:0\", certificate = \"certificate.pem\", key = \"key.pem\" }\n",
                "mqtt_tls",
            ),
            Transport::Ws => ("websocket = { listen = \"127.0.0.1:0\" }\n", "mqtt_websocket"),
        };
        let text = format!(
            "[node]\nworkers = {shards}\n[http]\nlisten = \"127.0.0.1:0\"\n[history]\nenabled = false\n[mqtt]\nlisten = \"127.0.0.1:0\"\n\
             durability = \"{}\"\nsessions_max = {}\ntopics_max = {}\n{door}{}",
            durability.word(),
            sessions + SESSIONS_OTHER,
            plan.topics + 1000,
            upstream.map(Upstream::table).unwrap_or_default(),
        );
        let Some(program) = program else {
            let config = config::from_text("bench.toml", &text, folder.path())?;
            let node = Node::start(&config, folder.path())?;
            let address = match transport {
                Transport::Tcp => Some(node.mqtt()),
                Transport::Tls => node.mqtt_tls(),
                Transport::Ws => node.mqtt_websocket(),
            };
            let door = door_at(address.context("the node does not listen")?, transport, &folder);
            let (address, http) = (node.mqtt(), Some(node.http()));
            return Ok(Self { address, door, http, _folder: folder, _node: Some(node), child: None });
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
        let door = door_at(unknown, transport, &folder);
        let mut server = Self { _folder: folder, _node: None, child: Some(child), http: None, address: unknown, door };
        let hello: Value = serde_json::from_str(&line).context("the node did not start")?;
        let said =
            |member: &str| hello[member].as_str().context("the node says no address")?.parse().context("an address");
        (server.address, server.door.address, server.http) = (said("mqtt")?, said(member)?, Some(said("http")?));
        Ok(server)
    }

    fn start_mosquitto(folder: TempDir, transport: Transport) -> Result<Self> {
        let (address, mut entry) = (free_address()?, None);
        // By default it lays down what root may do, the reading of the run's key with it.
        let mut text = format!(
            "allow_anonymous true\npersistence false\nset_tcp_nodelay true\nmax_queued_messages 0\nlog_dest none\n\
             user root\nlistener {} {}\n",
            address.port(),
            address.ip()
        );
        if transport != Transport::Tcp {
            let second = free_address()?;
            text.push_str(&format!("listener {} {}\n", second.port(), second.ip()));
            entry = Some(second);
        }
        match transport {
            Transport::Tcp => {}
            Transport::Tls => {
                let Credentials { certificate, key } = Credentials::within(folder.path());
                text.push_str(&format!("certfile {}\nkeyfile {}\n", certificate.display(), key.display()));
            }
            Transport::Ws => text.push_str("protocol websockets\n"),
        }
        let file = folder.path().join("mosquitto.conf");
        std::fs::write(&file, text)?;
        let arguments = ["-c".into(), file.display().to_string()];
        Self::start_peer(folder, "mosquitto", &arguments, address, (entry.unwrap_or(address), transport))
    }

    fn start_peer(
        folder: TempDir,
        program: &str,
        arguments: &[String],
        address: SocketAddr,
        (entry, transport): (SocketAddr, Transport),
    ) -> Result<Self> {
        let path = found(program).with_context(|| format!("{program} is not installed"))?;
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let door = door_at(entry, transport, &folder);
        let server = Self { _folder: folder, _node: None, child: Some(command.spawn()?), http: None, address, door };
        let began = Instant::now();
        while TcpStream::connect(address).and_then(|_| TcpStream::connect(entry)).is_err() {
            if began.elapsed() > PATIENCE {
                bail!("{program} does not listen on {address} after {PATIENCE:?}");
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(server)
    }

    /// What ours says of itself: the value of a metric.
    pub fn metric(&self, name: &str) -> Result<f64> {
        let mut stream = TcpStream::connect(self.http.context("the server is not ours")?)?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| format!("there is no metric {name}"))?.trim().parse()?)
    }

    /// Lets all others have the processor first: it stands for another machine.
    pub fn stand_back(&self) -> Result<()> {
        self.child.as_ref().map_or(Ok(()), stand_back)
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

fn door_at(address: SocketAddr, transport: Transport, folder: &TempDir) -> Door {
    Door { address, transport, folder: folder.path().to_owned() }
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
