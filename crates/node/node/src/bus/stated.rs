//! What a payload says of its value: its quality, its reasons and its time, where it has the form of a point
//! (`{"v", "q", "t"}`), regardless of its publisher. An object of points, as in a device's `all`, is as good as its
//! worst point.
//!
//! What the node decides is a point of its own has passed `Point::from_json`; here nothing is decided: a reader is shown
//! the words of the publisher, reasons that the node does not know among them.

use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt::{self, Write};
use tieline_core::{Body, Timestamp, Validity, json_string};
use tieline_topics::Grade;

/// A longer payload is not looked at: what is read of it is read on the bus's thread.
const STATED_BYTES_MAX: usize = 256 * 1024;

/// The words of a publisher about a value.
#[derive(Debug, Deserialize)]
pub struct Stated<'a> {
    #[serde(borrow)]
    q: Cow<'a, str>,
    #[serde(default)]
    why: Option<Vec<String>>,
    #[serde(default, borrow)]
    t: Option<Cow<'a, str>>,
    v: serde_json::Value,
    /// What its publisher says besides.
    #[serde(flatten)]
    more: serde_json::Map<String, serde_json::Value>,
}

/// The same as far as the grade needs it.
#[derive(Deserialize)]
struct Quality<'a> {
    #[serde(borrow)]
    q: Cow<'a, str>,
    #[serde(rename = "v")]
    _v: IgnoredAny,
}

/// The worst of the points that an object consists of.
struct Worst(Grade);

impl<'de> Deserialize<'de> for Worst {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Points)
    }
}

struct Points;

impl<'de> Visitor<'de> for Points {
    type Value = Worst;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of points")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Worst, A::Error> {
        let mut worst = None;
        while let Some((IgnoredAny, point)) = map.next_entry::<IgnoredAny, Quality<'_>>()? {
            let grade = grade_of(&point.q).ok_or_else(|| A::Error::custom("no quality"))?;
            worst = match (worst, grade) {
                (Some(Grade::Bad), _) | (_, Grade::Bad) => Some(Grade::Bad),
                (Some(Grade::Uncertain), _) | (_, Grade::Uncertain) => Some(Grade::Uncertain),
                (_, grade) => Some(grade),
            };
        }
        worst.map(Worst).ok_or_else(|| A::Error::custom("no point"))
    }
}

impl<'a> Stated<'a> {
    /// Reads a payload; none where it is no point.
    #[must_use]
    pub fn read(payload: &'a [u8]) -> Option<Self> {
        let stated: Self = may_be_point(payload).then(|| serde_json::from_slice(payload).ok())??;
        grade_of(&stated.q).map(|_| stated)
    }

    /// Appends it in the form of a point. A time that is none, or cannot be read, is that of its arrival.
    pub fn write_json(&self, arrived: Timestamp, out: &mut String) {
        let _ = write!(out, "{{\"v\":{},\"q\":\"{}\"", self.v, self.q);
        for (i, reason) in self.why.iter().flatten().enumerate() {
            out.push_str(if i == 0 { ",\"why\":[" } else { "," });
            json_string(reason, out);
        }
        if self.why.as_ref().is_some_and(|why| !why.is_empty()) {
            out.push(']');
        }
        let time: Option<Timestamp> = self.t.as_ref().and_then(|t| t.parse().ok());
        let _ = write!(out, ",\"t\":\"{}\"", time.unwrap_or(arrived));
        for (name, value) in &self.more {
            out.push(',');
            json_string(name, out);
            let _ = write!(out, ":{value}");
        }
        out.push('}');
    }
}

/// How far a value may be trusted, by its own word.
#[must_use]
pub fn grade(body: &Body) -> Grade {
    let bytes = match body {
        Body::Point(point) => return of_validity(point.quality.validity()),
        Body::Opaque(bytes) => bytes,
    };
    if !may_be_point(bytes) {
        return Grade::Unstated;
    }
    match serde_json::from_slice::<Quality<'_>>(bytes) {
        Ok(read) => grade_of(&read.q).unwrap_or(Grade::Unstated),
        Err(_) => serde_json::from_slice(bytes).map_or(Grade::Unstated, |Worst(grade)| grade),
    }
}

fn of_validity(validity: Validity) -> Grade {
    match validity {
        Validity::Good => Grade::Good,
        Validity::Uncertain => Grade::Uncertain,
        Validity::Bad => Grade::Bad,
    }
}

fn grade_of(word: &str) -> Option<Grade> {
    [Validity::Good, Validity::Uncertain, Validity::Bad].into_iter().find(|known| known.name() == word).map(of_validity)
}

/// Most payloads are not: they need not be parsed to know.
fn may_be_point(payload: &[u8]) -> bool {
    let is_object = payload.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    is_object && payload.len() <= STATED_BYTES_MAX && payload.windows(3).any(|three| three == b"\"q\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tieline_core::{Point, Quality, Value};

    const ARRIVED: Timestamp = Timestamp::from_millis(1_795_167_360_123);

    /// What is shown of a payload, and its grade.
    fn check(payload: &str, shown: Option<&str>, expect: Grade) {
        let text = Stated::read(payload.as_bytes()).map(|stated| {
            let mut text = String::new();
            stated.write_json(ARRIVED, &mut text);
            text
        });
        assert_eq!(text.as_deref(), shown, "{payload}");
        assert_eq!(grade(&Body::Opaque(Bytes::copy_from_slice(payload.as_bytes()))), expect, "{payload}");
    }

    #[test]
    fn a_published_point_keeps_its_words() {
        let whole = r#"{"v":4.5,"q":"bad","why":["sensor broken","away"],"t":"2020-01-02T03:04:05Z"}"#;
        let same = r#"{"v":4.5,"q":"bad","why":["sensor broken","away"],"t":"2020-01-02T03:04:05.000Z"}"#;
        check(whole, Some(same), Grade::Bad);
        let arrived = r#"{"v":1,"q":"uncertain","t":"2026-11-20T09:36:00.123Z"}"#;
        let more = r#"{"v":1,"q":"uncertain","t":"2026-11-20T09:36:00.123Z","site":5}"#;
        check(r#" {"t": "yesterday", "q": "uncertain", "v": 1, "site": 5}"#, Some(more), Grade::Uncertain);
        check(r#"{"q":"uncertain","v":1,"t":null}"#, Some(arrived), Grade::Uncertain);
        check(
            r#"{"v":"a\"b","q":"good","t":"2026-11-20T09:36:00.123Z"}"#,
            Some(r#"{"v":"a\"b","q":"good","t":"2026-11-20T09:36:00.123Z"}"#),
            Grade::Good,
        );
    }

    #[test]
    fn who_states_no_quality_is_not_good() {
        for payload in [
            "23.5",
            "{\"v\":5}",
            "{\"v\":5,\"q\":\"GOOD\"}",
            "{\"q\":\"good\"}",
            "[{\"v\":1,\"q\":\"bad\"}]",
            "{\"q\"",
            "",
        ] {
            check(payload, None, Grade::Unstated);
        }
        let long = format!("{{\"v\":1,\"q\":\"good\",\"x\":\"{}\"}}", "y".repeat(STATED_BYTES_MAX));
        check(&long, None, Grade::Unstated);
    }

    #[test]
    fn an_object_of_points_is_as_good_as_its_worst() {
        let [good, doubtful, bad] = ["good", "uncertain", "bad"].map(|q| format!("{{\"v\":1,\"q\":\"{q}\"}}"));
        check(&format!("{{\"a\":{good},\"b\":{good}}}"), None, Grade::Good);
        check(&format!("{{\"a\":{bad},\"b\":{doubtful}}}"), None, Grade::Bad);
        check(&format!("{{\"a\":{doubtful},\"b\":{good}}}"), None, Grade::Uncertain);
        check(&format!("{{\"a\":{good},\"b\":5}}"), None, Grade::Unstated);
        check("{}", None, Grade::Unstated);
    }

    #[test]
    fn a_point_of_the_node_has_its_validity() {
        for (quality, expect) in
            [(Quality::GOOD, Grade::Good), (Quality::STALE, Grade::Uncertain), (Quality::AWAY, Grade::Bad)]
        {
            assert_eq!(grade(&Body::Point(Point { value: Value::Int(1), quality, time: ARRIVED })), expect);
        }
    }
}
