//! A client's payload that is a point: decided once, where it comes in.
//!
//! A point is the form of `point_json.rs`, or a bare scalar of JSON. All who tell of a payload (last values, live updates,
//! history, views, quality, declared types) ask this decision; subscribers get the bytes as they came.
//!
//! | member | absent | not what it must be |
//! |---|---|---|
//! | `v` | no point | no point |
//! | `q` | the validity of the reasons; nothing is stated where there are none | no point |
//! | `why` | no reasons | a reason that is not known counts as one: without `q`, the value is uncertain at best |
//! | `t` | the time of arrival | a text that is no time: that of arrival; no text: no point |
//!
//! A member twice is no point, since readers of JSON differ in which of both they take (RFC 8259 section 4).

use crate::json::{Items, Walk};
use crate::point_json::{json_value, number_text};
use crate::{Point, Quality, Timestamp, Validity, Value};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use bytes::Bytes;
use core::fmt::Write;
use memchr::memmem;

/// A longer payload is no point: it is read where all others wait.
pub const POINT_BYTES_MAX: usize = 64 * 1024;
/// A longer object is not looked through for points.
const POINTS_BYTES_MAX: usize = 256 * 1024;
/// Bytes beyond which no point is exact.
const EXACT_BYTES_MAX: usize = 512;

/// What a payload says that is a point.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) value: Value,
    pub(crate) quality: Quality,
    pub(crate) time: Option<Timestamp>,
    states_quality: bool,
    /// Whether its publisher says more than the point holds.
    has_more: bool,
}

/// A client's payload that is a point: its bytes as they came, and what they say.
#[derive(Clone, Debug)]
pub struct PublishedPoint {
    payload: Bytes,
    said: Said,
}

impl PartialEq for PublishedPoint {
    /// What bytes say, they say always.
    fn eq(&self, other: &Self) -> bool {
        self.payload == other.payload
    }
}

impl PublishedPoint {
    /// Reads a payload; the payload where it is no point.
    ///
    /// # Errors
    /// It is none.
    pub fn read(payload: Bytes) -> Result<Self, Bytes> {
        match Said::read(&payload) {
            Ok(said) => Ok(Self { payload, said }),
            Err(_) => Err(payload),
        }
    }

    /// The same with bytes of its own, and no more of them than it needs.
    #[must_use]
    pub fn compact(self) -> Self {
        Self { payload: Bytes::copy_from_slice(&self.payload), ..self }
    }

    /// The bytes as they came.
    #[must_use]
    pub const fn payload(&self) -> &Bytes {
        &self.payload
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.said.value
    }

    /// The quality; good where none is stated.
    #[must_use]
    pub const fn quality(&self) -> Quality {
        self.said.quality
    }

    /// The quality that its publisher states; none where it says nothing of it.
    #[must_use]
    pub fn stated_quality(&self) -> Option<Quality> {
        self.said.states_quality.then_some(self.said.quality)
    }

    /// The time: its publisher's, or that of its arrival where it states none.
    #[must_use]
    pub fn time(&self, arrived: Timestamp) -> Timestamp {
        self.said.time.unwrap_or(arrived)
    }

    /// The point.
    #[must_use]
    pub fn point(&self, arrived: Timestamp) -> Point {
        Point { value: self.said.value.clone(), quality: self.said.quality, time: self.time(arrived) }
    }

    /// The point whose JSON is this payload, byte for byte: see [`Point::from_exact_json`].
    #[must_use]
    pub fn exact(&self) -> Option<Point> {
        self.said.exact(&self.payload)
    }

    /// Appends it in the form of a point, with what its publisher says besides.
    pub fn write_json(&self, arrived: Timestamp, out: &mut String) {
        let text = core::str::from_utf8(&self.payload).ok().filter(|_| self.said.has_more);
        let Some(members) = text.and_then(Items::of_object) else {
            return self.point(arrived).write_json(out);
        };
        out.push_str("{\"v\":");
        json_value(&self.said.value, out);
        let _ = write!(out, ",\"q\":\"{}\"", self.said.quality.validity().name());
        let why = members.clone().find(|(name, _)| known(name) == Some(Member::Why)).map(|(_, why)| why);
        let mut open = ",\"why\":[";
        for reason in why.into_iter().flat_map(reasons_in).filter(|reason| reason.starts_with('"')) {
            out.push_str(open);
            out.push_str(reason);
            open = ",";
        }
        if open == "," {
            out.push(']');
        }
        let _ = write!(out, ",\"t\":\"{}\"", self.time(arrived));
        for (name, value) in members.filter(|(name, _)| known(name).is_none()) {
            let _ = write!(out, ",\"{name}\":{value}");
        }
        out.push('}');
    }
}

/// The worst validity of an object of points, as in a device's `all`; none where one of its members is no point that states
/// its quality.
#[must_use]
pub fn worst_of_points(payload: &[u8]) -> Option<Validity> {
    if payload.len() > POINTS_BYTES_MAX || first(payload) != Some(b'{') {
        return None;
    }
    memmem::find(payload, b"\"v\"")?;
    let mut members = Items::of_object(core::str::from_utf8(payload).ok()?)?;
    let mut worst = None;
    for (_, member) in members.by_ref() {
        let said = Said::of_object(member, &Items::of_object(member)?).ok().filter(|said| said.states_quality)?;
        worst = worst.max(Some(said.quality.validity()));
    }
    worst.filter(|_| members.is_whole())
}

/// Why a payload is no point: what is what, and what it had to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotPoint<'a> {
    pub(crate) what: &'static str,
    pub(crate) found: &'a [u8],
    pub(crate) expected: &'static str,
}

const fn not<'a>(what: &'static str, found: &'a [u8], expected: &'static str) -> NotPoint<'a> {
    NotPoint { what, found, expected }
}

/// Payloads of all kinds come here: most of those that are no point are told by their first byte, the rest by what they lack.
const WHOLE: &str = "the payload";
const FORM: &str = "a scalar or {\"v\": …}";
const SCALAR: &str = "a number, text, true, false, null or {\"hex\": …}";

impl Said {
    pub(crate) fn read(payload: &[u8]) -> Result<Self, NotPoint<'_>> {
        let is_object = match first(payload) {
            Some(b'{') => true,
            Some(b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => false,
            Some(_) | None => return Err(not(WHOLE, payload, FORM)),
        };
        if payload.len() > POINT_BYTES_MAX {
            return Err(not(WHOLE, payload, "at most 65536 bytes"));
        }
        if is_object && memmem::find(payload, b"\"v\"").is_none() {
            return Err(not(WHOLE, payload, "a member \"v\""));
        }
        let text = core::str::from_utf8(payload).map_err(|_| not(WHOLE, payload, "JSON"))?;
        if let Some(members) = Items::of_object(text) {
            return Self::of_object(text, &members);
        }
        let mut walk = Walk::new(text);
        let scalar = walk.value().filter(|_| walk.is_done()).ok_or_else(|| not(WHOLE, payload, "JSON"))?;
        let value = value_of(scalar).ok_or_else(|| not(WHOLE, payload, FORM))?;
        Ok(Self { value, quality: Quality::GOOD, time: None, states_quality: false, has_more: false })
    }

    fn of_object<'a>(text: &'a str, members: &Items<'a>) -> Result<Self, NotPoint<'a>> {
        let mut members = members.clone();
        let (mut v, mut q, mut why, mut t, mut has_more) = (None, None, None, None, false);
        for (name, value) in members.by_ref() {
            let (known, slot) = match known(name) {
                Some(Member::V) => ("v", &mut v),
                Some(Member::Q) => ("q", &mut q),
                Some(Member::Why) => ("why", &mut why),
                Some(Member::T) => ("t", &mut t),
                None => {
                    has_more = true;
                    continue;
                }
            };
            if slot.replace(value).is_some() {
                return Err(not(known, value.as_bytes(), "one member of this name"));
            }
        }
        if !members.is_whole() {
            return Err(not(WHOLE, text.as_bytes(), "JSON"));
        }
        let v = v.ok_or_else(|| not(WHOLE, text.as_bytes(), "a member \"v\""))?;
        let value = value_of(v).ok_or_else(|| not("v", v.as_bytes(), SCALAR))?;
        let time = time_of(t)?;
        let (reasons, knows_all) = reasons_of(why);
        let has_reasons = reasons.has_reasons() || !knows_all;
        let quality = match q {
            Some(q) => reasons.with_validity(validity_of(q)?),
            None if knows_all => reasons,
            None => reasons.with_validity(reasons.validity().max(Validity::Uncertain)),
        };
        let (states_quality, has_more) = (q.is_some() || has_reasons, has_more || !knows_all);
        Ok(Self { value, quality, time, states_quality, has_more })
    }

    pub(crate) fn exact(&self, payload: &[u8]) -> Option<Point> {
        let is_scalar = match &self.value {
            Value::Text(_) | Value::Bytes(_) => false,
            Value::Float(x) => x.is_finite(),
            Value::Null | Value::Bool(_) | Value::Int(_) => true,
        };
        let own_reasons = self.quality.bits() == self.quality.reason_bits();
        if !is_scalar || !own_reasons || self.has_more || payload.len() > EXACT_BYTES_MAX {
            return None;
        }
        let point = Point { value: self.value.clone(), quality: self.quality, time: self.time? };
        (point.to_json().as_bytes() == payload).then_some(point)
    }
}

fn first(payload: &[u8]) -> Option<u8> {
    payload.iter().copied().find(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))
}

/// A member of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    V,
    Q,
    Why,
    T,
}

/// The member that a name stands for, as it is in the text.
fn known(name: &str) -> Option<Member> {
    named(name).or_else(|| name.contains('\\').then(|| named(&plain(name)))?)
}

fn named(name: &str) -> Option<Member> {
    match name {
        "v" => Some(Member::V),
        "q" => Some(Member::Q),
        "why" => Some(Member::Why),
        "t" => Some(Member::T),
        _ => None,
    }
}

/// A string of JSON without its quotation marks, as it reads; empty where it reads as nothing.
fn plain(inside: &str) -> Cow<'_, str> {
    if !inside.contains('\\') {
        return Cow::Borrowed(inside);
    }
    serde_json::from_str(&alloc::format!("\"{inside}\"")).map_or(Cow::Borrowed(""), Cow::Owned)
}

/// What a string of JSON reads as.
fn string_of(raw: &str) -> Option<Cow<'_, str>> {
    let inside = raw.strip_prefix('"')?.strip_suffix('"')?;
    if inside.contains('\\') { serde_json::from_str(raw).ok().map(Cow::Owned) } else { Some(Cow::Borrowed(inside)) }
}

fn value_of(raw: &str) -> Option<Value> {
    Some(match raw.as_bytes().first()? {
        b'n' => Value::Null,
        b't' => Value::Bool(true),
        b'f' => Value::Bool(false),
        b'"' => {
            let text = string_of(raw)?;
            number_text(&text).map_or_else(|| Value::Text(text.into()), Value::Float)
        }
        b'{' => {
            let (_, hex) = Items::of_object(raw)?.find(|(name, _)| plain(name) == "hex")?;
            Value::Bytes(from_hex(&string_of(hex)?)?.into())
        }
        b'[' => return None,
        _ => number_of(raw)?,
    })
}

/// An integer where it is written as one and fits; else the nearest double, where that is finite.
fn number_of(raw: &str) -> Option<Value> {
    match raw.parse() {
        Ok(0) if raw.starts_with('-') => Some(Value::Float(-0.0)),
        Ok(whole) => Some(Value::Int(whole)),
        Err(_) => raw.parse().ok().filter(|x: &f64| x.is_finite()).map(Value::Float),
    }
}

fn time_of(raw: Option<&str>) -> Result<Option<Timestamp>, NotPoint<'_>> {
    let Some(raw) = raw.filter(|raw| *raw != "null") else { return Ok(None) };
    let text = string_of(raw).ok_or_else(|| not("t", raw.as_bytes(), "a time in RFC 3339"))?;
    Ok(text.parse().ok())
}

fn validity_of(raw: &str) -> Result<Validity, NotPoint<'_>> {
    let known = [Validity::Good, Validity::Uncertain, Validity::Bad];
    let word = string_of(raw).unwrap_or_default();
    let found = known.into_iter().find(|validity| validity.name() == word);
    found.ok_or_else(|| not("q", raw.as_bytes(), "\"good\", \"uncertain\" or \"bad\""))
}

/// The reasons that are known, and whether that is all of them.
fn reasons_of(raw: Option<&str>) -> (Quality, bool) {
    let Some(raw) = raw.filter(|raw| *raw != "null") else { return (Quality::GOOD, true) };
    let (mut reasons, mut knows_all) = (Quality::GOOD, true);
    for item in reasons_in(raw) {
        match string_of(item).and_then(|name| Quality::from_reason(&name)) {
            Some(reason) => reasons = reasons.with(reason),
            None => knows_all = false,
        }
    }
    (reasons, knows_all)
}

/// The items of a list of reasons; what is no list is one.
fn reasons_in(raw: &str) -> impl Iterator<Item = &str> {
    let items = Items::of_array(raw);
    let alone = if items.is_none() { Some(raw) } else { None };
    items.into_iter().flatten().map(|(_, item)| item).chain(alone)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (char::from(*high).to_digit(16)?, char::from(*low).to_digit(16)?);
        u8::try_from(high * 16 + low).ok()
    };
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Body;
    use alloc::borrow::ToOwned;
    use alloc::string::ToString;
    use proptest::prelude::*;

    const ARRIVED: Timestamp = Timestamp::from_millis(1_795_167_360_123);

    fn read(payload: &str) -> Option<PublishedPoint> {
        PublishedPoint::read(Bytes::copy_from_slice(payload.as_bytes())).ok()
    }

    #[test]
    fn a_payload_that_is_long_is_no_point() {
        let long = |bytes: usize| alloc::format!("\"{}\"", "x".repeat(bytes - 2));
        assert!(read(&long(POINT_BYTES_MAX)).is_some() && read(&long(POINT_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn what_is_kept_has_bytes_of_its_own() {
        let packet = Bytes::from_static(b"topic{\"v\":5}");
        let point = PublishedPoint::read(packet.slice(5..)).unwrap();
        let kept = point.clone().compact();
        assert!(kept == point && kept.payload().as_ptr() != point.payload().as_ptr());
        assert_eq!(kept.value(), &Value::Int(5));
    }

    #[test]
    fn the_form_that_is_shown_has_all_words_of_the_publisher() {
        let shown = |payload: &str| {
            let mut out = String::new();
            read(payload).unwrap().write_json(ARRIVED, &mut out);
            out
        };
        assert_eq!(shown(r#"{"v":4}"#), r#"{"v":4,"q":"good","t":"2026-11-20T09:36:00.123Z"}"#);
        let bad = r#"{"v":1,"q":"bad","why":["else"],"t":"2026-11-20T09:36:00.123Z"}"#;
        assert_eq!(
            [r#"{"v":1,"q":"bad","why":"else"}"#, r#"{"v":1,"q":"bad","why":[5,"else"]}"#].map(shown),
            [bad, bad]
        );
        assert_eq!(shown("\"on\""), r#"{"v":"on","q":"good","t":"2026-11-20T09:36:00.123Z"}"#);
        assert_eq!(
            shown(r#"{"unit":"A","why":["sensor \"A\""],"n":[1, 2],"q":"bad","v":4}"#),
            r#"{"v":4,"q":"bad","why":["sensor \"A\""],"t":"2026-11-20T09:36:00.123Z","unit":"A","n":[1, 2]}"#
        );
    }

    #[test]
    fn an_object_is_as_good_as_its_worst_point() {
        let worst = |payload: &str| worst_of_points(payload.as_bytes());
        assert_eq!(worst(r#"{"a":{"v":1,"q":"good"},"b":{"v":2,"why":["stale"]}}"#), Some(Validity::Uncertain));
        for payload in
            [r#"{"a":{"v":1}}"#, r#"{"a":{"v":1,"q":"good"}"#, r#"{"a":{"v":1,"q":"good"},"b":5}"#, "{}", "[]"]
        {
            assert_eq!(worst(payload), None, "{payload}");
        }
    }

    fn any_member() -> impl Strategy<Value = String> {
        prop_oneof![
            prop_oneof![
                Just("1".to_owned()),
                any::<f64>().prop_map(|x| alloc::format!("{x:e}")),
                any::<i128>().prop_map(|x| alloc::format!("{x}")),
                any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
                Just(r#"{"hex":"00ff"}"#.to_owned()),
                Just("[1]".to_owned()),
            ]
            .prop_map(|v| alloc::format!("\"v\":{v}")),
            prop_oneof![Just("good"), Just("bad"), Just("uncertain"), Just("fine")]
                .prop_map(|q| alloc::format!("\"q\" : \"{q}\"")),
            prop_oneof![Just("[]"), Just("[\"stale\"]"), Just("[\"stale\",\"else\"]"), Just("null"), Just("5")]
                .prop_map(|why| alloc::format!("\"why\":{why}")),
            prop_oneof![Just("\"2020-01-02T03:04:05Z\""), Just("\"x\""), Just("null"), Just("5")]
                .prop_map(|t| alloc::format!("\"t\":{t}")),
            any::<String>().prop_map(|name| alloc::format!("{}:true", serde_json::Value::from(name))),
        ]
    }

    proptest! {
        #[test]
        fn what_is_shown_of_a_point_reads_as_the_point(members in proptest::collection::vec(any_member(), 1..6)) {
            let payload = alloc::format!("{{{}}}", members.join(","));
            if let Some(point) = read(&payload) {
                let json: serde_json::Value = serde_json::from_str(&payload).unwrap();
                if let (Some(x), Some(v)) = (point.value().as_f64(), json.get("v").and_then(serde_json::Value::as_f64)) {
                    prop_assert!(x.to_bits() == v.to_bits() || json.get("v").unwrap().is_i64(), "{}", payload);
                }
                let mut shown = String::new();
                point.write_json(ARRIVED, &mut shown);
                let again = read(&shown).unwrap();
                prop_assert_eq!(again.point(ARRIVED).to_json(), point.point(ARRIVED).to_json(), "{}", payload);
                prop_assert_eq!(again.exact().is_some(), again.exact().is_some_and(|exact| exact.to_json() == shown));
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = (Body::read(bytes.clone().into()), worst_of_points(&bytes));
        }
    }
}
