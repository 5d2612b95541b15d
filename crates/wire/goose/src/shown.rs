//! Messages in words.

use crate::data::{Bits, Data, Members};
use crate::pdu::Message;
use alloc::string::String;
use core::fmt::Write as _;

/// Characters of the longest text, and bytes of the longest octet string, that are shown whole.
const SHOWN_MAX: usize = 64;
/// Values that are shown.
const VALUES_MAX: usize = 256;

/// One line for a message, without its values.
#[must_use]
pub fn shown_head(message: &Message<'_>) -> String {
    let (frame, pdu, head) = (&message.frame, &message.pdu, &message.pdu.head);
    let mut line = String::new();
    let (app_id, st_num, sq_num, ttl) = (frame.app_id, head.st_num, head.sq_num, head.time_allowed_ms);
    text(head.gocb_ref, &mut line);
    // Writing to a string does not fail.
    let _ = write!(line, " APPID {app_id:#06x} stNum {st_num} sqNum {sq_num}, {} values", pdu.entries);
    let _ = write!(line, " of {}, allowed to live {ttl} ms, confRev {}", head.time, head.conf_rev);
    line.push_str(if message.is_simulated() { ", simulated" } else { "" });
    line.push_str(if head.needs_commissioning { ", needs commissioning" } else { "" });
    line
}

/// Values with their paths' structure: `true, {1.5, [0 0]}`.
#[must_use]
pub fn shown_data(members: Members<'_>) -> String {
    let (mut line, mut left) = (String::new(), VALUES_MAX);
    all(members, &mut line, &mut left);
    line
}

fn all(members: Members<'_>, line: &mut String, left: &mut usize) {
    for (member, at) in members.zip(0..) {
        line.push_str(if at == 0 { "" } else { ", " });
        let Some(less) = left.checked_sub(1) else {
            line.push('…');
            return;
        };
        *left = less;
        one(member, line, left);
    }
}

fn one(data: Data<'_>, line: &mut String, left: &mut usize) {
    let _ = match data {
        Data::Array(members) | Data::Structure(members) => {
            let [open, close] = if matches!(data, Data::Array(_)) { ['[', ']'] } else { ['{', '}'] };
            line.push(open);
            all(members, line, left);
            line.push(close);
            Ok(())
        }
        Data::Boolean(on) => write!(line, "{on}"),
        Data::BitString(bits) => bit_string(bits, line),
        Data::Integer(number) => write!(line, "{number}"),
        Data::Unsigned(number) => write!(line, "{number}"),
        Data::Float32(number) => write!(line, "{number:?}"),
        Data::Float64(number) => write!(line, "{number:?}"),
        Data::Octets(bytes) | Data::BinaryTime(bytes) | Data::Other(_, bytes) => hex(bytes, line),
        Data::VisibleString(words) | Data::MmsString(words) => {
            line.push('"');
            text(words, line);
            line.push('"');
            Ok(())
        }
        Data::UtcTime(time) => write!(line, "{time}"),
    };
}

fn bit_string(bits: Bits<'_>, line: &mut String) -> core::fmt::Result {
    line.push('\'');
    (0..bits.count().min(SHOWN_MAX)).for_each(|at| line.push(if bits.is_set(at) { '1' } else { '0' }));
    line.push_str(if bits.count() > SHOWN_MAX { "…'" } else { "'" });
    Ok(())
}

fn hex(bytes: &[u8], line: &mut String) -> core::fmt::Result {
    line.push_str("0x");
    bytes.iter().take(SHOWN_MAX).try_for_each(|byte| write!(line, "{byte:02x}"))?;
    line.push_str(if bytes.len() > SHOWN_MAX { "…" } else { "" });
    Ok(())
}

/// Without what would break the line.
fn text(words: &str, line: &mut String) {
    line.extend(words.chars().take(SHOWN_MAX * 2).map(|c| if c.is_control() { '\u{fffd}' } else { c }));
}
