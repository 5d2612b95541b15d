//! `tieline run`: a node until it is asked to stop.

use crate::args::RunArgs;
use crate::signals::Signals;
use anyhow::{Context, Result, bail};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tieline_node::config::{self, Config};
use tieline_node::{Demo, Node};
use tokio::signal::unix::{SignalKind, signal};

/// How often the node's parts are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Where data goes unless the command line says.
const DATA: &str = "tieline-data";

/// Runs a node until SIGINT or SIGTERM.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    crate::log::start("info", args.json);
    let signals = Signals::listen()?;
    raise_open_files();
    let data = args.data.clone().unwrap_or_else(|| PathBuf::from(DATA));
    let demo = args.demo.then(|| Demo::start(&data.join("demo"))).transpose().context("the demo cannot start")?;
    let mut config = match read_config(args, demo.as_ref()) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::FAILURE);
        }
    };
    override_addresses(&mut config, args)?;
    let node = Node::start(&config, &data)?;
    announce(&node, &config, &data, args)?;
    wait(&node, signals)?;
    tracing::info!("stopping");
    drop(node);
    Ok(ExitCode::SUCCESS)
}

/// Every device and client takes a file descriptor; the usual soft limit is 1,024.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

fn read_config(args: &RunArgs, demo: Option<&Demo>) -> Result<Config, config::ConfigError> {
    let mut config = args.config.as_deref().map_or_else(|| Ok(Config::default()), config::load)?;
    if let Some(demo) = demo {
        let shown = demo.config()?;
        if args.config.is_none() {
            config.node.name = shown.node.name;
        }
        config.devices.extend(shown.devices);
    }
    Ok(config)
}

fn override_addresses(config: &mut Config, args: &RunArgs) -> Result<()> {
    let secured = config.http.tls.is_some() && config.access.is_configured();
    for (flag, given, listen, secured) in
        [("--http", args.http, &mut config.http.listen, secured), ("--mqtt", args.mqtt, &mut config.mqtt.listen, false)]
    {
        let Some(address) = given else { continue };
        if !address.ip().is_loopback() && !config.node.insecure_network && !secured {
            bail!(
                "{flag} is {address}, which other machines can reach without authentication; expected an address of \
                 this machine alone, as in 127.0.0.1, or node.insecure_network = true in the configuration"
            );
        }
        *listen = address;
    }
    Ok(())
}

/// The first line for programs; a few words for people.
fn announce(node: &Node, config: &Config, data: &Path, args: &RunArgs) -> Result<()> {
    let (http, mqtt) = (node.http(), node.mqtt());
    let doors = [("mqtt_tls", node.mqtt_tls()), ("mqtt_websocket", node.mqtt_websocket())];
    let doors = doors.into_iter().filter_map(|(name, address)| address.map(|address| (name, address)));
    let scheme = if config.http.tls.is_some() { "https" } else { "http" };
    let mut out = std::io::stdout().lock();
    if args.json {
        let mut line = json!({
            "http": http.to_string(),
            "mqtt": mqtt.to_string(),
            "console": format!("{scheme}://{http}/"),
            "data": data.display().to_string(),
            "name": config.node.name,
            "devices": config.devices.len(),
        });
        for (name, address) in doors {
            line[name] = address.to_string().into();
        }
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "console  {scheme}://{http}/")?;
        writeln!(out, "mqtt     {mqtt}")?;
        for (name, address) in doors {
            writeln!(out, "{name}  {address}")?;
        }
        writeln!(out, "data     {}", data.display())?;
        if let Some(device) = config.devices.first() {
            writeln!(out, "try      tieline sub --mqtt {mqtt} '{}/#'", device.topic)?;
        }
    }
    out.flush()?;
    Ok(())
}

/// Waits for a signal, or for a part of the node to end. SIGHUP has TLS files and views read anew.
fn wait(node: &Node, signals: Signals) -> Result<()> {
    let ended = signals.until_done(async {
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let mut hangups = signal(SignalKind::hangup())?;
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                _ = hangups.recv() => {
                    node.reload_tls();
                    node.reload_views().await;
                }
            }
            if let Some(part) = node.ended_part() {
                return Ok::<_, std::io::Error>(part);
            }
        }
    })?;
    ended.transpose()?.map_or(Ok(()), |part| bail!("a part of the node ended unasked: {part}; the log says why"))
}
