//! Operator commands of an outstation of ours: one line, one answer.
//!
//! ```text
//! update <type> <index> <value> [flags=0x01] [time=ms]
//! remove <type> [<index>]
//! local on|off
//! restart
//! quit
//! ```
//!
//! Where there are several outstations, `outstation ADDRESS` stands before the line (not before `quit`).

use crate::config::parse_value;
use tieline_dnp3::{DnpTime, Flags, Measurement, PointType, Stamp};

/// One line, understood.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Give a point a value.
    Update(Measurement),
    /// Take a point away, or all of a type.
    Remove(PointType, Option<u16>),
    /// Switch local mode.
    Local(bool),
    /// Start again, as after a power cycle.
    Restart,
    /// End.
    Quit,
}

/// A line, and the outstation that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct AddressedLine {
    /// Its link address; none where the line does not say.
    pub outstation: Option<u16>,
    /// What to do.
    pub line: Line,
}

impl AddressedLine {
    /// Reads a line that may begin with `outstation ADDRESS`.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.trim_start().strip_prefix("outstation ") else {
            return Ok(Self { outstation: None, line: Line::parse(text)? });
        };
        let (address, line) = rest.trim_start().split_once(' ').unwrap_or((rest, ""));
        let outstation = address.trim().parse().map_err(|_| {
            format!("the outstation is {:?}, expected its link address, a whole number from 0 to 65519", address.trim())
        })?;
        Ok(Self { outstation: Some(outstation), line: Line::parse(line)? })
    }
}

impl Line {
    /// Reads a line.
    ///
    /// # Errors
    /// What was found, and what was expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["update", rest @ ..] => parse_update(rest).map(Self::Update),
            ["remove", name] => Ok(Self::Remove(parse_type(name)?, None)),
            ["remove", name, index] => Ok(Self::Remove(parse_type(name)?, Some(parse_index(index)?))),
            ["local", "on"] => Ok(Self::Local(true)),
            ["local", "off"] => Ok(Self::Local(false)),
            ["restart"] => Ok(Self::Restart),
            ["quit"] => Ok(Self::Quit),
            _ => Err(format!(
                "the line is {text:?}, expected update <type> <index> <value> [flags=0x01] [time=ms], remove <type> \
                 [<index>], local on|off, restart, or quit"
            )),
        }
    }
}

fn parse_update(words: &[&str]) -> Result<Measurement, String> {
    let [name, index, rest @ ..] = words else {
        return Err("the line ends early, expected update <type> <index> <value> [flags=0x01] [time=ms]".to_owned());
    };
    let (point_type, index) = (parse_type(name)?, parse_index(index)?);
    let (mut flags, mut stamp, mut value) = (Flags::ONLINE, None, Vec::new());
    for word in rest {
        match word.split_once('=') {
            Some(("flags", byte)) => flags = Flags(parse_flags(byte)?),
            Some(("time", millis)) => stamp = Some(parse_time(millis)?),
            Some(_) | None => value.push(*word),
        }
    }
    let value = value.join(" ");
    let value =
        parse_value(point_type, &value).map_err(|expected| format!("the value is {value:?}, expected {expected}"))?;
    Ok(Measurement { point_type, index, value, flags, stamp })
}

fn parse_type(name: &str) -> Result<PointType, String> {
    let known = PointType::ALL.map(PointType::name).join(", ");
    PointType::from_name(name).ok_or_else(|| format!("the type is {name:?}, expected one of {known}"))
}

fn parse_index(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("the index is {text:?}, expected a whole number from 0 to 65535"))
}

fn parse_flags(text: &str) -> Result<u8, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u8::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("flags is {text:?}, expected a byte like 0x01"))
}

fn parse_time(text: &str) -> Result<Stamp, String> {
    let millis = text.parse().ok().filter(|millis| *millis <= DnpTime::MAX.millis());
    let time = millis.map(DnpTime::from_millis);
    let expected =
        || format!("time is {text:?}, expected milliseconds since 1970, from 0 to {}", DnpTime::MAX.millis());
    Ok(Stamp { time: time.ok_or_else(expected)?, synchronized: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let shown = match Line::parse(text) {
            Ok(Line::Update(m)) => format!(
                "{} {} {:?} {:02x} {:?}",
                m.point_type.name(),
                m.index,
                m.value,
                m.flags.0,
                m.stamp.map(|s| s.time.millis())
            ),
            Ok(line) => format!("{line:?}"),
            Err(error) => error,
        };
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn lines_are_understood_or_say_what_is_wrong() {
        check("update binary 0 true", "binary 0 Bit(true) 01 None");
        check("update analog 3 -12.5 flags=0x21 time=1700000000000", "analog 3 Analog(-12.5) 21 Some(1700000000000)");
        check("update double_bit 1 on", "double-bit 1 DoubleBit(On) 01 None");
        check(
            "update octet-string 2 hello world",
            "octet-string 2 Bytes([104, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100]) 01 None",
        );
        check("remove counter", "Remove(Counter, None)");
        check("remove counter 7", "Remove(Counter, Some(7))");
        check("local on", "Local(true)");
        check("update binary 0 maybe", "the value is \"maybe\", expected true or false");
        check("update binary 70000 true", "the index is \"70000\", expected a whole number from 0 to 65535");
        check("update binary 0 true flags=0x100", "flags is \"0x100\", expected a byte like 0x01");
        check("update binary", "the line ends early, expected update <type> <index> <value> [flags=0x01] [time=ms]");
    }

    #[test]
    fn a_line_may_name_its_outstation() {
        let check = |text: &str, expect: Result<(Option<u16>, Line), &str>| {
            let found = AddressedLine::parse(text).map(|asked| (asked.outstation, asked.line));
            assert_eq!(found, expect.map_err(str::to_owned), "{text}");
        };
        check("local on", Ok((None, Line::Local(true))));
        check("outstation 12 local on", Ok((Some(12), Line::Local(true))));
        check("outstation  65519  restart", Ok((Some(65_519), Line::Restart)));
        let expected = "expected its link address, a whole number from 0 to 65519";
        check("outstation relay restart", Err(&format!("the outstation is \"relay\", {expected}")));
        check("outstation 12", Err(&Line::parse("").unwrap_err()));
    }
}
