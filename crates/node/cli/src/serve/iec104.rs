//! `tieline iec104 server`.

use super::args::{Iec104ServerArgs, RedundancyGroup};
use super::{Asked, Report, listed, load, load_faults, serve_lines, tell};
use crate::log;
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{CommandMode, Now};
use tieline_iec104::{DatabaseError, Form, SelectRule, ServerConfig};
use tieline_model::Model;
use tieline_net::Shard;
use tieline_node::config::{
    ConfigError, Finding, Findings, Iec104Command, Iec104Kind, Iec104Output, Iec104Served, PointConfig, ProtocolName,
    ServedPoints,
};
use tieline_outstation::iec104::{self, Iec104Service, Iec104Station};
use tieline_outstation::points::{
    Faults, ListedPoint, ListedPoints, Pace, StationOfPoints, StationOutput, StationPlace,
};
use tieline_transport::{End, Over, Transport};
use tokio::sync::mpsc;

/// Redundancy groups at most.
const GROUPS_MAX: usize = 16;

/// How often values are looked at: clients learn of changes so soon.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// What is served, and where.
struct Served {
    station: StationConfig,
    service: Iec104Service,
    json: bool,
}

struct StationConfig {
    points: Vec<ListedPoint<StationPlace>>,
    model: Model,
    name: String,
    pace: Pace,
    faults: Faults,
    utc_offset_minutes: i16,
}

impl StationConfig {
    fn station(self, now: Now, json: bool) -> Result<StationOfPoints, (usize, DatabaseError)> {
        let listed = ListedPoints::new(self.points, self.model, &self.name, self.pace, self.faults, now);
        StationOfPoints::new(listed, self.utc_offset_minutes, Box::new(move |now, written| tell(now, &written, json)))
    }
}

/// Serves until SIGINT, SIGTERM or the line `quit`.
pub fn server(args: &Iec104ServerArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let ServedPoints { points, lines, model } = load(&args.file, ProtocolName::Iec104)?;
    check_outputs(&args.file, &points, &lines, args.common_address)?;
    let faults = load_faults(args.faults.as_deref(), ProtocolName::Iec104, &points)?;
    let points = points.iter().filter_map(|point| Some(listed(point, place(point, args.common_address)?))).collect();
    let name = args.file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let config = ServerConfig {
        select_timeout: args.select_timeout,
        terminates_commands: !args.no_termination,
        cyclic_every: args.cyclic,
        is_treated: args.faults.is_some(),
        ..ServerConfig::DEFAULT
    };
    #[expect(clippy::cast_possible_truncation, reason = "14 hours at most")]
    let utc_offset_minutes = (args.utc_offset * 60.0).round() as i16;
    let station = StationConfig { points, model, name, pace: args.pace.into(), faults, utc_offset_minutes };
    let over = args.tls.options()?.map_or(Over::Tcp, Over::Tls);
    let transport = Transport { end: End::Listen(args.listen), over };
    let service = Iec104Service { transport, config, groups: groups(&args.redundancy)? };
    let json = args.json;
    let served = Served { station, service, json };
    serve_lines("iec104", json, move |shard, asked, report| serve(shard, served, asked, report))
}

/// Redundancy groups by the addresses of their clients, each in one.
fn groups(args: &[RedundancyGroup]) -> Result<Vec<Vec<IpAddr>>> {
    if args.len() > GROUPS_MAX {
        bail!("--redundancy {} times, expected {GROUPS_MAX} at most", args.len());
    }
    if args.iter().filter(|RedundancyGroup(addresses)| addresses.is_empty()).count() > 1 {
        bail!("--redundancy any a second time, expected once");
    }
    let mut seen = Vec::new();
    for address in args.iter().flat_map(|RedundancyGroup(addresses)| addresses) {
        if seen.contains(address) {
            bail!("--redundancy with {address} a second time, expected each address once");
        }
        seen.push(*address);
    }
    Ok(args.iter().map(|RedundancyGroup(addresses)| addresses.clone()).collect())
}

/// Where a point is, and where it is commanded.
fn place(point: &PointConfig, common_address: u16) -> Option<StationPlace> {
    let of_list = point.address.iec104()?;
    let output = of_list.output.as_ref().map(|Iec104Output { address, command, mode, .. }| {
        let rule = match mode {
            Some(CommandMode::SelectBeforeOperate) => SelectRule::Select,
            Some(CommandMode::DirectOperate) => SelectRule::Direct,
            None => SelectRule::Either,
        };
        StationOutput { address: *address, form: command_form(*command), rule }
    });
    let common_address = of_list.common_address.unwrap_or(common_address);
    let Iec104Served { group, is_cyclic } = of_list.served;
    Some(StationPlace { common_address, address: of_list.address, form: form(of_list.kind), output, group, is_cyclic })
}

/// Reports objects that two points are commanded by, and points that are twice there once they have a common address.
fn check_outputs(file: &Path, points: &[PointConfig], lines: &[u64], common_address: u16) -> Result<(), ConfigError> {
    let (mut findings, mut seen, mut outputs) = (Findings::default(), Vec::new(), Vec::new());
    for (point, line) in points.iter().zip(lines) {
        let Some(place) = place(point, common_address) else { continue };
        let mut report = |key: &str, found: String| {
            let line = usize::try_from(*line).unwrap_or(usize::MAX);
            let (file, expected) = (file.display().to_string(), "each object once".to_owned());
            findings.push(Finding { file, line, column: 1, key: key.to_owned(), found, expected });
        };
        let at = (place.common_address, place.address);
        if seen.contains(&at) {
            report("index", format!("{} a second time", place.address));
        }
        seen.push(at);
        let Some(output) = place.output.map(|output| (place.common_address, output.address)) else { continue };
        if outputs.contains(&output) {
            report("control", format!("{} a second time", output.1));
        }
        outputs.push(output);
    }
    if findings.is_empty() { Ok(()) } else { Err(ConfigError(findings.sorted())) }
}

const fn form(kind: Iec104Kind) -> Form {
    match kind {
        Iec104Kind::SinglePoint => Form::SinglePoint,
        Iec104Kind::DoublePoint => Form::DoublePoint,
        Iec104Kind::StepPosition => Form::Step,
        Iec104Kind::Bitstring => Form::Bits,
        Iec104Kind::Normalized => Form::Normalized,
        Iec104Kind::Scaled => Form::Scaled,
        Iec104Kind::ShortFloat => Form::Short,
        Iec104Kind::IntegratedTotals => Form::Totals,
        Iec104Kind::ProtectionEvent => Form::ProtectionEvent,
        Iec104Kind::ProtectionStart => Form::ProtectionStart,
        Iec104Kind::ProtectionOutput => Form::ProtectionOutput,
        Iec104Kind::StatusChange => Form::StatusChange,
    }
}

const fn command_form(command: Iec104Command) -> Form {
    match command {
        Iec104Command::Single => Form::SingleCommand,
        Iec104Command::Double => Form::DoubleCommand,
        Iec104Command::Step => Form::StepCommand,
        Iec104Command::Normalized => Form::SetNormalized,
        Iec104Command::Scaled => Form::SetScaled,
        Iec104Command::ShortFloat => Form::SetShort,
        Iec104Command::Bitstring => Form::SetBits,
    }
}

async fn serve(shard: Rc<Shard>, served: Served, mut asked: mpsc::Receiver<Asked>, report: Report) {
    let Served { station, service, json } = served;
    let station = match station.station(shard.now(), json) {
        Ok(station) => Rc::new(RefCell::new(station)),
        Err((_, error)) => return drop(report.send(Err(std::io::Error::other(error)))),
    };
    let database = station.borrow().database();
    let clients = match iec104::serve(&shard, &service, database, Rc::clone(&station)).await {
        Ok((address, clients)) => {
            let _ = report.send(address.ok_or_else(|| std::io::Error::other("no address is listened on")));
            clients
        }
        Err(error) => return drop(report.send(Err(error))),
    };
    let mut ticks = tokio::time::interval(SHOW_EVERY);
    let mut has_operator = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let changes = station.borrow_mut().show(shard.now());
                clients.report(&changes);
                if service.config.is_treated {
                    let presence = station.borrow_mut().presence(shard.now());
                    clients.attend(presence);
                }
            }
            line = asked.recv(), if has_operator => match line {
                Some(Asked { point, value, answer }) => {
                    let set = station.borrow_mut().set(shard.now(), &point, &value);
                    let _ = answer.send(set.map(|changes| clients.report(&changes)).map_err(|error| error.to_string()));
                }
                // The server goes on.
                None => has_operator = false,
            },
        }
    }
}
