//! Devices that report by themselves: outstations of DNP3, and stations of IEC 60870-5-104. All points of a device change
//! together, once an interval, the devices one after the other.

use super::{Board, POINTS, Protocol, Steps, listen};
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::outstation::{
    Database, EventLimits, Outstation, OutstationConfig, OutstationEvent, PointConfig, RefuseAll,
};
use tieline_dnp3::{Classes, EventClass, Measured, Measurement, PointType};
use tieline_iec104 as iec104;
use tieline_net::{Limits, Owner, Session, Shard};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

/// The common address of all stations.
const COMMON_ADDRESS: u16 = 1;

/// Says all values of a device, which have changed.
type Report = Rc<dyn Fn()>;
type Reports = Rc<RefCell<Vec<Report>>>;

/// How many devices, and how often each reports.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub devices: usize,
    pub every: Duration,
}

/// Serves devices of DNP3 or IEC 60870-5-104. Gives their port.
pub fn start(shard: Rc<Shard>, board: Board, protocol: Protocol, pace: Pace) -> io::Result<u16> {
    let listener = listen()?;
    let port = listener.local_addr()?.port();
    let reports = Reports::default();
    tokio::task::spawn_local(report_all(Rc::clone(&reports), pace));
    tokio::task::spawn_local(accept_all(listener, move |stream| {
        let steps = Steps::new(&board);
        let report = match protocol {
            Protocol::Iec104 => serve_station(&shard, stream, steps),
            Protocol::Modbus | Protocol::Bacnet | Protocol::Dnp3 => serve_outstation(&shard, stream, steps),
        };
        reports.borrow_mut().push(report);
    }));
    Ok(port)
}

async fn accept_all(listener: TcpListener, serve: impl Fn(TcpStream)) {
    while let Ok((stream, peer)) = listener.accept().await {
        if peer.ip().is_loopback() && stream.set_nodelay(true).is_ok() {
            serve(stream);
        }
    }
}

/// Lets each device report when it is due.
async fn report_all(reports: Reports, Pace { devices, every }: Pace) {
    let (start, count) = (Instant::now(), u32::try_from(devices).unwrap_or(u32::MAX).max(1));
    for round in 0.. {
        for place in 0..count {
            let due = start + every * round + every * place / count;
            if due > Instant::now() {
                sleep_until(due).await;
            }
            let report = reports.borrow().get(usize::try_from(place).unwrap_or(usize::MAX)).cloned();
            if let Some(report) = report {
                report();
            }
        }
    }
}

/// An outstation with analog inputs of class 1.
fn serve_outstation(shard: &Rc<Shard>, stream: TcpStream, steps: Steps) -> Report {
    let mut database = Database::new();
    for index in 0..POINTS {
        let config = PointConfig::of(PointType::Analog).in_class(Some(EventClass::Class1));
        let _ = database.add(PointType::Analog, index, config);
    }
    database.shrink();
    let config = OutstationConfig { event_limits: EventLimits::all(10 * POINTS), ..OutstationConfig::default() };
    let session = Session::new(shard, Outstation::new(config, database, Box::new(RefuseAll)), Limits::default());
    let is_enabled = Rc::new(Cell::new(false));
    let (served, mut owner) = (session.clone(), Enabled(Rc::clone(&is_enabled)));
    tokio::task::spawn_local(async move { served.run(stream, &mut owner).await });
    let steps = RefCell::new(steps);
    Rc::new(move || {
        if !is_enabled.get() {
            return;
        }
        let values = steps.borrow_mut().next_numbers();
        let measurement = |(index, value): (u16, f32)| Measurement {
            point_type: PointType::Analog,
            index,
            value: Measured::Analog(value.into()),
            flags: tieline_dnp3::Flags::ONLINE,
            stamp: None,
        };
        let _ = session.with(|outstation, now| outstation.update_all(now, (0..).zip(values).map(measurement)));
    })
}

/// Learns whether the node wants reports.
struct Enabled(Rc<Cell<bool>>);

impl Owner<Outstation> for Enabled {
    fn event(&mut self, _session: &Session<Outstation>, _now: Now, event: OutstationEvent) {
        if let OutstationEvent::UnsolicitedEnabled(classes) = event {
            self.0.set(classes.contains(Classes::CLASS_1));
        }
    }
}

/// A station with numbers without a time, which fit one message.
fn serve_station(shard: &Rc<Shard>, stream: TcpStream, steps: Steps) -> Report {
    let mut database = iec104::Database::new(0);
    for point in 0..POINTS {
        let point_config = iec104::Point { is_timed: false, ..iec104::Point::new(element(0.0)) };
        let _ = database.add(COMMON_ADDRESS, address(point), point_config);
    }
    let database = Rc::new(RefCell::new(database));
    let server = iec104::Server::new(iec104::ServerConfig::DEFAULT, Rc::clone(&database));
    let session = Session::new(shard, server, Limits::default());
    let served = session.clone();
    tokio::task::spawn_local(async move { served.run(stream, &mut Silent).await });
    let steps = RefCell::new(steps);
    Rc::new(move || {
        if !session.look(iec104::Server::is_started) {
            return;
        }
        let values = steps.borrow_mut().next_numbers();
        session.with(|server, now| {
            for (point, value) in (0..).zip(values) {
                let place = (COMMON_ADDRESS, address(point));
                let cause = iec104::CauseCode::SPONTANEOUS;
                let change = database.borrow_mut().update(now, place, element(value), cause);
                change.into_iter().for_each(|change| server.report(change));
            }
        });
    })
}

fn address(point: u16) -> iec104::Address {
    iec104::Address::new(Protocol::Iec104.index_of(point).into()).unwrap_or_default()
}

const fn element(value: f32) -> iec104::Element {
    iec104::Element::Short { value, flags: iec104::Flags::GOOD }
}

struct Silent;

impl Owner<iec104::Server> for Silent {
    fn event(&mut self, _session: &Session<iec104::Server>, _now: Now, _event: iec104::ServerEvent) {}
}
