//! Records as lines for people and programs.

use super::decoder::{CONNECTION_NAMES, Decoder, Message};
use super::record::{Kind, Record, Records};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use tieline_core::{DeviceId, Timestamp};
use tieline_net::Direction;
use tieline_service::http::parameters::words_schema;

/// Bytes of what is no message that are shown.
const HEX_BYTES_MAX: usize = 64;

/// Which lines are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selected {
    /// Only those that are about the point that the decoder looks for.
    pub point: bool,
    /// Only those that tell of an error.
    pub errors: bool,
}

/// Tells what records say.
pub struct Viewer {
    decoder: Box<dyn Decoder>,
    device: DeviceId,
    names: Arc<[String]>,
    selected: Selected,
}

/// One message, one run of bytes that is none, or one thing that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// When.
    pub at: Timestamp,
    /// Which way, or what happened.
    pub kind: Kind,
    /// On which connection of the device.
    pub connection: &'static str,
    /// Bytes of the read or write that completed it; 0 of what happened.
    pub bytes: usize,
    /// One line.
    pub summary: String,
    /// What it holds, one thing a line.
    pub details: Vec<String>,
    /// The names of the points that it is about.
    pub points: Vec<String>,
    /// What is wrong.
    pub error: Option<String>,
    /// What the protocol says besides.
    pub fields: Map<String, Json>,
}

/// A message, or something that happened.
#[derive(JsonSchema, Serialize)]
pub struct TraceLine<'a> {
    #[schemars(extend("format" = "date-time"))]
    time: String,
    /// Which way the message went, or what happened
    #[schemars(schema_with = "kind_schema")]
    kind: &'static str,
    /// On which connection of the device
    #[schemars(schema_with = "connection_schema")]
    connection: &'static str,
    /// Bytes of the read or write that completed the message
    bytes: usize,
    summary: &'a str,
    details: &'a [String],
    /// The points that the message is about, 64 at most
    points: &'a [String],
    /// What went wrong
    error: Option<&'a str>,
    /// What the protocol says besides, by its own names
    fields: &'a Map<String, Json>,
}

fn kind_schema(_: &mut SchemaGenerator) -> Schema {
    words_schema(Kind::ALL.map(Kind::word)).try_into().unwrap_or_default()
}

fn connection_schema(_: &mut SchemaGenerator) -> Schema {
    words_schema(CONNECTION_NAMES).try_into().unwrap_or_default()
}

impl Line {
    /// The line as the API has it.
    #[must_use]
    pub fn shown(&self) -> TraceLine<'_> {
        TraceLine {
            time: self.at.to_string(),
            kind: self.kind.word(),
            connection: self.connection,
            bytes: self.bytes,
            summary: &self.summary,
            details: &self.details,
            points: &self.points,
            error: self.error.as_deref(),
            fields: &self.fields,
        }
    }

    /// The line as JSON.
    ///
    /// # Errors
    /// It has no such text, which its types rule out.
    pub fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string(&self.shown())
    }
}

impl Viewer {
    /// Of a device, whose points have these names.
    #[must_use]
    pub fn new(decoder: Box<dyn Decoder>, device: DeviceId, names: Arc<[String]>, selected: Selected) -> Self {
        Self { decoder, device, names, selected }
    }

    /// Takes records that follow those of before, and appends the lines that are wanted.
    pub fn read(&mut self, records: &[u8], lines: &mut Vec<Line>) {
        for record in Records(records) {
            self.record(&record, lines);
        }
    }

    fn record(&mut self, record: &Record<'_>, lines: &mut Vec<Line>) {
        let mut messages = Vec::new();
        match record.kind {
            Kind::Received => {
                self.decoder.push(record.connection, Direction::Received, record.payload, &mut messages);
            }
            Kind::Sent => self.decoder.push(record.connection, Direction::Sent, record.payload, &mut messages),
            Kind::Connected | Kind::Closed => self.decoder.restart(record.connection, &mut messages),
            Kind::State | Kind::Failed => {}
        }
        for message in messages {
            let line = self.line(record, message);
            lines.extend(line);
        }
        let note = record.note().filter(|(device, _)| device.is_none_or(|device| device == self.device));
        if let Some((_, text)) = note
            && !self.selected.point
        {
            let connection = self.decoder.connection_name(record.connection);
            lines.extend(noted(record, connection, text).filter(|line| !self.selected.errors || line.error.is_some()));
        }
    }

    fn line(&self, record: &Record<'_>, message: Message) -> Option<Line> {
        let wanted = !message.is_of_another
            && (!self.selected.point || message.has_point)
            && (!self.selected.errors || message.error.is_some());
        let mut details = message.details;
        if message.error.is_some() {
            let bytes = if message.frame.is_empty() { record.payload } else { &message.frame };
            details.push(hex(bytes));
        }
        let name = |point: &usize| self.names.get(*point).cloned();
        wanted.then(|| Line {
            at: record.at,
            kind: record.kind,
            connection: self.decoder.connection_name(record.connection),
            bytes: record.payload.len(),
            summary: message.summary,
            details,
            points: message.points.iter().filter_map(name).collect(),
            error: message.error,
            fields: message.fields,
        })
    }
}

/// What a note says.
fn noted(record: &Record<'_>, connection: &'static str, text: String) -> Option<Line> {
    let (summary, error) = match record.kind {
        Kind::Received | Kind::Sent => return None,
        Kind::Connected => (format!("connected with {text}"), None),
        Kind::Closed => ("connection ended".to_owned(), Some(text)),
        // "away: why", or a word.
        Kind::State => match text.split_once(": ") {
            Some((state, why)) => (format!("device {state}"), Some(why.to_owned())),
            None => (format!("device {text}"), None),
        },
        Kind::Failed => match text.split_once(": ") {
            Some((what, why)) => (what.to_owned(), Some(why.to_owned())),
            None => ("failed".to_owned(), Some(text)),
        },
    };
    Some(Line {
        at: record.at,
        kind: record.kind,
        connection,
        bytes: 0,
        summary,
        details: Vec::new(),
        points: Vec::new(),
        error,
        fields: Map::new(),
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes:", bytes.len());
    bytes.iter().take(HEX_BYTES_MAX).for_each(|byte| text.push_str(&format!(" {byte:02X}")));
    if bytes.len() > HEX_BYTES_MAX {
        text.push_str(" …");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::decoder::Capture;
    use super::super::record::{header, note};
    use super::*;
    use tieline_core::{Instant, Now};

    /// Bytes are numbers of points; 0 is an error, and 255 of another device.
    struct Bytewise(Option<usize>);

    impl Decoder for Bytewise {
        fn push(&mut self, _: u8, _: Direction, bytes: &[u8], messages: &mut Vec<Message>) {
            messages.extend(bytes.iter().map(|byte| {
                let about = usize::from(*byte);
                let (points, has_point) = Message::points_of(2, self.0, |point| point + 1 == about);
                let error = (*byte == 0).then(|| "nothing".to_owned());
                let (summary, is_of_another) = (byte.to_string(), *byte == 255);
                Message { summary, error, points, has_point, is_of_another, ..Message::default() }
            }));
        }

        fn restart(&mut self, _: u8, messages: &mut Vec<Message>) {
            messages.push(Message { summary: "cut".to_owned(), ..Message::default() });
        }

        fn capture(&self) -> Capture {
            Capture::Stream { port: 1 }
        }
    }

    fn records(parts: &[(Kind, &[u8])]) -> Vec<u8> {
        let now = Now { mono: Instant(1), utc: Timestamp::from_millis(0) };
        let record = |(kind, payload): &(Kind, &[u8])| {
            [&header(*kind, 0, now, u32::try_from(payload.len()).unwrap())[..], payload].concat()
        };
        parts.iter().flat_map(record).collect()
    }

    fn check(wanted: Option<usize>, errors: bool, expect: &[&str]) {
        let (here, there) = (DeviceId(4), DeviceId(5));
        let parts: [(Kind, &[u8]); 7] = [
            (Kind::Connected, &note(None, "10.0.0.1:502")),
            (Kind::Received, &[1, 0, 255]),
            (Kind::Sent, &[2]),
            (Kind::Failed, &note(Some(here), "poll: no answer in time")),
            (Kind::Failed, &note(Some(there), "poll: no answer in time")),
            (Kind::State, &note(Some(here), "away: no answer in time")),
            (Kind::State, &note(Some(here), "online")),
        ];
        let selected = Selected { point: wanted.is_some(), errors };
        let names = ["one".to_owned(), "two".to_owned()].into();
        let mut viewer = Viewer::new(Box::new(Bytewise(wanted)), here, names, selected);
        let mut lines = Vec::new();
        viewer.read(&records(&parts), &mut lines);
        let text = |line: &Line| {
            let error = line.error.as_deref().map(|error| format!(" ({error})")).unwrap_or_default();
            format!("{} {}{error}{}", line.kind.word(), line.summary, line.points.join(" "))
        };
        assert_eq!(lines.iter().map(text).collect::<Vec<_>>(), expect);
    }

    #[test]
    fn lines_are_those_of_the_device_the_point_the_errors() {
        let (zero, failed) = ("received 0 (nothing)", "failed poll (no answer in time)");
        let away = "state device away (no answer in time)";
        let connected = ["connected cut", "connected connected with 10.0.0.1:502"];
        let all = [connected[0], connected[1], "received 1one", zero, "sent 2two", failed, away, "state device online"];
        check(None, false, &all);
        check(None, true, &[zero, failed, away]);
        check(Some(1), false, &["sent 2two"]);
    }
}
