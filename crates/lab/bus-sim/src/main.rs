//! `cargo xtask sim bus` and `cargo xtask sim edges`: runs of the simulations, to look at one or to search far.

use std::process::ExitCode;
use tieline_bus_sim as sim;

const USAGE: &str =
    "usage: tieline-bus-sim [edges] --seed N | --seeds N, or tieline-bus-sim edges --subscribers N,… --edges N,…";
/// What each subscriber and each update is, where their numbers are measured.
const PLAN: sim::scale::Plan =
    sim::scale::Plan { subscribers: 0, edges: 0, topics: 10_000, each: 4, updates_a_ms: 5, rounds: 2 };

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints what it found")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word} is no number"));
    let again =
        |(seed, why): (u64, String), of| format!("seed {seed}: {why}; see it with: cargo xtask sim {of} --seed {seed}");
    let result = match words.as_slice() {
        ["--seed", seed] => number(seed).and_then(|seed| sim::run(seed, true)).map(|summary| format!("{summary:?}")),
        ["--seeds", seeds] => number(seeds).and_then(|seeds| {
            sim::run_all(0..seeds).map(|summary| format!("{summary:?}")).map_err(|wrong| again(wrong, "bus"))
        }),
        ["edges", "--seed", seed] => {
            number(seed).and_then(|seed| sim::edges::run(seed, true)).map(|summary| format!("{summary:?}"))
        }
        ["edges", "--seeds", seeds] => number(seeds).and_then(|seeds| {
            sim::edges::run_all(0..seeds).map(|summary| format!("{summary:?}")).map_err(|wrong| again(wrong, "edges"))
        }),
        ["edges", "--subscribers", subscribers, "--edges", edges] => scale(subscribers, edges),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(found) => println!("well: {found}"),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints a line for each number of subscribers and of edges; 0 edges are a core that serves the subscribers itself.
#[expect(clippy::print_stdout, reason = "a command prints what it found")]
fn scale(subscribers: &str, edges: &str) -> Result<String, String> {
    let numbers = |words: &str| {
        let each = words.split(',').map(|word| word.parse::<usize>().map_err(|_| format!("{word} is no number")));
        each.collect::<Result<Vec<_>, _>>()
    };
    let (subscribers, edges) = (numbers(subscribers)?, numbers(edges)?);
    println!(
        "subscribers edges events | core µs/update | µs/event, bytes/event | link bytes/update | bytes of memory each"
    );
    for subscribers in subscribers {
        for edges in &edges {
            let row = sim::scale::measure(sim::scale::Plan { subscribers, edges: *edges, ..PLAN })?;
            let sim::scale::Row { events, core_us_per_update, us_per_event, .. } = row;
            let (bytes, link, memory) = (row.bytes_per_event, row.link_bytes_per_update, row.memory_bytes_each);
            println!(
                "{subscribers:9} {edges:3} {events:9} | {core_us_per_update:8.2} | {us_per_event:7.3}, {bytes:6.2} | {link:6.2} | {memory:6.0}"
            );
        }
    }
    Ok("nothing was lost".to_owned())
}
