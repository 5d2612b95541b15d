//! The curves: throughput and latency over messages at a time.

use super::{Experiment, Figures, LoadFigures, Row, Verb};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;
use anyhow::Result;
use std::path::Path;

/// Published: latency stays under it up to so many messages at a time (STS, 2023).
const PUBLISHED: [(f64, f64); 2] = [(1.0, 50.0), (64.0, 50.0)];

/// Writes `seal-throughput.svg` and `seal-latency.svg` into a folder.
///
/// # Errors
/// They cannot be written.
pub fn save_curves(rows: &[Row], folder: &Path) -> Result<()> {
    let mut throughput = Vec::new();
    let mut latency = Vec::new();
    for (verb, hue) in [(Verb::Pack, 1), (Verb::Unpack, 2)] {
        let name = format!("{verb:?}").to_lowercase();
        let curve = |what: &str, hue, line, batch, figure: fn(&LoadFigures) -> f64| Curve {
            name: format!("{name}, {what}"),
            points: points(rows, verb, batch, figure),
            line,
            hue,
        };
        throughput.push(curve("together", hue, Line::Solid, true, |f| f.messages_per_cpu_s));
        throughput.push(curve("one by one", hue + 2, Line::Solid, false, |f| f.messages_per_cpu_s));
        throughput
            .push(curve("ceiling", hue, Line::Dotted, true, |f| f.ceiling_messages_per_cpu_s.unwrap_or(f64::NAN)));
        latency.push(curve("p50", hue, Line::Solid, true, |f| number(f.latency.p50) / 1000.0));
        latency.push(curve("p99", hue + 2, Line::Solid, true, |f| number(f.latency.p99) / 1000.0));
    }
    let published = "published: under 50 ms to 64".to_owned();
    latency.push(Curve { name: published, points: PUBLISHED.to_vec(), line: Line::Dashed, hue: 0 });
    let at_a_time = || Axis { label: "messages at a time, two servers".to_owned(), scale: Scale::Doubling };
    Chart {
        title: "Sealed messages of 1 KiB".to_owned(),
        x: at_a_time(),
        y: Axis { label: "messages a second of server CPU".to_owned(), scale: Scale::Linear },
        curves: throughput,
    }
    .save(folder, "seal-throughput")?;
    Chart {
        title: "Sealed messages of 1 KiB: from request to answer".to_owned(),
        x: at_a_time(),
        y: Axis { label: "ms".to_owned(), scale: Scale::Decades },
        curves: latency,
    }
    .save(folder, "seal-latency")
}

fn points(rows: &[Row], verb: Verb, batch: bool, figure: fn(&LoadFigures) -> f64) -> Vec<(f64, f64)> {
    let of = |row: &&Row| row.experiment == Experiment::Closed && row.verb == verb && row.batch == batch;
    let point = |row: &Row| match (&row.figures, row.concurrency) {
        (Some(Figures::Load(figures)), Some(count)) => Some((number(count as u64), figure(figures))),
        (Some(Figures::Load(_) | Figures::Refusals(_)) | None, _) => None,
    };
    rows.iter().filter(of).filter_map(point).collect()
}
