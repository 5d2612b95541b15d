//! Reads a recorded certification procedure as a list of actions.

use crate::{DnpTime, DoubleBit, Flags, Measured, Measurement, PointType, Stamp};
use core::time::Duration;
use std::borrow::ToOwned;
use std::format;
use std::string::String;
use std::vec::Vec;

/// What a procedure does next, in the order of the file.
#[derive(Clone, Debug)]
pub(super) enum Action {
    /// The tester sends a link frame.
    Send(Vec<u8>),
    /// The recorded outstation sent a link frame.
    Expect(Vec<u8>),
    /// Nothing must come until the step ends.
    ExpectNothing,
    /// A link frame with this control byte may come here, or nothing.
    AllowLink(u8),
    /// Since the last look this output was operated, or none was; an answer that was not read is dropped.
    CheckOperated(Option<(PointType, u16)>),
    /// A step ends.
    StepEnd(String),
    /// The field changes.
    Update(Measurement),
    /// Time passes.
    Wait(Duration),
    /// The device is set up differently from its next start on.
    Configure(Setup),
    /// The device starts again.
    Restart,
}

/// The settings that the procedures ask for.
#[derive(Clone, Debug)]
pub(super) enum Setup {
    Unsolicited,
    Retries(Option<u16>),
    Master(u16),
    Without(PointType),
    LocalControlOfOutput0,
}

/// A procedure of the recording.
#[derive(Debug)]
pub(super) struct Procedure {
    pub(super) actions: Vec<Action>,
    /// What the recording says of it.
    pub(super) passed: bool,
}

pub(super) fn parse(text: &str) -> Procedure {
    let mut procedure = Procedure { actions: Vec::new(), passed: false };
    let mut lines = text.lines().map(str::trim).peekable();
    let mut sending = false;
    while let Some(line) = lines.next() {
        if let Some(mut frame) = bytes(line) {
            // The tester's frames may lie about their length; the next frame begins with 05 64 on a line of its own.
            while let Some(more) = lines.peek().filter(|line| !line.starts_with("05 64")).and_then(|line| bytes(line)) {
                frame.extend(more);
                lines.next();
            }
            procedure.actions.push(if sending { Action::Send(frame) } else { Action::Expect(frame) });
            sending = false;
            continue;
        }
        sending = line == "--P->";
        if let Some(action) = action(line) {
            procedure.actions.push(action);
        }
        procedure.passed |= line.starts_with("Passed procedure");
    }
    procedure.actions.push(Action::StepEnd("end".to_owned()));
    procedure
}

fn bytes(line: &str) -> Option<Vec<u8>> {
    let byte = |word: &str| (word.len() == 2).then(|| u8::from_str_radix(word, 16).ok()).flatten();
    let found: Option<Vec<u8>> = line.split(' ').map(byte).collect();
    found.filter(|bytes| !bytes.is_empty())
}

fn action(line: &str) -> Option<Action> {
    if line.starts_with("step") {
        return Some(Action::StepEnd(line.to_owned()));
    }
    if let Some(update) = line.strip_prefix("Updated ") {
        return Some(Action::Update(measurement(update)));
    }
    let line = line.strip_prefix("- ")?;
    if let Some(wait) = line.strip_prefix("Wait for ").and_then(|rest| rest.strip_suffix(" milliseconds")) {
        return Some(Action::Wait(Duration::from_millis(wait.parse().ok()?)));
    }
    if let Some(retries) = line.strip_prefix("Configure the maximum number of unsolicited retries to ") {
        return Some(Action::Configure(Setup::Retries(retries.parse().ok())));
    }
    if let Some(master) = line.strip_prefix("Configure the DUT to transmit unsolicited responses to master address ") {
        return Some(Action::Configure(Setup::Master(master.parse().ok()?)));
    }
    if let Some(check) = line.strip_prefix("Check that ") {
        return Some(Action::CheckOperated(operated(check)));
    }
    if line.starts_with("Expect link layer timeout or") {
        return Some(Action::AllowLink(if line.contains("0x01") { 0x01 } else { 0x0F }));
    }
    Some(match line {
        "Wait for a period of time longer than the time returned" => Action::Wait(Duration::from_secs(6)),
        "Expect no response." | "Expect no unsolicited response." | "Verify that no link layer frames are received" => {
            Action::ExpectNothing
        }
        "Cycle power to the DUT" => Action::Restart,
        "Configure the unsolicited response mode to 'true'" => Action::Configure(Setup::Unsolicited),
        "Configure the DUT such that all Binary Output points are uninstalled or disabled" => {
            Action::Configure(Setup::Without(PointType::BinaryOutput))
        }
        "Configure the DUT such that all Binary Counter points are uninstalled or disabled" => {
            Action::Configure(Setup::Without(PointType::Counter))
        }
        "Configure the DUT such that all Analog Output points are uninstalled or disabled" => {
            Action::Configure(Setup::Without(PointType::AnalogOutput))
        }
        "Change the control switch or setting corresponding to index 0 to the 'Disabled' or 'Local' mode" => {
            Action::Configure(Setup::LocalControlOfOutput0)
        }
        _ => return None,
    })
}

/// `binary control point 2 operate`, `no analog control point operated`.
fn operated(text: &str) -> Option<(PointType, u16)> {
    let mut words = text.split(' ');
    let point_type = match words.next()? {
        "binary" => PointType::BinaryOutput,
        "analog" => PointType::AnalogOutput,
        _ => return None,
    };
    Some((point_type, words.nth(2)?.parse().ok()?))
}

/// `BI 1024: value=true, flags=81, timestamp=DNPTime(1586534222365)`.
fn measurement(text: &str) -> Measurement {
    let wrong = || format!("no update: {text}");
    let mut words = text.split([' ', ':', ',', '=', '(', ')']).filter(|word| !word.is_empty());
    let mut word = || words.next().unwrap_or_else(|| panic!("{}", wrong()));
    let (kind, index) = (word(), word().parse().unwrap_or_else(|_| panic!("{}", wrong())));
    word();
    let value = word();
    let (point_type, value) = match kind {
        "BI" => (PointType::Binary, Measured::Bit(value == "true")),
        "DBBI" if value == "DETERMINED_ON" => (PointType::DoubleBit, Measured::DoubleBit(DoubleBit::On)),
        "DBBI" if value == "DETERMINED_OFF" => (PointType::DoubleBit, Measured::DoubleBit(DoubleBit::Off)),
        "Counter" => (PointType::Counter, Measured::Count(value.parse().unwrap_or_else(|_| panic!("{}", wrong())))),
        "AI" => (PointType::Analog, Measured::Analog(value.parse().unwrap_or_else(|_| panic!("{}", wrong())))),
        _ => panic!("{}", wrong()),
    };
    word();
    let flags = u8::from_str_radix(word(), 16).unwrap_or_else(|_| panic!("{}", wrong()));
    word();
    word();
    let millis = word().parse().unwrap_or_else(|_| panic!("{}", wrong()));
    let stamp = Some(Stamp { time: DnpTime::from_millis(millis), synchronized: false });
    Measurement { point_type, index, value, flags: Flags(flags), stamp }
}
