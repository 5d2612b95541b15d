//! `tieline run`: a node until it is asked to stop.

pub mod args;
mod member;
mod notify;
mod role;

pub use role::text as role_text;

use crate::signals::Signals;
use anyhow::{Context, Result, anyhow, bail};
use args::RunArgs;
use notify::ServiceManager;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;
use std::convert::Infallible;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tieline_node::config::Config;
use tieline_node::joining::FabricFiles;
use tieline_node::{DeviceCounts, MemberNode, Node, StartError, load_config};
use tieline_outstation::Demo;
use tokio::signal::unix::{SignalKind, signal};

/// How often the node's parts are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long devices may take to come up before people are told where the node is.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// How often the service manager is told how the node does, where it has no watchdog that wants to hear sooner.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// How often they are looked at meanwhile.
const SETTLE_LOOK: Duration = Duration::from_millis(50);
/// Where data goes unless the command line says.
const DATA: &str = "tieline-data";

/// Runs a node until SIGINT or SIGTERM.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    crate::log::start("info", args.json);
    let signals = Signals::listen()?;
    raise_open_files();
    let data = args.data.clone().unwrap_or_else(|| PathBuf::from(DATA));
    let demo = args.demo.map(|site| Demo::start(site.into(), &data.join("demo")));
    let demo = demo.transpose().context("the demo cannot start")?;
    role::join_first(args, &data)?;
    let mut config = read_config(args, demo.as_ref(), &data)?;
    override_addresses(&mut config, args)?;
    if let Some(member) = MemberNode::start(&config, &data).map_err(told)? {
        return member::run(member, signals, (args.json, &config, &data));
    }
    let node = Node::start(&config, &data).map_err(told)?;
    if args.json {
        announce(&node, &config, &data)?;
    }
    let mut manager = ServiceManager::of_environment();
    manager.ready(&addresses(&node));
    let ended = wait(&node, signals, (!args.json).then_some((&config, data.as_path())), &mut manager);
    manager.stopping();
    ended?;
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

fn read_config(args: &RunArgs, demo: Option<&Demo>, data: &Path) -> Result<Config> {
    let mut config = args.config.as_deref().map_or_else(|| Ok(Config::default()), load_config)?;
    if let Some(demo) = demo {
        let shown = load_config(demo.config_file())?;
        if args.config.is_none() {
            config.node.name = shown.node.name;
        }
        config.devices.extend(shown.devices);
        config.alarm = config.alarm.or(shown.alarm);
        config.console = config.console.with(shown.console);
        config.source.devices_of = Some(demo.config_file().to_owned());
    }
    let joined = FabricFiles::of(data).joined();
    let has_own = config.site.is_some() || (config.fabric.is_some() && config.centre.is_none());
    if !has_own && joined.exists() {
        config.take_joined(load_config(&joined)?);
    }
    role::apply(args, &mut config, data)?;
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

/// What to do about an address that somebody else has.
fn told(error: StartError) -> anyhow::Error {
    match error {
        StartError::Listen { what, address, why } if why.kind() == std::io::ErrorKind::AddrInUse => anyhow!(
            "{what} cannot listen on {address}: another program does, perhaps another node; expected a free address, \
             with --{what} or {what}.listen of the configuration"
        ),
        other => other.into(),
    }
}

/// The first line for programs.
fn announce(node: &Node, config: &Config, data: &Path) -> Result<()> {
    let mut line = json!({
        "http": node.http().to_string(),
        "mqtt": node.mqtt().to_string(),
        "console": console(node, config),
        "data": data.display().to_string(),
        "name": config.node.name,
        "devices": config.devices.len(),
    });
    for (name, address) in [("mqtt_tls", node.mqtt_tls()), ("mqtt_websocket", node.mqtt_websocket())] {
        if let Some(address) = address {
            line[name] = address.to_string().into();
        }
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// Facts for people, one a line, once it is known how devices do. The addresses come last, where they are seen.
async fn introduce(node: &Node, config: &Config, data: &Path) -> std::io::Result<()> {
    let until = tokio::time::Instant::now() + SETTLE_MAX;
    let mut counts = node.device_counts().await;
    while counts.connecting > 0 && tokio::time::Instant::now() < until {
        tokio::time::sleep(SETTLE_LOOK).await;
        counts = node.device_counts().await;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "node            {}, tieline {}", config.node.name, env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "data            {}", data.display())?;
    writeln!(out, "devices         {}", summary(counts))?;
    if let Some(device) = config.devices.first() {
        writeln!(out, "try             tieline sub --mqtt {} '{}/#'", node.mqtt(), device.topic)?;
    }
    writeln!(out, "mqtt            {}", node.mqtt())?;
    for (name, address) in [("mqtt tls", node.mqtt_tls()), ("mqtt websocket", node.mqtt_websocket())] {
        if let Some(address) = address {
            writeln!(out, "{name:<15} {address}")?;
        }
    }
    writeln!(out, "console         {}", console(node, config))?;
    out.flush()
}

/// All devices in a line.
fn summary(DeviceCounts { total, online, connecting }: DeviceCounts) -> String {
    let away = total.saturating_sub(online).saturating_sub(connecting);
    let others = [(away, "not online"), (connecting, "still connecting")];
    let others: String =
        others.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!(", {number} {what}")).collect();
    match total {
        0 => "none configured".to_owned(),
        _ => format!("{online} of {total} online{others}"),
    }
}

fn console(node: &Node, config: &Config) -> String {
    let scheme = if config.http.tls.is_some() { "https" } else { "http" };
    format!("{scheme}://{}/", node.http())
}

/// Tells people and the service manager what runs, and waits for a signal, or for a part of the node to end. SIGHUP has the
/// configuration read again: devices, views, TLS files.
fn wait(
    node: &Node,
    signals: Signals,
    introduced: Option<(&Config, &Path)>,
    manager: &mut ServiceManager,
) -> Result<()> {
    let ended = signals.until_done(async {
        tokio::select! {
            part = look_after(node, introduced) => part,
            never = keep_reporting(node, manager) => match never {},
        }
    })?;
    ended.transpose()?.map_or(Ok(()), |part| bail!("a part of the node ended unasked: {part}; the log says why"))
}

/// Returns the part that ended.
async fn look_after(node: &Node, introduced: Option<(&Config, &Path)>) -> std::io::Result<&'static str> {
    if let Some((config, data)) = introduced {
        introduce(node, config, data).await?;
    }
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let mut hangups = signal(SignalKind::hangup())?;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            _ = hangups.recv() => {
                node.reload_tls();
                node.reload("SIGHUP").await;
            }
        }
        if let Some(part) = node.ended_part() {
            return Ok(part);
        }
    }
}

/// Tells the service manager how the node does, beside all that may take long.
async fn keep_reporting(node: &Node, manager: &mut ServiceManager) -> Infallible {
    if !manager.is_there() {
        return std::future::pending().await;
    }
    let mut reports = tokio::time::interval(report_every(manager));
    loop {
        reports.tick().await;
        report(node, manager).await;
    }
}

fn report_every(manager: &ServiceManager) -> Duration {
    manager.watchdog().map_or(STATUS_EVERY, |every| every.min(STATUS_EVERY))
}

/// Tells the service manager that the node works, once its main threads have answered: one that hangs is started again.
async fn report(node: &Node, manager: &mut ServiceManager) {
    let asked = async { if node.answers().await { Some(node.device_counts().await) } else { None } };
    match tokio::time::timeout(report_every(manager), asked).await {
        Ok(Some(counts)) => {
            manager.alive();
            manager.status(&format!("{}; devices: {}", addresses(node), summary(counts)));
        }
        Ok(None) => {}
        Err(_) => tracing::warn!("a main thread of the node does not answer"),
    }
}

fn addresses(node: &Node) -> String {
    format!("MQTT at {}, HTTP at {}", node.mqtt(), node.http())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_summed_up_in_a_line() {
        let check = |total, online, connecting, expect: &str| {
            assert_eq!(summary(DeviceCounts { total, online, connecting }), expect);
        };
        check(0, 0, 0, "none configured");
        check(1, 1, 0, "1 of 1 online");
        check(8, 8, 0, "8 of 8 online");
        check(8, 5, 2, "5 of 8 online, 1 not online, 2 still connecting");
    }
}
