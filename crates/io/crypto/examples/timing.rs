//! Whether the time of a pass tells anything about key or message: Welch's t-test between two classes of inputs that
//! alternate at random (O. Reparaz, J. Balasch, I. Verbauwhede, *Dude, is my code constant time?*, 2017).
//!
//! `cargo run --release -p tieline-crypto --example timing [measurements]`
//!
//! |t| below 4.5 means that no difference was found with that many measurements, not that there is none. The slowest
//! tenth of each class, which other programs on the machine make, is left out. The control row compares two classes
//! that do differ, so that a blind test shows.

#![expect(clippy::print_stdout, reason = "its output is the table")]

use rustix::time::{ClockId, clock_gettime};
use tieline_crypto::{
    Engine, KeyPadding, MODULUS_BYTES, PrivateJob, PrivateKey, PrivateOutcome, SignaturePadding, fill_random,
};

const MEASUREMENTS: usize = 6000;
/// Beyond it the difference is real for any practical purpose.
const T_LIMIT: f64 = 4.5;

type Jobs = Vec<PrivateJob>;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(MEASUREMENTS);
    let (Ok((key, _)), Ok((other, _))) = (PrivateKey::generate(), PrivateKey::generate()) else {
        println!("no keys could be made");
        return;
    };
    let fixed = random();
    println!("lanes: {}; {count} measurements a row", if Engine::new().has_lanes() { "AVX-512 IFMA" } else { "none" });
    println!("{:<52} {:>10} {:>8}", "classes", "ns apart", "t");
    for together in [1, 4] {
        let of = |job: &dyn Fn() -> PrivateJob| -> Jobs { (0..together).map(|_| job()).collect() };
        let right = |text: &[u8]| block(&key, text);
        let name = |text: &str| format!("{together} together: {text}");
        report(&name("one digest, random digests"), count, |first| {
            of(&|| sign(&key, if first { fixed } else { random() }))
        });
        report(&name("one key, another key"), count, |first| of(&|| sign(if first { &key } else { &other }, random())));
        report(&name("right padding, wrong padding"), count, |first| {
            let right = right(&random());
            of(&|| unwrap(&key, if first { right } else { noise() }))
        });
        report(&name("right padding, wrong length"), count, |first| {
            let (right, wrong) = (right(&random()), right(&random()[1..]));
            of(&|| unwrap(&key, if first { right } else { wrong }))
        });
    }
    report("control, must be found: 4 jobs, 5 jobs", count, |first| {
        (0..if first { 4 } else { 5 }).map(|_| sign(&key, random())).collect()
    });
}

fn random() -> [u8; 32] {
    let mut out = [0; 32];
    assert!(fill_random(&mut out).is_ok(), "the system gives no random bytes");
    out
}

/// A block that decrypts to anything, below every modulus.
fn noise() -> [u8; MODULUS_BYTES] {
    let mut out = [0; MODULUS_BYTES];
    out.chunks_mut(32).for_each(|part| part.copy_from_slice(&random()));
    out[0] &= 0x7f;
    out
}

fn block(key: &PrivateKey, text: &[u8]) -> [u8; MODULUS_BYTES] {
    key.public().encrypt(text).unwrap_or([0; MODULUS_BYTES])
}

fn sign(key: &PrivateKey, digest: [u8; 32]) -> PrivateJob {
    PrivateJob::Sign { key: key.clone(), digest, padding: SignaturePadding::Pkcs1v15 }
}

fn unwrap(key: &PrivateKey, block: [u8; MODULUS_BYTES]) -> PrivateJob {
    PrivateJob::Unwrap { key: key.clone(), block: Box::new(block), padding: KeyPadding::Pkcs1v15, lengths: &[32] }
}

/// Measures jobs of the two classes in random order and prints how they differ.
fn report(name: &str, count: usize, jobs: impl Fn(bool) -> Jobs) {
    let mut engine = Engine::new();
    let mut done: Vec<PrivateOutcome> = Vec::new();
    let mut classes = [Vec::new(), Vec::new()];
    for measurement in 0..count {
        let coin = random()[0] & 1 == 0;
        // Both classes are prepared each time, and one is copied: what came before a measurement, and what the caches
        // hold, is the same for both.
        let (first, second) = (jobs(true), jobs(false));
        let jobs = if coin { first.clone() } else { second.clone() };
        let start = nanoseconds();
        engine.private(&jobs, &mut done);
        let spent = nanoseconds() - start;
        done.clear();
        if measurement > count / 20 {
            classes[usize::from(coin)].push(spent as f64);
        }
    }
    let [second, first] = classes.map(Moments::of);
    let error = (first.variance / first.count + second.variance / second.count).sqrt();
    let (apart, t) = (first.mean - second.mean, (first.mean - second.mean) / error);
    let difference = if t.abs() < T_LIMIT { "" } else { "  differ" };
    println!("{name:<52} {apart:>10.1} {t:>8.2}{difference}");
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    /// Of the fastest nine tenths.
    fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        values.truncate(values.len() * 9 / 10);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        Self { count, mean, variance }
    }
}

/// CPU time of this thread.
fn nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}
