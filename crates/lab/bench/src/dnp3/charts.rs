//! The curves of a run, with what was published (Step Function I/O, 2022).

use super::{Experiment, Row};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::process;
use crate::rounds::number;

/// Bytes of heap of one pair alone, and of each of many, as published.
const PUBLISHED_ALONE: f64 = 240e3;
const PUBLISHED_MANY: f64 = 130e3;

/// The charts that the rows are enough for, each with the name of its file.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let all = [
        ("dnp3-sessions", over_sessions(rows)),
        ("dnp3-cpu", cpu_over_sessions(rows)),
        ("dnp3-workers", over_workers(rows)),
        ("dnp3-memory", memory_over_sessions(rows)),
    ];
    all.into_iter().filter_map(|(name, chart)| Some((name, chart?))).collect()
}

fn over_sessions(rows: &[Row]) -> Option<Chart> {
    let mut curves = Vec::new();
    for (hue, values) in kinds(rows, Experiment::Sessions, |row| usize::from(row.values)) {
        let of = |row: &&Row| usize::from(row.values) == values;
        let ours = points(rows, Experiment::Sessions, of, |row| Some(row.figures?.exchanges_per_s));
        let floor = points(rows, Experiment::Sessions, of, |row| Some(row.figures?.floor_exchanges_per_s));
        curves.push(curve(&format!("{values} values"), Line::Solid, hue, ours));
        curves.push(curve("floor, as many bytes", Line::Dotted, hue, floor));
    }
    chart("DNP3: exchanges over sessions", sessions_axis(), axis("exchanges a second", Scale::Linear), curves)
}

fn cpu_over_sessions(rows: &[Row]) -> Option<Chart> {
    let mut curves = Vec::new();
    for (hue, values) in kinds(rows, Experiment::Sessions, |row| usize::from(row.values)) {
        let of = |row: &&Row| usize::from(row.values) == values;
        let ratio = points(rows, Experiment::Sessions, of, |row| Some(row.figures?.ratio_to_floor));
        curves.push(curve(&format!("{values} values"), Line::Solid, hue, ratio));
    }
    if let Some(first) = curves.first() {
        let floor = first.points.iter().map(|point| (point.0, 1.0)).collect();
        curves.push(curve("floor", Line::Dotted, 0, floor));
    }
    let y = axis("processor time, times the floor", Scale::Linear);
    chart("DNP3: processor time of an exchange, both ends", sessions_axis(), y, curves)
}

fn over_workers(rows: &[Row]) -> Option<Chart> {
    let mut curves = Vec::new();
    for (hue, sessions) in kinds(rows, Experiment::Workers, |row| row.sessions) {
        let of = |row: &&Row| row.sessions == sessions;
        let figure = |row: &Row| Some((number(row.workers as u64), row.figures?.exchanges_per_s));
        let points = rows.iter().filter(|row| row.experiment == Experiment::Workers).filter(of).filter_map(figure);
        curves.push(curve(&format!("{sessions} sessions"), Line::Solid, hue, points.collect()));
    }
    if !curves.is_empty() {
        let x = number(process::processors() as u64);
        let edge = vec![(x, f64::NEG_INFINITY), (x, f64::INFINITY)];
        curves.push(curve("processors here; the published", Line::Dashed, 0, edge));
        curves.push(curve("kink is at the 12 physical cores", Line::Dashed, 0, Vec::new()));
    }
    let (x, y) = (axis("workers", Scale::Linear), axis("exchanges a second", Scale::Linear));
    chart("DNP3: exchanges over workers", x, y, curves)
}

fn memory_over_sessions(rows: &[Row]) -> Option<Chart> {
    let ours = points(rows, Experiment::Memory, |_| true, |row| Some(row.footprint?.rss_bytes_per_pair));
    let published = |(pairs, _): &(f64, f64)| (*pairs, PUBLISHED_MANY + (PUBLISHED_ALONE - PUBLISHED_MANY) / pairs);
    let published = ours.iter().map(published).collect();
    let curves = vec![
        curve("resident, 33 points a pair", Line::Solid, 1, ours),
        curve("published heap", Line::Dashed, 2, published),
    ];
    let y = axis("bytes a pair", Scale::Decades);
    chart("DNP3: memory of a master and its outstation", sessions_axis(), y, curves)
}

/// What a figure is over sessions, of some rows of an experiment.
fn points(
    rows: &[Row],
    experiment: Experiment,
    of: impl Fn(&&Row) -> bool,
    figure: impl Fn(&Row) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let mine = rows.iter().filter(|row| row.experiment == experiment).filter(of);
    mine.filter_map(|row| Some((number(row.sessions as u64), figure(row)?))).collect()
}

/// The different keys of an experiment's rows in their order, each with a colour.
fn kinds(rows: &[Row], experiment: Experiment, key: impl Fn(&Row) -> usize) -> Vec<(usize, usize)> {
    let mut found: Vec<usize> = rows.iter().filter(|row| row.experiment == experiment).map(key).collect();
    found.sort_unstable();
    found.dedup();
    (1..).zip(found).collect()
}

fn curve(name: &str, line: Line, hue: usize, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: name.to_owned(), points, line, hue }
}

fn sessions_axis() -> Axis {
    axis("pairs of a master and an outstation", Scale::Doubling)
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale }
}

/// A chart, if anything was measured.
fn chart(title: &str, x: Axis, y: Axis, curves: Vec<Curve>) -> Option<Chart> {
    let measured = curves.iter().any(|curve| curve.line == Line::Solid && !curve.points.is_empty());
    measured.then(|| Chart { title: title.to_owned(), x, y, curves })
}
