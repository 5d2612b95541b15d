//! `[device.NAME.modbus]`.
//!
//! ```toml
//! [device.meter1]
//! protocol = "modbus"
//! address = "10.1.2.3:502"
//! points = "meter.csv"
//! poll = { every = "5s" }
//! modbus = { unit = 3 }
//! ```

use super::parse;
use super::points::{PointAddress, PointConfig};
use super::reader::{Document, Section};
use std::time::Duration;
use tieline_modbus::layout::{Order, WriteStyle};
use tieline_modbus::plan;
use tieline_modbus::{IN_FLIGHT_MAX, READ_BITS_MAX, READ_REGISTERS_MAX, Unit};
use tieline_transport::{Over, Transport};

const SECOND: Duration = Duration::from_secs(1);

/// `[device.NAME.modbus]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ModbusConfig {
    /// Which device behind the connection.
    pub unit: Unit,
    /// Of the connection; the same for all devices that share it.
    pub line: ModbusLine,
    /// What is read together.
    pub blocks: plan::Limits,
    /// Which functions write.
    pub write: WriteStyle,
    /// The address of the first coil or register in point lists, 0 or 1.
    pub first_address: u16,
    /// Which register comes first, of points that do not say.
    pub words: Order,
    /// Which byte comes first, of points that do not say.
    pub bytes: Order,
}

/// How requests go over a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModbusLine {
    /// Whether frames are those of serial lines.
    pub is_rtu: bool,
    /// Requests that may be out at a time.
    pub in_flight: u8,
    /// How long an answer may take.
    pub timeout: Duration,
    /// How often a read is repeated.
    pub retries: u8,
    /// A pause before each request.
    pub pause: Duration,
}

/// Reads `[device.NAME.modbus]`.
pub fn read_modbus(
    doc: &mut Document<'_>,
    mut s: Section<'_>,
    transport: Option<&Transport>,
    points: &[PointConfig],
) -> ModbusConfig {
    let over = transport.map(|transport| &transport.over);
    if matches!(over, Some(Over::Udp(_))) {
        let expected = "transport = \"tcp\" or \"tls\", or a serial line: Modbus has no datagrams";
        doc.report(s.at(), &s.key("transport"), "udp".to_owned(), expected.to_owned());
    }
    let serial = matches!(over, Some(Over::Serial(_)));
    let is_rtu = s.or(doc, "framing", serial, parse::word(&[("tcp", false), ("rtu", true)]));
    if serial && !is_rtu {
        let expected = "framing = \"rtu\": serial lines have no other frames";
        doc.report(s.value_at("framing"), &s.key("framing"), "tcp".to_owned(), expected.to_owned());
    }
    let unit = s.or(doc, "unit", 1, parse::integer(u8::from(is_rtu)..=if is_rtu { 247 } else { 255 }));
    let line = ModbusLine {
        is_rtu,
        in_flight: s.or(doc, "in_flight", 1, parse::integer(1..=if is_rtu { 1 } else { IN_FLIGHT_MAX })),
        timeout: s.or(doc, "timeout", SECOND, parse::duration(SECOND / 100..=60 * SECOND)),
        retries: s.or(doc, "retries", 1, parse::integer(0..=10)),
        pause: s.or(doc, "pause", Duration::ZERO, parse::duration(Duration::ZERO..=10 * SECOND)),
    };
    let default = plan::Limits::default();
    let blocks = plan::Limits {
        gap_registers_max: s.or(doc, "gap_max", default.gap_registers_max, parse::integer(0..=READ_REGISTERS_MAX)),
        gap_bits_max: s.or(doc, "gap_bits_max", default.gap_bits_max, parse::integer(0..=READ_BITS_MAX)),
        block_registers_max: s.or(doc, "block_max", READ_REGISTERS_MAX, parse::integer(1..=READ_REGISTERS_MAX)),
        block_bits_max: s.or(doc, "block_bits_max", READ_BITS_MAX, parse::integer(1..=READ_BITS_MAX)),
    };
    let write = WriteStyle {
        single: s.or(doc, "write_single", true, parse::boolean),
        mask: s.or(doc, "write_mask", false, parse::boolean),
    };
    let first_address = s.or(doc, "first_address", 0, parse::integer(0..=1));
    let order = || parse::word(&[("big", Order::Big), ("little", Order::Little)]);
    let (words, bytes) = (s.or(doc, "words", Order::Big, order()), s.or(doc, "bytes", Order::Big, order()));
    let config = ModbusConfig { unit: Unit(unit), line, blocks, write, first_address, words, bytes };
    check_points(doc, &s, &config, points);
    s.finish(doc);
    config
}

/// Points that the settings of the device leave out of reach.
fn check_points(doc: &mut Document<'_>, s: &Section<'_>, config: &ModbusConfig, points: &[PointConfig]) {
    for point in points {
        let PointAddress::Modbus(address) = &point.address else { continue };
        if address.address < config.first_address {
            let found = format!("{}, and point {:?} at {}", config.first_address, point.name, address.address);
            let expected = "0, or points from 1 on".to_owned();
            return doc.report(s.value_at("first_address"), &s.key("first_address"), found, expected);
        }
        let (count, max) = (address.count(), config.blocks.block_registers_max);
        if !address.table.is_bits() && count > max {
            let found = format!("{max}, and point {:?} with {count} registers", point.name);
            return doc.report(s.value_at("block_max"), &s.key("block_max"), found, format!("at least {count}"));
        }
    }
}
