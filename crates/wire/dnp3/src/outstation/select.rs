//! Controls: select, operate, direct operate (IEEE 1815 4.4.4).

use super::application::{Application, Digest, Outcome};
use super::controls::{Operate, OutstationEvent};
use super::database::Change;
use super::point::Point;
use super::sharing::Act;
use crate::app::{CommandStatus, ControlItem, Fragment, Function, Header, Prefix, Sequence};
use crate::{AnalogCommand, Control, Flags, Iin, PointType};
use alloc::vec::Vec;
use tieline_core::{Instant, Now};

/// What was selected: the objects of the request, by their hash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Selection {
    objects: Digest,
    /// The operate must follow under the next number.
    sequence: Sequence,
    until: Instant,
}

impl Selection {
    /// Until when it holds.
    pub(super) const fn until(&self) -> Instant {
        self.until
    }
}

/// What to do with each control.
#[derive(Clone, Copy, Debug)]
enum Step {
    Select,
    Operate(Operate),
    Refuse(CommandStatus),
}

impl Application {
    pub(super) fn select(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        self.selection = None;
        let (outcome, all_succeeded) = self.control(now, fragment, Step::Select);
        if all_succeeded {
            self.share_selection(fragment);
        }
        self.selection = all_succeeded.then(|| Selection {
            objects: Digest::of(fragment.objects),
            sequence: fragment.control.sequence,
            until: now.mono + self.config.select_timeout,
        });
        outcome
    }

    pub(super) fn operate(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        let step = match self.selection.take() {
            Some(selection)
                if selection.objects == Digest::of(fragment.objects)
                    && selection.sequence.next() == fragment.control.sequence =>
            {
                if now.mono < selection.until {
                    Step::Operate(Operate::Selected)
                } else {
                    Step::Refuse(CommandStatus::Timeout)
                }
            }
            Some(_) | None => Step::Refuse(CommandStatus::NoSelect),
        };
        self.control(now, fragment, step).0
    }

    pub(super) fn direct_operate(&mut self, now: Now, fragment: &Fragment<'_>) -> Outcome {
        let how = match fragment.function {
            Function::DirectOperateNoResponse => Operate::DirectNoAck,
            _ => Operate::Direct,
        };
        self.control(now, fragment, Step::Operate(how)).0
    }

    /// Answers every control of a request with an echo that bears its status; says whether all succeeded. Nothing is
    /// operated of a request that holds anything else.
    fn control(&mut self, now: Now, fragment: &Fragment<'_>, step: Step) -> (Outcome, bool) {
        let refusal = refusal(fragment, self.objects_max());
        if refusal != Iin::NONE {
            return (Outcome::only(refusal), false);
        }
        let mut objects = fragment.objects.to_vec();
        let (mut controls, mut all_succeeded, mut iin) = (0_u32, true, Iin::NONE);
        let mut headers = fragment.headers();
        while let Some(Ok(header)) = headers.next() {
            let mut statuses = Vec::new();
            for item in header.controls() {
                controls += 1;
                let status = if controls > u32::from(self.config.controls_max) {
                    CommandStatus::TooManyOps
                } else {
                    self.decide(now, &item, step)
                };
                all_succeeded &= status == CommandStatus::Success;
                if status == CommandStatus::NotSupported {
                    iin = iin.with(Iin::PARAMETER_ERROR);
                }
                statuses.push(status);
            }
            write_statuses(&mut objects, headers.offset(), header.data().len(), &statuses);
        }
        (Outcome { iin, objects }, all_succeeded && controls > 0)
    }

    fn decide(&mut self, now: Now, item: &ControlItem, step: Step) -> CommandStatus {
        let ControlItem { index, control, .. } = item;
        let status = self.decide_quietly(now, *index, control, step);
        if let Step::Operate(how) = step {
            if status == CommandStatus::Success {
                self.stats.controls_operated += 1;
            }
            self.tell(OutstationEvent::Operated { index: *index, control: *control, how, status });
        }
        if !matches!(step, Step::Select) {
            self.note_command(now, *index, control, status);
            self.share(Act::Command { index: *index, control: *control, status });
        }
        self.stats.controls_refused += u64::from(status != CommandStatus::Success);
        status
    }

    /// Keeps an event that tells of a control (groups 13 and 43), where the point wants that.
    pub(super) fn note_command(&mut self, now: Now, index: u16, control: &Control, status: CommandStatus) {
        let point_type = output_of(control);
        let slot = self.database.slots_between(point_type, index, index).next();
        let point = slot.and_then(|slot| self.database.point(slot));
        let Some((class, event_variation)) = point.and_then(Point::command_events) else { return };
        let flags = Flags(status.code() & 0x7F);
        let command = Change { class, event_variation, bits: commanded(control), flags };
        self.events.push_command(point_type, index, command, self.clock.stamp(now));
        self.note_event(now, class);
    }

    fn decide_quietly(&mut self, now: Now, index: u16, control: &Control, step: Step) -> CommandStatus {
        let point_type = output_of(control);
        if let Step::Refuse(status) = step {
            return status;
        }
        if !has_meaning(control) || self.database.slots_between(point_type, index, index).is_empty() {
            return CommandStatus::NotSupported;
        }
        if self.is_local {
            return CommandStatus::Local;
        }
        if self.is_reserved(now, point_type, index) {
            return CommandStatus::BlockedOtherMaster;
        }
        match step {
            Step::Select => self.controls.select(index, control),
            Step::Operate(how) => self.controls.operate(index, control, how),
            Step::Refuse(status) => status,
        }
    }
}

/// The type of the points that a control is for.
pub(super) const fn output_of(control: &Control) -> PointType {
    match control {
        Control::Crob(_) => PointType::BinaryOutput,
        Control::Analog(_) => PointType::AnalogOutput,
    }
}

/// What a control asks for, as stored bits: whether it closes, or the number.
fn commanded(control: &Control) -> u64 {
    match control {
        Control::Crob(crob) => u64::from(match (crob.code >> 6, crob.code & 0x0F) {
            (1, _) => true,
            (2, _) => false,
            (_, operation) => matches!(operation, 1 | 3),
        }),
        Control::Analog(AnalogCommand::Int32(x)) => f64::from(*x).to_bits(),
        Control::Analog(AnalogCommand::Int16(x)) => f64::from(*x).to_bits(),
        Control::Analog(AnalogCommand::Float32(x)) => f64::from(*x).to_bits(),
        Control::Analog(AnalogCommand::Float64(x)) => x.to_bits(),
    }
}

/// Whether a control code is none of those that the standard reserves (IEEE 1815 A.8.1.2): operations 5 to 15, and both
/// of trip and close.
const fn has_meaning(control: &Control) -> bool {
    match control {
        Control::Crob(crob) => crob.code & 0x0F <= 4 && crob.code >> 6 != 3,
        Control::Analog(_) => true,
    }
}

/// What is wrong with a request of controls, before any of them is looked at.
fn refusal(fragment: &Fragment<'_>, objects_max: usize) -> Iin {
    if fragment.objects.is_empty() || fragment.objects.len() > objects_max {
        return Iin::PARAMETER_ERROR;
    }
    let of_header = |header: &Header<'_>| match (header.object().group, header.object().variation) {
        (12, 1) | (41, 1..=4) => match header.qualifier().parts() {
            Some((Prefix::Index(_), _)) if !header.data().is_empty() => Iin::NONE,
            Some(_) | None => Iin::PARAMETER_ERROR,
        },
        _ => Iin::OBJECT_UNKNOWN,
    };
    fragment.headers().fold(Iin::NONE, |iin, header| {
        iin.with(match header {
            Ok(header) => of_header(&header),
            Err(error) => error.iin(),
        })
    })
}

/// Puts each status into the last byte of its object, in the echo of a request whose header's objects end at `end`.
fn write_statuses(echo: &mut [u8], end: usize, bytes: usize, statuses: &[CommandStatus]) {
    let Some(objects) = end.checked_sub(bytes).and_then(|start| echo.get_mut(start..end)) else { return };
    let Some(stride) = bytes.checked_div(statuses.len()).filter(|stride| *stride > 0) else { return };
    for (object, status) in objects.chunks_mut(stride).zip(statuses) {
        if let Some(last) = object.last_mut() {
            *last = status.code();
        }
    }
}
