//! Rows and charts of what subscribers cost.

use super::{Plan, float, measure};
use serde::Serialize;
use std::time::Instant;
use tieline_bench::curves::{Axis, Chart, Curve, Line, Scale};

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("subscribers", "subscribers"),
    ("edges", "edges"),
    ("core: µs an update", "core_us_per_update"),
    ("to fewest subscribers", "core_ratio_to_fewest"),
    ("µs an event", "us_per_event"),
    ("to core", "ratio_to_core"),
    ("bytes an event", "bytes_per_event"),
    ("link: bytes an update", "link_bytes_per_update"),
    ("events", "events"),
    ("lost", "lost"),
    ("took s", "took_s"),
];

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Always `scale`.
    pub experiment: &'static str,
    /// Subscribers, of all edges together.
    pub subscribers: usize,
    /// Edges; none: the core serves the subscribers itself.
    pub edges: usize,
    /// Topics.
    pub topics: usize,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// Processor time of the core for an update, in µs.
    pub core_us_per_update: f64,
    /// The same over that with the fewest subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_ratio_to_fewest: Option<f64>,
    /// Processor time of all edges, or of the core where there are none, for a value that a subscriber got, in µs.
    pub us_per_event: f64,
    /// The same over that of a core that serves the same subscribers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_core: Option<f64>,
    /// Bytes of a value to a subscriber.
    pub bytes_per_event: f64,
    /// Bytes of an update on the link of one edge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bytes_per_update: Option<f64>,
    /// Values that counted and came.
    pub events: u64,
    /// Values that counted and did not: none, or there was no row.
    pub lost: u64,
    /// How long this row took.
    pub took_s: f64,
}

/// Measures a plan, and compares it with the rows before.
///
/// # Errors
/// As of [`measure`].
pub fn row(plan: Plan, before: &[Row]) -> Result<Row, String> {
    let began = Instant::now();
    let found = measure(plan)?;
    let (subscribers, edges) = (plan.load.subscribers, plan.edges);
    let fewest = before.iter().filter(|row| row.edges == edges).min_by_key(|row| row.subscribers);
    let core = before.iter().find(|row| row.edges == 0 && row.subscribers == subscribers);
    Ok(Row {
        experiment: "scale",
        subscribers,
        edges,
        topics: plan.load.topics,
        subscriptions_each: plan.load.subscriptions_each,
        core_us_per_update: short(found.core_us_per_update),
        core_ratio_to_fewest: fewest
            .filter(|_| edges > 0)
            .map(|fewest| short(found.core_us_per_update / fewest.core_us_per_update)),
        us_per_event: short(found.us_per_event),
        ratio_to_core: core.map(|core| short(found.us_per_event / core.us_per_event)),
        bytes_per_event: short(float(found.bytes) / float(found.events)),
        link_bytes_per_update: (edges > 0).then(|| short(found.link_bytes_per_update)),
        events: found.events,
        lost: 0,
        took_s: began.elapsed().as_secs_f64().round(),
    })
}

/// Four figures: more are noise.
pub(super) fn short(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}

/// The charts, by the name of their file.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let mut tiers: Vec<usize> = rows.iter().map(|row| row.edges).collect();
    tiers.sort_unstable();
    tiers.dedup();
    let chart = |title: &str, y: &str, figure: &dyn Fn(&Row) -> Option<f64>| {
        let curve = |(hue, edges): (usize, usize)| {
            let mut points: Vec<(f64, f64)> = rows
                .iter()
                .filter(|row| row.edges == edges)
                .filter_map(|row| Some((float(row.subscribers as u64), figure(row)?)))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let name = if edges == 0 { "at the core".to_owned() } else { format!("{edges} edges") };
            Curve { name, points, line: Line::Solid, hue }
        };
        Chart {
            title: title.to_owned(),
            x: Axis { label: "subscribers".to_owned(), scale: Scale::Decades },
            y: Axis { label: y.to_owned(), scale: Scale::Decades },
            curves: (1..).zip(tiers.iter().copied()).map(curve).filter(|curve| !curve.points.is_empty()).collect(),
        }
    };
    vec![
        (
            "edges-scale-core",
            chart("Processor time of the core over subscribers of its edges, simulated", "µs an update", &|row| {
                (row.edges > 0).then_some(row.core_us_per_update)
            }),
        ),
        (
            "edges-scale-event",
            chart("Processor time of all that serve subscribers, simulated", "µs an event", &|row| {
                Some(row.us_per_event)
            }),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_bench::fanout::{Form, load};

    #[test]
    fn a_row_is_compared_with_those_before() {
        let load = load::Plan { subscribers: 20, topics: 20, rate: 5000, subscriptions_each: 4, form: Form::Json };
        let plan = Plan { load, edges: 0, start_us: 1_000_000, settle: 20, warm: 20, counted: 40 };
        let mut rows = Vec::new();
        for (subscribers, edges) in [(20, 0), (20, 1), (40, 1)] {
            let plan = Plan { load: load::Plan { subscribers, ..load }, edges, ..plan };
            rows.push(row(plan, &rows).unwrap());
        }
        assert_eq!(rows.iter().map(|row| row.ratio_to_core.is_some()).collect::<Vec<_>>(), [false, true, false]);
        assert_eq!(rows.iter().map(|row| row.core_ratio_to_fewest.is_some()).collect::<Vec<_>>(), [false, false, true]);
        let charts = charts(&rows);
        let curves: Vec<usize> = charts.iter().map(|(_, chart)| chart.curves.len()).collect();
        assert_eq!(curves, [1, 2]);
    }
}
