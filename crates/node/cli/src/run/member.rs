//! `tieline run` of a member of a core: a standby, and a node while it leads.

use super::notify::ServiceManager;
use super::{LOOK_EVERY, report, report_every, told};
use crate::signals::Signals;
use anyhow::{Result, anyhow, bail};
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tieline_node::config::Config;
use tieline_node::{MemberNode, StartError};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::Interval;

/// Runs a member until a signal, or until a part of it ends.
pub(super) fn run(
    member: MemberNode,
    signals: Signals,
    (is_json, config, data): (bool, &Config, &Path),
) -> Result<ExitCode> {
    introduce(&member, (is_json, config, data))?;
    // Held here while nothing is being changed: it stops in this thread.
    let mut held = Some(member);
    let mut manager = ServiceManager::of_environment();
    let ended = signals.until_done(watch(&mut held, &mut manager));
    manager.stopping();
    let ended = ended?;
    tracing::info!("stopping");
    drop(held);
    match ended.transpose()? {
        None => Ok(ExitCode::SUCCESS),
        Some(Ended::Part(part)) => bail!("a part of the node ended unasked: {part}; the log says why"),
        Some(Ended::Start(error)) => Err(told(error)),
    }
}

enum Ended {
    Part(&'static str),
    Start(StartError),
}

async fn watch(held: &mut Option<MemberNode>, manager: &mut ServiceManager) -> Result<Ended> {
    let (http, mqtt) = held.as_ref().map(MemberNode::addresses).ok_or_else(|| anyhow!("the node is gone"))?;
    manager.ready(&format!("standby; MQTT at {mqtt}, HTTP at {http}"));
    let mut reports = tokio::time::interval(report_every(manager));
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let mut hangups = signal(SignalKind::hangup())?;
    loop {
        let member = held.as_mut().ok_or_else(|| anyhow!("the node is gone"))?;
        let change = tokio::select! {
            change = member.changed() => Some(change),
            _ = looks.tick() => None,
            _ = reports.tick(), if manager.is_there() => {
                match member.node() {
                    Some(node) => report(node, manager).await,
                    // A standby's threads that end are seen by `ended_part`.
                    None => {
                        manager.alive();
                        manager.status(&format!("standby; MQTT at {mqtt}, HTTP at {http}"));
                    }
                }
                None
            }
            _ = hangups.recv() => {
                if let Some(node) = member.node() {
                    node.reload_tls();
                    fed(node.reload("SIGHUP"), &mut reports, manager).await;
                }
                None
            }
        };
        if let Some(part) = member.ended_part() {
            return Ok(Ended::Part(part));
        }
        let Some(change) = change else { continue };
        // To start and to stop a node blocks.
        let Some(mut member) = held.take() else { continue };
        let changed = tokio::task::spawn_blocking(move || {
            let done = member.apply(change);
            (member, done)
        });
        let (member, done) = fed(changed, &mut reports, manager).await?;
        *held = Some(member);
        if let Err(error) = done {
            return Ok(Ended::Start(error));
        }
    }
}

/// Awaits what may take longer than the service manager waits.
async fn fed<F: Future>(work: F, reports: &mut Interval, manager: &ServiceManager) -> F::Output {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            output = &mut work => return output,
            _ = reports.tick() => manager.alive(),
        }
    }
}

fn introduce(member: &MemberNode, (is_json, config, data): (bool, &Config, &Path)) -> Result<()> {
    let (http, mqtt) = member.addresses();
    let mut out = std::io::stdout().lock();
    if is_json {
        let scheme = if config.http.tls.is_some() { "https" } else { "http" };
        let line = json!({
            "http": http.to_string(),
            "mqtt": mqtt.to_string(),
            "console": format!("{scheme}://{http}/"),
            "data": data.display().to_string(),
            "name": config.node.name,
            "devices": config.devices.len(),
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "node            {}, tieline {}", config.node.name, env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "data            {}", data.display())?;
        writeln!(
            out,
            "mqtt            {mqtt}, once this member of the core leads; until then clients are sent to the leader"
        )?;
        writeln!(out, "state           tieline cluster --http {http}")?;
    }
    out.flush()?;
    Ok(())
}
