//! Topics as the HTTP API shows them.

use std::fmt::Write;
use tieline_core::{Body, Timestamp, json_string};
use tieline_topics::{Tree, View};

/// Appends `"kind":…,"value":…` of a body that came at a time.
///
/// | kind | value |
/// |---|---|
/// | `point` | `{"v", "q", "why"?, "t"}`: a point of the node, and a publisher's that states its quality |
/// | `json` | the publisher's JSON |
/// | `text` | a string |
/// | `binary` | the bytes in hex |
pub fn write_body(body: &Body, arrived: Timestamp, out: &mut String) {
    let bytes = match body {
        Body::Point(point) => {
            out.push_str("\"kind\":\"point\",\"value\":");
            return point.write_json(out);
        }
        Body::Published(point) if point.stated_quality().is_some() => {
            out.push_str("\"kind\":\"point\",\"value\":");
            return point.write_json(arrived, out);
        }
        Body::Published(point) => point.payload(),
        Body::Opaque(bytes) => bytes,
    };
    match std::str::from_utf8(bytes) {
        Ok(text) if serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() => {
            out.push_str("\"kind\":\"json\",\"value\":");
            out.push_str(text);
        }
        Ok(text) => {
            out.push_str("\"kind\":\"text\",\"value\":");
            json_string(text, out);
        }
        Err(_) => {
            out.push_str("\"kind\":\"binary\",\"value\":\"");
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
            out.push('"');
        }
    }
}

/// Appends a topic as a JSON object.
pub fn write_topic(tree: &Tree, view: &View<'_>, out: &mut String) {
    out.push_str("{\"topic\":");
    json_string(view.topic, out);
    out.push(',');
    write_body(view.body, view.time, out);
    write_end(tree, view, out);
}

/// The same without the value.
pub fn write_head(tree: &Tree, view: &View<'_>, out: &mut String) {
    out.push_str("{\"topic\":");
    json_string(view.topic, out);
    write_end(tree, view, out);
}

/// Appends when the value came and its version, where that is known.
pub fn write_end(tree: &Tree, view: &View<'_>, out: &mut String) {
    if let Some(version) = tree.version_told(view) {
        let _ = write!(out, ",\"seq\":{version}");
    }
    let _ = write!(out, ",\"updated\":\"{}\"}}", view.time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::written;
    use bytes::Bytes;

    fn check(payload: &'static [u8], expect: &str) {
        let mut out = String::new();
        write_body(&Body::read(Bytes::from_static(payload)), Timestamp::from_millis(0), &mut out);
        assert_eq!(out, expect);
        let of_topic = format!("{{\"topic\":\"a\",{out},\"seq\":1,\"updated\":\"1970-01-01T00:00:00.000Z\"}}");
        written::check::<written::Topic>(&of_topic);
        let event = format!("{{\"seq\":1,\"time\":\"1970-01-01T00:00:00.000Z\",{out}}}");
        written::check::<written::Events>(&format!("{{\"topic\":\"a\",\"events\":[{event}]}}"));
    }

    #[test]
    fn payloads_show_what_they_are() {
        check(b"{\"a\": 1}", "\"kind\":\"json\",\"value\":{\"a\": 1}");
        let point = r#""kind":"point","value":{"v":1,"q":"bad","t":"1970-01-01T00:00:00.000Z"}"#;
        check(b"{\"v\": 1, \"q\": \"bad\"}", point);
        check(b"on \"fire\"", "\"kind\":\"text\",\"value\":\"on \\\"fire\\\"\"");
        check(b"\xff\x00", "\"kind\":\"binary\",\"value\":\"ff00\"");
    }
}
