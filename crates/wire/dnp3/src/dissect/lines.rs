//! The objects of one header as lines.

use crate::app::{AttributeValue, ControlItem, FileObject, Header, Prefix, Range, attribute_name};
use crate::objects::{Fields, FlagsForm, Layout, Size, TimeField, ValueForm};
use crate::{AnalogCommand, Control, Crob, DnpTime, DoubleBit, Flags, GroupVar, Measured, Stamp};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;
use tieline_core::Timestamp;

/// Bytes of an object of unknown meaning that are shown.
const HEX_BYTES_MAX: usize = 64;

/// Appends the lines of a header: one for each object it brings, or one for what it names.
pub(super) fn push(header: &Header<'_>, cto: Option<Stamp>, lines: &mut Vec<String>) {
    let before = lines.len();
    let object = header.object();
    match header.layout().map(|layout| (layout, layout.size)) {
        Some((layout, Size::Bits(_))) => push_packed(header, layout, lines),
        Some((layout, Size::Bytes(_) | Size::Variation)) if object.group != 12 && object.group != 41 => {
            lines.extend(header.items().map(|item| match layout.decode(item.bytes) {
                Ok(fields) => format!("{object}{} {}", bracket(header, item.index), fields_text(layout, &fields, cto)),
                Err(_) => raw_text(header, item.index, item.bytes),
            }));
        }
        Some(_) if object.group == 70 => {
            lines.extend(header.items().map(|item| match FileObject::parse(object, item.bytes) {
                Ok(file) => format!("{object}{} {file}", bracket(header, item.index)),
                Err(_) => raw_text(header, item.index, item.bytes),
            }));
        }
        Some(_) | None => {
            lines.extend(header.controls().map(|control| control_text(object, &control)));
            if lines.len() == before {
                lines.extend(header.items().map(|item| raw_text(header, item.index, item.bytes)));
            }
        }
    }
    if lines.len() == before {
        lines.push(format!("{object} {}", named_text(header)));
    }
}

/// What a header without objects asks for.
fn named_text(header: &Header<'_>) -> String {
    let mut text = match header.object() {
        GroupVar { group: 60, variation: variation @ 1..=4 } => format!("class {}", variation - 1),
        GroupVar { group: 0, variation } => attribute_name(variation).unwrap_or("attribute").to_string(),
        object => group_name(object).to_string(),
    };
    match header.range() {
        Range::All => text.push_str(", all"),
        Range::Span { start, stop } if start == stop => drop(write!(text, " [{start}]")),
        Range::Span { start, stop } => drop(write!(text, " [{start}-{stop}]")),
        Range::Count(count) => drop(write!(text, ", {count} at most")),
    }
    text
}

fn group_name(object: GroupVar) -> &'static str {
    let one = GroupVar::new(object.group, object.variation.max(1));
    Layout::find(one).map_or("unknown objects", |layout| layout.name)
}

/// The index of an object in brackets; nothing for the only object of a header without indices.
fn bracket(header: &Header<'_>, index: u32) -> String {
    let unnumbered = matches!(header.range(), Range::Count(1))
        && header.qualifier().parts().is_some_and(|(prefix, _)| !matches!(prefix, Prefix::Index(_)));
    if unnumbered { String::new() } else { format!(" [{index}]") }
}

fn push_packed(header: &Header<'_>, layout: &Layout, lines: &mut Vec<String>) {
    let first = match header.range() {
        Range::Span { start, .. } => start,
        Range::All | Range::Count(_) => 0,
    };
    let count = if header.data().is_empty() { 0 } else { header.range().count() };
    for position in 0..usize::try_from(count).unwrap_or(0) {
        let Some(value) = layout.decode_packed(header.data(), position) else { return };
        let index = u64::from(first) + u64::try_from(position).unwrap_or(u64::MAX);
        lines.push(format!("{} [{index}] {}", header.object(), value_text(&value)));
    }
}

fn fields_text(layout: &Layout, fields: &Fields, cto: Option<Stamp>) -> String {
    let mut text = match &fields.value {
        Some(value) => value_text(value),
        None => String::new(),
    };
    match layout.flags {
        FlagsForm::None => {}
        FlagsForm::Flags | FlagsForm::FlagsBit | FlagsForm::FlagsDoubleBit => {
            text.push_str(" flags");
            push_flags(layout.object.group, fields.flags, &mut text);
        }
        FlagsForm::Status | FlagsForm::StatusBit => {
            let _ = write!(text, " status {}", crate::app::CommandStatus::from_byte(fields.flags.0));
        }
    }
    match layout.object {
        GroupVar { group: 52, variation: 1 } => text.push_str(" s"),
        GroupVar { group: 52, variation: 2 } => text.push_str(" ms"),
        _ => {}
    }
    let only_time = layout.value == ValueForm::None && layout.flags == FlagsForm::None;
    let label = if only_time { "" } else { " time " };
    match (fields.time, cto) {
        (TimeField::None, _) => {}
        (TimeField::Absolute(time), _) => drop(write!(text, "{label}{}", time_text(time))),
        (TimeField::Relative(millis), Some(cto)) => {
            let time = DnpTime::from_millis(cto.time.millis() + u64::from(millis));
            let quality = if cto.synchronized { "" } else { " unsynchronized" };
            let _ = write!(text, "{label}{}{quality}", time_text(time));
        }
        (TimeField::Relative(millis), None) => drop(write!(text, "{label}+{millis} ms after an unknown time")),
    }
    text
}

/// Beyond the year 9999 the milliseconds themselves are shown.
fn time_text(time: DnpTime) -> String {
    let stamp = Timestamp::from(time);
    let shown = u64::try_from(stamp.millis()).is_ok_and(|millis| millis == time.millis());
    if shown { stamp.to_string() } else { format!("{} ms", time.millis()) }
}

fn value_text(value: &Measured) -> String {
    match value {
        Measured::Bit(state) => (if *state { "on" } else { "off" }).into(),
        Measured::DoubleBit(DoubleBit::Intermediate) => "intermediate".into(),
        Measured::DoubleBit(DoubleBit::Off) => "off".into(),
        Measured::DoubleBit(DoubleBit::On) => "on".into(),
        Measured::DoubleBit(DoubleBit::Indeterminate) => "indeterminate".into(),
        Measured::Count(count) => count.to_string(),
        Measured::Analog(x) => number_text(*x),
        Measured::Bytes(bytes) => bytes_text(bytes),
    }
}

/// Very large and very small numbers with an exponent.
fn number_text(x: f64) -> String {
    let plain = x == 0.0 || !x.is_finite() || (1e-6..1e16).contains(&x.abs());
    if plain { x.to_string() } else { format!("{x:e}") }
}

/// Printable bytes as text, others in hex.
fn bytes_text(bytes: &[u8]) -> String {
    let printable = bytes.iter().all(|byte| (0x20..0x7F).contains(byte));
    match core::str::from_utf8(bytes) {
        Ok(text) if printable && !bytes.is_empty() => format!("{text:?}"),
        Ok(_) | Err(_) => hex(bytes),
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = format!("{} bytes:", bytes.len());
    for byte in bytes.iter().take(HEX_BYTES_MAX) {
        let _ = write!(text, " {byte:02X}");
    }
    if bytes.len() > HEX_BYTES_MAX {
        text.push_str(" …");
    }
    text
}

fn raw_text(header: &Header<'_>, index: u32, bytes: &[u8]) -> String {
    let object = header.object();
    let named = format!("{object}{} {}", bracket(header, index), group_name(object));
    match (bytes, object.group) {
        ([], _) => named,
        (bytes, 0) => attribute_text(header, index, bytes).unwrap_or(named),
        (bytes, _) => format!("{named} {}", hex(bytes)),
    }
}

fn attribute_text(header: &Header<'_>, index: u32, bytes: &[u8]) -> Option<String> {
    let (object, value) = (header.object(), AttributeValue::decode(bytes)?);
    let name = attribute_name(object.variation).filter(|_| index == 0).unwrap_or("attribute");
    Some(format!("{object}{} {name} {} {value}", bracket(header, index), value.type_name()))
}

fn control_text(object: GroupVar, item: &ControlItem) -> String {
    let control = match item.control {
        Control::Crob(crob) => crob_text(crob),
        Control::Analog(AnalogCommand::Int32(x)) => x.to_string(),
        Control::Analog(AnalogCommand::Int16(x)) => x.to_string(),
        Control::Analog(AnalogCommand::Float32(x)) => number_text(f64::from(x)),
        Control::Analog(AnalogCommand::Float64(x)) => number_text(x),
    };
    format!("{object} [{}] {control} status {}", item.index, item.status)
}

fn crob_text(Crob { code, count, on_ms, off_ms }: Crob) -> String {
    let operation = match code & 0x0F {
        0 => "nul",
        1 => "pulse-on",
        2 => "pulse-off",
        3 => "latch-on",
        4 => "latch-off",
        _ => "reserved",
    };
    let trip_close = match code >> 6 {
        0 => "",
        1 => " close",
        2 => " trip",
        _ => " trip-close-reserved",
    };
    let clear = if code & 0x20 == 0 { "" } else { " clear" };
    let queue = if code & 0x10 == 0 { "" } else { " queue" };
    format!("{operation}{trip_close}{clear}{queue} count {count} on {on_ms} ms off {off_ms} ms")
}

fn push_flags(group: u8, flags: Flags, text: &mut String) {
    let (bit_5, bit_6) = match group {
        1..=4 => ("chatter-filter", "reserved-6"),
        20..=23 => ("rollover", "discontinuity"),
        30..=33 | 40..=43 => ("over-range", "reference-error"),
        _ => ("reserved-5", "reserved-6"),
    };
    let names = ["online", "restart", "comm-lost", "remote-forced", "local-forced", bit_5, bit_6, "reserved-7"];
    let mut none = true;
    for (bit, name) in names.into_iter().enumerate().filter(|(bit, _)| flags.0 >> bit & 1 == 1) {
        debug_assert!(bit < 8);
        none = false;
        text.push(' ');
        text.push_str(name);
    }
    if none {
        text.push_str(" none");
    }
}
