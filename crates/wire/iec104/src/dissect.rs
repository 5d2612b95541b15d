//! Frames as text, for people: what a protocol trace prints.
//!
//! ```text
//! U STARTDT act
//! I 0/0 C_IC_NA_1 activation common 1: station
//! I 1/1 M_ME_TF_1 spontaneous common 1: 4098 50.5 invalid 2026-11-20T09:30:10.000; 4099 1 2026-11-20T09:30:10.020
//! I 2/2 C_SC_NA_1 activation_confirmation refused common 1 originator 3: 5000 on select
//! S 3
//! ```
//!
//! The numbers are N(S)/N(R), of an S frame N(R). Times are as the station shows them, without a time zone. A [`Dissector`]
//! follows both directions of a connection. Every frame gives one [`Entry`], and so does every run of bytes that is no frame.

use crate::apdu::{Apdu, ApduError, Framer};
use crate::asdu::{
    Address, Asdu, AsduError, Cause, CauseCode, Cp24, Cp56, Element, Flags, Header, Object, Qualifier, TimeTag, TypeId,
};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Who sent a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The controlling station.
    Client,
    /// The controlled station.
    Server,
}

/// One frame, or one run of bytes that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Who sent it.
    pub sender: Sender,
    /// The type of its objects; none of a frame without an ASDU.
    pub type_id: Option<TypeId>,
    /// Why they are sent.
    pub cause: Option<CauseCode>,
    /// The common address.
    pub common_address: Option<u16>,
    /// The objects that it is about.
    pub addresses: Vec<Address>,
    /// One line.
    pub summary: String,
    /// Why the message was not understood.
    pub refusal: Option<String>,
    /// The frame as it is on the line; empty of bytes that are no frame.
    pub frame: Vec<u8>,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        match &self.refusal {
            Some(refusal) => write!(f, ": {refusal}"),
            None => Ok(()),
        }
    }
}

/// Bytes of one direction.
#[derive(Debug, Default)]
struct Stream {
    framer: Framer,
    /// Bytes that are part of no frame yet.
    pending: usize,
}

/// Follows both directions of a connection.
#[derive(Debug, Default)]
pub struct Dissector {
    client: Stream,
    server: Stream,
}

impl Dissector {
    /// A dissector at the start of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes what a sender sent next and appends an entry for every frame that it completes. What follows bytes that are no
    /// frame in one push is dropped with them.
    pub fn push(&mut self, sender: Sender, bytes: &[u8], entries: &mut Vec<Entry>) {
        let Stream { framer, pending } = self.stream(sender);
        *pending += bytes.len();
        framer.decode(bytes, |found| {
            let mut frame = Vec::new();
            match found {
                Ok(apdu) => {
                    apdu.emit(&mut frame);
                    *pending = pending.saturating_sub(frame.len());
                    entries.push(Entry { frame, ..dissected(sender, &apdu) });
                }
                Err(error @ ApduError::Control(_)) => {
                    // The length of the frame is known, and so is where the next one begins.
                    *pending = pending.saturating_sub(NO_ASDU_BYTES);
                    entries.push(no_frame(sender, NO_ASDU_BYTES, error));
                }
                Err(error) => {
                    entries.push(no_frame(sender, *pending, error));
                    *pending = 0;
                }
            }
            true
        });
        if framer.is_lost() {
            framer.clear();
            *pending = 0;
        }
    }

    /// The connection ends: a frame that is incomplete is refused.
    pub fn finish(&mut self, entries: &mut Vec<Entry>) {
        for sender in [Sender::Client, Sender::Server] {
            let stream = core::mem::take(self.stream(sender));
            if stream.pending > 0 {
                entries.push(no_frame(sender, stream.pending, ApduError::Truncated));
            }
        }
    }

    const fn stream(&mut self, sender: Sender) -> &mut Stream {
        match sender {
            Sender::Client => &mut self.client,
            Sender::Server => &mut self.server,
        }
    }
}

/// Bytes of a frame that has no ASDU.
const NO_ASDU_BYTES: usize = 6;

fn blank(sender: Sender, summary: String) -> Entry {
    Entry {
        sender,
        type_id: None,
        cause: None,
        common_address: None,
        addresses: Vec::new(),
        summary,
        refusal: None,
        frame: Vec::new(),
    }
}

fn no_frame(sender: Sender, bytes: usize, error: ApduError) -> Entry {
    Entry { refusal: Some(error.to_string()), ..blank(sender, format!("{bytes} bytes that are no frame")) }
}

fn dissected(sender: Sender, apdu: &Apdu<'_>) -> Entry {
    match apdu {
        Apdu::U(function) => blank(sender, format!("U {}", function.name())),
        Apdu::S { receive } => blank(sender, format!("S {receive}")),
        Apdu::I { send, receive, asdu } => {
            let entry = blank(sender, format!("I {send}/{receive}"));
            match Header::parse(asdu) {
                Ok((header, ..)) => with_asdu(entry, &header, asdu),
                Err(error) => Entry { refusal: Some(error.to_string()), ..entry },
            }
        }
    }
}

fn with_asdu(mut entry: Entry, header: &Header, bytes: &[u8]) -> Entry {
    (entry.type_id, entry.cause) = (Some(header.type_id), Some(header.cause.code));
    entry.common_address = Some(header.common_address);
    entry.summary.push_str(&headed(header));
    match Asdu::parse(bytes) {
        Ok(asdu) => {
            for (at, object) in asdu.objects().enumerate() {
                entry.summary.push_str(if at == 0 { ": " } else { "; " });
                entry.summary.push_str(&told(&object));
                entry.addresses.push(object.address);
            }
        }
        // Its header says all of it that is known.
        Err(AsduError::Type(_)) => entry.refusal = Some("a type that is not known here".to_string()),
        Err(error) => entry.refusal = Some(error.to_string()),
    }
    entry
}

fn headed(header: &Header) -> String {
    let mut text = String::from(" ");
    let _ = match header.type_id.name() {
        Some(name) => text.write_str(name),
        None => write!(text, "type {}", header.type_id.0),
    };
    let Cause { code, is_negative, is_test, originator } = header.cause;
    let _ = match code.raw() {
        group @ 21..=36 => write!(text, " interrogated group {}", group - 20),
        group @ 38..=41 => write!(text, " counters group {}", group - 37),
        number if code.name() == "reserved" => write!(text, " cause {number}"),
        _ => write!(text, " {}", code.name()),
    };
    text.push_str(if is_negative { " refused" } else { "" });
    text.push_str(if is_test { " test" } else { "" });
    let _ = match header.common_address {
        Header::BROADCAST => text.write_str(" common all"),
        number => write!(text, " common {number}"),
    };
    if originator != 0 {
        let _ = write!(text, " originator {originator}");
    }
    text
}

/// An object: its address where that means something, its value, what is said against it, its time.
fn told(object: &Object) -> String {
    let mut text = match object.address.raw() {
        0 => String::new(),
        address => format!("{address} "),
    };
    text.push_str(&valued(&object.element));
    text.push_str(&match object.time {
        TimeTag::None => String::new(),
        TimeTag::Cp24(time) => format!(" {}", minutes(time)),
        TimeTag::Cp56(time) => format!(" {}", dated(time)),
    });
    text.trim_end().to_string()
}

fn valued(element: &Element) -> String {
    match *element {
        Element::SinglePoint { on, flags } => format!("{}{}", switched(on), flagged(flags)),
        Element::DoublePoint { state, flags } => format!("{}{}", double(state), flagged(flags)),
        Element::Step { position, is_transient, flags } => {
            format!("{position}{}{}", if is_transient { " moves" } else { "" }, flagged(flags))
        }
        Element::Bits { bits, flags } => format!("{bits:#010x}{}", flagged(flags)),
        Element::Normalized { raw, flags } => format!("{}{}", fraction(raw), flagged(flags)),
        Element::NormalizedBare { raw } => fraction(raw).to_string(),
        Element::Scaled { value, flags } => format!("{value}{}", flagged(flags)),
        Element::Short { value, flags } => format!("{value}{}", flagged(flags)),
        Element::Totals { count, sequence, is_carried, is_adjusted, is_invalid } => {
            let words = [(is_carried, " carried"), (is_adjusted, " adjusted"), (is_invalid, " invalid")];
            let words: String = words.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
            format!("{count} reading {sequence}{words}")
        }
        Element::ProtectionEvent { state, flags, elapsed_ms } => {
            format!("{} elapsed {elapsed_ms} ms{}", double(state), flagged(flags))
        }
        Element::ProtectionStart { events: bits, flags, duration_ms: ms }
        | Element::ProtectionOutput { circuits: bits, flags, operating_ms: ms } => {
            format!("{bits:#04x} {ms} ms{}", flagged(flags))
        }
        Element::StatusChange { states, changed, flags } => {
            format!("{states:#06x} changed {changed:#06x}{}", flagged(flags))
        }
        _ => asked(element),
    }
}

/// What clients send, and what answers them.
fn asked(element: &Element) -> String {
    match *element {
        Element::SingleCommand { on, qualifier } => format!("{}{}", switched(on), qualified(qualifier)),
        Element::DoubleCommand { state, qualifier } => format!("{}{}", double(state), qualified(qualifier)),
        Element::StepCommand { step, qualifier } => {
            let word = match step {
                1 => "lower",
                2 => "higher",
                _ => "not_permitted",
            };
            format!("{word}{}", qualified(qualifier))
        }
        Element::SetNormalized { raw, qualifier } => format!("{}{}", fraction(raw), qualified(qualifier)),
        Element::SetScaled { value, qualifier } => format!("{value}{}", qualified(qualifier)),
        Element::SetShort { value, qualifier } => format!("{value}{}", qualified(qualifier)),
        Element::SetBits { bits } => format!("{bits:#010x}"),
        Element::EndOfInitialization { cause } => format!("cause {cause}"),
        Element::Interrogation { qualifier: 20 } => "station".to_string(),
        Element::Interrogation { qualifier: group @ 21..=36 } => format!("group {}", group - 20),
        Element::Interrogation { qualifier } | Element::Reset { qualifier } => format!("qualifier {qualifier}"),
        Element::CounterInterrogation { qualifier } => {
            let verb = match qualifier >> 6 {
                0 => "read",
                1 => "freeze",
                2 => "freeze and reset",
                _ => "reset",
            };
            match qualifier & 0x3F {
                5 => format!("{verb} all"),
                group => format!("{verb} group {group}"),
            }
        }
        Element::ClockSynchronization { time } => dated(time),
        Element::TestPattern { pattern } => format!("{pattern:#06x}"),
        Element::TestCounter { count } => count.to_string(),
        Element::Delay { delay_ms } => format!("{delay_ms} ms"),
        _ => String::new(),
    }
}

const fn switched(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

const fn double(state: u8) -> &'static str {
    match state {
        0 => "intermediate",
        1 => "off",
        2 => "on",
        _ => "indeterminate",
    }
}

fn fraction(raw: i16) -> f32 {
    f32::from(raw) / 32_768.0
}

fn qualified(qualifier: Qualifier) -> String {
    let number = if qualifier.number == 0 { String::new() } else { format!(" qualifier {}", qualifier.number) };
    format!("{number} {}", if qualifier.is_select { "select" } else { "execute" })
}

fn flagged(flags: Flags) -> String {
    let words = [
        (Flags::INVALID, " invalid"),
        (Flags::NOT_TOPICAL, " not_topical"),
        (Flags::SUBSTITUTED, " substituted"),
        (Flags::BLOCKED, " blocked"),
        (Flags::ELAPSED_INVALID, " elapsed_invalid"),
        (Flags::OVERFLOW, " overflow"),
    ];
    words.iter().filter(|(flag, _)| flags.contains(*flag)).map(|(_, word)| *word).collect()
}

fn dated(time: Cp56) -> String {
    let Cp56([low, high, minute, hour, day, month, year]) = time;
    let (ms, century) = (u16::from_le_bytes([low, high]), if year & 0x7F < 70 { 2000 } else { 1900 });
    format!(
        "{}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}{}{}",
        century + u16::from(year & 0x7F),
        month & 0x0F,
        day & 0x1F,
        hour & 0x1F,
        minute & 0x3F,
        ms / 1000,
        ms % 1000,
        if hour & 0x80 != 0 { " summer" } else { "" },
        if time.is_invalid() { " time_invalid" } else { "" },
    )
}

fn minutes(time: Cp24) -> String {
    let Cp24([low, high, minute]) = time;
    let ms = u16::from_le_bytes([low, high]);
    let invalid = if time.is_invalid() { " time_invalid" } else { "" };
    format!("{:02}:{:02}.{:03}{invalid}", minute & 0x3F, ms / 1000, ms % 1000)
}
