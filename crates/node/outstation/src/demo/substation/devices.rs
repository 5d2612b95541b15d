//! The intelligent devices of the demo's substation: which values of the model each shows, and which commands it takes.

use super::model::{Breaker, Feeder, Substation};
use crate::demo::{Report, SEED, SPEED, START_S, SiteFiles, TICK, spawn};
use crate::server::{Happening, OutstationServer, Teller, closes, number};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tieline_dnp3::app::CommandStatus;
use tieline_dnp3::outstation::{
    ControlHandler, Database, Operate, OutstationConfig, PointConfig as Reporting, UnsolicitedConfig,
};
use tieline_dnp3::{Control, DoubleBit, Flags, Measured, Measurement, PointType};
use tieline_net::{Shard, ShardThread};

/// What a device is.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Incomer,
    Transformer,
    Relay(usize),
    Meter(usize),
    Inverter(usize),
}

/// Each device: its topic, and what it is. Its link address is its place in this list plus ten.
const DEVICES: [(&str, Kind); 8] = [
    ("demo/substation/incomer", Kind::Incomer),
    ("demo/substation/transformer", Kind::Transformer),
    ("demo/feeder1/relay", Kind::Relay(0)),
    ("demo/feeder1/meter", Kind::Meter(0)),
    ("demo/feeder1/pv", Kind::Inverter(0)),
    ("demo/feeder2/relay", Kind::Relay(1)),
    ("demo/feeder2/meter", Kind::Meter(1)),
    ("demo/feeder2/pv", Kind::Inverter(1)),
];

impl Kind {
    const fn list(self) -> (&'static str, &'static str) {
        match self {
            Self::Incomer => ("incomer.csv", include_str!("incomer.csv")),
            Self::Transformer => ("transformer.csv", include_str!("transformer.csv")),
            Self::Relay(_) => ("relay.csv", include_str!("relay.csv")),
            Self::Meter(_) => ("meter.csv", include_str!("meter.csv")),
            Self::Inverter(_) => ("inverter.csv", include_str!("inverter.csv")),
        }
    }

    /// The raw values of the device's points.
    fn shown(self, station: &Substation) -> Vec<(PointType, u16, Measured)> {
        match self {
            Self::Incomer => {
                let clock = format!("{:02}:{:02}", (station.day_s / 3600.0) as u8, (station.day_s / 60.0) as u32 % 60);
                let mut shown = breaker(&station.incomer);
                shown.push((PointType::Analog, 0, Measured::Analog(rounded(station.bus_kv, 1000.0))));
                shown.push((PointType::Analog, 1, Measured::Analog((station.hertz * 1000.0).round())));
                shown.push((PointType::OctetString, 0, Measured::Bytes(clock.into_bytes().into())));
                shown
            }
            Self::Transformer => vec![
                (PointType::Analog, 0, Measured::Analog(rounded(station.transformer_kw(), 10.0))),
                (PointType::Analog, 1, Measured::Analog((station.oil_c * 10.0).round())),
                (PointType::AnalogOutput, 0, Measured::Analog(station.tap.into())),
            ],
            Self::Relay(at) => station.feeders.get(at).map(relay).unwrap_or_default(),
            Self::Meter(at) => station.feeders.get(at).map(meter).unwrap_or_default(),
            Self::Inverter(at) => station.feeders.get(at).map(inverter).unwrap_or_default(),
        }
    }
}

fn rounded(x: f64, parts: f64) -> f64 {
    (x * parts).round() / parts
}

fn breaker(breaker: &Breaker) -> Vec<(PointType, u16, Measured)> {
    let position = if breaker.closed { DoubleBit::On } else { DoubleBit::Off };
    vec![
        (PointType::BinaryOutput, 0, Measured::Bit(breaker.closed)),
        (PointType::DoubleBit, 0, Measured::DoubleBit(position)),
        (PointType::Counter, 0, Measured::Count(breaker.operations)),
    ]
}

fn relay(feeder: &Feeder) -> Vec<(PointType, u16, Measured)> {
    let mut shown = breaker(&feeder.breaker);
    shown.push((PointType::Analog, 0, Measured::Analog(rounded(feeder.amps, 10.0))));
    shown.push((PointType::Analog, 1, Measured::Analog(rounded(feeder.net_kw(), 10.0))));
    shown
}

fn meter(feeder: &Feeder) -> Vec<(PointType, u16, Measured)> {
    vec![
        (PointType::Analog, 0, Measured::Analog(rounded(feeder.load_kw, 10.0))),
        (PointType::Analog, 1, Measured::Analog(rounded(feeder.load_kvar, 10.0))),
        (PointType::Counter, 0, Measured::Count(feeder.energy_kwh as u32)),
    ]
}

fn inverter(feeder: &Feeder) -> Vec<(PointType, u16, Measured)> {
    vec![
        (PointType::Analog, 0, Measured::Analog(rounded(feeder.pv.kw, 10.0))),
        (PointType::Analog, 1, Measured::Analog(feeder.pv.irradiance.round())),
        (PointType::Binary, 0, Measured::Bit(feeder.pv.kw > 0.0)),
        (PointType::BinaryOutput, 0, Measured::Bit(feeder.pv.enabled)),
        (PointType::AnalogOutput, 0, Measured::Analog(rounded(feeder.pv.limit_percent, 10.0))),
    ]
}

/// The model, shared by the outstations; only their thread uses it.
#[derive(Clone, Debug)]
struct Shared(Arc<Mutex<Substation>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Substation> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an operator may do to a device.
struct Controls {
    kind: Kind,
    shared: Shared,
}

impl Controls {
    /// What a control means; none where the device has no such output.
    fn meaning(&self, index: u16, control: &Control) -> Option<Action> {
        match (self.kind, control, index) {
            (Kind::Incomer, Control::Crob(crob), 0) => Some(Action::Incomer(closes(*crob)?)),
            (Kind::Relay(at), Control::Crob(crob), 0) => Some(Action::Feeder(at, closes(*crob)?)),
            (Kind::Inverter(at), Control::Crob(crob), 0) => Some(Action::Enable(at, closes(*crob)?)),
            (Kind::Inverter(at), Control::Analog(command), 0) => Some(Action::Limit(at, number(*command))),
            (Kind::Transformer, Control::Analog(command), 0) => Some(Action::Tap(number(*command))),
            _ => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Action {
    Incomer(bool),
    Feeder(usize, bool),
    Enable(usize, bool),
    Limit(usize, f64),
    Tap(f64),
}

impl Action {
    fn check(self) -> CommandStatus {
        match self {
            Self::Limit(_, percent) if !(0.0..=100.0).contains(&percent) => CommandStatus::OutOfRange,
            Self::Tap(tap) if !(-8.0..=8.0).contains(&tap) => CommandStatus::OutOfRange,
            Self::Incomer(_) | Self::Feeder(..) | Self::Enable(..) | Self::Limit(..) | Self::Tap(_) => {
                CommandStatus::Success
            }
        }
    }

    fn take(self, station: &mut Substation) {
        match self {
            Self::Incomer(close) => station.incomer.operate(close),
            Self::Feeder(at, close) => station.feeders.get_mut(at).into_iter().for_each(|f| f.breaker.operate(close)),
            Self::Enable(at, on) => station.feeders.get_mut(at).into_iter().for_each(|f| f.pv.enabled = on),
            Self::Limit(at, to) => station.feeders.get_mut(at).into_iter().for_each(|f| f.pv.limit_percent = to),
            #[expect(clippy::cast_possible_truncation, reason = "checked to be from -8 to 8")]
            Self::Tap(tap) => station.tap = tap.round() as i8,
        }
        station.step(0.0);
    }
}

impl ControlHandler for Controls {
    fn select(&mut self, index: u16, control: &Control) -> CommandStatus {
        self.meaning(index, control).map_or(CommandStatus::NotSupported, Action::check)
    }

    fn operate(&mut self, index: u16, control: &Control, _how: Operate) -> CommandStatus {
        let Some(action) = self.meaning(index, control) else { return CommandStatus::NotSupported };
        let status = action.check();
        if status == CommandStatus::Success {
            action.take(&mut self.shared.lock());
        }
        status
    }
}

/// Starts the outstations.
///
/// # Errors
/// A port or a thread cannot be had.
pub fn start() -> std::io::Result<(ShardThread, SiteFiles)> {
    let (thread, addresses) = spawn(serve)?;
    Ok((thread, files(&addresses)))
}

async fn serve(shard: Rc<Shard>, report: Report<Vec<SocketAddr>>) {
    match start_outstations(&shard).await {
        Ok((addresses, stations, shared)) => {
            let _ = report.send(Ok(addresses));
            run(&stations, &shared).await;
        }
        Err(error) => drop(report.send(Err(error))),
    }
}

async fn start_outstations(
    shard: &Rc<Shard>,
) -> std::io::Result<(Vec<SocketAddr>, Vec<(Kind, OutstationServer)>, Shared)> {
    let mut model = Substation::new(SEED, START_S);
    model.step(1.0);
    let shared = Shared(Arc::new(Mutex::new(model)));
    let (mut addresses, mut stations) = (Vec::new(), Vec::new());
    for ((_, kind), address) in DEVICES.into_iter().zip(10..) {
        let unsolicited = Some(UnsolicitedConfig::default());
        let config = OutstationConfig { address, unsolicited, ..OutstationConfig::default() };
        let controls = Box::new(Controls { kind, shared: shared.clone() });
        let after = shared.clone();
        // An operation shows at once, not at the next tick.
        let tell: Teller = Rc::new(RefCell::new(move |session: &_, now, happening| {
            if let Happening::Event(tieline_dnp3::outstation::OutstationEvent::Operated { .. }) = happening {
                show(session, now, kind, &after.lock());
            }
        }));
        let database = database(kind, &shared.lock());
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let station = OutstationServer::start(shard, listen, config, database, controls, tell).await?;
        addresses.push(station.address());
        stations.push((kind, station));
    }
    Ok((addresses, stations, shared))
}

fn database(kind: Kind, station: &Substation) -> Database {
    let mut database = Database::new();
    for measurement in measurements(kind, station) {
        let point_type = measurement.point_type;
        // A static analog in floating point, so that the demo shows fractions.
        let mut config = Reporting::of(point_type);
        if matches!(point_type, PointType::Analog | PointType::AnalogOutput) {
            (config.static_variation, config.event_variation) = (5, 7);
        }
        if point_type == PointType::AnalogOutput {
            config.static_variation = 3;
        }
        let _ = database.add(point_type, measurement.index, config);
        let _ = database.set(measurement);
    }
    database
}

fn measurements(kind: Kind, station: &Substation) -> impl Iterator<Item = Measurement> {
    let shown = kind.shown(station).into_iter();
    shown.map(|(point_type, index, value)| Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None })
}

fn show(
    session: &tieline_net::Session<tieline_dnp3::outstation::Outstation>,
    now: tieline_core::Now,
    kind: Kind,
    station: &Substation,
) {
    let _ = session.with(|outstation, _| outstation.update_all(now, measurements(kind, station)));
}

async fn run(stations: &[(Kind, OutstationServer)], shared: &Shared) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        let mut model = shared.lock();
        model.step(f64::from(SPEED) * TICK.as_secs_f64());
        for (kind, station) in stations {
            let now = station.session().shard().now();
            show(station.session(), now, *kind, &model);
        }
    }
}

fn files(addresses: &[SocketAddr]) -> SiteFiles {
    let mut config = String::from(
        "# Written by tieline run --demo at each start: what collects from the demo's outstations.\n\n[node]\nname = \"demo\"\n\n\
         [alarm]\nrules = \"alarms.csv\"\n\n[console]\ndiagrams = \"diagrams\"\nboards = \"boards\"\n",
    );
    for (((topic, kind), address), link) in DEVICES.into_iter().zip(addresses).zip(10..) {
        let (file, _) = kind.list();
        let name = topic.trim_start_matches("demo/").replace('/', "-");
        let _ = write!(
            config,
            "\n[device.{name}]\ntopic = \"{topic}\"\nprotocol = \"dnp3\"\naddress = \"{address}\"\npoints = \"{file}\"\n\
             poll = {{ integrity = \"1m\" }}\n\n[device.{name}.dnp3]\noutstation = {link}\n"
        );
    }
    let diagram = ("diagrams/substation.svg", include_str!("substation.svg"));
    let board = ("boards/feeders.toml", include_str!("feeders.toml"));
    let rules = ("alarms.csv", include_str!("alarms.csv"));
    SiteFiles { config, lists: DEVICES.iter().map(|(_, kind)| kind.list()).chain([rules, diagram, board]).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The types and indices of a point list, which begins with `name,type,index`.
    fn listed(kind: Kind) -> Vec<(PointType, u16)> {
        let point = |row: &str| {
            let mut cells = row.split(',').skip(1);
            Some((PointType::from_name(cells.next()?)?, cells.next()?.parse().ok()?))
        };
        kind.list().1.lines().skip(1).map(|row| point(row).unwrap()).collect()
    }

    #[test]
    fn every_point_of_every_list_has_a_value() {
        let station = Substation::new(SEED, START_S);
        for (topic, kind) in DEVICES {
            let mut listed = listed(kind);
            let mut shown: Vec<_> = kind.shown(&station).iter().map(|(t, i, _)| (*t, *i)).collect();
            listed.sort_unstable();
            shown.sort_unstable();
            assert_eq!(listed, shown, "{topic}");
        }
    }

    #[test]
    fn operating_a_breaker_moves_the_model_and_a_wild_set_point_is_refused() {
        let shared = Shared(Arc::new(Mutex::new(Substation::new(SEED, 12.0 * 3600.0))));
        let mut relay = Controls { kind: Kind::Relay(0), shared: shared.clone() };
        let trip = Control::Crob(tieline_dnp3::Crob { code: 0x81, count: 1, on_ms: 100, off_ms: 100 });
        assert_eq!(relay.operate(0, &trip, Operate::Direct), CommandStatus::Success);
        assert!(!shared.lock().feeders[0].breaker.closed && shared.lock().feeders[1].breaker.closed);
        assert_eq!(relay.select(1, &trip), CommandStatus::NotSupported);
        let mut tap = Controls { kind: Kind::Transformer, shared };
        let far = Control::Analog(tieline_dnp3::AnalogCommand::Int16(9));
        assert_eq!(tap.select(0, &far), CommandStatus::OutOfRange);
    }
}
