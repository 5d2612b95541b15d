//! Replays the recorded certification procedures: the tester's frames go in, in virtual time, and what comes out must
//! mean what the recorded outstation answered. Link and transport sequence numbers are not compared; indications,
//! function, sequence and objects are.

use super::script::{Action, Procedure, Setup, parse};
use crate::app::{CommandStatus, Fragment, Headers};
use crate::link::Decoder;
use crate::outstation::{
    AcceptAll, Database, EventLimits, Outstation, OutstationConfig, OutstationEvent, PointConfig, UnsolicitedConfig,
};
use crate::{AnalogCommand, Control, EventClass, Flags, Iin, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use std::format;
use std::path::{Path, PathBuf};
use std::string::{String, ToString};
use std::vec::Vec;
use tieline_core::{Instant, Machine, Now, Timestamp};

/// How long "expect nothing" waits, and how long an answer may take.
const QUIET: Duration = Duration::from_secs(6);

struct Replay {
    outstation: Outstation,
    config: OutstationConfig,
    without: Option<PointType>,
    local_output_0: bool,
    now: Now,
    /// Fragments that came out and were not expected yet.
    out: VecDeque<Unit>,
    quiet_until_step_end: bool,
    step: String,
    /// Since the last look.
    operated: Vec<(PointType, u16)>,
    expected: Joiner,
}

/// What comes over the link: a frame without user data, by its control byte, or a whole fragment.
#[derive(Clone, Debug, PartialEq)]
enum Unit {
    Link(u8),
    Fragment(Vec<u8>),
}

#[derive(Default)]
struct Joiner(Vec<u8>);

impl Joiner {
    fn join(&mut self, bytes: &[u8]) -> Vec<Unit> {
        let (mut decoder, mut rest, mut units) = (Decoder::new(), bytes, Vec::new());
        while let Some(frame) = decoder.decode(&mut rest) {
            let frame = frame.expect("a whole frame");
            let data: Vec<u8> = frame.blocks().flatten().copied().collect();
            let Some((transport, segment)) = data.split_first() else {
                units.push(Unit::Link(frame.header().control.0));
                continue;
            };
            self.0.extend_from_slice(segment);
            if transport & 0x80 != 0 {
                units.push(Unit::Fragment(core::mem::take(&mut self.0)));
            }
        }
        units
    }
}

fn recorded_config() -> OutstationConfig {
    OutstationConfig {
        address: 1024,
        master: 1,
        confirm_timeout: Duration::from_secs(2),
        select_timeout: Duration::from_secs(2),
        clock_synchronized: false,
        event_limits: EventLimits::all(200),
        unsolicited: None,
        ..OutstationConfig::default()
    }
}

fn recorded_database(without: Option<PointType>) -> Database {
    let mut database = Database::new();
    let rows = [
        (PointType::Binary, Some(EventClass::Class1), 2, 1, Measured::Bit(false)),
        (PointType::DoubleBit, Some(EventClass::Class1), 2, 1, Measured::DoubleBit(crate::DoubleBit::Off)),
        (PointType::Counter, Some(EventClass::Class2), 2, 1, Measured::Count(1)),
        (PointType::FrozenCounter, Some(EventClass::Class1), 2, 1, Measured::Count(1)),
        (PointType::Analog, Some(EventClass::Class3), 2, 1, Measured::Analog(0.0)),
        (PointType::BinaryOutput, None, 2, 2, Measured::Bit(false)),
        (PointType::AnalogOutput, Some(EventClass::Class1), 2, 2, Measured::Analog(0.0)),
    ];
    for (point_type, class, static_variation, event_variation, value) in rows {
        if without == Some(point_type) {
            continue;
        }
        let outputs: Vec<u16> = (0..20).collect();
        let indices = match point_type {
            PointType::BinaryOutput | PointType::AnalogOutput => outputs,
            _ => [0, 41, 1024, 65535].to_vec(),
        };
        for index in indices {
            let in_class_0 = point_type != PointType::DoubleBit;
            let config =
                PointConfig { class, in_class_0, static_variation, event_variation, ..PointConfig::of(point_type) };
            database.add(point_type, index, config).unwrap();
            let value = match (point_type, index) {
                // As the recorded outstation had them from the start.
                (PointType::DoubleBit, 41 | 65535) => Measured::DoubleBit(crate::DoubleBit::On),
                _ => value.clone(),
            };
            database.set(Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }).unwrap();
        }
    }
    database
}

impl Replay {
    fn new() -> Self {
        let config = recorded_config();
        let outstation = Outstation::new(config, recorded_database(None), Box::new(AcceptAll));
        let now = Now { mono: Instant::ZERO, utc: Timestamp::from_millis(1_586_534_000_000) };
        let mut replay = Self {
            outstation,
            config,
            without: None,
            local_output_0: false,
            now,
            out: VecDeque::new(),
            quiet_until_step_end: false,
            step: String::new(),
            operated: Vec::new(),
            expected: Joiner::default(),
        };
        replay.start();
        replay
    }

    fn start(&mut self) {
        self.outstation = Outstation::new(self.config, recorded_database(self.without), Box::new(AcceptAll));
        self.outstation.set_indications(Iin::NEED_TIME, true);
        if self.local_output_0 {
            self.outstation.set_indications(Iin::LOCAL_CONTROL, true);
            let local = Measurement {
                point_type: PointType::BinaryOutput,
                index: 0,
                value: Measured::Bit(false),
                flags: Flags::ONLINE.with(Flags::LOCAL_FORCED),
                stamp: None,
            };
            self.outstation.database_mut().set(local).unwrap();
        }
        self.outstation.handle_connected(self.now);
        self.out.clear();
        self.drain();
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Send(frame) => {
                let mut rest = frame.as_slice();
                while !rest.is_empty() {
                    let used = self.outstation.handle_input(self.now, rest);
                    rest = &rest[used..];
                    self.drain();
                }
            }
            Action::Expect(frame) => return self.expect(&frame),
            Action::ExpectNothing => self.quiet_until_step_end = true,
            Action::AllowLink(control) => {
                if self.out.front() == Some(&Unit::Link(control)) {
                    self.out.pop_front();
                }
            }
            Action::CheckOperated(expected) => {
                self.out.clear();
                let found = core::mem::take(&mut self.operated);
                if expected.into_iter().collect::<Vec<_>>() != found {
                    return Err(format!("expected {expected:?} to be operated, found {found:?}"));
                }
            }
            Action::StepEnd(next) => {
                let quiet = core::mem::take(&mut self.quiet_until_step_end);
                if quiet {
                    self.advance(QUIET, true);
                    if let Some(unexpected) = self.out.pop_front() {
                        return Err(format!("expected nothing, found {}", shown(&unexpected)));
                    }
                }
                self.step = next;
            }
            Action::Update(measurement) => {
                self.now.utc = measurement.stamp.unwrap().time.into();
                self.outstation.update(self.now, measurement).unwrap();
                self.drain();
            }
            Action::Wait(time) => self.advance(time, false),
            Action::Configure(setup) => self.configure(setup),
            Action::Restart => self.start(),
        }
        Ok(())
    }

    fn configure(&mut self, setup: Setup) {
        let unsolicited = self.config.unsolicited.get_or_insert(UnsolicitedConfig::default());
        match setup {
            Setup::Unsolicited => {}
            Setup::Retries(retries_max) => unsolicited.retries_max = retries_max,
            Setup::Master(master) => self.config.master = master,
            Setup::Without(point_type) => {
                (self.without, self.config.unsolicited) = (Some(point_type), None);
                self.start();
            }
            Setup::LocalControlOfOutput0 => (self.local_output_0, self.config.unsolicited) = (true, None),
        }
    }

    /// Moves time on, deadline by deadline; stops when something came out if asked to.
    fn advance(&mut self, time: Duration, until_output: bool) {
        let end = self.now.mono + time;
        while !until_output || self.out.is_empty() {
            let deadline = self.outstation.timeout().unwrap_or(end).max(self.now.mono).min(end);
            self.now = self.now.later(deadline.since(self.now.mono));
            self.outstation.handle_timeout(self.now);
            self.drain();
            if deadline == end {
                break;
            }
        }
    }

    /// Takes what comes out, and does to the outputs what was asked for.
    fn drain(&mut self) {
        let mut outputs = Vec::new();
        while let Some(event) = self.outstation.poll_event() {
            if let OutstationEvent::Operated { index, control, status: CommandStatus::Success, .. } = event {
                outputs.push(output(index, control));
            }
        }
        let mut bytes = Vec::new();
        while self.outstation.poll_transmit(self.now, &mut bytes) {}
        self.out.extend(Joiner::default().join(&bytes));
        for output in outputs {
            self.operated.push((output.point_type, output.index));
            self.outstation.update(self.now, output).unwrap();
        }
    }

    fn expect(&mut self, frame: &[u8]) -> Result<(), String> {
        for expected in self.expected.join(frame) {
            if self.out.is_empty() {
                self.advance(QUIET, true);
            }
            let found = self.out.pop_front().ok_or_else(|| format!("expected {}, found nothing", shown(&expected)))?;
            let (found, expected) = (meaning(&found), meaning(&expected));
            if found != expected {
                return Err(format!("expected {expected:#?}, found {found:#?}"));
            }
        }
        Ok(())
    }
}

fn output(index: u16, control: Control) -> Measurement {
    let (point_type, value) = match control {
        Control::Crob(crob) => (PointType::BinaryOutput, Measured::Bit(matches!(crob.code, 1 | 3 | 0x41))),
        Control::Analog(AnalogCommand::Int32(x)) => (PointType::AnalogOutput, Measured::Analog(f64::from(x))),
        Control::Analog(AnalogCommand::Int16(x)) => (PointType::AnalogOutput, Measured::Analog(f64::from(x))),
        Control::Analog(AnalogCommand::Float32(x)) => (PointType::AnalogOutput, Measured::Analog(f64::from(x))),
        Control::Analog(AnalogCommand::Float64(x)) => (PointType::AnalogOutput, Measured::Analog(x)),
    };
    Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None }
}

fn shown(unit: &Unit) -> String {
    format!("{:?}", meaning(unit))
}

/// What a fragment says: its header, its events and other objects in order, its static objects by group and index.
/// Headers are taken apart, so that a range may be one header or many. Of a fragment that others follow, the static
/// objects are left out: which of them fit depends on their order.
fn meaning(unit: &Unit) -> Vec<String> {
    let bytes = match unit {
        Unit::Link(control) => return [format!("link {control:02X}")].to_vec(),
        Unit::Fragment(bytes) => bytes,
    };
    let fragment = Fragment::parse(bytes).expect("a fragment");
    let mut said =
        [format!("{:?} {} {:04X}", fragment.control, fragment.function.name(), fragment.iin.unwrap().0)].to_vec();
    let mut values = Vec::new();
    for header in Headers::new(fragment.function, fragment.objects) {
        let header = header.expect("an object header");
        let is_static = header.layout().is_some_and(|layout| layout.kind == crate::objects::Kind::Static);
        for item in header.items() {
            let object = format!("{} {} {:02X?}", header.object(), item.index, item.bytes);
            if is_static { values.push(object) } else { said.push(object) }
        }
        values.extend(header.bits().map(|bit| format!("{} {bit:?}", header.object())));
    }
    values.sort();
    if fragment.control.fin {
        said.extend(values);
    }
    said
}

fn replay(procedure: Procedure) -> Result<(), String> {
    let mut replay = Replay::new();
    for action in procedure.actions {
        let step = replay.step.clone();
        replay.act(action).map_err(|error| format!("{step}: {error}"))?;
    }
    match replay.out.pop_front() {
        None => Ok(()),
        Some(unexpected) => Err(format!("at the end: {}", shown(&unexpected))),
    }
}

fn recordings() -> Option<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared/data/dnp3/certification");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).ok()?.map(|file| file.unwrap().path()).collect();
    files.sort();
    Some(files)
}

#[test]
fn recorded_procedures_pass() {
    let Some(files) = recordings() else {
        std::println!("skipped: no recordings at ../shared");
        return;
    };
    let mut failures = Vec::new();
    let (mut passed, mut no_oracle) = (0, 0);
    for file in files {
        let name = file.file_stem().unwrap().to_string_lossy().to_string();
        let procedure = parse(&std::fs::read_to_string(&file).unwrap());
        if !procedure.passed {
            no_oracle += 1;
            continue;
        }
        match replay(procedure) {
            Ok(()) => passed += 1,
            Err(error) => failures.push(format!("{name}: {error}")),
        }
    }
    std::println!("{passed} procedures pass, {} fail, {no_oracle} are no oracle", failures.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
