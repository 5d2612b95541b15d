//! Points a second over the time of a sync, as a chart.

use super::{Figures, Row};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
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
    let ends: Vec<f64> = curves.iter().flat_map(|curve| &curve.points).map(|(x, _)| *x).collect();
    let (low, high) = ends.iter().fold((f64::MAX, f64::MIN), |(low, high), x| (low.min(*x), high.max(*x)));
    if ends.is_empty() {
        return Ok(());
    }
    for figure in PUBLISHED {
        let (name, points) = (format!("VOLTTRON, {figure:.0} points/s"), vec![(low, figure), (high, figure)]);
        curves.push(Curve { name, points, line: Line::Dashed, hue: 0 });
    }
    Chart {
        title: "History: points a second, synced, where a sync takes long".to_owned(),
        x: Axis { label: "a sync takes longer by, ms".to_owned(), scale: Scale::Decades },
        y: Axis { label: "points/s".to_owned(), scale: Scale::Decades },
        curves,
    }
    .save(folder, "history-sync")
}
