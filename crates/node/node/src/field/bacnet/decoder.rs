//! What a trace of a BACnet device says.

use super::bacnet_of;
use crate::config::{DeviceConfig, PointConfig};
use crate::trace::{Capture, Decoder, Message};
use serde_json::{Map, Value as Json, json};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tieline_bacnet::bvlc::PORT;
use tieline_bacnet::dissect::{Dissector, Entry, Sender};
use tieline_bacnet::{ObjectId, PropertyId, PropertyRef};
use tieline_net::Direction;

/// Properties that are named in the fields of a message.
const PROPERTIES_MAX: usize = 64;

/// Follows the datagrams of a device.
pub(super) struct BacnetDecoder {
    dissector: Dissector,
    /// None of BACnet/SC.
    address: Option<Ipv4Addr>,
    points: Arc<[PointConfig]>,
    /// By the object that they are of, and by that of their log.
    by_object: HashMap<ObjectId, Vec<usize>>,
    wanted: Option<usize>,
}

impl BacnetDecoder {
    pub(super) fn new(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Self> {
        let bacnet = bacnet_of(config)?;
        let address = bacnet.socket.hub.is_none().then(|| *bacnet.peer.address.ip());
        let mut by_object: HashMap<ObjectId, Vec<usize>> = HashMap::new();
        for (place, point) in config.points.iter().enumerate() {
            let Some(point) = point.address.bacnet() else { continue };
            for object in [point.reference.object].into_iter().chain(point.trend_log) {
                by_object.entry(object).or_default().push(place);
            }
        }
        Ok(Self { dissector: Dissector::new(), address, points: Arc::clone(&config.points), by_object, wanted })
    }

    /// The points that properties are of, in the order of the list.
    fn points_of(&self, properties: &[PropertyRef]) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        for property in properties {
            let here = self.by_object.get(&property.object).into_iter().flatten();
            found.extend(here.copied().filter(|place| {
                let point = self.points.get(*place).and_then(|point| point.address.bacnet());
                point.is_some_and(|point| is_of(property, point))
            }));
        }
        found
    }

    fn message(&self, entry: Entry, datagram: &[u8]) -> Message {
        let about = self.points_of(&entry.properties);
        let has_point = self.wanted.is_some_and(|wanted| about.contains(&wanted));
        let points = about.into_iter().take(Message::POINTS_MAX).collect();
        let fields = fields(&entry);
        let Entry { summary, details, refusal, .. } = entry;
        let frame = datagram.to_vec();
        Message { summary, details, error: refusal, points, has_point, fields, frame, ..Message::default() }
    }
}

/// Whether a property that a message carries is that of a point, says how far to trust it, or is its log.
fn is_of(found: &PropertyRef, point: &crate::config::BacnetPoint) -> bool {
    let wanted = point.reference;
    let is_flags = found.property == PropertyId::STATUS_FLAGS && point.is_present_value();
    let is_index = found.index.is_none() || wanted.index.is_none() || found.index == wanted.index;
    let is_property = found.property == wanted.property || found.property == PropertyId::ALL;
    let is_log = point.trend_log == Some(found.object);
    is_log || (found.object == wanted.object && (is_flags || (is_property && is_index)))
}

fn fields(entry: &Entry) -> Map<String, Json> {
    let mac = |mac: &[u8]| mac.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let properties = entry.properties.iter().take(PROPERTIES_MAX).map(ToString::to_string).collect::<Vec<_>>();
    let fields = [
        ("service", json!(entry.service)),
        ("invoke_id", json!(entry.invoke_id)),
        ("network", json!(entry.station.map(|station| station.network))),
        ("mac", json!(entry.station.map(|station| mac(station.mac.bytes())))),
        ("properties", json!(properties)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Decoder for BacnetDecoder {
    fn push(&mut self, _connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        let sender = match direction {
            Direction::Sent => Sender::Client,
            Direction::Received => Sender::Device,
        };
        let entry = match self.address {
            Some(_) => self.dissector.datagram(sender, bytes),
            None => self.dissector.secure_message(sender, bytes),
        };
        messages.push(self.message(entry, bytes));
    }

    fn restart(&mut self, _connection: u8, _messages: &mut Vec<Message>) {
        self.dissector.restart();
    }

    fn capture(&self) -> Capture {
        match self.address {
            Some(_) => Capture::Datagrams { port: PORT, device: self.address },
            // As Wireshark calls BACnet/SC.
            None => Capture::Messages { dissector: "bscvlc" },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_text;
    use tieline_bacnet::apdu::{Accepts, Apdu};
    use tieline_bacnet::bvlc::Bvlc;
    use tieline_bacnet::names::{ConfirmedService, ErrorClass, ErrorCode};
    use tieline_bacnet::npdu::Npdu;
    use tieline_bacnet::service::{Notification, ReadAck, encode_read_multiple};
    use tieline_bacnet::{ObjectType, ServiceError, Value};

    const LIST: &str = "name,type,index,trend_log\nsupply,analog-input,1,7\nfan,binary-input,2,\n";

    fn decoder(wanted: Option<usize>) -> BacnetDecoder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let text = "[device.d]\nprotocol='bacnet'\naddress='10.0.0.5'\npoints='p.csv'\n";
        let config = from_text("t.toml", text, folder.path()).unwrap();
        BacnetDecoder::new(&config.devices[0], wanted).unwrap()
    }

    fn datagram(apdu: &Apdu<'_>) -> Vec<u8> {
        let (mut bytes, mut npdu, mut datagram) = (Vec::new(), Vec::new(), Vec::new());
        apdu.emit(&mut bytes);
        Npdu::local(&bytes, true).emit(&mut npdu);
        Bvlc::Unicast(&npdu).emit(&mut datagram);
        datagram
    }

    fn take(decoder: &mut BacnetDecoder, direction: Direction, apdu: &Apdu<'_>) -> Message {
        let mut messages = Vec::new();
        decoder.push(0, direction, &datagram(apdu), &mut messages);
        assert_eq!(messages.len(), 1);
        messages.remove(0)
    }

    fn request(service: ConfirmedService, parameters: &[u8]) -> Apdu<'_> {
        let accepts = Accepts { segmented: true, segments_code: 0, apdu_code: 5 };
        Apdu::ConfirmedRequest { segment: None, accepts, invoke_id: 9, service, parameters }
    }

    #[test]
    fn messages_name_the_points_that_they_carry() {
        let supply = ObjectId::new(ObjectType::ANALOG_INPUT, 1);
        let present = PropertyRef::new(supply, PropertyId::PRESENT_VALUE);
        let mut decoder = decoder(Some(0));
        let mut parameters = Vec::new();
        let flags = PropertyRef::new(supply, PropertyId::STATUS_FLAGS);
        let other = PropertyRef::new(ObjectId::new(ObjectType::BINARY_INPUT, 2), PropertyId::PRESENT_VALUE);
        encode_read_multiple(&[present, flags, other], &mut parameters);
        let asked =
            take(&mut decoder, Direction::Sent, &request(ConfirmedService::READ_PROPERTY_MULTIPLE, &parameters));
        assert_eq!((asked.points, asked.has_point), (vec![0, 1], true));
        assert_eq!(asked.fields["service"], "read-property-multiple");
        // An error names no property: it is about those of its request.
        let mut error = Vec::new();
        ServiceError::new(ErrorClass::PROPERTY, ErrorCode::READ_ACCESS_DENIED).emit(&mut error);
        let service = ConfirmedService::READ_PROPERTY_MULTIPLE;
        let refused =
            take(&mut decoder, Direction::Received, &Apdu::Error { invoke_id: 9, service, parameters: &error });
        assert_eq!((refused.points, refused.error.as_deref()), (vec![0, 1], Some("property: read-access-denied")));
        let mut list = Vec::new();
        Notification::emit_value(PropertyId::PRESENT_VALUE, &Value::Real(2.5), &mut list);
        let remaining = std::time::Duration::from_secs(60);
        let told = Notification { process: 1, device: ObjectId::device(3), object: supply, remaining, list: &list };
        let mut parameters = Vec::new();
        told.emit(&mut parameters);
        let told = take(&mut decoder, Direction::Received, &request(ConfirmedService::COV_NOTIFICATION, &parameters));
        assert_eq!((told.points, told.details), (vec![0], vec!["analog-input,1 present-value: 2.5".to_owned()]));
        // Its log is about the point too.
        let log = PropertyRef::new(ObjectId::new(ObjectType::TREND_LOG, 7), PropertyId::LOG_BUFFER);
        let mut value = Vec::new();
        Value::Unsigned(3).encode(&mut value);
        let mut parameters = Vec::new();
        ReadAck { reference: log, value: &value }.emit(&mut parameters);
        let service = ConfirmedService::READ_PROPERTY;
        let ack = Apdu::ComplexAck { segment: None, invoke_id: 10, service, parameters: &parameters };
        assert_eq!(take(&mut decoder, Direction::Received, &ack).points, [0]);
    }

    #[test]
    fn bytes_that_are_no_message_are_errors() {
        let mut messages = Vec::new();
        decoder(None).push(0, Direction::Received, b"\x81\x0a\x00\x09garbage", &mut messages);
        assert_eq!(messages[0].summary, "no message of BACnet/IP");
        assert!(messages[0].error.is_some() && messages[0].frame.ends_with(b"garbage"));
    }
}
