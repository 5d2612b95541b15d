//! The default text of a point: `{"v": 59.98, "q": "good", "t": "2026-11-20T09:36:00.123Z"}`.
//!
//! | member | holds | range |
//! |---|---|---|
//! | `v` | the value: number, true, false, text, null; bytes as `{"hex": "00ff"}` | numbers beyond JSON's reach (infinite, not a number) are the texts `"inf"`, `"-inf"`, `"nan"` |
//! | `q` | the validity | `good`, `uncertain`, `bad` |
//! | `why` | the reasons, only where there are any | names of [`Quality::reasons`] |
//! | `t` | the time | RFC 3339 in UTC |

use crate::published::{NotPoint, Said};
use crate::time::TIMESTAMP_BYTES_MAX;
use crate::{Point, Timestamp, Value};
use alloc::string::{String, ToString};
use core::fmt::{self, Write};
use core::ops::Range;

/// Why a payload is not a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointJsonError(String);

impl fmt::Display for PointJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PointJsonError {}

/// The time of the point that was written last, and where in the text it stands: points that were read together have one
/// time, which is copied from there.
#[derive(Clone, Debug, Default)]
pub struct TimeWritten(Option<(Timestamp, Range<usize>)>);

impl TimeWritten {
    fn write(&mut self, time: Timestamp, out: &mut String) {
        match &self.0 {
            Some((last, at)) if *last == time && out.get(at.clone()).is_some() => out.extend_from_within(at.clone()),
            Some(_) | None => {
                let start = out.len();
                out.push_str(time.text(&mut [0; TIMESTAMP_BYTES_MAX]));
                self.0 = Some((time, start..out.len()));
            }
        }
    }
}

impl Point {
    /// Appends the point's JSON to `out`.
    pub fn write_json(&self, out: &mut String) {
        self.write_json_after(&mut TimeWritten::default(), out);
    }

    /// Appends the same after other points, all of which were appended to `out` with `last`.
    pub fn write_json_after(&self, last: &mut TimeWritten, out: &mut String) {
        out.push_str("{\"v\":");
        json_value(&self.value, out);
        out.push_str(",\"q\":\"");
        out.push_str(self.quality.validity().name());
        out.push('"');
        let mut open = ",\"why\":[\"";
        for reason in self.quality.reasons() {
            out.push_str(open);
            out.push_str(reason);
            open = "\",\"";
        }
        if self.quality.has_reasons() {
            out.push_str("\"]");
        }
        out.push_str(",\"t\":\"");
        last.write(self.time, out);
        out.push_str("\"}");
    }

    /// The point's JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(64);
        self.write_json(&mut out);
        out
    }

    /// Reads a payload as a point: the whole form, or a bare JSON scalar, which is good and stamped with `received`.
    /// [`PublishedPoint`] says what may be left out.
    ///
    /// # Errors
    /// The payload is not JSON, or a member is not what it must be.
    pub fn from_json(payload: &[u8], received: Timestamp) -> Result<Self, PointJsonError> {
        let Said { value, quality, time, .. } = Said::read(payload).map_err(wrong)?;
        Ok(Self { value, quality, time: time.unwrap_or(received) })
    }

    /// The point whose JSON ([`Point::to_json`]) is this payload, byte for byte: who has the point has the payload.
    /// None where there is no such point, where its value is a text or bytes, and where its validity is not that of its
    /// reasons.
    #[must_use]
    pub fn from_exact_json(payload: &[u8]) -> Option<Self> {
        Said::read(payload).ok()?.exact(payload)
    }
}

fn wrong(NotPoint { what, found, expected }: NotPoint<'_>) -> PointJsonError {
    let mut shown = String::from_utf8_lossy(found.get(..FOUND_BYTES_MAX).unwrap_or(found)).trim().to_string();
    if shown.len() > 60 {
        shown = shown.chars().take(57).chain("...".chars()).collect();
    }
    PointJsonError(alloc::format!("{what} is {shown}, expected {expected}"))
}

/// Bytes of which more is not looked at to show them.
const FOUND_BYTES_MAX: usize = 300;

/// The number that a text of a point stands for, beyond those that JSON has.
pub(crate) fn number_text(text: &str) -> Option<f64> {
    match text {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// Appends a value as JSON to `out`.
pub fn json_value(value: &Value, out: &mut String) {
    let _ = match value {
        Value::Null => out.write_str("null"),
        Value::Bool(b) => out.write_str(if *b { "true" } else { "false" }),
        Value::Int(i) => {
            push_int(*i, out);
            Ok(())
        }
        Value::Float(x) if x.is_nan() => out.write_str("\"nan\""),
        Value::Float(x) if x.is_infinite() => out.write_str(if *x > 0.0 { "\"inf\"" } else { "\"-inf\"" }),
        // Debug keeps the point of a whole float and takes an exponent where the plain form would be long.
        Value::Float(x) => write!(out, "{x:?}"),
        Value::Text(text) => {
            json_string(text, out);
            Ok(())
        }
        Value::Bytes(bytes) => {
            out.push_str("{\"hex\":\"");
            for byte in bytes {
                let _ = write!(out, "{byte:02x}");
            }
            out.write_str("\"}")
        }
    };
}

/// Figures of the longest whole number.
const FIGURES_MAX: usize = "18446744073709551615".len();

/// Appends a whole number: without the machinery of formats, which takes three times as long.
fn push_int(number: i64, out: &mut String) {
    if number < 0 {
        out.push('-');
    }
    let (mut figures, mut rest, mut start) = ([0; FIGURES_MAX], number.unsigned_abs(), FIGURES_MAX);
    for figure in figures.iter_mut().rev() {
        *figure = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        (rest, start) = (rest / 10, start - 1);
        if rest == 0 {
            break;
        }
    }
    let text = figures.get(start..).and_then(|figures| core::str::from_utf8(figures).ok());
    out.push_str(text.unwrap_or_default());
}

/// Appends text as a JSON string to `out`.
pub fn json_string(text: &str, out: &mut String) {
    out.push('"');
    // Most texts have nothing to escape, and go in one piece.
    let mut plain = text;
    while let Some(at) = plain.bytes().position(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        let (before, rest) = plain.split_at(at);
        let (escaped, after) = rest.split_at(1);
        out.push_str(before);
        let _ = match escaped {
            "\n" => out.write_str("\\n"),
            "\"" | "\\" => write!(out, "\\{escaped}"),
            control => control.bytes().try_for_each(|byte| write!(out, "\\u{byte:04x}")),
        };
        plain = after;
    }
    out.push_str(plain);
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Quality, Validity};
    use alloc::vec::Vec;

    const T: Timestamp = Timestamp::from_millis(1_795_167_360_123);

    fn point(value: Value, quality: Quality) -> Point {
        Point { value, quality, time: T }
    }

    #[test]
    fn a_point_reads_as_documented() {
        let p = point(Value::Float(59.98), Quality::GOOD);
        assert_eq!(p.to_json(), r#"{"v":59.98,"q":"good","t":"2026-11-20T09:36:00.123Z"}"#);
        let p = point(Value::Bool(true), Quality::COMM_LOST.with(Quality::RESTART));
        assert_eq!(p.to_json(), r#"{"v":true,"q":"bad","why":["restart","comm_lost"],"t":"2026-11-20T09:36:00.123Z"}"#);
    }

    #[test]
    fn points_that_were_read_together_share_the_text_of_their_time() {
        let (mut last, mut out) = (TimeWritten::default(), String::new());
        let points = [0, 0, 7, 0].map(|later| Point {
            time: Timestamp::from_micros(T.micros() + later),
            ..point(Value::Int(i64::MIN + later), Quality::GOOD)
        });
        points.iter().for_each(|point| point.write_json_after(&mut last, &mut out));
        assert_eq!(out, points.map(|point| point.to_json()).concat());
    }

    #[test]
    fn texts_are_escaped() {
        let json = |text: &str| {
            let mut out = String::new();
            json_string(text, &mut out);
            out
        };
        assert_eq!(json("a\u{1}ä\"\\\n€\t\u{7f}"), "\"a\\u0001ä\\\"\\\\\\n€\\u0009\u{7f}\"");
        assert_eq!((json(""), json("\n")), ("\"\"".into(), "\"\\n\"".into()));
    }

    fn check_refused(payload: &str, expect: &str) {
        assert_eq!(Point::from_json(payload.as_bytes(), T).unwrap_err().to_string(), expect);
    }

    #[test]
    fn other_payloads_say_what_is_wrong() {
        check_refused("[1]", "the payload is [1], expected a scalar or {\"v\": …}");
        check_refused("{\"x\":1}", "the payload is {\"x\":1}, expected a member \"v\"");
        check_refused("{\"v\":1,\"q\":\"fine\"}", "q is \"fine\", expected \"good\", \"uncertain\" or \"bad\"");
        check_refused("{\"v\":1,\"t\":5}", "t is 5, expected a time in RFC 3339");
        assert_eq!(Point::from_json(b"4.5", T).unwrap(), point(Value::Float(4.5), Quality::GOOD));
        for (said, validity, reasons) in [
            (r#""q":"bad""#, Validity::Bad, &[][..]),
            (r#""q":"uncertain""#, Validity::Uncertain, &[]),
            (r#""q":"good","why":[]"#, Validity::Good, &[]),
            (r#""q":"bad","why":["stale"]"#, Validity::Bad, &["stale"]),
            (r#""q":"good","why":["comm_lost"]"#, Validity::Good, &["comm_lost"]),
            (r#""q":"uncertain","why":["offline","stale"]"#, Validity::Uncertain, &["offline", "stale"]),
            (r#""why":["offline"]"#, Validity::Bad, &["offline"]),
        ] {
            let quality = Point::from_json(alloc::format!("{{\"v\":4,{said}}}").as_bytes(), T).unwrap().quality;
            assert_eq!(
                (quality.validity(), quality.reasons().collect::<Vec<_>>()),
                (validity, reasons.to_vec()),
                "{said}"
            );
            let again = Point::from_json(point(Value::Int(4), quality).to_json().as_bytes(), T).unwrap();
            assert_eq!((again.quality, Quality::from_bits(quality.bits())), (quality, quality), "{said}");
        }
    }

    #[test]
    fn what_is_not_exactly_the_form_is_no_exact_json() {
        let exact = |payload: &str| Point::from_exact_json(payload.as_bytes());
        let rest = r#""q":"good","t":"2026-11-20T09:36:00.123Z"}"#;
        assert_eq!(exact(&alloc::format!("{{\"v\":59.98,{rest}")), Some(point(Value::Float(59.98), Quality::GOOD)));
        for value in
            ["59.980", "+5", "05", "5e3", "\"nan\"", "NaN", "inf", "\"on\"", "{\"hex\":\"00\"}", "[1]", "", "-"]
        {
            assert_eq!(exact(&alloc::format!("{{\"v\":{value},{rest}")), None, "{value}");
        }
        for payload in [
            r#"{"v":5,"q":"bad","t":"2026-11-20T09:36:00.123Z"}"#,
            r#"{"v":5,"q":"bad","why":[],"t":"2026-11-20T09:36:00.123Z"}"#,
            r#"{"v":5,"q":"bad","why":["comm_lost","restart"],"t":"2026-11-20T09:36:00.123Z"}"#,
            r#"{"v":5,"q":"good","t":"2026-11-20T09:36:00.1230Z"}"#,
            r#"{"v":5,"q":"good","t":"2026-11-20T09:36:00.123Z","x":1}"#,
            r#"{"q":"good","v":5,"t":"2026-11-20T09:36:00.123Z"}"#,
            r#"{"v":5}"#,
            "5",
        ] {
            assert_eq!(exact(payload), None, "{payload}");
        }
    }

    fn any_value() -> impl proptest::strategy::Strategy<Value = Value> {
        use proptest::prelude::*;
        prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::Bool),
            any::<i64>().prop_map(Value::Int),
            any::<f64>().prop_map(Value::Float),
            "[^in-].*".prop_map(|s: String| Value::Text(s.into())),
            any::<Vec<u8>>().prop_map(|b| Value::Bytes(b.into())),
        ]
    }

    proptest::proptest! {
        #[test]
        fn whole_numbers_are_written_as_formats_do(number: i64) {
            for number in [number, number >> 32, number >> 56, i64::MIN, i64::MAX, 0] {
                let mut out = String::new();
                push_int(number, &mut out);
                assert_eq!(out, number.to_string());
            }
        }

        #[test]
        fn json_round_trips(value in any_value(), bits: u16, millis in 0i64..4_000_000_000_000) {
            let p = Point { value, quality: Quality::from_bits(bits), time: Timestamp::from_millis(millis) };
            let back = Point::from_json(p.to_json().as_bytes(), T).unwrap();
            assert_eq!(back.to_json(), p.to_json());
            assert_eq!(back.quality, p.quality);
        }

        #[test]
        fn exact_json_is_that_of_one_point(value in any_value(), bits in 0u16..1 << 13, micros in 0i64..4_000_000_000_000_000) {
            let is_scalar = !matches!(value, Value::Text(_) | Value::Bytes(_));
            let p = Point { value, quality: Quality::from_bits(bits), time: Timestamp::from_micros(micros) };
            let json = p.to_json();
            let found = Point::from_exact_json(json.as_bytes());
            assert!(found.as_ref().is_none_or(|found| found.to_json() == json && found.quality == p.quality));
            let is_in_json = !json.starts_with("{\"v\":\"");
            assert_eq!(found.is_some(), is_scalar && is_in_json, "{json}");
            // Whatever else there is of it is not exact.
            for other in [json.replace(':', ": "), json.replace("\"}", "+00:00\"}"), json + " "] {
                assert_eq!(Point::from_exact_json(other.as_bytes()), None);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let _ = (Point::from_json(&bytes, T), Point::from_exact_json(&bytes));
        }
    }
}
