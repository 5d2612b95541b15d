//! What a trace of a Modbus device says.

use super::super::driver::transport_of;
use super::{framing_of, modbus_of};
use crate::config::{DeviceConfig, PointConfig};
use crate::trace::{Capture, Decoder, Message};
use serde_json::{Map, Value as Json, json};
use std::io;
use std::sync::Arc;
use tieline_modbus::dissect::{Dissector, Entry, Sender, Span};
use tieline_modbus::{Framing, Table, Unit};
use tieline_net::Direction;

/// The port of Modbus (Messaging on TCP/IP 4.3.1).
const PORT: u16 = 502;

/// Follows the connection of a device.
pub(super) struct ModbusDecoder {
    dissector: Dissector,
    framing: Framing,
    unit: Unit,
    points: Arc<[PointConfig]>,
    first_address: u16,
    wanted: Option<usize>,
}

impl ModbusDecoder {
    pub(super) fn new(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Self> {
        let modbus = modbus_of(config)?;
        let framing = framing_of(modbus, transport_of(config)?);
        let dissector = Dissector::new(framing);
        let (unit, points, first_address) = (modbus.unit, Arc::clone(&config.points), modbus.first_address);
        Ok(Self { dissector, framing, unit, points, first_address, wanted })
    }

    fn message(&self, entry: Entry) -> Message {
        let is_about = |point: usize| {
            let address = self.points.get(point).and_then(|point| point.address.modbus());
            address.is_some_and(|point| {
                let start = point.address.saturating_sub(self.first_address);
                let place = Span { table: point.table, start, count: point.count() };
                entry.spans.iter().any(|span| span.overlaps(&place))
            })
        };
        // A broadcast is of all units.
        let is_of_another = entry.unit.is_some_and(|unit| unit != self.unit && unit != Unit::BROADCAST);
        let (points, has_point) = match is_of_another || entry.spans.is_empty() {
            true => (Vec::new(), false),
            false => Message::points_of(self.points.len(), self.wanted, is_about),
        };
        let fields = fields(&entry);
        let Entry { summary, refusal, frame, .. } = entry;
        Message { summary, error: refusal, points, has_point, is_of_another, fields, frame, ..Message::default() }
    }
}

fn fields(entry: &Entry) -> Map<String, Json> {
    let spans = entry.spans.iter().map(|span| {
        let table = match span.table {
            Table::Coils => "coil",
            Table::DiscreteInputs => "discrete-input",
            Table::HoldingRegisters => "holding-register",
            Table::InputRegisters => "input-register",
        };
        json!({ "table": table, "start": span.start, "count": span.count })
    });
    let fields = [
        ("transaction", json!(entry.transaction)),
        ("unit", json!(entry.unit.map(|unit| unit.0))),
        ("function", json!(entry.function)),
        ("addresses", Json::Array(spans.collect())),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Decoder for ModbusDecoder {
    fn push(&mut self, _connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        let sender = match direction {
            Direction::Sent => Sender::Client,
            Direction::Received => Sender::Server,
        };
        let mut entries = Vec::new();
        self.dissector.push(sender, bytes, &mut entries);
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn restart(&mut self, _connection: u8, messages: &mut Vec<Message>) {
        let mut entries = Vec::new();
        self.dissector.finish(&mut entries);
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn capture(&self) -> Capture {
        match self.framing.is_rtu() {
            true => Capture::Messages { dissector: "mbrtu" },
            false => Capture::Stream { port: PORT },
        }
    }
}
