//! The seeds of a simulation. Tests of engines take this file in with `#[path]`: they see only `core`, which has no environment and
//! catches no panics.

extern crate std;

/// Runs seeds, or the one of `TIELINE_SEED`, and says which failed; returns how many ran.
pub(super) fn run_seeds(name: &str, seeds: u64, mut run: impl FnMut(u64, bool)) -> u64 {
    let option = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = option("TIELINE_SEED") {
        run(seed, true);
        return 0;
    }
    let seeds = option("TIELINE_SEEDS").unwrap_or(seeds);
    for seed in 0..seeds {
        let done = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| run(seed, false)));
        if let Err(panic) = done {
            std::println!("{name} failed with TIELINE_SEED={seed}");
            std::panic::resume_unwind(panic)
        }
    }
    std::println!("{name}: {seeds} seeds");
    seeds
}
