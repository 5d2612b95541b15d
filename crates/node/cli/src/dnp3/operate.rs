//! Controls as they are typed: `binary-output:3=true`, `analog-output:0=12.5`.

use tieline_dnp3::{AnalogCommand, Control, Crob, PointType};

/// A control of one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// Which output.
    pub index: u16,
    /// What it is to do.
    pub control: Control,
}

/// Milliseconds of a pulse.
const PULSE_MS: u32 = 500;

/// The words of a binary output, with the code of group 12 and the milliseconds (IEEE 1815 A.8.1).
const WORDS: [(&str, u8, u32); 8] = [
    ("true", 0x03, 0),
    ("false", 0x04, 0),
    ("latch-on", 0x03, 0),
    ("latch-off", 0x04, 0),
    ("pulse-on", 0x01, PULSE_MS),
    ("pulse-off", 0x02, PULSE_MS),
    ("close", 0x41, PULSE_MS),
    ("trip", 0x81, PULSE_MS),
];

/// Reads a control. A whole analog value goes as 32-bit integer, any other in single precision where it fits.
///
/// # Errors
/// What was expected.
pub fn parse(text: &str) -> Result<Operation, String> {
    let wrong = || "expected TYPE:INDEX=VALUE, as in binary-output:3=true or analog-output:0=12.5".to_owned();
    let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (index, value) = rest.split_once('=').ok_or_else(wrong)?;
    let index =
        index.parse().map_err(|_| format!("the index is {index:?}, expected a whole number from 0 to 65535"))?;
    let control = match PointType::from_name(name) {
        Some(PointType::BinaryOutput) => crob(value)?,
        Some(PointType::AnalogOutput) => analog(value)?,
        Some(_) | None => return Err(format!("the type is {name:?}, expected binary-output or analog-output")),
    };
    Ok(Operation { index, control })
}

fn crob(value: &str) -> Result<Control, String> {
    let found = WORDS.iter().find(|(word, _, _)| *word == value);
    let (_, code, ms) = found.ok_or_else(|| {
        let words: Vec<_> = WORDS.iter().map(|(word, _, _)| *word).collect();
        format!("the value is {value:?}, expected one of {}", words.join(", "))
    })?;
    Ok(Control::Crob(Crob { code: *code, count: 1, on_ms: *ms, off_ms: *ms }))
}

fn analog(value: &str) -> Result<Control, String> {
    if let Ok(whole) = value.parse() {
        return Ok(Control::Analog(AnalogCommand::Int32(whole)));
    }
    let x: f64 = value
        .parse()
        .ok()
        .filter(|x: &f64| x.is_finite())
        .ok_or_else(|| format!("the value is {value:?}, expected a number"))?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "single precision is what most devices take; the range is checked"
    )]
    let command =
        if x.abs() <= f64::from(f32::MAX) { AnalogCommand::Float32(x as f32) } else { AnalogCommand::Float64(x) };
    Ok(Control::Analog(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<Control, &str>) {
        let found = parse(text).map(|operation| operation.control);
        assert_eq!(found.as_ref().map_err(String::as_str), expect.as_ref().map_err(|e| *e), "{text}");
    }

    #[test]
    fn controls_are_read_or_say_what_is_wrong() {
        let crob = |code, ms| Ok(Control::Crob(Crob { code, count: 1, on_ms: ms, off_ms: ms }));
        let analog = |command| Ok(Control::Analog(command));
        check("binary-output:3=true", crob(0x03, 0));
        check("binary_output:3=trip", crob(0x81, 500));
        check("analog-output:0=12.5", analog(AnalogCommand::Float32(12.5)));
        check("analog-output:0=-17", analog(AnalogCommand::Int32(-17)));
        check("analog-output:0=1e300", analog(AnalogCommand::Float64(1e300)));
        check("analog-output:0=nan", Err("the value is \"nan\", expected a number"));
        check("binary:3=true", Err("the type is \"binary\", expected binary-output or analog-output"));
        check("binary-output:x=true", Err("the index is \"x\", expected a whole number from 0 to 65535"));
        check(
            "binary-output=true",
            Err("expected TYPE:INDEX=VALUE, as in binary-output:3=true or analog-output:0=12.5"),
        );
        let words = "true, false, latch-on, latch-off, pulse-on, pulse-off, close, trip";
        check("binary-output:3=maybe", Err(&format!("the value is \"maybe\", expected one of {words}")));
    }
}
