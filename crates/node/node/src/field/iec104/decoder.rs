//! What a trace of an IEC 104 device says.

use crate::config::PointConfig;
use crate::trace::{Capture, Decoder, Message};
use std::sync::Arc;
use tieline_iec104::{Apdu, ApduError, Asdu, Framer, Object};
use tieline_net::Direction;

/// The port of IEC 60870-5-104.
const PORT: u16 = 2404;

/// Follows the connection of a device.
pub(super) struct Iec104Decoder {
    /// Of what was received, then of what was sent.
    framers: [Framer; 2],
    points: Arc<[PointConfig]>,
    /// Of points that do not say.
    common_address: u16,
    wanted: Option<usize>,
}

impl Iec104Decoder {
    pub(super) fn new(points: Arc<[PointConfig]>, common_address: u16, wanted: Option<usize>) -> Self {
        Self { framers: Default::default(), points, common_address, wanted }
    }

    fn message(&self, frame: Result<Apdu<'_>, ApduError>) -> Message {
        match frame {
            Ok(Apdu::U(control)) => said(control.name().to_owned()),
            Ok(Apdu::S { receive }) => said(format!("S N(R) {receive}")),
            Ok(Apdu::I { send, receive, asdu }) => match Asdu::parse(asdu) {
                Ok(asdu) => self.asdu(&format!("I {send} {receive}"), &asdu),
                Err(error) => {
                    let summary = format!("I {send} {receive} {} bytes", asdu.len());
                    Message { summary, error: Some(error.to_string()), ..Message::default() }
                }
            },
            Err(error) => Message { error: Some(error.to_string()), ..said("no frame".to_owned()) },
        }
    }

    fn asdu(&self, numbers: &str, asdu: &Asdu<'_>) -> Message {
        let (header, objects) = (asdu.header, asdu.objects().collect::<Vec<Object>>());
        let cause = header.cause;
        let refusal = if cause.is_negative { ", negative" } else { "" };
        let test = if cause.is_test { ", test" } else { "" };
        let name = header.type_id.name().unwrap_or_default();
        let (code, common_address, count) = (cause.code.name(), header.common_address, objects.len());
        let summary =
            format!("{numbers} {name} {code}{refusal}{test}, common address {common_address}, objects {count}");
        let details = objects.iter().map(|object| format!("{} {:?} {:?}", object.address, object.element, object.time));
        let is_about = |point: usize| {
            let address = self.points.get(point).and_then(|point| point.address.iec104());
            address.is_some_and(|point| {
                let output = point.output.map(|output| output.address);
                let is_named = |object: &Object| object.address == point.address || Some(object.address) == output;
                point.common_address.unwrap_or(self.common_address) == common_address && objects.iter().any(is_named)
            })
        };
        let (points, has_point) = Message::points_of(self.points.len(), self.wanted, is_about);
        let error = cause.is_negative.then(|| format!("refused with cause {}", cause.code));
        Message { summary, details: details.collect(), error, points, has_point, ..Message::default() }
    }
}

fn said(summary: String) -> Message {
    Message { summary, ..Message::default() }
}

impl Decoder for Iec104Decoder {
    fn push(&mut self, _connection: u8, direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        let place = match direction {
            Direction::Received => 0,
            Direction::Sent => 1,
        };
        let mut framer = self.framers.get_mut(place).map(std::mem::take).unwrap_or_default();
        framer.decode(bytes, |frame| {
            messages.push(self.message(frame));
            true
        });
        if let Some(kept) = self.framers.get_mut(place) {
            *kept = framer;
        }
    }

    fn restart(&mut self, _connection: u8, _messages: &mut Vec<Message>) {
        self.framers = Default::default();
    }

    fn capture(&self) -> Capture {
        Capture::Stream { port: PORT }
    }
}
