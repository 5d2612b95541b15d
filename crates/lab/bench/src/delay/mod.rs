//! Experiment 2: how long a fault takes to be told, in a substation on one host.
//!
//! A relay sees a fault, commands the circuit breaker's controller to close and reports to the control centre; the
//! controller reports to the centre that it did. Each is a process in a network namespace of its own; a bridge with ports
//! of 100 Mbit/s joins them. Idle, or while IEDs fill the centre's port with 4,800 samples a second each.
//!
//! Faults are due at fixed times, whatever became of those before. Every delay is split at the boundaries of the
//! layers, with stamps of the one monotonic clock that all namespaces share.
//!
//! Beside it runs its floor: the same scenario, half an interval later, of bare bytes without DNP3.
//!
//! Read first: `roles.rs` (who does what), `floor.rs` (without DNP3), `net.rs` (between whom), `setting.rs` (one run),
//! `rows.rs` (what is made of all).

mod floor;
mod link;
mod net;
mod process;
mod roles;
mod rows;
mod setting;
mod split;
mod stamps;

pub use process::play_role;
pub use roles::Way;
pub use rows::{Figures, Row};

use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::report::Progress;
use anyhow::{Result, ensure};
use rows::Collected;
use setting::Setting;
use stamps::Kind;
use std::time::Duration;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("way", "way"),
    ("IEDs", "ieds"),
    ("priorities", "priorities"),
    ("CPU %", "cpu_percent"),
    ("message", "message"),
    ("p50 ms", "p50_ms"),
    ("p99 ms", "p99_ms"),
    ("p99.9 ms", "p999_ms"),
    ("max ms", "max_ms"),
    ("floor p99.9 ms", "floor_p999_ms"),
    ("lost", "lost"),
    ("application µs", "application_us"),
    ("transport+link µs", "link_us"),
    ("socket µs", "socket_us"),
    ("lower µs", "lower_us"),
    ("transport+link % of processing", "link_share_percent"),
    ("port Mbit/s", "port_mbit_per_s"),
];

/// What to run: every way, idle and flooded, with each of the priorities and quotas.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is between application and socket.
    pub ways: Vec<Way>,
    /// IEDs that flood the centre's port, as a list; 0 leaves it idle.
    pub ieds: Vec<u16>,
    /// Priorities off, on, or both.
    pub priorities: Vec<bool>,
    /// Percent of a processor that relay and controller may use; None leaves them alone.
    pub cpu: Vec<Option<u32>>,
    /// How often each setting is run, in turns with the others.
    pub rounds: u32,
    /// Faults of each run.
    pub faults: u32,
    /// From one fault to the next.
    pub interval: Duration,
}

/// Runs the experiment.
///
/// # Errors
/// The options are out of range, or the system does not have what they need.
pub fn run(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    ensure!(options.faults > 0, "0 faults are nothing to measure, expected 1 or more");
    ensure!(options.rounds > 0, "0 rounds are nothing to measure, expected 1 or more");
    ensure!(options.interval >= Duration::from_millis(1), "faults are 1 ms apart or more");
    ensure!(options.ieds.iter().all(|ieds| *ieds <= 1000), "IEDs are 1000 or fewer");
    process::sweep_on_signals()?;
    let mut settings = Setting::all(options).into_iter().map(Collected::new).collect::<Result<Vec<_>>>()?;
    let count = settings.len();
    for round in 1..=options.rounds {
        for (number, collected) in (1..).zip(&mut settings) {
            let of = format!("round {round} of {}, {number} of {count}", options.rounds);
            progress.show(&format!("delay: {of}: {}", collected.setting.name()));
            collected.add(&collected.setting.play()?)?;
        }
    }
    Ok(settings.iter().flat_map(Collected::rows).collect())
}

/// Published means of the baseline and with the link saturated, in milliseconds (`docs/benchmarks.md` has the source).
const PUBLISHED: [(&str, f64, f64); 3] =
    [("published relay→CB", 20.2, 20.2), ("published relay→centre", 8.8, 12.6), ("published CB→centre", 16.2, 19.9)];

/// Published shares of processing: application, transport and link, TCP; the middle of each range in percent.
const PUBLISHED_SHARES: [f64; 3] = [28.5, 49.5, 15.5];

/// The curves of a run, with names for files.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut loads: Vec<u16> = rows.iter().map(|row| row.ieds).collect();
    loads.sort_unstable();
    loads.dedup();
    let mut charts: Vec<_> = loads.into_iter().map(|ieds| delays_of(rows, ieds)).collect();
    charts.push(("delay-shares".to_owned(), shares_of(rows)));
    charts
}

fn delays_of(rows: &[Row], ieds: u16) -> (String, Chart) {
    let mut curves = Vec::new();
    let of_way = |row: &&Row| row.ieds == ieds && row.cpu_percent.is_none() && row.way == Way::Tcp.name();
    for row in rows.iter().filter(of_way) {
        let Some(figures) = &row.figures else { continue };
        let hue = 1 + Kind::ALL.iter().position(|kind| kind.name() == row.message).unwrap_or(0);
        let (line, word) = if row.priorities { (Line::Solid, "on") } else { (Line::Dotted, "off") };
        let name = format!("{}, priorities {word}", row.message);
        curves.push(Curve { name, points: figures.curve_ms.clone(), line, hue });
    }
    for (hue, (name, idle, loaded)) in (1..).zip(PUBLISHED) {
        let mean = if ieds > 0 { loaded } else { idle };
        let points = vec![(1.0, mean), (1000.0, mean)];
        curves.push(Curve { name: format!("{name}, mean"), points, line: Line::Dashed, hue });
    }
    let (file, load) = match ieds {
        0 => ("delay-idle".to_owned(), "idle".to_owned()),
        many => ("delay-flooded".to_owned(), format!("{many} IEDs of 4,800 samples/s on the centre's port")),
    };
    let x = Axis { label: "one message in so many is slower".to_owned(), scale: Scale::Decades };
    let y = Axis { label: "ms".to_owned(), scale: Scale::Decades };
    (file, Chart { title: format!("From fault to application, {load}"), x, y, curves })
}

fn shares_of(rows: &[Row]) -> Chart {
    let mut curves = Vec::new();
    let idle = |row: &&Row| row.ieds == 0 && !row.priorities && row.cpu_percent.is_none();
    for (hue, row) in (1..).zip(rows.iter().filter(idle).filter(|row| row.message == Kind::RelayReport.name())) {
        let Some(Figures { parts, .. }) = &row.figures else { continue };
        let all = parts.application_us + parts.link_us + parts.socket_us;
        let share = |part: f64| 100.0 * part / all;
        let shares = [share(parts.application_us), share(parts.link_us), share(parts.socket_us)];
        curves.push(Curve { name: row.way.to_owned(), points: numbered(shares), line: Line::Solid, hue });
    }
    let (name, points) = ("published, middle".to_owned(), numbered(PUBLISHED_SHARES));
    curves.push(Curve { name, points, line: Line::Dashed, hue: 0 });
    let x = Axis { label: "1 application, 2 transport and link, 3 socket".to_owned(), scale: Scale::Linear };
    let y = Axis { label: "% of processing".to_owned(), scale: Scale::Linear };
    Chart { title: "Who has the processing of a report".to_owned(), x, y, curves }
}

fn numbered(shares: [f64; 3]) -> Vec<(f64, f64)> {
    [1.0, 2.0, 3.0].into_iter().zip(shares).collect()
}

#[cfg(test)]
mod tests;
