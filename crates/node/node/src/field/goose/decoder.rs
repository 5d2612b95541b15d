//! What a trace of a GOOSE device says.

use crate::config::PointConfig;
use crate::trace::{Capture, Decoder, Message};
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;
use tieline_goose::{Message as Goose, shown_data, shown_head};
use tieline_net::Direction;

/// Reads the frames of a device.
pub(super) struct GooseDecoder {
    points: Arc<[PointConfig]>,
    wanted: Option<usize>,
}

impl GooseDecoder {
    pub(super) const fn new(points: Arc<[PointConfig]>, wanted: Option<usize>) -> Self {
        Self { points, wanted }
    }

    fn message(&self, message: &Goose<'_>, frame: &[u8]) -> Message {
        let all_data = message.pdu.all_data;
        let is_about = |point: usize| {
            let place = self.points.get(point).and_then(|point| point.address.goose());
            place.is_some_and(|place| all_data.find(&place.path).is_some())
        };
        let (points, has_point) = Message::points_of(self.points.len(), self.wanted, is_about);
        let (summary, details, fields) = (shown_head(message), vec![shown_data(all_data)], fields(message));
        Message { summary, details, points, has_point, fields, frame: frame.to_vec(), ..Message::default() }
    }
}

fn fields(message: &Goose<'_>) -> Map<String, Json> {
    let head = &message.pdu.head;
    let fields = [
        ("control_block", json!(head.gocb_ref)),
        ("app_id", json!(message.frame.app_id)),
        ("st_num", json!(head.st_num)),
        ("sq_num", json!(head.sq_num)),
        ("conf_rev", json!(head.conf_rev)),
        ("time_allowed_ms", json!(head.time_allowed_ms)),
        ("simulated", json!(message.is_simulated())),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Decoder for GooseDecoder {
    fn push(&mut self, _connection: u8, _direction: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
        messages.push(match Goose::parse(bytes) {
            Ok(message) => self.message(&message, bytes),
            Err(error) => {
                let (summary, frame) = ("a frame that cannot be read".to_owned(), bytes.to_vec());
                Message { summary, error: Some(error.to_string()), frame, ..Message::default() }
            }
        });
    }

    fn restart(&mut self, _connection: u8, _messages: &mut Vec<Message>) {}

    fn capture(&self) -> Capture {
        Capture::Frames
    }
}
