//! What a trace of an IEC 104 device says.

use crate::config::PointConfig;
use crate::trace::{CONNECTION_NAMES, Capture, Decoder, Message};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tieline_iec104::dissect::{Dissector, Entry, Sender};
use tieline_net::Direction;

/// The port of IEC 60870-5-104.
const PORT: u16 = 2404;

/// Follows the connections of a device.
pub(super) struct Iec104Decoder {
    /// By the number of the connection.
    dissectors: BTreeMap<u8, Dissector>,
    points: Arc<[PointConfig]>,
    /// Of points that do not say.
    common_address: u16,
    wanted: Option<usize>,
}

impl Iec104Decoder {
    pub(super) fn new(points: Arc<[PointConfig]>, common_address: u16, wanted: Option<usize>) -> Self {
        Self { dissectors: BTreeMap::new(), points, common_address, wanted }
    }

    fn message(&self, entry: Entry) -> Message {
        let is_about = |point: usize| {
            let address = self.points.get(point).and_then(|point| point.address.iec104());
            address.is_some_and(|point| {
                let output = point.output.map(|output| output.address);
                let common_address = point.common_address.unwrap_or(self.common_address);
                entry.common_address == Some(common_address)
                    && entry.addresses.iter().any(|at| *at == point.address || Some(*at) == output)
            })
        };
        let (points, has_point) = Message::points_of(self.points.len(), self.wanted, is_about);
        let fields = fields(&entry);
        let Entry { summary, refusal, frame, .. } = entry;
        Message { summary, error: refusal, points, has_point, fields, frame, ..Message::default() }
    }
}

fn fields(entry: &Entry) -> Map<String, Json> {
    let addresses = entry.addresses.iter().map(|address| json!(address.raw()));
    let fields = [
        ("type", json!(entry.type_id.map(|type_id| type_id.name()))),
        ("cause", json!(entry.cause.map(|cause| cause.name()))),
        ("common_address", json!(entry.common_address)),
        ("addresses", Json::Array(addresses.collect())),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Decoder for Iec104Decoder {
    fn push(&mut self, connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        let sender = match direction {
            Direction::Sent => Sender::Client,
            Direction::Received => Sender::Server,
        };
        let mut entries = Vec::new();
        self.dissectors.entry(connection).or_default().push(sender, bytes, &mut entries);
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn restart(&mut self, connection: u8, messages: &mut Vec<Message>) {
        let mut entries = Vec::new();
        self.dissectors.entry(connection).or_default().finish(&mut entries);
        messages.extend(entries.into_iter().map(|entry| self.message(entry)));
    }

    fn capture(&self) -> Capture {
        Capture::Stream { port: PORT }
    }

    /// The first is that of `address`, the others those of `iec104.standby` in their order, whichever is started.
    fn connection_name(&self, connection: u8) -> &'static str {
        const STANDBY_BEFORE: usize = 1;
        let [main, ..] = CONNECTION_NAMES;
        match usize::from(connection) {
            0 => main,
            number => CONNECTION_NAMES.get(STANDBY_BEFORE + number).copied().unwrap_or(main),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_the_names_of_their_addresses() {
        let decoder = Iec104Decoder::new([].into(), 1, None);
        let names = [0, 1, 2, 7].map(|number| decoder.connection_name(number));
        assert_eq!(names, ["main", "standby1", "standby2", "standby7"]);
    }
}
