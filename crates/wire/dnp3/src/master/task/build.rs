//! Requests, by what they are for.

use super::{Addressee, Meaning, Request};
use crate::app::{
    AppControl, AttributeValue, CommandStatus, FILE_HEADER_BYTES, FileObject, FragmentWriter, Function, PointRef,
    Qualifier, Sequence, WriteError,
};
use crate::master::{ReadRequest, TimeSync};
use crate::objects::bytes_of_time;
use crate::{Classes, Control, DnpTime, EventClass, Flags, GroupVar, Measured};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Bytes of a request's own header.
const HEADER_BYTES: usize = 2;

/// Which objects a request names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    object: GroupVar,
    points: Points,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Points {
    All,
    Span(u16, u16),
    Count(u16),
    Indices(Box<[u16]>),
}

impl Selection {
    /// All objects of a group and variation (qualifier 06); variation 0 leaves the choice to the outstation.
    #[must_use]
    pub const fn all(object: GroupVar) -> Self {
        Self { object, points: Points::All }
    }

    /// The points between two indices, both included, in either order (qualifier 00 or 01).
    #[must_use]
    pub const fn span(object: GroupVar, a: u16, b: u16) -> Self {
        let (first, last) = if a <= b { (a, b) } else { (b, a) };
        Self { object, points: Points::Span(first, last) }
    }

    /// The first so many: of events, the oldest (qualifier 07 or 08).
    #[must_use]
    pub const fn count(object: GroupVar, count: u16) -> Self {
        Self { object, points: Points::Count(count) }
    }

    /// These points (qualifier 17 or 28); none where `indices` is empty.
    #[must_use]
    pub fn indices(object: GroupVar, indices: &[u16]) -> Self {
        Self { object, points: Points::Indices(indices.into()) }
    }

    fn write(&self, writer: &mut FragmentWriter<'_>) -> Result<(), WriteError> {
        match &self.points {
            Points::All => writer.all(self.object),
            Points::Span(first, last) => writer.span(self.object, *first, *last),
            Points::Count(count) => writer.count(self.object, *count),
            Points::Indices(indices) => indices.chunks(usize::from(u8::MAX)).try_for_each(|some| {
                let narrow = some.iter().all(|index| u8::try_from(*index).is_ok());
                let count = u8::try_from(some.len()).unwrap_or(u8::MAX);
                let GroupVar { group, variation } = self.object;
                let (qualifier, bytes) = if narrow { (Qualifier::INDEXED_8, 1) } else { (Qualifier::INDEXED_16, 2) };
                let mut header = alloc::vec![group, variation, qualifier.0];
                header.extend([count, 0].iter().take(bytes));
                some.iter().for_each(|index| header.extend(index.to_le_bytes().iter().take(bytes)));
                writer.raw(&header)
            }),
        }
    }
}

impl From<ReadRequest> for Request {
    fn from(read: ReadRequest) -> Self {
        match read {
            ReadRequest::Classes(classes) => Self::read_classes(classes),
            ReadRequest::All(object) => Self::read(&[Selection::all(object)]),
            ReadRequest::Range { object, first, last } => Self::read(&[Selection::span(object, first, last)]),
        }
    }
}

/// How controls are executed (IEEE 1815 4.4.2 to 4.4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlProcedure {
    /// Functions 3 and 4: the operate follows when every control was selected and echoed as sent.
    SelectBeforeOperate,
    /// Function 3 alone, for tests of an outstation.
    Select,
    /// Function 4 alone, for tests of an outstation, or after a [`ControlProcedure::Select`].
    Operate,
    /// Function 5.
    Direct,
    /// Function 6: no answer comes.
    DirectNoResponse,
}

impl ControlProcedure {
    pub(in crate::master) const fn function(self) -> Function {
        match self {
            Self::SelectBeforeOperate | Self::Select => Function::Select,
            Self::Operate => Function::Operate,
            Self::Direct => Function::DirectOperate,
            Self::DirectNoResponse => Function::DirectOperateNoResponse,
        }
    }

    /// Whether it is at its select.
    pub(in crate::master) const fn selects(self) -> bool {
        matches!(self, Self::SelectBeforeOperate | Self::Select)
    }
}

/// Which restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Function 13: of the whole device, as after a power cycle.
    Cold,
    /// Function 14: of the DNP3 application.
    Warm,
}

/// What becomes of frozen counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// Functions 7 and 8: at once.
    Immediate,
    /// Functions 9 and 10: at once, and the counters begin at 0 again.
    Clear,
    /// Functions 11 and 12: at a time.
    AtTime {
        /// When first; 0 is at once.
        time: DnpTime,
        /// Milliseconds from each freeze to the next; 0 for only one.
        interval_ms: u32,
    },
}

impl Freeze {
    const fn function(self, answered: bool) -> Function {
        match (self, answered) {
            (Self::Immediate, true) => Function::ImmediateFreeze,
            (Self::Immediate, false) => Function::ImmediateFreezeNoResponse,
            (Self::Clear, true) => Function::FreezeClear,
            (Self::Clear, false) => Function::FreezeClearNoResponse,
            (Self::AtTime { .. }, true) => Function::FreezeAtTime,
            (Self::AtTime { .. }, false) => Function::FreezeAtTimeNoResponse,
        }
    }
}

/// How far an analog input must move for an event: group 34, by width, in raw units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DeadBand {
    /// Variation 1.
    U16(u16),
    /// Variation 2.
    U32(u32),
    /// Variation 3.
    F32(f32),
}

impl DeadBand {
    const fn object(self) -> GroupVar {
        GroupVar::new(
            34,
            match self {
                Self::U16(_) => 1,
                Self::U32(_) => 2,
                Self::F32(_) => 3,
            },
        )
    }

    fn encode(self, out: &mut Vec<u8>) {
        match self {
            Self::U16(x) => out.extend_from_slice(&x.to_le_bytes()),
            Self::U32(x) => out.extend_from_slice(&x.to_le_bytes()),
            Self::F32(x) => out.extend_from_slice(&x.to_le_bytes()),
        }
    }
}

type Written = Result<(), WriteError>;

impl Request {
    fn new(function: Function, meaning: Meaning, objects: Vec<u8>) -> Self {
        Self { code: function.code(), objects, meaning, addressee: Addressee::Outstation, until: None }
    }

    fn plain(function: Function, meaning: Meaning) -> Self {
        Self::new(function, meaning, Vec::new())
    }

    /// Encodes what `write` writes.
    fn written(
        function: Function,
        meaning: Meaning,
        write: impl FnOnce(&mut FragmentWriter<'_>) -> Written,
    ) -> Result<Self, WriteError> {
        let mut fragment = Vec::new();
        let mut writer =
            FragmentWriter::request(&mut fragment, u16::MAX, AppControl::single(Sequence::default()), function);
        write(&mut writer)?;
        Ok(Self::new(function, meaning, fragment.split_off(HEADER_BYTES)))
    }

    /// As [`Request::written`], for objects that always fit: what would not is left out.
    fn short(function: Function, meaning: Meaning, write: impl FnOnce(&mut FragmentWriter<'_>) -> Written) -> Self {
        let written = Self::written(function, meaning, write);
        debug_assert!(written.is_ok(), "{written:?}");
        written.unwrap_or_else(|_| Self::plain(function, meaning))
    }

    /// Function 1: reads classes, events before static data.
    #[must_use]
    pub fn read_classes(classes: Classes) -> Self {
        Self::short(Function::Read, Meaning::Read, |writer| writer.classes(classes))
    }

    /// Function 1: reads objects.
    #[must_use]
    pub fn read(selections: &[Selection]) -> Self {
        Self::named(Function::Read, Meaning::Read, selections)
    }

    /// Names objects; beyond 64 kB they are left out, and no request is that long.
    fn named(function: Function, meaning: Meaning, selections: &[Selection]) -> Self {
        Self::short(function, meaning, |writer| selections.iter().try_for_each(|selection| selection.write(writer)))
    }

    /// Functions 3 to 6: operates outputs, each with its index, in this order. `qualifier` is one of count and index;
    /// none chooses 17 where every index fits, else 28.
    ///
    /// # Errors
    /// `qualifier` does not fit.
    pub fn control(
        procedure: ControlProcedure,
        controls: &[(u16, Control)],
        qualifier: Option<Qualifier>,
    ) -> Result<Self, WriteError> {
        let narrow = controls.iter().all(|(index, _)| u8::try_from(*index).is_ok());
        let qualifier = qualifier.unwrap_or(if narrow { Qualifier::INDEXED_8 } else { Qualifier::INDEXED_16 });
        Self::written(procedure.function(), Meaning::Control(procedure), |writer| {
            let mut each = controls.iter();
            each.try_for_each(|(index, control)| writer.control(qualifier, *index, control, CommandStatus::Success))
        })
    }

    /// Functions 13 and 14: restarts the outstation. [`Answer::Delay`](super::Answer::Delay) tells when it will be back.
    #[must_use]
    pub fn restart(restart: Restart) -> Self {
        let function = match restart {
            Restart::Cold => Function::ColdRestart,
            Restart::Warm => Function::WarmRestart,
        };
        Self::plain(function, Meaning::Act)
    }

    /// Function 22: puts points, named by the groups of their static objects, into an event class; none into class 0
    /// alone, which reports no events.
    #[must_use]
    pub fn assign_class(assignments: &[(Option<EventClass>, &[Selection])]) -> Self {
        Self::short(Function::AssignClass, Meaning::Write, |writer| {
            assignments.iter().try_for_each(|(class, selections)| {
                writer.classes(class.map_or(Classes::CLASS_0, Classes::from))?;
                selections.iter().try_for_each(|selection| selection.write(writer))
            })
        })
    }

    /// Functions 7 to 12: freezes counters (group 20) or analog inputs (group 30), with or without an answer.
    #[must_use]
    pub fn freeze(freeze: Freeze, answered: bool, selections: &[Selection]) -> Self {
        Self::short(freeze.function(answered), Meaning::Act, |writer| {
            if let Freeze::AtTime { time, interval_ms } = freeze {
                let [a, b, c, d, e, f] = bytes_of_time(time);
                let [g, h, i, j] = interval_ms.to_le_bytes();
                writer.raw(&[50, 2, Qualifier::COUNT_8.0, 1, a, b, c, d, e, f, g, h, i, j])?;
            }
            selections.iter().try_for_each(|selection| selection.write(writer))
        })
    }

    /// Functions 20 and 21: lets classes 1 to 3 report by themselves, or keeps them from it.
    #[must_use]
    pub fn unsolicited(enable: bool, classes: Classes) -> Self {
        let function = if enable { Function::EnableUnsolicited } else { Function::DisableUnsolicited };
        Self::short(function, Meaning::Write, |writer| writer.classes(classes.without(Classes::CLASS_0)))
    }

    /// Function 2: writes dead-bands of analog inputs, each with its index.
    ///
    /// # Errors
    /// More than fit 64 kB.
    pub fn write_dead_bands(dead_bands: &[(u16, DeadBand)]) -> Result<Self, WriteError> {
        let narrow = dead_bands.iter().all(|(index, _)| u8::try_from(*index).is_ok());
        let qualifier = if narrow { Qualifier::INDEXED_8 } else { Qualifier::INDEXED_16 };
        Self::written(Function::Write, Meaning::Write, |writer| {
            dead_bands.iter().try_for_each(|(index, dead_band)| {
                writer.indexed_object(dead_band.object(), qualifier, *index, |out| dead_band.encode(out))
            })
        })
    }

    /// Function 2: writes octet strings of 1 to 255 bytes (group 110), each with its index.
    ///
    /// # Errors
    /// A string is empty or too long.
    pub fn write_strings(strings: &[(u16, &[u8])]) -> Result<Self, WriteError> {
        Self::written(Function::Write, Meaning::Write, |writer| {
            strings.iter().try_for_each(|(index, bytes)| {
                let value = Measured::Bytes((*bytes).into());
                let point = PointRef { index: *index, value: &value, flags: Flags::ONLINE, stamp: None };
                writer.static_point(GroupVar::new(110, 0), point)
            })
        })
    }

    /// Function 1: reads device attributes of a set (0 is the standard's): one, [`ALL_ATTRIBUTES`], or
    /// [`LIST_OF_ATTRIBUTES`].
    ///
    /// [`ALL_ATTRIBUTES`]: crate::app::ALL_ATTRIBUTES
    /// [`LIST_OF_ATTRIBUTES`]: crate::app::LIST_OF_ATTRIBUTES
    #[must_use]
    pub fn read_attributes(set: u16, variation: u8) -> Self {
        Self::read(&[Selection::span(GroupVar::new(0, variation), set, set)])
    }

    /// Function 2: writes one device attribute.
    ///
    /// # Errors
    /// It does not fit 64 kB.
    pub fn write_attribute(set: u16, variation: u8, value: &AttributeValue) -> Result<Self, WriteError> {
        Self::written(Function::Write, Meaning::Write, |writer| writer.attribute(set, variation, value))
    }

    /// Function 2: clears IIN1.7.
    #[must_use]
    pub fn clear_restart() -> Self {
        Self::short(Function::Write, Meaning::Write, |writer| writer.clear_restart())
    }

    /// Functions 23, 24 and 2: sets the clock; [`TimeSync::Never`] is taken as [`TimeSync::Lan`].
    #[must_use]
    pub fn sync_time(how: TimeSync) -> Self {
        Self::plain(Function::Write, Meaning::Time(how))
    }

    /// Function 23: how long a request takes. [`Answer::RoundTrip`](super::Answer::RoundTrip) tells.
    #[must_use]
    pub fn measure_delay() -> Self {
        Self::plain(Function::DelayMeasure, Meaning::Delay)
    }

    /// Function 19, deprecated: saves the configuration. [`Answer::Delay`](super::Answer::Delay) tells when it is done.
    #[must_use]
    pub fn save_configuration() -> Self {
        Self::plain(Function::SaveConfiguration, Meaning::Act)
    }

    /// Function 31: makes the configurations of these names effective (group 70 variation 8, as files are named).
    ///
    /// # Errors
    /// A name is longer than 65535 bytes, or more than 255 names.
    pub fn activate_configuration(names: &[&str]) -> Result<Self, WriteError> {
        let object = GroupVar::new(70, 8);
        let wrong = |_| WriteError::WrongObject(object);
        let mut header = alloc::vec![70, 8, Qualifier::FREE.0, u8::try_from(names.len()).map_err(wrong)?];
        for name in names {
            header.extend_from_slice(&u16::try_from(name.len()).map_err(wrong)?.to_le_bytes());
            header.extend_from_slice(name.as_bytes());
        }
        Self::written(Function::ActivateConfiguration, Meaning::Act, |writer| writer.raw(&header))
    }

    /// A request of a file job.
    pub(in crate::master) fn file(function: Function, object: &FileObject<'_>) -> Self {
        let mut objects = Vec::with_capacity(object.bytes() + FILE_HEADER_BYTES);
        object.emit(&mut objects);
        Self::new(function, Meaning::File, objects)
    }

    /// Any function code, with a meaning or without, and object headers as they are, for tests of an outstation; it is sent
    /// once. [`Answer::Objects`](super::Answer::Objects) gives what each fragment of the answer brings.
    #[must_use]
    pub fn raw(code: u8, objects: &[u8]) -> Self {
        let (objects, addressee) = (objects.to_vec(), Addressee::Outstation);
        Self { code, objects, meaning: Meaning::Raw, addressee, until: None }
    }
}
