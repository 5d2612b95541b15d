//! Vectors of the standard, properties of the codec, machines by hand, and a client and a server against each other in
//! virtual time.

mod client;
mod codec;
mod layouts;
mod pair;
mod plans;
mod server;
mod timing;

use crate::{Request, Table, Unit};
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
    file.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once('>').expect("an arrow"))
}

/// A moment, in milliseconds after the start of the test.
fn at_ms(ms: u64) -> Now {
    Now { mono: Instant(1_000_000_000), utc: Timestamp::from_millis(0) }.later(Duration::from_millis(ms))
}

fn read(start: u16, count: u16) -> Request {
    Request::Read { table: Table::HoldingRegisters, start, count }
}

const fn write(address: u16, value: u16) -> Request {
    Request::WriteRegister { address, value }
}

const U1: Unit = Unit(1);
const U2: Unit = Unit(2);

fn events<M: Machine>(machine: &mut M) -> Vec<M::Event> {
    std::iter::from_fn(|| machine.poll_event()).collect()
}

/// What the machine sends now: one vector a message.
fn sent<M: Machine>(machine: &mut M, now: Now) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    loop {
        let mut out = Vec::new();
        if !machine.poll_transmit(now, &mut out) {
            return messages;
        }
        messages.push(out);
    }
}
