//! Curves of the run, beside what was published.

use super::sites::published_s;
use super::{Figures, Row, Stored};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;

/// The charts, by the name of their file.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let chart = |title: &str, y: &str, curves| Chart {
        title: title.to_owned(),
        x: Axis { label: "sites of 500 devices with 18 points each second".to_owned(), scale: Scale::Doubling },
        y: Axis { label: y.to_owned(), scale: Scale::Decades },
        curves,
    };
    let published = (1..=4).filter_map(|sites| Some((number(sites as u64), published_s(sites, 500, 18)?))).collect();
    vec![
        (
            "centre-stored",
            chart(
                "From a reading until it is stored at the centre",
                "seconds",
                vec![
                    Curve {
                        name: "published (2017), at the end".to_owned(),
                        points: published,
                        line: Line::Dashed,
                        hue: 0,
                    },
                    measured(rows, "p99", 1, |stored| number(stored.latency.p99) / 1e6),
                    measured(rows, "p50", 2, |stored| number(stored.latency.p50) / 1e6),
                ],
            ),
        ),
        (
            "centre-cpu",
            chart(
                "Processors over sites",
                "cores",
                vec![
                    measured(rows, "centre", 1, |stored| stored.centre_cores),
                    measured(rows, "nats-server", 2, |stored| stored.server_cores),
                    measured(rows, "all sites, devices simulated", 3, |stored| stored.sites_cores),
                ],
            ),
        ),
    ]
}

fn measured(rows: &[Row], name: &str, hue: usize, figure: fn(&Stored) -> f64) -> Curve {
    let point = |row: &Row| match &row.figures {
        Some(Figures::Sites(stored)) => Some((number(row.sites as u64), figure(stored))),
        Some(Figures::Levels(_) | Figures::Link(_)) | None => None,
    };
    Curve { name: name.to_owned(), points: rows.iter().filter_map(point).collect(), line: Line::Solid, hue }
}
