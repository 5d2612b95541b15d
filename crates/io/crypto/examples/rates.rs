//! How much faster a turn of the lanes is than aws-lc-rs, one operation at a time, on this processor.
//!
//! `cargo run --release -p tieline-crypto --example rates [rounds]`
//!
//! Every round measures each row once, in an order that changes from round to round, beside the aws-lc-rs call of the
//! same round, in CPU time of the thread: other programs on the machine disturb both alike. Ratios are medians over
//! the rounds.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tieline_crypto::{BATCH_MAX, Engine, KeyPadding, PrivateJob, PrivateKey, PublicJob, SignaturePadding, sha256};

const ROUNDS: usize = 15;
/// CPU time that a row gets in a round.
const SLICE: Duration = Duration::from_millis(10);

/// One row of the table: what it is called, how many operations one call does, whether they are private, the call.
struct Row<'a> {
    name: String,
    operations: u32,
    is_private: bool,
    call: Box<dyn FnMut() + 'a>,
    per_second: Vec<f64>,
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let Ok(keys) = (0..BATCH_MAX).map(|_| PrivateKey::generate()).collect::<Result<Vec<_>, _>>() else {
        println!("no keys could be made");
        return;
    };
    let keys: Vec<PrivateKey> = keys.into_iter().map(|(key, _)| key).collect();
    let digest = sha256(&[0x5a; 1024]);
    let Ok(signatures) = keys.iter().map(|key| key.sign(&digest)).collect::<Result<Vec<_>, _>>() else {
        println!("no signature could be made");
        return;
    };
    let mut rows = private_rows(&keys, digest);
    rows.extend(public_rows(&keys, &digest, &signatures));
    for round in 0..rounds {
        let start = round * 5 % rows.len();
        rows.rotate_left(start);
        rows.iter_mut().for_each(Row::measure);
        rows.rotate_right(start);
    }
    print_table(&rows, rounds);
}

impl Row<'_> {
    fn measure(&mut self) {
        (self.call)();
        let (start, mut calls) = (cpu_time(), 0);
        let spent = loop {
            (self.call)();
            calls += 1;
            let spent = cpu_time().saturating_sub(start);
            if spent >= SLICE {
                break spent;
            }
        };
        self.per_second.push(f64::from(calls * self.operations) / spent.as_secs_f64());
    }
}

fn private_rows(keys: &[PrivateKey], digest: [u8; 32]) -> Vec<Row<'_>> {
    let first = &keys[0];
    let row = |name: String, operations, call| Row { name, operations, is_private: true, call, per_second: Vec::new() };
    let mut rows = vec![row("aws-lc-rs, sign".into(), 1, Box::new(move || assert!(first.sign(&digest).is_ok())))];
    for count in 1..=BATCH_MAX {
        let jobs: Vec<_> = keys.iter().take(count).map(|key| sign(key, digest)).collect();
        let (mut engine, mut done) = (Engine::new(), Vec::new());
        let call = Box::new(move || {
            done.clear();
            engine.private(&jobs, &mut done);
        });
        rows.push(row(format!("engine, {count} together"), count as u32, call));
    }
    rows
}

fn public_rows<'a>(keys: &'a [PrivateKey], digest: &'a [u8; 32], signatures: &'a [[u8; 256]]) -> Vec<Row<'a>> {
    let first = &keys[0];
    let row =
        |name: String, operations, call| Row { name, operations, is_private: false, call, per_second: Vec::new() };
    let single = Box::new(move || assert!(first.public().verify(digest, &signatures[0])));
    let mut rows = vec![row("aws-lc-rs, verify".into(), 1, single)];
    for count in [3, 4, 8] {
        let work = keys.iter().zip(signatures).take(count);
        let jobs: Vec<_> = work.map(|(key, signature)| verify(key, digest, signature)).collect();
        let (mut engine, mut done) = (Engine::new(), Vec::new());
        let call = Box::new(move || {
            done.clear();
            engine.public(&jobs, &mut done);
        });
        rows.push(row(format!("engine, verify {count} together"), count as u32, call));
    }
    let jobs: Vec<_> = keys
        .iter()
        .map(|key| PublicJob::Wrap { key: key.public(), text: &digest[..], padding: KeyPadding::Pkcs1v15 })
        .collect();
    let (mut engine, mut done) = (Engine::new(), Vec::new());
    let call = Box::new(move || {
        done.clear();
        engine.public(&jobs, &mut done);
    });
    rows.push(row("engine, encrypt 8 together".into(), 8, call));
    rows
}

fn sign(key: &PrivateKey, digest: [u8; 32]) -> PrivateJob {
    PrivateJob::Sign { key: key.clone(), digest, padding: SignaturePadding::Pkcs1v15 }
}

fn verify<'a>(key: &'a PrivateKey, digest: &'a [u8; 32], signature: &'a [u8]) -> PublicJob<'a> {
    PublicJob::Verify { key: key.public(), digest, signature, padding: SignaturePadding::Pkcs1v15 }
}

fn print_table(rows: &[Row<'_>], rounds: usize) {
    let lanes = if Engine::new().has_lanes() { "AVX-512 IFMA" } else { "none: every row is aws-lc" };
    println!("lanes: {lanes}; {rounds} rounds; operations per second of CPU time, medians");
    println!("{:<28} {:>12} {:>12} {:>18}", "", "per second", "best", "times aws-lc-rs");
    for row in rows {
        let base = rows.iter().find(|other| other.is_private == row.is_private).unwrap_or(row);
        let ratios = row.per_second.iter().zip(&base.per_second).map(|(row, base)| row / base).collect();
        let best = row.per_second.iter().copied().fold(0.0, f64::max);
        println!("{:<28} {:>12.0} {best:>12.0} {:>18.2}", row.name, median(row.per_second.clone()), median(ratios));
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
