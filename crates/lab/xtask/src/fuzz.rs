//! `cargo xtask fuzz`: hostile inputs to the fuzz targets, on a stable toolchain and on all cores.

use anyhow::{Context as _, bail, ensure};
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tieline_sim::Mutator;
use tieline_sim::targets::{TARGETS, Target};

/// Chooses all targets.
const ALL: &str = "all";
/// Inputs that a thread takes at a time.
const BLOCK: u64 = 1000;
/// How often a line says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// What is to be run.
struct Campaign {
    name: &'static str,
    target: Target,
    mutator: Mutator,
    seed: u64,
}

/// Runs so many inputs of each target whose name begins so, or of all; or one input alone, for a debugger.
///
/// # Errors
/// There is no such target, or targets broke their promises.
pub(crate) fn run(root: &Path, prefix: &str, words: &[&str]) -> anyhow::Result<()> {
    let (mut inputs, mut only, mut seed, mut folder) = (1_000_000, None, 0, root.join("fuzz/seeds"));
    for pair in words.chunks(2) {
        let [option, value] = pair else { bail!("{} needs a value", pair.concat()) };
        let number = || value.parse::<u64>().with_context(|| format!("{option} needs a number, not {value}"));
        match *option {
            "--inputs" => inputs = number()?,
            "--input" => only = Some(number()?),
            "--seed" => seed = number()?,
            "--seeds" => folder = value.into(),
            other => bail!("{other} is not an option: --inputs N, --seed N, --seeds FOLDER, --input N"),
        }
    }
    let is_chosen = |name: &str| prefix == ALL || name.starts_with(prefix);
    let chosen: Vec<_> = TARGETS.iter().filter(|(name, _)| is_chosen(name)).collect();
    ensure!(
        !chosen.is_empty(),
        "no target begins with {prefix}; there are {ALL}, {}",
        TARGETS.map(|(name, _)| name).join(", ")
    );
    let campaign = |(name, target): &(&'static str, Target)| {
        anyhow::Ok(Campaign { name, target: *target, mutator: Mutator::new(seeds(&folder, name)?), seed })
    };
    let campaigns = chosen.iter().map(|target| campaign(target)).collect::<anyhow::Result<Vec<_>>>()?;
    match only {
        Some(number) => campaigns.iter().for_each(|campaign| campaign.again(number)),
        None => run_all(&campaigns, inputs, seed)?,
    }
    Ok(())
}

/// One after the other; one that fails does not end the others.
#[expect(clippy::print_stdout, reason = "a command prints what it does")]
fn run_all(campaigns: &[Campaign], inputs: u64, seed: u64) -> anyhow::Result<()> {
    let failures: Vec<_> = campaigns.iter().filter_map(|campaign| campaign.run(inputs).err()).collect();
    failures.iter().for_each(|failure| println!("{failure:#}"));
    let (targets, panics) = (campaigns.len(), failures.len());
    println!("{targets} targets, {inputs} inputs each, seed {seed}: {panics} panics");
    ensure!(panics == 0, "{panics} of {targets} targets broke their promise");
    Ok(())
}

/// The files of a target's folder.
fn seeds(folder: &Path, name: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let folder = folder.join(name);
    let entries = std::fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.sort();
    files.iter().map(|file| std::fs::read(file).with_context(|| file.display().to_string())).collect()
}

#[expect(clippy::print_stdout, reason = "a command prints what it does")]
impl Campaign {
    /// Runs one input, and lets its panic through.
    fn again(&self, number: u64) {
        let input = self.mutator.input(self.seed, number);
        let hex: String = input.iter().map(|byte| format!("{byte:02X}")).collect();
        println!("{} --seed {} --input {number}: {hex}", self.name, self.seed);
        (self.target)(&input);
    }

    fn run(&self, inputs: u64) -> anyhow::Result<()> {
        let (next, failed, began) = (AtomicU64::new(0), Mutex::new(None), Instant::now());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (next, failed) = (&next, &failed);
                scope.spawn(move || self.work(next, failed, inputs, (thread == 0).then_some(began)));
            }
        });
        if let Some(number) = failed.into_inner().context("a thread panicked")? {
            bail!(
                "{0} broke its promise; see it with: cargo xtask fuzz {0} --seed {1} --input {number}",
                self.name,
                self.seed
            );
        }
        let seconds = began.elapsed().as_secs_f64();
        println!("{:16} {inputs} inputs, seed {}, {seconds:.0} s: no failure", self.name, self.seed);
        Ok(())
    }

    fn work(&self, next: &AtomicU64, failed: &Mutex<Option<u64>>, inputs: u64, tells: Option<Instant>) {
        let mut told = tells;
        loop {
            let first = next.fetch_add(BLOCK, Ordering::Relaxed);
            if first >= inputs {
                return;
            }
            let last = (first + BLOCK).min(inputs);
            let at = AtomicU64::new(first);
            let done = catch_unwind(|| {
                for number in first..last {
                    at.store(number, Ordering::Relaxed);
                    (self.target)(&self.mutator.input(self.seed, number));
                }
            });
            if done.is_err() {
                if let Ok(mut failed) = failed.lock() {
                    failed.get_or_insert(at.into_inner());
                }
                next.store(inputs, Ordering::Relaxed);
                return;
            }
            if told.is_some_and(|told| told.elapsed() >= PROGRESS) {
                println!("{:16} {last} of {inputs}", self.name);
                told = Some(Instant::now());
            }
        }
    }
}
