//! The floor of one message alone: its bare operations by aws-lc, one after the other, and a round trip over loopback of
//! as many bytes each way.

use super::Verb;
use super::ceiling::Bare;
use crate::rounds::median;
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use tieline_crypto::PrivateKey;

/// Bytes of a message besides content: header and tag.
const AROUND_BYTES: usize = 588 + 16;
/// Operations, and round trips, whose median counts.
const TIMES: usize = 500;

/// In µs.
pub(super) fn floor_us(verb: Verb, key: &PrivateKey, bytes: usize) -> Result<f64> {
    let mut bare = Bare::new(key, bytes, false, 1)?;
    let operations = medians(|| bare.run(verb))?;
    let sealed = bytes + AROUND_BYTES;
    let lengths = match verb {
        Verb::Pack => (bytes, sealed),
        Verb::Unpack => (sealed, bytes),
    };
    Ok(operations + round_trip_us(lengths)?)
}

fn round_trip_us((there, back): (usize, usize)) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let echo = std::thread::spawn(move || {
        let (mut asked, answer) = (vec![0; there], vec![0; back]);
        while far.read_exact(&mut asked).and_then(|()| far.write_all(&answer)).is_ok() {}
    });
    let (asked, mut answer) = (vec![0; there], vec![0; back]);
    let trip = medians(|| Ok(near.write_all(&asked).and_then(|()| near.read_exact(&mut answer))?));
    drop(near);
    let _ = echo.join();
    trip
}

fn medians(mut once: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut took = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = Instant::now();
        once()?;
        took.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(median(&took))
}
