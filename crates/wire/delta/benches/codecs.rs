//! Bytes and nanoseconds of a delta: our codecs beside others, on the values that docs/delta.md speaks of.
//!
//! `cargo bench -p tieline-delta --all-features --bench codecs`. Every delta is applied and compared. Times are the least of
//! several passes over all values; the floor reads both values once.
#![expect(clippy::print_stdout, reason = "a table is what it makes")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tieline_core::{Body, Point, Quality, Timestamp, Value};
use tieline_delta::{Codec, CodecId, CodecSet, Codecs, Decoder, Revision, Stream};

const VALUES: usize = 1000;
const PASSES: usize = 7;

fn main() {
    println!("| codec | {} |", CASES.map(|case| case.0).join(" | "));
    println!("|---|{}", "---|".repeat(CASES.len()));
    let series: Vec<Vec<Vec<u8>>> = CASES.iter().map(|case| (0..VALUES).map(case.1).collect()).collect();
    let mean = |values: &Vec<Vec<u8>>| values.iter().map(Vec::len).sum::<usize>() / VALUES;
    let lengths: Vec<String> = series.iter().map(|values| format!("{} bytes", mean(values))).collect();
    println!("| value | {} |", lengths.join(" | "));
    row("floor: read both", &series, |values| (0.0, measure(values, read_both), Duration::ZERO));
    let mut codecs = Codecs::built_in();
    for id in [CodecId::HUNK, CodecId::ZSTD] {
        if let Some(codec) = codecs.by_id(id) {
            let name = format!("**{}**", codec.name());
            row(&name, &series, |values| ours(codec.as_mut(), values));
        }
    }
    row("LZ4, base as dictionary (`lz4_flex`)", &series, lz4);
    row("Myers on bytes (`similar`)", &series, similar);
    points();
}

/// A name, and the values of it by number.
type Case = (&'static str, fn(usize) -> Vec<u8>);

const CASES: [Case; 6] = [
    ("A: one number", |n| table(n, 0, 1, false)),
    ("B: a time, one number", |n| table(n, 1, 1, false)),
    ("C: two times, six numbers", |n| table(n, 2, 6, false)),
    ("D: a time, three lengths", |n| table(n, 1, 3, true)),
    ("E: four of 140 rows", large),
    ("F: 41 bytes", |n| {
        format!("{{\"v\":{}.{:02},\"q\":\"good\",\"t\":1795167{:06}}}", 49 + n % 2, n * 37 % 100, n).into()
    }),
];

/// A table of twelve rows; `times` times and `changed` numbers of it follow `n`.
fn table(n: usize, times: usize, changed: usize, lengths: bool) -> Vec<u8> {
    let time = |of: usize| if of < times { n } else { 7 };
    let mut text = format!("{{\"stamp\":\"2026-11-20T09:{:02}:{:02}Z\",\"rows\":[", time(0) / 60 % 60, time(0) % 60);
    for row in 0..12 {
        let number = match row {
            row if row % 2 == 0 && row / 2 < changed && lengths => {
                (n * (row + 7) * 7919 % 9973) % [10, 1000, 99_999][n % 3]
            }
            row if row % 2 == 0 && row / 2 < changed => 100 + (n * (row + 7) * 31) % 900,
            row => 100 + row,
        };
        let _ = write!(
            text,
            "{{\"id\":{},\"name\":\"feeder {row:02}\",\"unit\":\"kvar\",\"points\":{number},\"rank\":{row}}},",
            4000 + row
        );
    }
    text.pop();
    let _ = write!(text, "],\"seen\":\"2026-11-20T09:{:02}:{:02}Z\"}}", time(1) / 60 % 60, time(1) % 60);
    text.into()
}

fn large(n: usize) -> Vec<u8> {
    let mut text = String::from("[");
    for row in 0..140 {
        let number = if row % 35 == n % 35 { 100 + n * 31 % 900 } else { 100 + row };
        let _ = write!(
            text,
            "{{\"id\":{},\"name\":\"feeder {row:03}\",\"unit\":\"kvar\",\"points\":{number},\"rank\":1}},",
            4000 + row
        );
    }
    text.pop();
    text.push(']');
    text.into()
}

/// A codec's mean bytes, and times to make and to apply one.
type Figures = (f64, Duration, Duration);

fn row(name: &str, series: &[Vec<Vec<u8>>], mut of: impl FnMut(&[Vec<u8>]) -> Figures) {
    let cells: Vec<String> = series.iter().map(|values| cell(of(values))).collect();
    println!("| {name} | {} |", cells.join(" | "));
}

fn cell((bytes, make, apply): Figures) -> String {
    format!("{bytes:.1}, {} / {} ns", make.as_nanos(), apply.as_nanos())
}

/// The least mean time of one step over neighbours.
fn measure<T>(values: &[Vec<u8>], mut step: impl FnMut(&[u8], &[u8]) -> T) -> Duration {
    let pass = |step: &mut dyn FnMut(&[u8], &[u8]) -> T| {
        let start = Instant::now();
        for pair in values.windows(2) {
            black_box(step(&pair[0], &pair[1]));
        }
        start.elapsed() / u32::try_from(values.len() - 1).expect("few values")
    };
    (0..PASSES).map(|_| pass(&mut step)).min().unwrap_or_default()
}

/// Makes deltas with `diff`, applies and compares them with `apply`, and measures both.
fn figures(
    values: &[Vec<u8>],
    mut diff: impl FnMut(&[u8], &[u8], &mut Vec<u8>),
    mut apply: impl FnMut(&[u8], &[u8], &mut Vec<u8>),
) -> Figures {
    let (mut out, mut back) = (Vec::new(), Vec::new());
    let deltas: Vec<Vec<u8>> = values
        .windows(2)
        .map(|pair| {
            out.clear();
            diff(&pair[0], &pair[1], &mut out);
            back.clear();
            apply(&pair[0], &out, &mut back);
            assert!(back == pair[1], "another value came out");
            out.clone()
        })
        .collect();
    let bytes: usize = deltas.iter().map(Vec::len).sum();
    let make = measure(values, |base, value| {
        out.clear();
        diff(base, value, &mut out);
    });
    let mut at = 0;
    let applied = measure(values, |base, _| {
        back.clear();
        apply(base, &deltas[at % deltas.len()], &mut back);
        at += 1;
    });
    (
        f64::from(u32::try_from(bytes).expect("few bytes")) / f64::from(u32::try_from(deltas.len()).expect("few")),
        make,
        applied,
    )
}

/// Reads every byte of both.
fn read_both(base: &[u8], value: &[u8]) -> u64 {
    let words = |bytes: &[u8]| bytes.as_chunks::<8>().0.iter().fold(0, |sum, word| sum ^ u64::from_le_bytes(*word));
    words(base) ^ words(value)
}

fn ours(codec: &mut dyn Codec, values: &[Vec<u8>]) -> Figures {
    let codec = std::cell::RefCell::new(codec);
    // Where a codec gives up the value is sent: its bytes count, and a mark tells the receiver.
    let diff = |base: &[u8], value: &[u8], out: &mut Vec<u8>| {
        out.push(1);
        if !codec.borrow_mut().diff(base, value, value.len() / 2, out) {
            out.clear();
            out.push(0);
            out.extend_from_slice(value);
        }
    };
    let apply = |base: &[u8], delta: &[u8], out: &mut Vec<u8>| match delta {
        [1, delta @ ..] => codec.borrow_mut().apply(base, delta, 1 << 20, out).expect("our own delta"),
        [_, value @ ..] => out.extend_from_slice(value),
        [] => (),
    };
    let (bytes, make, applied) = figures(values, diff, apply);
    (bytes - 1.0, make, applied)
}

fn lz4(values: &[Vec<u8>]) -> Figures {
    let length = values.iter().map(Vec::len).max().unwrap_or(0);
    figures(
        values,
        |base, value, out| out.extend_from_slice(&lz4_flex::block::compress_with_dict(value, base)),
        |base, delta, out| {
            let value = lz4_flex::block::decompress_with_dict(delta, length, base);
            out.extend_from_slice(&value.expect("its own delta"));
        },
    )
}

/// Its edit script in the form of our hunks, so that bytes compare.
fn similar(values: &[Vec<u8>]) -> Figures {
    use similar::{Algorithm, DiffOp, capture_diff_slices};
    let few = values.get(..40).unwrap_or(values);
    let varint = |out: &mut Vec<u8>, mut value: usize| {
        while value > 127 {
            out.push(u8::try_from(value & 127).unwrap_or(0) | 128);
            value >>= 7;
        }
        out.push(u8::try_from(value).unwrap_or(0));
    };
    let diff = |base: &[u8], value: &[u8], out: &mut Vec<u8>| {
        let mut copied = 0;
        for op in capture_diff_slices(Algorithm::Myers, base, value) {
            if let DiffOp::Equal { len, .. } = op {
                copied += len;
                continue;
            }
            let (old, new) = (op.old_range(), op.new_range());
            varint(out, copied * 2 + usize::from(old.len() != new.len()));
            varint(out, new.len());
            if old.len() != new.len() {
                varint(out, old.len());
            }
            out.extend_from_slice(&value[new]);
            copied = 0;
        }
    };
    let apply = |base: &[u8], delta: &[u8], out: &mut Vec<u8>| {
        tieline_delta::Hunk.apply(base, delta, 1 << 20, out).expect("hunks of an edit script");
    };
    figures(few, diff, apply)
}

/// Points by field, the stream and the decoder included.
fn points() {
    let (mut cents, mut millis, mut draw) = (5_000_i32, 1_795_167_360_000_i64, 1_u32);
    let bodies: Vec<Body> = (0..VALUES)
        .map(|_| {
            draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            cents += i32::try_from(draw >> 28).expect("four bits") - 8;
            millis += 980 + i64::from(draw >> 8 & 31);
            let value = Value::Float(f64::from(cents) / 100.0);
            Body::Point(Point { value, quality: Quality::GOOD, time: Timestamp::from_millis(millis) })
        })
        .collect();
    let mut codecs = Codecs::built_in();
    let (mut bytes, mut make, mut apply) = (0, Duration::MAX, Duration::MAX);
    for _ in 0..PASSES {
        let mut stream = Stream::new(Revision(0), &bodies[0]);
        let mut decoder = Decoder::new(100);
        let first = stream.since(None, CodecSet::POINT).to_bytes();
        decoder.apply(&first, &mut codecs).expect("a whole value");
        let start = Instant::now();
        let payloads: Vec<_> = bodies[1..]
            .iter()
            .map(|body| {
                let base = stream.revision();
                stream.update(body, CodecSet::POINT, &mut codecs);
                stream.since(Some(base), CodecSet::POINT).to_bytes()
            })
            .collect();
        make = make.min(start.elapsed() / u32::try_from(payloads.len()).expect("few"));
        bytes = payloads.iter().map(bytes::Bytes::len).sum();
        let start = Instant::now();
        for payload in &payloads {
            black_box(decoder.apply(payload, &mut codecs).expect("a delta"));
        }
        apply = apply.min(start.elapsed() / u32::try_from(payloads.len()).expect("few"));
        assert!(decoder.value() == bodies.last().cloned(), "another value came out");
    }
    let mean = f64::from(u32::try_from(bytes).expect("few bytes")) / f64::from(u32::try_from(VALUES - 1).expect("few"));
    println!("\npoint, steps of 0.01, about a second apart: payload {}", cell((mean, make, apply)));
}
