//! `cargo xtask sim bus`: runs of the simulation, to look at one or to search far.

use std::process::ExitCode;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints what it found")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words.as_slice() {
        ["--seed", seed] => {
            seed.parse().map_err(|_| "a seed is a number".to_owned()).and_then(|seed| tieline_bus_sim::run(seed, true))
        }
        ["--seeds", seeds] => seeds.parse().map_err(|_| "how many is a number".to_owned()).and_then(|seeds| {
            tieline_bus_sim::run_all(0..seeds)
                .map_err(|(seed, why)| format!("seed {seed}: {why}; see it with: cargo xtask sim bus --seed {seed}"))
        }),
        _ => Err("usage: tieline-bus-sim --seed N | --seeds N".to_owned()),
    };
    match result {
        Ok(summary) => println!("well: {summary:?}"),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
