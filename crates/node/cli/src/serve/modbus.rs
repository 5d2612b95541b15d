//! `tieline modbus server`.

use super::args::ModbusServerArgs;
use super::{Asked, Report, listed, load, load_faults, serve_lines, tell};
use crate::log;
use anyhow::Result;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use tieline_modbus::layout::Order;
use tieline_modbus::{Framing, Identity, ServerConfig, Unit};
use tieline_model::Model;
use tieline_net::Shard;
use tieline_node::config::{PointConfig, ProtocolName, ServedPoints};
use tieline_outstation::modbus;
use tieline_outstation::points::{Faults, ListedPoint, ListedPoints, Pace, RegisterPlace, RegistersOfPoints};
use tokio::sync::mpsc;

/// What is served, and where.
struct Served {
    points: Vec<ListedPoint<RegisterPlace>>,
    model: Model,
    name: String,
    pace: Pace,
    faults: Faults,
    listen: SocketAddr,
    config: ServerConfig,
    json: bool,
}

/// Serves until SIGINT, SIGTERM or the line `quit`.
pub fn server(args: &ModbusServerArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let ServedPoints { points, model, .. } = load(&args.file, ProtocolName::Modbus)?;
    let place = |point: &PointConfig| {
        let modbus = point.address.modbus()?;
        let layout = modbus.layout((Order::Big, Order::Big));
        Some(listed(point, RegisterPlace { table: modbus.table, address: modbus.address, layout }))
    };
    let name = args.file.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let config = match args.unit.is_empty() {
        true => ServerConfig::new(Framing::Tcp, Unit(1)),
        false => ServerConfig::gateway(Framing::Tcp, args.unit.iter().copied().map(Unit).collect()),
    };
    let faults = load_faults(args.faults.as_deref(), ProtocolName::Modbus, &points)?;
    let points = points.iter().filter_map(place).collect();
    let (pace, listen, json) = (args.pace.into(), args.listen, args.json);
    let served = Served { points, model, name, pace, faults, listen, config, json };
    serve_lines("modbus", json, move |shard, asked, report| serve(shard, served, asked, report))
}

async fn serve(shard: Rc<Shard>, served: Served, mut asked: mpsc::Receiver<Asked>, report: Report) {
    let Served { points, model, name, pace, faults, listen, config, json } = served;
    let identity = Identity::new("Tieline", &name, env!("CARGO_PKG_VERSION"));
    let listed = ListedPoints::new(points, model, &name, pace, faults, shard.now());
    let device = RegistersOfPoints::new(listed, identity, Box::new(move |now, written| tell(now, &written, json)));
    let device = Rc::new(RefCell::new(device));
    let address = modbus::serve(&shard, listen, config, Rc::clone(&device)).await;
    let is_served = address.is_ok();
    let _ = report.send(address);
    while let Some(Asked { point, value, answer }) = asked.recv().await {
        let set = device.borrow_mut().set(shard.now(), &point, &value);
        let _ = answer.send(set.map_err(|error| error.to_string()));
    }
    if is_served {
        // No more lines come; the server goes on.
        std::future::pending::<()>().await;
    }
}
