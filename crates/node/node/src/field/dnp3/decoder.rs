//! What a trace of a DNP3 device says.

use super::super::driver::transport_of;
use super::dnp3_of;
use crate::config::{DeviceConfig, Dnp3Point, PointConfig};
use crate::trace::{Capture, Decoder, Message};
use serde_json::{Map, Value as Json, json};
use std::io;
use std::sync::Arc;
use tieline_dnp3::PointType;
use tieline_dnp3::dissect::{Dissector, Entry};
use tieline_dnp3::link::LinkAddress;
use tieline_net::Direction;
use tieline_transport::Over;

/// The port of DNP3 (IEEE 1815 13.2).
const PORT: u16 = 20_000;

/// Follows the connections of a device.
pub(super) struct Dnp3Decoder {
    /// By connection, then by direction.
    dissectors: [[Dissector; 2]; 2],
    is_datagrams: bool,
    outstation: LinkAddress,
    points: Arc<[PointConfig]>,
    wanted: Option<usize>,
}

impl Dnp3Decoder {
    pub(super) fn new(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Self> {
        let outstation = LinkAddress::new(dnp3_of(config)?.outstation);
        let is_datagrams = matches!(transport_of(config)?.over, Over::Udp(_));
        Ok(Self {
            dissectors: Default::default(),
            is_datagrams,
            outstation,
            points: Arc::clone(&config.points),
            wanted,
        })
    }

    const fn dissector(&mut self, connection: u8, direction: Direction) -> &mut Dissector {
        let [main, urgent] = &mut self.dissectors;
        let [received, sent] = if connection == 0 { main } else { urgent };
        match direction {
            Direction::Received => received,
            Direction::Sent => sent,
        }
    }

    fn message(&self, entry: Entry) -> Message {
        let is_about = |point: usize| {
            let address = self.points.get(point).and_then(|point| point.address.dnp3());
            address.is_some_and(|point| names(&entry, point))
        };
        let is_own = |address: LinkAddress| address == self.outstation || !address.is_station();
        let is_of_another = entry.addresses.is_some_and(|(from, to)| !is_own(from) && !is_own(to));
        let (points, has_point) = match is_of_another || entry.points.is_empty() {
            true => (Vec::new(), false),
            false => Message::points_of(self.points.len(), self.wanted, is_about),
        };
        let fields = fields(&entry);
        let Entry { summary, objects, refusal, denial, .. } = entry;
        let error = refusal.or(denial);
        Message { summary, details: objects, error, points, has_point, is_of_another, fields, ..Message::default() }
    }
}

/// Whether a message names a point, or the output that it is commanded by.
fn names(entry: &Entry, point: &Dnp3Point) -> bool {
    let output = point.output.map(|output| u32::from(output.index));
    entry.points.iter().any(|touched| {
        let is_output = matches!(touched.point_type, PointType::BinaryOutput | PointType::AnalogOutput);
        touched.has(point.point_type, point.index.into())
            || (is_output && output.is_some_and(|output| touched.has(touched.point_type, output)))
    })
}

fn fields(entry: &Entry) -> Map<String, Json> {
    let Some((source, destination)) = entry.addresses else { return Map::new() };
    let fields = [("source", source.raw()), ("destination", destination.raw())];
    fields.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

impl Decoder for Dnp3Decoder {
    fn push(&mut self, connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        let (is_datagrams, mut entries) = (self.is_datagrams, Vec::new());
        let dissector = self.dissector(connection, direction);
        match is_datagrams {
            true => dissector.datagram(bytes, &mut entries),
            false => dissector.stream(bytes, &mut entries),
        }
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn restart(&mut self, connection: u8, messages: &mut Vec<Message>) {
        let mut entries = Vec::new();
        for direction in [Direction::Received, Direction::Sent] {
            let dissector = self.dissector(connection, direction);
            dissector.finish(&mut entries);
            *dissector = Dissector::new();
        }
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn capture(&self) -> Capture {
        match self.is_datagrams {
            true => Capture::Datagrams { port: PORT, device: None },
            false => Capture::Stream { port: PORT },
        }
    }
}
