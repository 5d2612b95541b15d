//! A report of 100 values, from an outstation to its master.

use crate::meter::{Meter, Operation};
use tieline_core::{Machine, Now};
use tieline_dnp3::app::Found;
use tieline_dnp3::link::{self, FRAME_BYTES_MAX, Function, Header, LinkAddress, USER_BYTES_MAX};
use tieline_dnp3::master::{Master, MasterConfig, MasterEvent};
use tieline_dnp3::outstation::{Database, EventLimits, Outstation, OutstationConfig, PointConfig, RefuseAll};
use tieline_dnp3::{EventClass, Flags, Measured, Measurement, PointType};

/// Values of a report.
const VALUES: u16 = 100;
/// Exchanges of a start-up at most.
const START_UP: usize = 32;

struct Pair {
    master: Master,
    outstation: Outstation,
    reports: u32,
}

/// Counts the outstation's part.
pub fn encode_report() -> Result<Operation, String> {
    let mut pair = Pair::started()?;
    Ok(Box::new(move |meter| {
        let report = pair.write_report(meter)?;
        pair.read_report(Meter::OFF, &report)
    }))
}

/// Counts the master's part.
pub fn decode_report() -> Result<Operation, String> {
    let mut pair = Pair::started()?;
    Ok(Box::new(move |meter| {
        let report = pair.write_report(Meter::OFF)?;
        pair.read_report(meter, &report)
    }))
}

/// The longest frame there is.
pub fn link_frame() -> Result<Operation, String> {
    let header = Header::new(false, Function::UnconfirmedUserData, LinkAddress::new(1), LinkAddress::new(10));
    let mut frame = Vec::new();
    let user_data: Vec<u8> = (0..=u8::MAX).take(USER_BYTES_MAX).collect();
    header.emit(&user_data, &mut frame);
    if frame.len() != FRAME_BYTES_MAX {
        return Err(format!("a frame of {} bytes", frame.len()));
    }
    let mut decoder = link::Decoder::default();
    Ok(Box::new(move |meter| {
        let user_bytes = meter.count(|| {
            let mut input = frame.as_slice();
            let user_bytes = decoder.decode(&mut input).and_then(Result::ok).map(|frame| frame.user_bytes());
            decoder.release();
            user_bytes
        });
        if user_bytes == Some(USER_BYTES_MAX) { Ok(()) } else { Err("another frame".to_owned()) }
    }))
}

impl Pair {
    fn started() -> Result<Self, String> {
        let mut database = Database::new();
        for index in 0..VALUES {
            let config = PointConfig::of(PointType::Analog).in_class(Some(EventClass::Class1));
            database.add(PointType::Analog, index, config).map_err(|error| error.to_string())?;
        }
        let config = OutstationConfig { event_limits: EventLimits::all(VALUES), ..OutstationConfig::default() };
        let outstation = Outstation::new(config, database, Box::new(RefuseAll));
        let mut pair = Self { master: Master::new(MasterConfig::default()), outstation, reports: 0 };
        let now = Now::default();
        pair.outstation.handle_connected(now);
        pair.master.handle_connected(now);
        for _ in 0..START_UP {
            let answers = transmit(&mut pair.outstation, now);
            give(&mut pair.master, now, &answers, |_| ());
            let requests = transmit(&mut pair.master, now);
            give(&mut pair.outstation, now, &requests, |_| ());
            if answers.is_empty() && requests.is_empty() {
                return Ok(pair);
            }
        }
        Err("the start-up does not end".to_owned())
    }

    /// The outstation's values change, and it says so.
    fn write_report(&mut self, meter: Meter) -> Result<Vec<u8>, String> {
        self.reports += 1;
        let (turn, outstation) = (self.reports * u32::from(VALUES), &mut self.outstation);
        let report = meter.count(|| {
            let updated = outstation.update_all(Now::default(), (0..VALUES).map(|index| measurement(turn, index)));
            updated.map(|()| transmit(outstation, Now::default()))
        });
        report.map_err(|error| error.to_string())
    }

    /// The master reads it, and the outstation gets its confirm.
    fn read_report(&mut self, meter: Meter, report: &[u8]) -> Result<(), String> {
        let (turn, master) = (self.reports * u32::from(VALUES), &mut self.master);
        let mut right = 0;
        meter.count(|| {
            give(master, Now::default(), report, |event| {
                let MasterEvent::Values { values, unsolicited: true } = event else { return };
                values.iter().for_each(|found| match found {
                    Found::Measurement { measurement: found, event: true, .. } => {
                        right += u16::from(found.value == measurement(turn, right).value);
                    }
                    Found::Measurement { .. } | Found::Object { .. } => {}
                });
            });
        });
        let confirm = transmit(&mut self.master, Now::default());
        give(&mut self.outstation, Now::default(), &confirm, |_| ());
        if right == VALUES { Ok(()) } else { Err(format!("{right} values of {VALUES} were right")) }
    }
}

fn measurement(turn: u32, index: u16) -> Measurement {
    let value = Measured::Analog(f64::from(turn + u32::from(index)));
    Measurement { point_type: PointType::Analog, index, value, flags: Flags::ONLINE, stamp: None }
}

fn transmit<M: Machine>(machine: &mut M, now: Now) -> Vec<u8> {
    let mut out = Vec::new();
    while machine.poll_transmit(now, &mut out) {}
    out
}

fn give<M: Machine>(machine: &mut M, now: Now, bytes: &[u8], mut learn: impl FnMut(M::Event)) {
    let mut rest = bytes;
    loop {
        let used = machine.handle_input(now, rest);
        rest = rest.get(used..).unwrap_or_default();
        let mut is_done = used == 0;
        while let Some(event) = machine.poll_event() {
            learn(event);
            is_done = false;
        }
        if is_done || rest.is_empty() {
            return;
        }
    }
}
