//! The curves of a run: reads over the window, and requests over time.

use super::reads::DELAY;
use super::{Figures, Row};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;

/// The charts that the rows are enough for, each with the name of its file.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let all = [("field-window", over_window(rows)), ("field-spread", over_time(rows))];
    all.into_iter().filter_map(|(name, chart)| Some((name, chart?))).collect()
}

fn over_window(rows: &[Row]) -> Option<Chart> {
    let points = |floor: bool| -> Vec<(f64, f64)> {
        let point = |row: &Row| match row.figures {
            Some(Figures::Window(figures)) => {
                let per_s = if floor { figures.floor_reads_per_s } else { figures.reads_per_s };
                Some((f64::from(row.in_flight?), per_s))
            }
            _ => None,
        };
        rows.iter().filter_map(point).collect()
    };
    let curves = vec![
        curve("one connection", Line::Solid, 1, points(false)),
        curve("floor, the same bytes", Line::Dotted, 1, points(true)),
    ];
    let title = format!("Modbus: reads over the window, answers after {} ms", DELAY.as_millis());
    chart(&title, axis("reads in flight", Scale::Doubling), axis("reads a second", Scale::Linear), curves)
}

/// Of the row with the most requests: its curve is the smoothest that can be expected.
fn over_time(rows: &[Row]) -> Option<Chart> {
    let figures = rows.iter().find_map(|row| match &row.figures {
        Some(Figures::Spread(figures)) => Some(figures),
        _ => None,
    })?;
    let points = |per_s: &[f64]| (0..).zip(per_s).map(|(at, rate)| (number(at) * 10.0, *rate)).collect();
    let curves = vec![
        curve("a node", Line::Solid, 1, points(&figures.per_s)),
        curve("as fast as answers come", Line::Dashed, 2, points(&figures.scrape_per_s)),
    ];
    let x = axis("seconds of an interval", Scale::Linear);
    chart("9,000 points of a controller, every 15 min", x, axis("requests a second", Scale::Linear), curves)
}

fn curve(name: &str, line: Line, hue: usize, points: Vec<(f64, f64)>) -> Curve {
    Curve { name: name.to_owned(), points, line, hue }
}

fn axis(label: &str, scale: Scale) -> Axis {
    Axis { label: label.to_owned(), scale }
}

/// A chart, if anything was measured.
fn chart(title: &str, x: Axis, y: Axis, curves: Vec<Curve>) -> Option<Chart> {
    let measured = curves.iter().any(|curve| curve.line == Line::Solid && !curve.points.is_empty());
    measured.then(|| Chart { title: title.to_owned(), x, y, curves })
}
