//! Parsers of single values: each says in words what it expects.

use crate::reader::Expected;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::time::Duration;
pub use tieline_core::parse_duration;
use tieline_core::parse_short_duration;
use tieline_core::{Filter, Topic};
use toml::de::DeValue;

/// Any text.
pub fn text(value: &DeValue<'_>) -> Result<String, Expected> {
    value.as_str().map(str::to_owned).ok_or_else(|| "a text in quotes".to_owned())
}

/// True or false.
pub fn boolean(value: &DeValue<'_>) -> Result<bool, Expected> {
    value.as_bool().ok_or_else(|| "true or false".to_owned())
}

/// A whole number within a range.
pub fn integer<T>(range: RangeInclusive<T>) -> impl FnOnce(&DeValue<'_>) -> Result<T, Expected>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| {
        let number = value.as_integer().and_then(|n| i64::from_str_radix(n.as_str(), n.radix()).ok());
        let legal = number.and_then(|n| T::try_from(n).ok()).filter(|n| range.contains(n));
        legal.ok_or_else(|| format!("a whole number from {} to {}", range.start(), range.end()))
    }
}

/// A finite number, whole or not.
pub fn number(value: &DeValue<'_>) -> Result<f64, Expected> {
    let digits = match value {
        DeValue::Integer(n) => n.as_str(),
        DeValue::Float(n) => n.as_str(),
        DeValue::String(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => "",
    };
    digits.parse().ok().filter(|n: &f64| n.is_finite()).ok_or_else(|| "a number".to_owned())
}

/// One of some words.
pub fn word<T: Copy>(words: &'static [(&'static str, T)]) -> impl FnOnce(&DeValue<'_>) -> Result<T, Expected> {
    move |value| {
        let found = value.as_str().and_then(|text| words.iter().find(|(word, _)| *word == text));
        found.map(|(_, meaning)| *meaning).ok_or_else(|| {
            let quoted: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            quoted.join(" or ")
        })
    }
}

const DURATION: &str = "a duration like \"500ms\", \"2s\", \"15m\", \"1h\" or \"7d\"";

/// A duration within a range.
pub fn duration(range: RangeInclusive<Duration>) -> impl FnOnce(&DeValue<'_>) -> Result<Duration, Expected> {
    move |value| {
        let parsed = value.as_str().and_then(parse_duration).ok_or_else(|| DURATION.to_owned())?;
        let words =
            || format!("a duration from {} to {}", duration_words(*range.start()), duration_words(*range.end()));
        Some(parsed).filter(|d| range.contains(d)).ok_or_else(words)
    }
}

/// A duration within a range, which may be a part of a millisecond.
pub fn short_duration(range: RangeInclusive<Duration>) -> impl FnOnce(&DeValue<'_>) -> Result<Duration, Expected> {
    move |value| {
        let words = || {
            let (start, end) = (duration_words(*range.start()), duration_words(*range.end()));
            format!("a duration like \"1500us\" or \"2ms\", from {start} to {end}")
        };
        value.as_str().and_then(parse_short_duration).filter(|d| range.contains(d)).ok_or_else(words)
    }
}

/// A duration as people write it, in the largest unit that divides it.
#[must_use]
pub fn duration_words(span: Duration) -> String {
    let millis = span.as_millis();
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000)];
    let unit = units.iter().find(|(_, each)| millis.is_multiple_of(*each)).filter(|_| millis > 0);
    unit.map_or_else(|| format!("{millis}ms"), |(unit, each)| format!("{}{unit}", millis / each))
}

/// Units of sizes, the largest first.
const SIZES: [(&str, u64); 5] =
    [("PiB", 1 << 50), ("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// A size as people write it, in the largest unit that divides it.
fn bytes_words(bytes: u64) -> String {
    let unit = SIZES.iter().find(|(_, each)| bytes > 0 && bytes.is_multiple_of(*each));
    unit.map_or_else(|| bytes.to_string(), |(unit, each)| format!("{}{unit}", bytes / each))
}

/// A number of bytes: a whole number, or a text with `KiB`, `MiB`, `GiB`, `TiB` or `PiB`.
pub fn bytes(range: RangeInclusive<u64>) -> impl FnOnce(&DeValue<'_>) -> Result<u64, Expected> {
    move |value| {
        let count = match value {
            DeValue::Integer(n) => n.as_str().parse().ok(),
            DeValue::String(text) => parse_bytes(text),
            DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
                None
            }
        };
        let words =
            || format!("a size like \"64MiB\", from {} to {}", bytes_words(*range.start()), bytes_words(*range.end()));
        count.filter(|n| range.contains(n)).ok_or_else(words)
    }
}

fn parse_bytes(text: &str) -> Option<u64> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at_checked(unit_at)?;
    let each = match unit.trim() {
        "" | "B" => 1,
        unit => SIZES.iter().find(|(known, _)| *known == unit)?.1,
    };
    digits.parse::<u64>().ok()?.checked_mul(each)
}

/// A listening address, as in `127.0.0.1:1883`; port 0 takes a free one.
pub fn listen_address(value: &DeValue<'_>) -> Result<SocketAddr, Expected> {
    let words = || "an address with a port, as in \"127.0.0.1:1883\" or \"[::1]:1883\"".to_owned();
    value.as_str().and_then(parse_address).ok_or_else(words)
}

/// An address of this machine: `IP:port`, or `localhost:port`.
#[must_use]
pub fn parse_address(text: &str) -> Option<SocketAddr> {
    match text.strip_prefix("localhost:") {
        Some(port) => Some(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port.parse().ok()?)),
        None => text.parse().ok(),
    }
}

/// A peer's address: `host:port`. Names are looked up at each connection, so only the form is checked.
pub fn peer_address(value: &DeValue<'_>) -> Result<String, Expected> {
    let text = value.as_str().unwrap_or_default();
    let port =
        text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        Some(1..) => Ok(text.to_owned()),
        Some(0) | None => Err("a host and a port, as in \"10.1.2.3:20000\"".to_owned()),
    }
}

/// Looks a peer's address up; blocks while a name server is asked.
///
/// # Errors
/// The name is not known, or no name server answers.
pub fn resolve(address: &str) -> std::io::Result<SocketAddr> {
    address.to_socket_addrs()?.next().ok_or_else(|| std::io::Error::other("the name has no address"))
}

/// A topic name.
pub fn topic(value: &DeValue<'_>) -> Result<Topic, Expected> {
    let words = |why: String| format!("a topic like \"site/feeder1/relay1\" ({why})");
    let text = value.as_str().ok_or_else(|| words("a text".to_owned()))?;
    if text.starts_with('$') {
        return Err(words("names that begin with $ belong to the node".to_owned()));
    }
    Topic::new(text).map_err(|e| words(e.to_string()))
}

/// A list of topic filters.
pub fn filters(value: &DeValue<'_>) -> Result<Vec<Filter>, Expected> {
    let words = || "a list of topic filters, as in [\"site/#\"]".to_owned();
    let items = value.as_array().ok_or_else(words)?;
    items.iter().map(|item| item.get_ref().as_str().and_then(|text| Filter::new(text).ok()).ok_or_else(words)).collect()
}

/// A list of texts.
pub fn texts(value: &DeValue<'_>) -> Result<Vec<String>, Expected> {
    let words = || "a list of texts in quotes".to_owned();
    let items = value.as_array().ok_or_else(words)?;
    items.iter().map(|item| item.get_ref().as_str().map(str::to_owned).ok_or_else(words)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [
            ("512", Some(512)),
            ("4KiB", Some(4096)),
            ("16 GiB", Some(16 << 30)),
            ("1TiB", Some(1 << 40)),
            ("1PiB", Some(1 << 50)),
            ("64MB", None),
            ("1.5GiB", None),
        ] {
            assert_eq!(parse_bytes(text), bytes, "{text}");
        }
        assert_eq!([1 << 50, 3 << 20, 1000, 0].map(bytes_words), ["1PiB", "3MiB", "1000", "0"]);
    }
}
