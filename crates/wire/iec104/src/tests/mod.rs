//! Vectors of the standard, properties of the codec, the link by hand, and a client against a station in virtual time.

mod client;
mod codec;
mod dissect;
mod link;
mod pair;
mod server;
mod station;

use std::time::Duration;
use std::vec::Vec;
use tieline_core::{Instant, Machine, Now, Timestamp};

/// Bytes written as hexadecimal digits, with blanks anywhere.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// The lines of a file of vectors: what is before and after the arrow.
fn vectors(file: &str) -> impl Iterator<Item = (&str, &str)> {
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(" > ").expect("an arrow"))
}

/// A moment, in milliseconds after the start of the test, which is 2026-11-20T09:30:00Z.
fn at_ms(ms: u64) -> Now {
    let utc: Timestamp = "2026-11-20T09:30:00Z".parse().unwrap();
    Now { mono: Instant(1_000_000_000), utc }.later(Duration::from_millis(ms))
}

fn events<M: Machine>(machine: &mut M) -> Vec<M::Event> {
    std::iter::from_fn(|| machine.poll_event()).collect()
}
