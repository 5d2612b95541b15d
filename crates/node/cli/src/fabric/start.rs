//! `tieline fabric start`: a nats-server that is configured, started, watched, started again, and stopped in order.

mod process;

use super::config::{ServerArgs, text};
use crate::answer::say;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use process::{Ports, Server};
use serde_json::json;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};
use tieline_fabric::{ServerConfig, check_version};
use tieline_node::joining::FabricFiles;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Where it tells about itself, unless the command line says.
pub const MONITOR: &str = "127.0.0.1:8222";
/// How often the process is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often its health is asked for.
const HEALTH_EVERY: Duration = Duration::from_secs(2);
/// The pause before it is started again; it doubles.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A server that ran so long had nothing wrong with it from its start: the pauses begin again.
const STEADY: Duration = Duration::from_secs(60);
/// How long it may take to send its clients away: its lame duck time, and some seconds.
const LEAVE_MAX: Duration = Duration::from_secs(45);
/// How long it may take to end without that.
const END_MAX: Duration = Duration::from_secs(10);

/// `tieline fabric start`.
#[derive(Debug, Args)]
pub struct StartArgs {
    #[command(flatten)]
    pub config: ServerArgs,
    /// The nats-server to run; without it, the one on the path
    #[arg(long, value_name = "FILE")]
    pub server: Option<PathBuf>,
    /// Print one JSON object when it listens, and log in JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs a server until SIGINT or SIGTERM. A second one ends it without waiting for its clients.
pub fn start(args: &StartArgs) -> Result<ExitCode> {
    crate::log::start("info", args.json);
    let binary = args.server.clone().unwrap_or_else(|| PathBuf::from("nats-server"));
    let version = version_of(&binary)?;
    check_version(&version).with_context(|| binary.display().to_string())?;
    let mut config = args.config.config()?;
    config.monitor.get_or_insert_with(|| MONITOR.to_owned());
    std::fs::create_dir_all(&config.store).with_context(|| config.store.display().to_string())?;
    let file = FabricFiles::of(&args.config.data).folder().join("nats.conf");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let stops = Stops { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? };
        let mut supervisor = Supervisor { args, binary, version, file, config, stops, has_listened: false };
        supervisor.write()?;
        supervisor.test()?;
        supervisor.run().await
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What a binary says of its version.
fn version_of(binary: &Path) -> Result<String> {
    let shown = Command::new(binary).arg("--version").output().with_context(|| {
        format!("{} cannot be run, expected nats-server on the path, or --server FILE", binary.display())
    })?;
    let text = String::from_utf8_lossy(&shown.stdout);
    let version = read_version(&text);
    version.with_context(|| format!("{} --version does not say the version of a nats-server", binary.display()))
}

/// `nats-server: v2.15.2` without what is around the number.
fn read_version(text: &str) -> Option<String> {
    let version = text.trim().rsplit(' ').next()?;
    let version = version.strip_prefix('v').unwrap_or(version);
    (!version.is_empty()).then(|| version.to_owned())
}

struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// How a run of the server ended.
enum End {
    Asked,
    Exited(ExitStatus),
}

struct Supervisor<'a> {
    args: &'a StartArgs,
    binary: PathBuf,
    version: String,
    file: PathBuf,
    config: ServerConfig,
    stops: Stops,
    has_listened: bool,
}

impl Supervisor<'_> {
    /// Its owner alone may read the file: that of a cluster has what the servers show each other.
    fn write(&self) -> Result<()> {
        let text = text(&self.config)?;
        let next = self.file.with_extension("conf.new");
        let written = || {
            let _ = std::fs::remove_file(&next);
            let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&next)?;
            std::io::Write::write_all(&mut file, text.as_bytes())?;
            std::fs::rename(&next, &self.file)
        };
        written().with_context(|| self.file.display().to_string())
    }

    /// A wrong file of TLS, for one, is told before anything runs.
    fn test(&self) -> Result<()> {
        let tested = Command::new(&self.binary).arg("-t").arg("-c").arg(&self.file).output()?;
        if tested.status.success() {
            return Ok(());
        }
        let said = [tested.stdout, tested.stderr].map(|said| String::from_utf8_lossy(&said).trim().to_owned()).concat();
        bail!("the server does not take its configuration: {said}")
    }

    async fn run(&mut self) -> Result<()> {
        let mut pause = PAUSE;
        loop {
            let begin = Instant::now();
            let mut server = Server::start(&self.binary, &self.file, &self.config.store)?;
            match self.watch(&mut server).await? {
                End::Asked => return self.stop(server).await,
                End::Exited(status) if !self.has_listened => {
                    bail!("nats-server ended before it listened ({status}): {}", server.last_error())
                }
                End::Exited(status) => {
                    if begin.elapsed() >= STEADY {
                        pause = PAUSE;
                    }
                    let (why, pause_ms) = (server.last_error(), pause.as_millis());
                    tracing::error!(%status, why, %pause_ms, "nats-server ended; it is started again");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stops.asked() => return Ok(()),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Until it ends, or is to end.
    async fn watch(&mut self, server: &mut Server) -> Result<End> {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let (mut monitor, mut next_health, mut health) = (None::<u16>, Instant::now(), String::new());
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = self.stops.asked() => return Ok(End::Asked),
            }
            if let Some(status) = server.exited()? {
                return Ok(End::Exited(status));
            }
            match (server.ports(), monitor) {
                (Some(ports), None) => {
                    self.listens(&ports, server.id())?;
                    monitor = Some(ports.monitor);
                }
                (_, Some(port)) if Instant::now() >= next_health => {
                    next_health = Instant::now() + HEALTH_EVERY;
                    let found = process::health(self.host(), port).await;
                    match found.as_str() {
                        same if same == health => {}
                        "ok" => tracing::info!("nats-server is healthy"),
                        why => tracing::warn!(why, "nats-server is not healthy"),
                    }
                    health = found;
                }
                _ => {}
            }
        }
    }

    fn host(&self) -> &str {
        let address = self.config.monitor.as_deref().unwrap_or(MONITOR);
        address.rsplit_once(':').map_or(address, |(host, _)| host)
    }

    /// Says where it listens, once. Ports that were free ones stay the same from then on.
    fn listens(&mut self, ports: &Ports, id: u32) -> Result<()> {
        if std::mem::replace(&mut self.has_listened, true) {
            tracing::info!(port = ports.clients, "nats-server listens again");
            return Ok(());
        }
        let at = |address: &str, port: u16| format!("{}:{port}", address.rsplit_once(':').map_or("", |(host, _)| host));
        let listen = at(&self.config.listen, ports.clients);
        let monitor = at(self.config.monitor.as_deref().unwrap_or(MONITOR), ports.monitor);
        self.config.listen.clone_from(&listen);
        self.config.monitor = Some(monitor.clone());
        self.write()?;
        let scheme = if self.config.tls.is_some() { "tls" } else { "nats" };
        let (name, version, file) = (&self.config.name, &self.version, self.file.display());
        let words = format!(
            "server          {name}, nats-server {version}\nconfiguration   {file}\nstore           {}\n\
             monitor         http://{monitor}\nlistens         {scheme}://{listen}\n{}",
            self.config.store.display(),
            self.args.config.settings(&ports.clients.to_string()),
        );
        let object = json!({
            "name": name, "version": version, "listen": listen, "url": format!("{scheme}://{listen}"), "monitor": monitor,
            "config": self.file, "store": self.config.store, "pid": id,
        });
        say(self.args.json, &words, &object)
    }

    /// The server takes no more clients and sends its own to others, then ends.
    async fn stop(&mut self, mut server: Server) -> Result<()> {
        tracing::info!("stopping nats-server: its clients are sent away");
        server.leave();
        if self.ends_within(&mut server, LEAVE_MAX).await? {
            return Ok(());
        }
        server.terminate();
        if self.ends_within(&mut server, END_MAX).await? {
            return Ok(());
        }
        tracing::warn!("nats-server does not end; it is killed");
        server.kill();
        Ok(())
    }

    /// Whether it ended in time, and before another signal.
    async fn ends_within(&mut self, server: &mut Server, limit: Duration) -> Result<bool> {
        let until = Instant::now() + limit;
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while Instant::now() < until {
            if server.exited()?.is_some() {
                return Ok(true);
            }
            tokio::select! {
                _ = looks.tick() => {}
                () = self.stops.asked() => return Ok(false),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_fabric::FabricError;

    #[test]
    fn versions_are_read_and_old_ones_refused() {
        let check = |said: &str, expect: Option<&str>| assert_eq!(read_version(said).as_deref(), expect, "{said}");
        check("nats-server: v2.15.2\n", Some("2.15.2"));
        check("nats-server: 2.9.10", Some("2.9.10"));
        check("", None);
        assert!(matches!(check_version("2.9.10"), Err(FabricError::Version { .. })));
        let absent = version_of(Path::new("/nonexistent/nats-server")).unwrap_err();
        assert!(absent.to_string().contains("expected nats-server on the path, or --server FILE"), "{absent}");
    }
}
