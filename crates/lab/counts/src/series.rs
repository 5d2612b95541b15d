//! Chunks of history: an hour of four points at a sample each second.

use crate::meter::Operation;
use bytes::Bytes;
use std::fmt::Display;
use tieline_core::{Quality, Timestamp};
use tieline_series::{Chunk, Column, Datum, Origin, Sample, encode};

/// Samples of a chunk.
const SAMPLES: u32 = 3600;
const ORIGIN: Origin = Origin { first: 1, last: 1 };

/// Counts how chunks are written.
pub fn write() -> Result<Operation, String> {
    let columns = columns();
    let mut out = Vec::new();
    Ok(Box::new(move |meter| {
        out.clear();
        meter.count(|| {
            for column in &columns {
                encode(column, ORIGIN, &mut out);
            }
        });
        let most = columns.len() * SAMPLES as usize * 5;
        if (1..=most).contains(&out.len()) {
            Ok(())
        } else {
            Err(format!("{} bytes, expected {most} at most", out.len()))
        }
    }))
}

/// Counts how their samples are read.
pub fn read() -> Result<Operation, String> {
    let columns = columns();
    let chunks = columns.iter().map(|column| {
        let mut out = Vec::new();
        encode(column, ORIGIN, &mut out);
        Bytes::from(out)
    });
    let chunks: Vec<Bytes> = chunks.collect();
    Ok(Box::new(move |meter| {
        let read = |bytes: &Bytes| Chunk::parse(bytes).and_then(|chunk| chunk.samples());
        let found = meter.count(|| chunks.iter().map(read).collect::<Result<Vec<_>, _>>());
        if found.map_err(words)? == columns { Ok(()) } else { Err("other samples".to_owned()) }
    }))
}

/// A temperature in steps of 0.1, a power in steps of 0.01, a double of all digits, a state that changes rarely. Times jitter by
/// up to 4 ms.
fn columns() -> Vec<Column> {
    let mut random = Random(1);
    vec![
        column(&mut random, |random, last| ((last * 10.0).round() + random.below(5) - 2.0) / 10.0),
        column(&mut random, |random, last| ((last * 100.0).round() + random.below(401) - 200.0) / 100.0),
        column(&mut random, |random, last| last + random.below(1 << 30) / 1e9 - 0.5),
        column(&mut random, |random, last| if random.below(500) == 0.0 { 1.0 - last } else { last }),
    ]
}

/// A column of which each value follows from the one before.
fn column(random: &mut Random, next: fn(&mut Random, f64) -> f64) -> Column {
    let mut last = 0.0;
    let sample = |n: u32| {
        last = next(random, last);
        let micros = 1_795_167_360_000_000 + i64::from(n) * 1_000_000 + i64::from(random.integer(4000));
        Sample { time: Timestamp::from_micros(micros), datum: Datum::Float(last), quality: Quality::GOOD }
    };
    (0..SAMPLES).map(sample).collect()
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn integer(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let high = u32::try_from(self.0 >> 33).unwrap_or(0);
        high % below
    }

    fn below(&mut self, limit: u32) -> f64 {
        self.integer(limit).into()
    }
}

fn words(error: impl Display) -> String {
    error.to_string()
}
