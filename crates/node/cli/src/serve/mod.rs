//! `tieline modbus server`, `tieline bacnet server`, `tieline iec104 server`: simulated devices from point lists, behind a port.

pub mod args;
pub mod bacnet;
pub mod iec104;
pub mod modbus;

use crate::lines::{Asked, obey_set, obey_until_quit, tell_listening};
use crate::terminal;
use anyhow::{Context, Result, anyhow};
use serde_json::json;
use std::future::Future;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use tieline_core::{Now, Value};
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tieline_node::config::{
    ConfigError, Findings, PointConfig, ProtocolName, ServedFaults, ServedPoints, read_served_faults,
    read_served_points,
};
use tieline_outstation::points::{Faults, ListedPoint, WrittenPoint};
use tokio::sync::mpsc;

/// Where the address of a server is told.
type Report = blocking::SyncSender<io::Result<SocketAddr>>;

/// The points of a list and their model.
fn load(file: &Path, protocol: ProtocolName) -> Result<ServedPoints> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let mut findings = Findings::default();
    let served = read_served_points(&mut findings, &file.display().to_string(), &text, protocol);
    served.ok_or_else(|| ConfigError(findings.sorted()).into())
}

/// What goes wrong at a device with these points; nothing without a file.
fn load_faults(file: Option<&Path>, protocol: ProtocolName, points: &[PointConfig]) -> Result<Faults> {
    let Some(file) = file else { return Ok(Faults::default()) };
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let ServedFaults { delay, delay_jitter, faults } =
        read_served_faults(&file.display().to_string(), &text, protocol, points)?;
    Ok(Faults { all: faults, delay, delay_jitter })
}

/// A point of a list at its place.
fn listed<P>(point: &PointConfig, place: P) -> ListedPoint<P> {
    let limits = point.control.as_ref().filter(|control| control.min.is_some() || control.max.is_some());
    ListedPoint {
        name: point.name.as_str().into(),
        place,
        scale: point.scale,
        offset: point.offset,
        is_writable: point.control.is_some(),
        limits: limits.and_then(|control| control.limits(point.scale, point.offset)),
        unit: point.unit.as_str().into(),
        states: point.states.as_ref().map(|states| [states.off.clone(), states.on.clone()]),
        description: point.description.as_str().into(),
    }
}

/// Runs a server until SIGINT, SIGTERM or the line `quit`.
fn serve_lines<F, Fut>(name: &str, json: bool, serve: F) -> Result<ExitCode>
where
    F: FnOnce(Rc<Shard>, mpsc::Receiver<Asked>, Report) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let (lines, asked) = mpsc::channel(1);
    let (report, reported) = blocking::sync_channel(1);
    let _thread = ShardThread::spawn(name, Clock::start(), Arc::new(Counters::default()), move |shard| {
        serve(shard, asked, report)
    })?;
    let address = reported.recv().map_err(|_| anyhow!("the server ended before it began"))?;
    let address = address.context("cannot listen")?;
    tell_listening(json, address)?;
    obey_until_quit(move |text| obey_set(text, "server", &lines))?;
    Ok(ExitCode::SUCCESS)
}

/// Tells what a client has written.
fn tell(now: Now, written: &WrittenPoint, json: bool) {
    let value = match &written.value {
        Value::Bool(value) => json!(value),
        value => json!(value.as_f64()),
    };
    // Nobody may read the log; the server goes on.
    let _ = match json {
        true => {
            let told =
                json!({ "event": "written", "point": written.name, "value": value, "time": now.utc.to_string() });
            writeln!(io::stderr(), "{}", terminal::json(&told.to_string()))
        }
        false => {
            writeln!(io::stderr(), "{} written point={} value={value}", now.utc, terminal::one_line(&written.name))
        }
    };
}
