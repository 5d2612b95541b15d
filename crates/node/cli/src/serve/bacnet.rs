//! `tieline bacnet server`.

use super::args::BacnetServerArgs;
use super::{Asked, Report, listed, load, load_faults, serve_lines, tell};
use crate::log;
use anyhow::Result;
use std::cell::RefCell;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tieline_bacnet::server::ServerConfig;
use tieline_bacnet::{ObjectId, PropertyId, PropertyRef};
use tieline_model::Model;
use tieline_net::Shard;
use tieline_node::config::{ConfigError, Finding, Findings, ProtocolName, ServedPoints};
use tieline_outstation::bacnet::BacnetServer;
use tieline_outstation::points::{Faults, ListedPoint, ListedPoints, Objects, Pace, serves};
use tokio::sync::mpsc;

/// How often values are shown: subscribers learn of changes so soon.
const SHOW_EVERY: Duration = Duration::from_secs(1);

/// What is served, and where.
struct Served {
    points: Vec<ListedPoint<ObjectId>>,
    model: Model,
    config: ServerConfig,
    pace: Pace,
    faults: Faults,
    listen: SocketAddrV4,
    json: bool,
}

/// Serves until SIGINT, SIGTERM or the line `quit`.
pub fn server(args: &BacnetServerArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let list = load(&args.file, ProtocolName::Bacnet)?;
    let points = place(&args.file, &list)?;
    let stem = || args.file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name = args.name.clone().unwrap_or_else(stem);
    let config = ServerConfig { instance: args.instance, name, ..ServerConfig::default() };
    let faults = load_faults(args.faults.as_deref(), ProtocolName::Bacnet, &list.points)?;
    let (pace, listen, json) = (args.pace.into(), args.listen, args.json);
    let served = Served { points, model: list.model, config, pace, faults, listen, json };
    serve_lines("bacnet", json, move |shard, asked, report| serve(shard, served, asked, report))
}

/// The objects of a list: the present value is all that it says of them.
fn place(file: &Path, list: &ServedPoints) -> Result<Vec<ListedPoint<ObjectId>>, ConfigError> {
    let (mut points, mut findings) = (Vec::new(), Findings::default());
    for ((point, line), at) in list.points.iter().zip(&list.lines).zip(0..) {
        let mut report = |key: &str, found: String, expected: &str| {
            let line = usize::try_from(*line).unwrap_or(usize::MAX);
            let (file, key, expected) = (file.display().to_string(), key.to_owned(), expected.to_owned());
            findings.push(Finding { file, line, column: 1, key, found, expected });
        };
        let Some(PropertyRef { object, property, .. }) = point.address.bacnet().map(|point| point.reference) else {
            continue;
        };
        if !serves(object.object_type()) {
            report("type", format!("{:?}", point.address.type_name()), TYPES);
        } else if property != PropertyId::PRESENT_VALUE {
            report("property", format!("{:?}", property.to_string()), PROPERTIES);
        } else if points.iter().any(|known: &ListedPoint<ObjectId>| known.place == object) {
            report("index", format!("{object} a second time"), "each object once");
        } else {
            let served = listed(point, object);
            let (start, curve) = (list.model.start(at), list.model.bounds(at));
            let wrong = served.check_states(start, curve).filter(|_| object.object_type().is_multi_state());
            if let Some((column, state, expected)) = wrong {
                report(column, format!("the state {state}"), &expected);
            }
            points.push(served);
        }
    }
    if findings.is_empty() { Ok(points) } else { Err(ConfigError(findings.sorted())) }
}

const TYPES: &str = "an analog, binary or multi-state input, output or value: a server has no others";
const PROPERTIES: &str = "present-value: the server has the other properties of its objects by itself";

async fn serve(shard: Rc<Shard>, served: Served, mut asked: mpsc::Receiver<Asked>, report: Report) {
    let Served { points, model, config, pace, faults, listen, json } = served;
    let listed = ListedPoints::new(points, model, &config.name, pace, faults, shard.now());
    let objects = Rc::new(RefCell::new(Objects::new(listed)));
    let (server, written) = (objects.borrow().server(config), Rc::clone(&objects));
    let told = move |server: &mut _, now: tieline_core::Now, event| {
        if let Some(written) = written.borrow_mut().take(now.mono, server, &event) {
            tell(now, &written, json);
        }
    };
    let server = match BacnetServer::start(&shard, listen, server, Rc::clone(&objects), told).await {
        Ok(server) => server,
        Err(error) => return drop(report.send(Err(error))),
    };
    let _ = report.send(Ok(SocketAddr::V4(server.address())));
    let mut ticks = tokio::time::interval(SHOW_EVERY);
    let mut has_operator = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => server.with(|server, now| objects.borrow_mut().show(now, server)),
            line = asked.recv(), if has_operator => match line {
                Some(Asked { point, value, answer }) => {
                    let set = server.with(|server, now| objects.borrow_mut().set(now, server, &point, &value));
                    let _ = answer.send(set.map_err(|error| error.to_string()));
                }
                // The server goes on.
                None => has_operator = false,
            },
        }
    }
}
