//! Curves of a run: every takeover of it, the shortest first.

use super::{Figures, Row};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;

/// The chart and the name of its file, which says how many members the core has.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(String, Chart)> {
    let mut members: Vec<usize> = rows.iter().map(|row| row.members).collect();
    members.dedup();
    let chart = |members: usize| {
        let curves = (1..).zip(rows.iter().filter(|row| row.members == members)).flat_map(|(hue, row)| {
            let figures = row.figures.as_ref();
            [
                curve(row, "term record", Line::Dotted, hue, figures.map(|figures: &Figures| &*figures.term_s)),
                curve(row, "acknowledged again", Line::Solid, hue, figures.map(|figures| &*figures.acknowledged_s)),
            ]
        });
        Chart {
            title: format!("A core of {members} members: from the end of its leader to the next"),
            x: Axis { label: "takeovers, the shortest first".to_owned(), scale: Scale::Linear },
            y: Axis { label: "seconds".to_owned(), scale: Scale::Linear },
            curves: curves.collect(),
        }
    };
    members.into_iter().map(|members| (format!("failover-{members}"), chart(members))).collect()
}

fn curve(row: &Row, what: &str, line: Line, hue: usize, seconds: Option<&[f64]>) -> Curve {
    let mut sorted = seconds.unwrap_or_default().to_vec();
    sorted.sort_by(f64::total_cmp);
    let points = (1..).map(number).zip(sorted).collect();
    Curve { name: format!("{}, {what}", row.event), points, line, hue }
}
