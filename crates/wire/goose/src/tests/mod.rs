//! Frames of another implementation, properties of the codec, both machines by hand, and one against the other in virtual time.

mod codec;
mod pair;
mod publisher;
mod subscriber;

use crate::*;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Now, Timestamp};

/// A moment, in milliseconds after the start of the test, which is 2026-11-20T09:30:00Z.
fn at_ms(ms: u64) -> Now {
    let utc: Timestamp = "2026-11-20T09:30:00Z".parse().unwrap();
    Now { mono: Instant(1_000_000_000), utc }.later(Duration::from_millis(ms))
}

fn path(text: &str) -> Path {
    text.parse().unwrap()
}

fn frame_head() -> FrameHead {
    FrameHead {
        destination: "01:0c:cd:01:00:05".parse().unwrap(),
        source: "02-00-00-00-00-01".parse().unwrap(),
        tag: None,
        app_id: 0x1000,
        reserved1: 0,
        reserved2: 0,
        is_simulated: false,
    }
}

fn pdu_head() -> PduHead<'static> {
    PduHead {
        gocb_ref: "IED/LLN0$GO$gcb",
        time_allowed_ms: 100,
        dat_set: "IED/LLN0$ds",
        go_id: Some("id"),
        time: UtcTime::new(at_ms(0).utc, TimeQuality::SYNCHRONIZED),
        st_num: 1,
        sq_num: 0,
        is_simulated: false,
        conf_rev: 1,
        needs_commissioning: false,
    }
}

/// A frame with these values.
fn frame(head: &PduHead<'_>, values: &[Value]) -> Vec<u8> {
    let (mut apdu, mut out) = (Vec::new(), Vec::new());
    head.emit(values, &mut apdu);
    assert!(frame_head().emit(&apdu, &mut out));
    out
}

/// Bytes written as hexadecimal digits, with blanks anywhere.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_ascii_whitespace().collect();
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
