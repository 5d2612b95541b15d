//! Information elements (IEC 60870-5-101 7.2.6).

use super::{Cp56, Flags, Form};
use alloc::vec::Vec;
use tieline_core::{Cursor, Truncated};

const SELECT: u8 = 0x80;

/// How a command is meant: select or execute, and the station's own number (QU of QOC, QL of QOS; 0 none).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Qualifier {
    /// Whether the object is only selected (S/E).
    pub is_select: bool,
    /// 0 to 31 of a command, 0 to 127 of a set point.
    pub number: u8,
}

impl Qualifier {
    /// Of QOC: the bits between the state and S/E.
    const fn from_qoc(byte: u8) -> Self {
        Self { is_select: byte & SELECT != 0, number: byte >> 2 & 0x1F }
    }

    const fn to_qoc(self) -> u8 {
        (self.number & 0x1F) << 2 | if self.is_select { SELECT } else { 0 }
    }

    const fn from_qos(byte: u8) -> Self {
        Self { is_select: byte & SELECT != 0, number: byte & !SELECT }
    }

    const fn to_qos(self) -> u8 {
        self.number & !SELECT | if self.is_select { SELECT } else { 0 }
    }
}

/// What an information object says. Bits that the standard reserves are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Element {
    /// A state of two.
    SinglePoint {
        /// On or off.
        on: bool,
        /// What is said against it.
        flags: Flags,
    },
    /// A state of four.
    DoublePoint {
        /// 0 intermediate, 1 off, 2 on, 3 indeterminate.
        state: u8,
        /// What is said against it.
        flags: Flags,
    },
    /// The position of a transformer's steps.
    Step {
        /// -64 to 63.
        position: i8,
        /// Whether it moves.
        is_transient: bool,
        /// What is said against it.
        flags: Flags,
    },
    /// 32 bits.
    Bits {
        /// The bits.
        bits: u32,
        /// What is said against them.
        flags: Flags,
    },
    /// A fraction of a range: `raw` / 32768.
    Normalized {
        /// -32768 to 32767.
        raw: i16,
        /// What is said against it.
        flags: Flags,
    },
    /// The same without quality.
    NormalizedBare {
        /// -32768 to 32767.
        raw: i16,
    },
    /// A whole number.
    Scaled {
        /// The number.
        value: i16,
        /// What is said against it.
        flags: Flags,
    },
    /// A floating-point number.
    Short {
        /// The number.
        value: f32,
        /// What is said against it.
        flags: Flags,
    },
    /// A counter.
    Totals {
        /// The count.
        count: i32,
        /// The number of the reading, 0 to 31.
        sequence: u8,
        /// CY: it went beyond its range since the last reading.
        is_carried: bool,
        /// CA: it was adjusted since the last reading.
        is_adjusted: bool,
        /// IV: it is not to be used.
        is_invalid: bool,
    },
    /// An event of protection equipment.
    ProtectionEvent {
        /// 0 and 3 indeterminate, 1 off, 2 on.
        state: u8,
        /// What is said against it.
        flags: Flags,
        /// How long it lasted.
        elapsed_ms: u16,
    },
    /// Start events of protection equipment, packed.
    ProtectionStart {
        /// GS, SL1, SL2, SL3, SIE, SRD, the lowest bit first.
        events: u8,
        /// What is said against them.
        flags: Flags,
        /// How long the relay took.
        duration_ms: u16,
    },
    /// Output circuits of protection equipment, packed.
    ProtectionOutput {
        /// GC, CL1, CL2, CL3, the lowest bit first.
        circuits: u8,
        /// What is said against them.
        flags: Flags,
        /// How long the relay took to operate.
        operating_ms: u16,
    },
    /// 16 states, packed.
    StatusChange {
        /// The states.
        states: u16,
        /// Which changed at least once since they were last reported.
        changed: u16,
        /// What is said against them.
        flags: Flags,
    },
    /// Switches something of two states.
    SingleCommand {
        /// On or off.
        on: bool,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Switches something of two states and two in between.
    DoubleCommand {
        /// 1 off, 2 on; 0 and 3 are not permitted.
        state: u8,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Moves a transformer's steps.
    StepCommand {
        /// 1 lower, 2 higher; 0 and 3 are not permitted.
        step: u8,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Sets a fraction of a range: `raw` / 32768.
    SetNormalized {
        /// -32768 to 32767.
        raw: i16,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Sets a whole number.
    SetScaled {
        /// The number.
        value: i16,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Sets a floating-point number.
    SetShort {
        /// The number.
        value: f32,
        /// How it is meant.
        qualifier: Qualifier,
    },
    /// Sets 32 bits. It cannot be selected.
    SetBits {
        /// The bits.
        bits: u32,
    },
    /// The station has started.
    EndOfInitialization {
        /// 0 power on, 1 a reset at the station, 2 one from elsewhere; the high bit: its parameters changed.
        cause: u8,
    },
    /// Asks for all states.
    Interrogation {
        /// 20 the whole station, 21 to 36 groups 1 to 16.
        qualifier: u8,
    },
    /// Asks for counters.
    CounterInterrogation {
        /// 1 to 4 groups, 5 all; in the two high bits 0 read, 1 freeze, 2 freeze and reset, 3 reset.
        qualifier: u8,
    },
    /// Asks for one object.
    Read,
    /// Sets the clock.
    ClockSynchronization {
        /// What it shows.
        time: Cp56,
    },
    /// A test without a time.
    TestPattern {
        /// 0x55AA.
        pattern: u16,
    },
    /// A test.
    TestCounter {
        /// Its number.
        count: u16,
    },
    /// Resets a process of the station.
    Reset {
        /// Which.
        qualifier: u8,
    },
    /// The delay of the line.
    Delay {
        /// How long.
        delay_ms: u16,
    },
}

impl Element {
    /// What it is.
    #[must_use]
    pub const fn form(&self) -> Form {
        match self {
            Self::SinglePoint { .. } => Form::SinglePoint,
            Self::DoublePoint { .. } => Form::DoublePoint,
            Self::Step { .. } => Form::Step,
            Self::Bits { .. } => Form::Bits,
            Self::Normalized { .. } => Form::Normalized,
            Self::NormalizedBare { .. } => Form::NormalizedBare,
            Self::Scaled { .. } => Form::Scaled,
            Self::Short { .. } => Form::Short,
            Self::Totals { .. } => Form::Totals,
            Self::ProtectionEvent { .. } => Form::ProtectionEvent,
            Self::ProtectionStart { .. } => Form::ProtectionStart,
            Self::ProtectionOutput { .. } => Form::ProtectionOutput,
            Self::StatusChange { .. } => Form::StatusChange,
            Self::SingleCommand { .. } => Form::SingleCommand,
            Self::DoubleCommand { .. } => Form::DoubleCommand,
            Self::StepCommand { .. } => Form::StepCommand,
            Self::SetNormalized { .. } => Form::SetNormalized,
            Self::SetScaled { .. } => Form::SetScaled,
            Self::SetShort { .. } => Form::SetShort,
            Self::SetBits { .. } => Form::SetBits,
            Self::EndOfInitialization { .. } => Form::EndOfInitialization,
            Self::Interrogation { .. } => Form::Interrogation,
            Self::CounterInterrogation { .. } => Form::CounterInterrogation,
            Self::Read => Form::Read,
            Self::ClockSynchronization { .. } => Form::ClockSynchronization,
            Self::TestPattern { .. } => Form::TestPattern,
            Self::TestCounter { .. } => Form::TestCounter,
            Self::Reset { .. } => Form::Reset,
            Self::Delay { .. } => Form::Delay,
        }
    }

    /// How a command is meant; none of what is no command, and of 32 bits.
    #[must_use]
    pub const fn qualifier(&self) -> Option<Qualifier> {
        match self {
            Self::SingleCommand { qualifier, .. }
            | Self::DoubleCommand { qualifier, .. }
            | Self::StepCommand { qualifier, .. }
            | Self::SetNormalized { qualifier, .. }
            | Self::SetScaled { qualifier, .. }
            | Self::SetShort { qualifier, .. } => Some(*qualifier),
            _ => None,
        }
    }

    /// The same command as a select, or as an execute; what has no qualifier stays as it is.
    #[must_use]
    pub const fn with_select(mut self, select: bool) -> Self {
        match &mut self {
            Self::SingleCommand { qualifier, .. }
            | Self::DoubleCommand { qualifier, .. }
            | Self::StepCommand { qualifier, .. }
            | Self::SetNormalized { qualifier, .. }
            | Self::SetScaled { qualifier, .. }
            | Self::SetShort { qualifier, .. } => qualifier.is_select = select,
            _ => {}
        }
        self
    }

    pub(super) fn read(form: Form, cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        match form {
            Form::SingleCommand
            | Form::DoubleCommand
            | Form::StepCommand
            | Form::SetNormalized
            | Form::SetScaled
            | Form::SetShort
            | Form::SetBits => Self::read_command(form, cursor),
            Form::ProtectionEvent | Form::ProtectionStart | Form::ProtectionOutput => {
                Self::read_protection(form, cursor)
            }
            _ => Self::read_value(form, cursor),
        }
    }

    fn read_value(form: Form, cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(match form {
            Form::SinglePoint => {
                let byte = cursor.u8()?;
                Self::SinglePoint { on: byte & 1 != 0, flags: Flags::from_state(byte) }
            }
            Form::DoublePoint => {
                let byte = cursor.u8()?;
                Self::DoublePoint { state: byte & 3, flags: Flags::from_state(byte) }
            }
            Form::Step => {
                let (byte, flags) = (cursor.u8()?, Flags::from_qds(cursor.u8()?));
                // The sign of 7 bits.
                let position = (byte << 1).cast_signed() >> 1;
                Self::Step { position, is_transient: byte & 0x80 != 0, flags }
            }
            Form::Bits => Self::Bits { bits: cursor.u32_le()?, flags: Flags::from_qds(cursor.u8()?) },
            Form::Normalized => Self::Normalized { raw: cursor.i16_le()?, flags: Flags::from_qds(cursor.u8()?) },
            Form::NormalizedBare => Self::NormalizedBare { raw: cursor.i16_le()? },
            Form::Scaled => Self::Scaled { value: cursor.i16_le()?, flags: Flags::from_qds(cursor.u8()?) },
            Form::Short => Self::Short { value: cursor.f32_le()?, flags: Flags::from_qds(cursor.u8()?) },
            Form::Totals => {
                let (count, byte) = (cursor.i32_le()?, cursor.u8()?);
                let [is_carried, is_adjusted, is_invalid] = [0x20, 0x40, 0x80].map(|bit| byte & bit != 0);
                Self::Totals { count, sequence: byte & 0x1F, is_carried, is_adjusted, is_invalid }
            }
            Form::StatusChange => {
                let (states, changed) = (cursor.u16_le()?, cursor.u16_le()?);
                Self::StatusChange { states, changed, flags: Flags::from_qds(cursor.u8()?) }
            }
            Form::EndOfInitialization => Self::EndOfInitialization { cause: cursor.u8()? },
            Form::Interrogation => Self::Interrogation { qualifier: cursor.u8()? },
            Form::CounterInterrogation => Self::CounterInterrogation { qualifier: cursor.u8()? },
            Form::ClockSynchronization => Self::ClockSynchronization { time: Cp56(cursor.array()?) },
            Form::TestPattern => Self::TestPattern { pattern: cursor.u16_le()? },
            Form::TestCounter => Self::TestCounter { count: cursor.u16_le()? },
            Form::Reset => Self::Reset { qualifier: cursor.u8()? },
            Form::Delay => Self::Delay { delay_ms: cursor.u16_le()? },
            _ => Self::Read,
        })
    }

    fn read_protection(form: Form, cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        let first = cursor.u8()?;
        Ok(match form {
            Form::ProtectionStart => {
                let (flags, duration_ms) = (Flags::from_qdp(cursor.u8()?), cursor.u16_le()?);
                Self::ProtectionStart { events: first & 0x3F, flags, duration_ms }
            }
            Form::ProtectionOutput => {
                let (flags, operating_ms) = (Flags::from_qdp(cursor.u8()?), cursor.u16_le()?);
                Self::ProtectionOutput { circuits: first & 0x0F, flags, operating_ms }
            }
            _ => {
                let (state, flags) = (first & 3, Flags::from_qdp(first));
                Self::ProtectionEvent { state, flags, elapsed_ms: cursor.u16_le()? }
            }
        })
    }

    fn read_command(form: Form, cursor: &mut Cursor<'_>) -> Result<Self, Truncated> {
        Ok(match form {
            Form::SingleCommand => {
                let byte = cursor.u8()?;
                Self::SingleCommand { on: byte & 1 != 0, qualifier: Qualifier::from_qoc(byte) }
            }
            Form::DoubleCommand => {
                let byte = cursor.u8()?;
                Self::DoubleCommand { state: byte & 3, qualifier: Qualifier::from_qoc(byte) }
            }
            Form::StepCommand => {
                let byte = cursor.u8()?;
                Self::StepCommand { step: byte & 3, qualifier: Qualifier::from_qoc(byte) }
            }
            Form::SetNormalized => {
                Self::SetNormalized { raw: cursor.i16_le()?, qualifier: Qualifier::from_qos(cursor.u8()?) }
            }
            Form::SetScaled => {
                Self::SetScaled { value: cursor.i16_le()?, qualifier: Qualifier::from_qos(cursor.u8()?) }
            }
            Form::SetShort => Self::SetShort { value: cursor.f32_le()?, qualifier: Qualifier::from_qos(cursor.u8()?) },
            _ => Self::SetBits { bits: cursor.u32_le()? },
        })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let state = |state: u8| state & 3;
        match *self {
            Self::SinglePoint { on, flags } => out.push(u8::from(on) | flags.bits() & 0xF0),
            Self::DoublePoint { state: four, flags } => out.push(state(four) | flags.bits() & 0xF0),
            Self::Step { position, is_transient, flags } => {
                let transient = if is_transient { 0x80 } else { 0 };
                out.extend_from_slice(&[position.cast_unsigned() & 0x7F | transient, flags.bits()]);
            }
            Self::Bits { bits, flags } => push(out, bits.to_le_bytes(), flags.bits()),
            Self::Normalized { raw, flags } => push(out, raw.to_le_bytes(), flags.bits()),
            Self::NormalizedBare { raw } => out.extend_from_slice(&raw.to_le_bytes()),
            Self::Scaled { value, flags } => push(out, value.to_le_bytes(), flags.bits()),
            Self::Short { value, flags } => push(out, value.to_le_bytes(), flags.bits()),
            Self::Totals { count, sequence, is_carried, is_adjusted, is_invalid } => {
                let bits = [(is_carried, 0x20), (is_adjusted, 0x40), (is_invalid, 0x80)];
                let bits = bits.iter().filter(|(set, _)| *set).fold(sequence & 0x1F, |all, (_, bit)| all | bit);
                push(out, count.to_le_bytes(), bits);
            }
            Self::ProtectionEvent { state: four, flags, elapsed_ms } => {
                out.push(state(four) | flags.bits());
                out.extend_from_slice(&elapsed_ms.to_le_bytes());
            }
            Self::ProtectionStart { events: bits, flags, duration_ms: ms }
            | Self::ProtectionOutput { circuits: bits, flags, operating_ms: ms } => {
                out.extend_from_slice(&[bits, flags.bits()]);
                out.extend_from_slice(&ms.to_le_bytes());
            }
            Self::StatusChange { states, changed, flags } => {
                out.extend_from_slice(&states.to_le_bytes());
                push(out, changed.to_le_bytes(), flags.bits());
            }
            Self::SingleCommand { on, qualifier } => out.push(u8::from(on) | qualifier.to_qoc()),
            Self::DoubleCommand { state: four, qualifier } | Self::StepCommand { step: four, qualifier } => {
                out.push(state(four) | qualifier.to_qoc());
            }
            Self::SetNormalized { raw: value, qualifier } | Self::SetScaled { value, qualifier } => {
                push(out, value.to_le_bytes(), qualifier.to_qos());
            }
            Self::SetShort { value, qualifier } => push(out, value.to_le_bytes(), qualifier.to_qos()),
            Self::SetBits { bits } => out.extend_from_slice(&bits.to_le_bytes()),
            Self::EndOfInitialization { cause: byte }
            | Self::Interrogation { qualifier: byte }
            | Self::CounterInterrogation { qualifier: byte }
            | Self::Reset { qualifier: byte } => out.push(byte),
            Self::Read => {}
            Self::ClockSynchronization { time: Cp56(bytes) } => out.extend_from_slice(&bytes),
            Self::TestPattern { pattern: word }
            | Self::TestCounter { count: word }
            | Self::Delay { delay_ms: word } => {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }
}

fn push<const N: usize>(out: &mut Vec<u8>, value: [u8; N], last: u8) {
    out.extend_from_slice(&value);
    out.push(last);
}
