//! `cargo xtask sim bus` and `cargo xtask sim edges`: runs of the simulations, to look at one or to search far.

use std::io::stdout;
use std::path::Path;
use std::process::ExitCode;
use tieline_bench::fanout::{Form, load};
use tieline_bench::{Progress, Shape, write_rows};
use tieline_bus_sim as sim;
use tieline_bus_sim::scale::{Plan, check, report};

const USAGE: &str = "usage: tieline-bus-sim [edges] --seed N | --seeds N
    or tieline-bus-sim edges --subscribers N,… --edges N,… [--json] [--svg FOLDER]
    or tieline-bus-sim edges --check FILE [--json]
  --subscribers  what so many subscribers cost a core and so many edges; 0 edges: the core serves them itself
  --check        simulates the rows of a result file of `tieline bench edges`, and compares";
/// What each subscriber and each update is, where their numbers are measured.
const LOAD: load::Plan =
    load::Plan { subscribers: 0, topics: 10_000, rate: 5_000, subscriptions_each: 4, form: Form::Json };
/// Each topic is updated once until all is settled, and once to warm up; half of them are once more, to be measured.
const PLAN: Plan = Plan { load: LOAD, edges: 0, start_us: 1_000_000, settle: 10_000, warm: 10_000, counted: 5_000 };
const WIDTH: usize = 160;

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
        ["edges", "--subscribers", subscribers, "--edges", edges, rest @ ..] => scale(subscribers, edges, rest),
        ["edges", "--check", file, rest @ ..] => compare(file, rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(found) if found.is_empty() => {}
        Ok(found) => println!("well: {found}"),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Prints a row for each number of subscribers and of edges.
fn scale(subscribers: &str, edges: &str, rest: &[&str]) -> Result<String, String> {
    let numbers = |words: &str| {
        let each = words.split(',').map(|word| word.parse::<usize>().map_err(|_| format!("{word} is no number")));
        each.collect::<Result<Vec<_>, _>>()
    };
    let (subscribers, edges) = (numbers(subscribers)?, numbers(edges)?);
    let (shape, folder) = shown(rest)?;
    let (progress, mut rows) = (Progress::new(true), Vec::new());
    for subscribers in subscribers {
        for edges in edges.iter().copied() {
            progress.show(&format!("{subscribers} subscribers, {edges} edges"));
            let plan = Plan { load: load::Plan { subscribers, ..LOAD }, edges, ..PLAN };
            rows.push(report::row(plan, &rows)?);
        }
    }
    for (name, chart) in folder.iter().flat_map(|_| report::charts(&rows)) {
        chart.save(Path::new(folder.unwrap_or_default()), name).map_err(|why| format!("{why:#}"))?;
    }
    write_rows(&mut stdout(), &rows, report::COLUMNS, shape).map_err(|why| format!("{why:#}"))?;
    Ok(String::new())
}

/// Simulates what processes did, and says where it is not the same.
fn compare(file: &str, rest: &[&str]) -> Result<String, String> {
    let (shape, _) = shown(rest)?;
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let progress = Progress::new(true);
    let rows = check::check(&text, |plan| {
        progress.show(&format!("{} subscribers, {} edges", plan.load.subscribers, plan.edges));
    });
    let rows = rows.map_err(|why| format!("{file}: {why}"))?;
    write_rows(&mut stdout(), &rows, check::COLUMNS, shape).map_err(|why| format!("{why:#}"))?;
    match check::wrong(&rows) {
        wrong if wrong.is_empty() => Ok(String::new()),
        wrong => Err(wrong.join("\n")),
    }
}

/// How rows are shown, and where charts are written.
fn shown<'a>(rest: &[&'a str]) -> Result<(Shape, Option<&'a str>), String> {
    match rest {
        [] => Ok((Shape::Table { width: WIDTH }, None)),
        ["--json"] => Ok((Shape::Json, None)),
        ["--svg", folder] => Ok((Shape::Table { width: WIDTH }, Some(folder))),
        ["--json", "--svg", folder] => Ok((Shape::Json, Some(folder))),
        _ => Err(USAGE.to_owned()),
    }
}
