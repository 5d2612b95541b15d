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
        let why = members.clone().find(|(name, _)| plain(name) == "why");
        if let Some((_, why)) = why {
            let _ = write!(out, ",\"why\":{why}");
        }
        let _ = write!(out, ",\"t\":\"{}\"", self.time(arrived));
        for (name, value) in members.filter(|(name, _)| !["v", "q", "why", "t"].contains(&&*plain(name))) {
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
            let (known, slot) = match &*plain(name) {
                "v" => ("v", &mut v),
                "q" => ("q", &mut q),
                "why" => ("why", &mut why),
                "t" => ("t", &mut t),
                _ => {
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
    let Some(items) = Items::of_array(raw) else { return (Quality::GOOD, false) };
    let (mut reasons, mut knows_all) = (Quality::GOOD, true);
    for (_, item) in items {
        match string_of(item).and_then(|name| Quality::from_reason(&name)) {
            Some(reason) => reasons = reasons.with(reason),
            None => knows_all = false,
        }
    }
    (reasons, knows_all)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| {
        let (high, low) = (char::from(*high).to_digit(16)?, char::from(*low).to_digit(16)?);
        u8::try_from(high * 16 + low).ok()
    };
    rest.is_empty().then(|| pairs.iter().map(byte).collect()).flatten()
}
