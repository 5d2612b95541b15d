//! The values of topics: each says which of its topic's values it is. Those below `m` are measurements, with a quality.

use crate::speech;
use bytes::Bytes;
use tieline_core::{Body, Quality, Value};

/// What a value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// Which value of its topic.
    pub number: u32,
    /// Whether its quality is that the upstream is away.
    pub is_away: bool,
}

/// The value of a topic that is published as its `number`th.
pub fn word(topic: &str, number: u32) -> Bytes {
    match topic.starts_with("m/") {
        true => format!(r#"{{"v":{number},"q":"good","t":"2026-11-28T00:00:{:02}.000Z"}}"#, number % 60).into(),
        false => speech(topic, number),
    }
}

/// What a value says; none where nobody published it.
pub fn said(topic: &str, body: &Body) -> Option<Said> {
    if !topic.starts_with("m/") {
        let payload = body.to_payload();
        let number = std::str::from_utf8(&payload).ok()?.get(..8)?.parse().ok()?;
        return (speech(topic, number) == payload).then_some(Said { number, is_away: false });
    }
    let read;
    let body = match body {
        Body::Opaque(bytes) => {
            read = Body::read(bytes.clone());
            &read
        }
        Body::Point(_) | Body::Published(_) => body,
    };
    let point = match body {
        Body::Point(point) => point.clone(),
        Body::Published(published) => published.point(tieline_core::Timestamp::default()),
        Body::Opaque(_) => return None,
    };
    let is_away = point.quality.contains(Quality::AWAY);
    let number = match point.value {
        Value::Int(number) => u32::try_from(number).ok()?,
        Value::Float(number) => format!("{number}").parse().ok()?,
        _ => return None,
    };
    (point.time.to_string().contains(&format!(":{:02}", number % 60))).then_some(Said { number, is_away })
}
