//! Curves of the run, beside those that were published.

use super::{Figures, Form, Kind, Row, Transport};
use crate::curves::{Axis, Chart, Curve, Line, Scale};
use crate::rounds::number;

/// Published (2023), 16 virtual processors: subscribers, processors without deltas, megabits a second, processors with
/// deltas, megabits a second.
const PUBLISHED: [(f64, f64, f64, f64, f64); 3] =
    [(5_000.0, 2.0, 600.0, 2.5, 103.0), (10_000.0, 3.0, 1_200.0, 3.5, 206.0), (20_000.0, 5.0, 2_400.0, 5.6, 412.0)];
/// Events a second of each published subscriber.
const PUBLISHED_EVENTS: f64 = 20.0;

/// The charts, by the name of their file.
#[must_use]
pub fn charts(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let cost = published("published", |row| row.1 / (row.0 * PUBLISHED_EVENTS) * 1e6);
    let cost_delta = published("published, deltas", |row| row.3 / (row.0 * PUBLISHED_EVENTS) * 1e6);
    let bytes = published("published", |row| row.2 * 1e6 / 8.0 / (row.0 * PUBLISHED_EVENTS));
    let bytes_delta = published("published, deltas", |row| row.4 * 1e6 / 8.0 / (row.0 * PUBLISHED_EVENTS));
    let chart = |title: &str, y: &str, figure: fn(&Figures) -> f64, others: Vec<Curve>| Chart {
        title: title.to_owned(),
        x: Axis { label: "subscribers".to_owned(), scale: Scale::Decades },
        y: Axis { label: y.to_owned(), scale: Scale::Decades },
        curves: others.into_iter().chain(measured(rows, figure)).collect(),
    };
    if rows.iter().any(|row| row.shards > 1) {
        return over_shards(rows);
    }
    vec![
        (
            "fanout-cpu",
            chart(
                "Processor time of the server over subscribers",
                "CPU seconds a million events",
                |figures| figures.cpu_s_per_million,
                vec![cost, cost_delta],
            ),
        ),
        (
            "fanout-bytes",
            chart(
                "Bytes on the stream over subscribers",
                "bytes an event",
                |f| f.bytes_per_event,
                vec![bytes, bytes_delta],
            ),
        ),
        (
            "fanout-latency",
            chart("Latency over subscribers", "p50, µs", |figures| number(figures.latency.p50), Vec::new()),
        ),
    ]
}

/// The charts of a run over shards.
fn over_shards(rows: &[Row]) -> Vec<(&'static str, Chart)> {
    let chart = |title: &str, y: &str, curves: Vec<Curve>| Chart {
        title: title.to_owned(),
        x: Axis { label: "socket shards".to_owned(), scale: Scale::Doubling },
        y: Axis { label: y.to_owned(), scale: Scale::Linear },
        curves,
    };
    let mut settings: Vec<(u64, bool)> = Vec::new();
    for row in rows.iter().filter(|row| row.server == Kind::Tieline) {
        let setting = (row.rate_per_s, row.delta);
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let curve = |name: &str, hue: usize, (rate, delta): (u64, bool), figure: &dyn Fn(&Figures) -> Option<f64>| {
        let alike = |row: &&Row| row.server == Kind::Tieline && (row.rate_per_s, row.delta) == (rate, delta);
        let point = |row: &Row| Some((number(row.shards as u64), figure(row.figures.as_ref()?)?));
        let mut points: Vec<_> = rows.iter().filter(alike).filter_map(point).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let deltas = if delta { ", deltas" } else { "" };
        Curve { name: format!("{name}, {rate} updates/s{deltas}"), points, line: Line::Solid, hue }
    };
    let each = |name: &str, figure: &dyn Fn(&Figures) -> Option<f64>| -> Vec<Curve> {
        settings.iter().zip(1..).map(|(setting, hue)| curve(name, hue, *setting, figure)).collect()
    };
    let all = each("all threads", &|figures| Some(figures.cpu_s_per_million));
    let busiest = each("busiest thread", &|figures| Some(figures.cpu_s_per_million * figures.busiest_share?));
    let dotted = busiest.into_iter().map(|curve| Curve { line: Line::Dotted, ..curve });
    let p50 = each("p50", &|figures| Some(number(figures.latency.p50) / 1000.0));
    let cost = "CPU seconds a million events";
    vec![
        (
            "fanout-shards-cpu",
            chart("Processor time over socket shards", cost, all.into_iter().chain(dotted).collect()),
        ),
        ("fanout-shards-latency", chart("Latency over socket shards", "p50, ms", p50)),
    ]
}

fn published(name: &str, figure: impl Fn(&(f64, f64, f64, f64, f64)) -> f64) -> Curve {
    let points = PUBLISHED.iter().map(|row| (row.0, figure(row))).collect();
    Curve { name: name.to_owned(), points, line: Line::Dashed, hue: if name.ends_with("deltas") { 2 } else { 1 } }
}

fn measured(rows: &[Row], figure: fn(&Figures) -> f64) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let Some(figures) = &row.figures else { continue };
        let mut name = row.server.name().to_owned();
        // A row with others that read nothing is no point of these curves.
        if row.stalled > 0 {
            continue;
        }
        name.push_str(match row.transport {
            Transport::Tcp => "",
            Transport::Tls => ", TLS",
            Transport::Ws => ", WebSocket",
        });
        if row.value == Form::Point {
            name.push_str(", points");
        }
        if row.delta {
            name.push_str(", deltas");
        }
        if row.window_ms > 0 {
            name.push_str(&format!(", {} ms", row.window_ms));
        }
        let point = (number(row.subscribers as u64), figure(figures));
        match curves.iter_mut().find(|curve| curve.name == name) {
            // Peers run once for each of our variants; the first stands for all.
            Some(curve) if curve.points.iter().any(|known| known.0 == point.0) => {}
            Some(curve) => curve.points.push(point),
            None => {
                let (line, hue) = match (row.server, row.delta, row.transport) {
                    (Kind::Floor, ..) => (Line::Dotted, 0),
                    (Kind::Mosquitto, ..) => (Line::Solid, 4),
                    (Kind::Nats, ..) => (Line::Solid, 5),
                    (Kind::Tieline, true, _) => (Line::Solid, 2),
                    (Kind::Tieline, false, Transport::Tcp) => (Line::Solid, 1),
                    (Kind::Tieline, false, Transport::Tls) => (Line::Solid, 3),
                    (Kind::Tieline, false, Transport::Ws) => (Line::Solid, 6),
                };
                curves.push(Curve { name, points: vec![point], line, hue });
            }
        }
    }
    // Rows stand in the order in which they were measured, of several runs maybe.
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}
