//! Hot paths whose instructions `cargo xtask counts` counts under callgrind.
//!
//! In: the name of a path. Out: nothing; the path is run some times to warm up, and then some times inside
//! [`meter::counted_section`], the only function that callgrind counts.
//!
//! All data are fixed, and time stands still: two runs differ only by the seeds of hash tables, which move a count by far less
//! than one in a hundred.
//!
//! Never: a measurement of time, a socket, a file, a random number of our own.
//!
//! Read first: `meter.rs`, then `paths.rs`.

mod bacnet;
mod bus;
mod delta;
mod dnp3;
mod goose;
mod kept;
mod meter;
mod modbus;
mod mqtt;
mod paths;
mod poll;
mod room;
mod seal;
mod series;
mod topics;
mod values;

use paths::PATHS;
use std::process::ExitCode;

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a command prints what it found")]
fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        // One line a path: its name, how often it is counted, what it is.
        ["--list"] => PATHS.iter().for_each(|path| println!("{}\t{}\t{}", path.name, path.times, path.what)),
        [name] => {
            let found = PATHS.iter().find(|path| path.name == *name);
            let result = found.map_or_else(|| Err(format!("no path is named {name:?}")), meter::run);
            if let Err(why) = result {
                eprintln!("{name}: {why}");
                return ExitCode::FAILURE;
            }
        }
        _ => {
            eprintln!("usage: tieline-counts --list | NAME");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
