//! Measurements as lines, for people and for programs.

use serde_json::{Value as Json, json};
use tieline_core::Timestamp;
use tieline_dnp3::{DoubleBit, Flags, Measured, Measurement, PointType};

/// A measurement in words: `analog 3 12.5 online event 2026-11-20T09:36:00.123Z`.
pub fn line(measurement: &Measurement, event: bool, unsolicited: bool) -> String {
    let Measurement { point_type, flags, .. } = measurement;
    let names = flag_names(*point_type, *flags).join(",");
    let names = if flags.contains(Flags::ONLINE) { names } else { ["offline", &names].join(",") };
    words(measurement, &format!(" {}", names.trim_end_matches(',')), event, unsolicited)
}

/// The same of what has no flags.
pub fn line_without_flags(measurement: &Measurement, event: bool, unsolicited: bool) -> String {
    words(measurement, "", event, unsolicited)
}

fn words(measurement: &Measurement, flags: &str, event: bool, unsolicited: bool) -> String {
    let Measurement { point_type, index, value, stamp, .. } = measurement;
    let mut text = format!("{} {index} {}{flags}", point_type.name(), value_text(value));
    for (_, word) in [(event, " event"), (unsolicited, " unsolicited")].iter().filter(|(set, _)| *set) {
        text.push_str(word);
    }
    if let Some(stamp) = stamp {
        text.push_str(&format!(" {}", Timestamp::from(stamp.time)));
        text.push_str(if stamp.synchronized { "" } else { " unsynchronized" });
    }
    text
}

/// A measurement as one JSON object.
pub fn json(measurement: &Measurement, event: bool, unsolicited: bool) -> Json {
    let Measurement { point_type, index, value, flags, stamp } = measurement;
    json!({
        "type": point_type.name(),
        "index": index,
        "value": value_json(value),
        "flags": flags.0,
        "flag_names": flag_names(*point_type, *flags),
        "event": event,
        "unsolicited": unsolicited,
        "time": stamp.map(|stamp| Timestamp::from(stamp.time).to_string()),
        "synchronized": stamp.map(|stamp| stamp.synchronized),
    })
}

/// The names of the bits that are set (IEEE 1815 11.6).
fn flag_names(point_type: PointType, flags: Flags) -> Vec<&'static str> {
    let (bit_5, bit_6) = match point_type {
        PointType::Binary | PointType::DoubleBit => ("chatter-filter", "reserved-6"),
        PointType::Counter | PointType::FrozenCounter => ("rollover", "discontinuity"),
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => ("over-range", "reference-error"),
        PointType::BinaryOutput | PointType::OctetString => ("reserved-5", "reserved-6"),
    };
    // Bit 7 of a binary is its state.
    let bit_7 = match point_type {
        PointType::Counter
        | PointType::FrozenCounter
        | PointType::Analog
        | PointType::FrozenAnalog
        | PointType::AnalogOutput => "reserved-7",
        PointType::Binary | PointType::DoubleBit | PointType::BinaryOutput | PointType::OctetString => "",
    };
    let names = ["online", "restart", "comm-lost", "remote-forced", "local-forced", bit_5, bit_6, bit_7];
    let set = names.into_iter().enumerate().filter(|(bit, name)| flags.0 >> bit & 1 == 1 && !name.is_empty());
    set.map(|(_, name)| name).collect()
}

fn double_bit(state: DoubleBit) -> &'static str {
    match state {
        DoubleBit::Intermediate => "intermediate",
        DoubleBit::Off => "off",
        DoubleBit::On => "on",
        DoubleBit::Indeterminate => "indeterminate",
    }
}

fn value_text(value: &Measured) -> String {
    match value {
        Measured::Bit(state) => state.to_string(),
        Measured::DoubleBit(state) => double_bit(*state).to_owned(),
        Measured::Count(count) => count.to_string(),
        Measured::Analog(x) => number(*x),
        Measured::Bytes(bytes) => match printable(bytes) {
            Some(text) => format!("{text:?}"),
            None => format!("0x{}", hex(bytes)),
        },
    }
}

fn value_json(value: &Measured) -> Json {
    match value {
        Measured::Bit(state) => json!(state),
        Measured::DoubleBit(state) => json!(double_bit(*state)),
        Measured::Count(count) => json!(count),
        Measured::Analog(x) if x.is_finite() => json!(tieline_core::shortest(*x)),
        Measured::Analog(x) => json!(x.to_string().to_lowercase()),
        Measured::Bytes(bytes) => match printable(bytes) {
            Some(text) => json!(text),
            None => json!({ "hex": hex(bytes) }),
        },
    }
}

fn printable(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

/// A number as the decimal that it stands for; very large and very small ones with an exponent.
pub fn number(x: f64) -> String {
    let x = tieline_core::shortest(x);
    if x == 0.0 || !x.is_finite() || (1e-6..1e16).contains(&x.abs()) { x.to_string() } else { format!("{x:e}") }
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_dnp3::{DnpTime, Stamp};

    fn check(point_type: PointType, value: Measured, flags: u8, stamp: Option<Stamp>, text: &str, expect: &str) {
        let measurement = Measurement { point_type, index: 3, value, flags: Flags(flags), stamp };
        assert_eq!(line(&measurement, stamp.is_some(), false), text);
        let shown = json(&measurement, stamp.is_some(), false);
        assert_eq!(format!("{} {}", shown["value"], shown["flag_names"]), expect, "{text}");
    }

    #[test]
    fn measurements_are_told() {
        let stamp = Some(Stamp { time: DnpTime::from_millis(1_700_000_000_123), synchronized: true });
        let vague = stamp.map(|stamp| Stamp { synchronized: false, ..stamp });
        let (time, analog) = ("2023-11-14T22:13:20.123Z", Measured::Analog);
        check(PointType::Analog, analog(12.5), 1, None, "analog 3 12.5 online", r#"12.5 ["online"]"#);
        check(
            PointType::Analog,
            analog(7.0),
            1,
            stamp,
            &format!("analog 3 7 online event {time}"),
            r#"7.0 ["online"]"#,
        );
        let late = format!("binary 3 true online,chatter-filter event {time} unsynchronized");
        check(PointType::Binary, Measured::Bit(true), 0xA1, vague, &late, r#"true ["online","chatter-filter"]"#);
        check(PointType::Analog, analog(f64::from(51.2_f32)), 1, None, "analog 3 51.2 online", r#"51.2 ["online"]"#);
        let lost = "analog 3 1e300 offline,comm-lost,over-range";
        check(PointType::Analog, analog(1e300), 0x24, None, lost, r#"1e+300 ["comm-lost","over-range"]"#);
        check(PointType::Counter, Measured::Count(7), 0, None, "counter 3 7 offline", "7 []");
        check(PointType::Analog, analog(f64::INFINITY), 1, None, "analog 3 inf online", r#""inf" ["online"]"#);
        let on = Measured::DoubleBit(DoubleBit::On);
        check(PointType::DoubleBit, on, 1, None, "double-bit 3 on online", r#""on" ["online"]"#);
        let bytes = |bytes: &[u8]| Measured::Bytes(bytes.into());
        check(PointType::OctetString, bytes(b"ab"), 1, None, "octet-string 3 \"ab\" online", r#""ab" ["online"]"#);
        check(
            PointType::OctetString,
            bytes(&[0, 255]),
            1,
            None,
            "octet-string 3 0x00ff online",
            r#"{"hex":"00ff"} ["online"]"#,
        );
    }
}
