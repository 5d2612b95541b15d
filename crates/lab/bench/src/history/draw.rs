//! Points a second over the time of a sync, over clients, and over what is stored already, as charts.

use super::{Figures, Row, clients, growth};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;
use anyhow::Result;
use std::path::Path;

/// What VOLTTRON's historian stored at most of what was offered, in points a second: the least and the most of releases 9 to 11.
const PUBLISHED: [f64; 2] = [9000.0, 13_000.0];

/// Draws the rows of a disk that takes long to sync, to `history-sync.svg`; nothing where there are none.
///
/// # Errors
/// The file cannot be written.
pub fn save_curves(rows: &[Row], folder: &Path) -> Result<()> {
    let mut cases: Vec<(usize, usize)> = rows.iter().map(|row| (row.batch_points, row.window)).collect();
    cases.sort_unstable();
    cases.dedup();
    let mut curves = Vec::new();
    for (hue, (batch_points, window)) in (1..).zip(cases) {
        let points = |figure: fn(&Figures) -> f64| {
            let of = |row: &&Row| (row.batch_points, row.window) == (batch_points, window);
            let point = |row: &Row| Some((row.sync_ms?, figure(row.figures.as_ref()?)));
            rows.iter().filter(of).filter_map(point).collect()
        };
        let name = format!("{batch_points} points, {window} under way");
        let floor = points(|figures| figures.floor_points_per_s_synced);
        curves.push(Curve { name: "plain file".to_owned(), points: floor, line: Line::Dotted, hue });
        curves.push(Curve { name, points: points(|figures| figures.points_per_s_synced), line: Line::Solid, hue });
    }
    let Some(published) = published(&curves) else { return Ok(()) };
    curves.extend(published);
    Chart {
        title: "History: points a second, synced, where a sync takes long".to_owned(),
        x: Axis { label: "a sync takes longer by, ms".to_owned(), scale: Scale::Decades },
        y: Axis { label: "points/s".to_owned(), scale: Scale::Decades },
        curves,
    }
    .save(folder, "history-sync")
}

/// Draws points of MQTT clients to `history-clients.svg`.
///
/// # Errors
/// The file cannot be written.
pub fn save_clients(rows: &[clients::Row], folder: &Path) -> Result<()> {
    let points = |figure: fn(&clients::Figures) -> f64| {
        let figures = rows.iter().filter_map(|row| Some((number(row.clients as u64), row.figures.as_ref()?)));
        figures.map(|(clients, figures)| (clients, figure(figures))).collect()
    };
    let curve = |name: &str, line, points| Curve { name: name.to_owned(), points, line, hue: 1 };
    let mut curves = vec![
        curve("sockets and a file", Line::Dotted, points(|figures| figures.floor_points_per_s_acknowledged)),
        curve("acknowledged, and queryable", Line::Solid, points(|figures| figures.points_per_s_queryable)),
    ];
    let Some(published) = published(&curves) else { return Ok(()) };
    curves.extend(published);
    Chart {
        title: "History: points a second of MQTT clients, synced".to_owned(),
        x: Axis { label: "clients".to_owned(), scale: Scale::Doubling },
        y: Axis { label: "points/s".to_owned(), scale: Scale::Decades },
        curves,
    }
    .save(folder, "history-clients")
}

/// Draws a history that grows to `history-growth.svg`: what a fixed question and a point cost, over those of the first row.
///
/// # Errors
/// The file cannot be written.
pub fn save_growth(rows: &[growth::Row], folder: &Path) -> Result<()> {
    let ends = rows.first().zip(rows.last()).map(|(first, last)| [first, last].map(|row| number(row.points)));
    let Some(ends) = ends else { return Ok(()) };
    let curve = |name: &str, hue, figure: fn(&growth::Row) -> f64| {
        let points = rows.iter().map(|row| (number(row.points), figure(row))).collect();
        Curve { name: name.to_owned(), points, line: Line::Solid, hue }
    };
    let level = |ratio: f64| {
        let points = ends.iter().map(|points| (*points, ratio)).collect();
        Curve { name: format!("{ratio}"), points, line: Line::Dashed, hue: 0 }
    };
    Chart {
        title: "History: time of a point and of a question, over that at the first row".to_owned(),
        x: Axis { label: "points stored".to_owned(), scale: Scale::Decades },
        y: Axis { label: "ratio".to_owned(), scale: Scale::Linear },
        curves: vec![
            level(0.8),
            level(1.2),
            curve("recording a point", 1, |row| 1.0 / row.ratio_of_points_per_s),
            curve("last samples of one topic", 2, |row| row.ratio_of_topic_ms),
            curve("means of all topics", 3, |row| row.ratio_of_means_ms),
        ],
    }
    .save(folder, "history-growth")
}

/// What VOLTTRON stores, from one end of the curves to the other; none without points.
fn published(curves: &[Curve]) -> Option<[Curve; 2]> {
    let ends = curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x);
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(x), high.max(x)));
    let line = |figure: f64| Curve {
        name: format!("VOLTTRON, {figure:.0} points/s"),
        points: vec![(low, figure), (high, figure)],
        line: Line::Dashed,
        hue: 0,
    };
    (low <= high).then(|| PUBLISHED.map(line))
}
