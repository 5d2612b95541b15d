//! Topics as the HTTP API shows them.

use std::fmt::Write;
use tieline_core::{Body, json_string};
use tieline_topics::View;

/// Appends `"kind":…,"value":…` of a body.
///
/// | kind | value |
/// |---|---|
/// | `point` | `{"v", "q", "why"?, "t"}` |
/// | `json` | the publisher's JSON |
/// | `text` | a string |
/// | `binary` | the octets in hex |
pub fn write_body(body: &Body, out: &mut String) {
    let octets = match body {
        Body::Point(point) => {
            out.push_str("\"kind\":\"point\",\"value\":");
            return point.write_json(out);
        }
        Body::Opaque(octets) => octets,
    };
    match std::str::from_utf8(octets) {
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
            for octet in octets {
                let _ = write!(out, "{octet:02x}");
            }
            out.push('"');
        }
    }
}

/// Appends a topic as a JSON object.
pub fn write_topic(view: &View<'_>, out: &mut String) {
    out.push_str("{\"topic\":");
    json_string(view.topic, out);
    out.push(',');
    write_body(view.body, out);
    let _ = write!(out, ",\"seq\":{},\"updated\":\"{}\"}}", view.version, view.time);
}

/// The same without the value.
pub fn write_head(view: &View<'_>, out: &mut String) {
    out.push_str("{\"topic\":");
    json_string(view.topic, out);
    let _ = write!(out, ",\"seq\":{},\"updated\":\"{}\"}}", view.version, view.time);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn check(payload: &'static [u8], expect: &str) {
        let mut out = String::new();
        write_body(&Body::Opaque(Bytes::from_static(payload)), &mut out);
        assert_eq!(out, expect);
    }

    #[test]
    fn payloads_show_what_they_are() {
        check(b"{\"a\": 1}", "\"kind\":\"json\",\"value\":{\"a\": 1}");
        check(b"on \"fire\"", "\"kind\":\"text\",\"value\":\"on \\\"fire\\\"\"");
        check(b"\xff\x00", "\"kind\":\"binary\",\"value\":\"ff00\"");
    }
}
