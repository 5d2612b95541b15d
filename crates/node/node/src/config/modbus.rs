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

use super::points::{PointAddress, PointConfig};
use super::reader::{Document, Section};
use super::settings::{
    DEVICE_MODBUS_BLOCK_BITS_MAX, DEVICE_MODBUS_BLOCK_MAX, DEVICE_MODBUS_BYTES, DEVICE_MODBUS_FIRST_ADDRESS,
    DEVICE_MODBUS_FRAMING, DEVICE_MODBUS_GAP_BITS_MAX, DEVICE_MODBUS_GAP_MAX, DEVICE_MODBUS_IN_FLIGHT,
    DEVICE_MODBUS_PAUSE, DEVICE_MODBUS_RETRIES, DEVICE_MODBUS_TIMEOUT, DEVICE_MODBUS_UNIT, DEVICE_MODBUS_WORDS,
    DEVICE_MODBUS_WRITE_MASK, DEVICE_MODBUS_WRITE_SINGLE,
};
use std::time::Duration;
use tieline_modbus::Unit;
use tieline_modbus::layout::{Order, WriteStyle};
use tieline_modbus::plan;
use tieline_transport::{Over, Transport};

/// Units behind RTU frames: 0 is a broadcast, and those above are reserved.
const RTU_UNITS: [u8; 2] = [1, 247];

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
        doc.report(s.at(), &s.key("framing"), "transport = \"udp\"".to_owned(), expected.to_owned());
    }
    let serial = matches!(over, Some(Over::Serial(_)));
    let is_rtu = DEVICE_MODBUS_FRAMING.read(&mut s, doc, [false, true]) || (serial && !s.has("framing"));
    if serial && !is_rtu {
        let expected = "framing = \"rtu\": serial lines have no other frames";
        doc.report(s.value_at("framing"), &s.key("framing"), "tcp".to_owned(), expected.to_owned());
    }
    let [first, last] = RTU_UNITS;
    let (unit, in_flight) = match is_rtu {
        true => (DEVICE_MODBUS_UNIT.within(first, last), DEVICE_MODBUS_IN_FLIGHT.within(1, 1)),
        false => (DEVICE_MODBUS_UNIT, DEVICE_MODBUS_IN_FLIGHT),
    };
    let unit = unit.read(&mut s, doc);
    let line = ModbusLine {
        is_rtu,
        in_flight: in_flight.read(&mut s, doc),
        timeout: DEVICE_MODBUS_TIMEOUT.read(&mut s, doc),
        retries: DEVICE_MODBUS_RETRIES.read(&mut s, doc),
        pause: DEVICE_MODBUS_PAUSE.read(&mut s, doc),
    };
    let blocks = plan::Limits {
        gap_registers_max: DEVICE_MODBUS_GAP_MAX.read(&mut s, doc),
        gap_bits_max: DEVICE_MODBUS_GAP_BITS_MAX.read(&mut s, doc),
        block_registers_max: DEVICE_MODBUS_BLOCK_MAX.read(&mut s, doc),
        block_bits_max: DEVICE_MODBUS_BLOCK_BITS_MAX.read(&mut s, doc),
    };
    let write = WriteStyle {
        single: DEVICE_MODBUS_WRITE_SINGLE.read(&mut s, doc),
        mask: DEVICE_MODBUS_WRITE_MASK.read(&mut s, doc),
    };
    let first_address = DEVICE_MODBUS_FIRST_ADDRESS.read(&mut s, doc);
    let orders = [Order::Big, Order::Little];
    let words = DEVICE_MODBUS_WORDS.read(&mut s, doc, orders);
    let bytes = DEVICE_MODBUS_BYTES.read(&mut s, doc, orders);
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

#[cfg(test)]
mod tests {
    use crate::config::{ConfigError, from_text};

    /// What is wrong with a list of points, and with the device that names it.
    fn check(keys: &str, list: &str, expect: &[&str]) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = format!("[device.d]\nprotocol='modbus'\npoints='p.csv'\n{keys}\n");
        let shown: Vec<String> = match from_text("t.toml", &text, folder.path()) {
            Ok(_) => Vec::new(),
            Err(ConfigError(all)) => all.iter().map(ToString::to_string).collect(),
        };
        let folder = format!("{}/", folder.path().display());
        assert_eq!(shown.iter().map(|line| line.replace(&folder, "")).collect::<Vec<_>>(), expect, "{keys}\n{list}");
    }

    const LIST: &str = "name,type,index\na,holding-register,0\n";

    #[test]
    fn points_are_read_or_say_what_is_wrong() {
        let good = "name,type,index,format,order,every,writable,min\na,holding-register,7,f32,cdab,2s,true,-5\n\
                    b,holding-register,7,bit[3],,,,\nc,input-register,65535,,,,,\nd,coil,0,,,,true,\ne,input-register,9,>2H,,,,\n";
        check("address='h:1'", good, &[]);
        check(
            "address='h:1'",
            "name,type,index,format,order,every,writable,mode\na,register,0,,,,,\nb,coil,1,u16,,,,\nc,input-register,2,,,,true,\n\
             d,holding-register,65535,u32,,,,\ne,holding-register,3,x8,,,,\nf,holding-register,4,,xyz,1ms,,\n\
             g,holding-register,5,string[8],,,true,\n",
            &[
                "p.csv:1:1: mode: found the unknown column \"mode\", expected one of name, type, index, unit, scale, offset, writable, \
                 min, max, states, tags, description, revert, step_max, rate_max, interval_min, allow_when, \
                 read_back, tolerance, format, order, every, value, curve, noise, decimals",
            ],
        );
        check(
            "address='h:1'",
            "name,type,index,format,order,every,writable\na,register,0,,,,\nb,coil,1,u16,,,\nc,input-register,2,,,,true\n\
             d,holding-register,65535,u32,,,\nf,holding-register,4,,xyz,,\ng,holding-register,5,string[8],,,true\n\
             h,coil,6,,,1ms,\n",
            &[
                "p.csv:2:1: type: found \"register\", expected one of coil, discrete-input, holding-register, input-register",
                "p.csv:3:1: format: found \"u16\", expected bool, or nothing: coils and discrete inputs are bits",
                "p.csv:4:1: writable: found true, expected false: only coils and holding registers can be written",
                "p.csv:5:1: index: found 65535 and 2 registers, expected registers up to 65535",
                "p.csv:6:1: order: found \"xyz\", expected abcd, cdab (the low word first), badc (the low byte first in each word) or dcba",
                "p.csv:7:1: writable: found true, expected false: texts and bytes cannot be commanded",
                "p.csv:8:1: every: found \"1ms\", expected an interval from 100ms to 7d, as in 1s",
            ],
        );
    }

    #[test]
    fn settings_are_read_or_say_what_is_wrong() {
        check("serial.port='/dev/ttyS0'\nmodbus.unit=247", LIST, &[]);
        check(
            "address='h:1'\ntransport='udp'",
            LIST,
            &[
                "t.toml:1:1: device.d.modbus.framing: found transport = \"udp\", expected transport = \"tcp\" or \"tls\", or a serial line: Modbus has no datagrams",
            ],
        );
        check(
            "serial.port='/dev/ttyS0'\nmodbus={framing='tcp'}",
            LIST,
            &[
                "t.toml:5:17: device.d.modbus.framing: found tcp, expected framing = \"rtu\": serial lines have no other frames",
            ],
        );
        check(
            "address='h:1'\nmodbus={first_address=1}",
            LIST,
            &[
                "t.toml:5:23: device.d.modbus.first_address: found 1, and point \"a\" at 0, expected 0, or points from 1 on",
            ],
        );
        check(
            "address='h:1'\nmodbus={block_max=2}",
            "name,type,index,format\na,holding-register,0,f64\n",
            &["t.toml:5:19: device.d.modbus.block_max: found 2, and point \"a\" with 4 registers, expected at least 4"],
        );
    }

    #[test]
    fn devices_of_a_channel_agree() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let device = |name: &str, modbus: &str| {
            format!("[device.{name}]\nprotocol='modbus'\nchannel='c'\npoints='p.csv'\nmodbus={{{modbus}}}\n")
        };
        let channel = "[channel.c]\naddress='h:1'\n";
        let check = |one: &str, other: &str, expect: Option<&str>| {
            let text = channel.to_owned() + &device("a", one) + &device("b", other);
            let found = from_text("t.toml", &text, folder.path()).err().map(|error| error.0[0].to_string());
            assert_eq!(found.as_deref(), expect);
        };
        check("unit=1", "unit=2", None);
        let unit = "t.toml:8:1: device.b.modbus.unit: found unit 1 that device.a has on the same channel, expected a unit of its own";
        check("unit=1", "unit=1", Some(unit));
        let line = "t.toml:8:1: device.b.modbus: found another framing, in_flight, timeout, retries or pause than those that \
                    device.a has on the same channel, expected the same for all devices of a channel";
        check("unit=1", "unit=2, in_flight=4", Some(line));
    }
}
