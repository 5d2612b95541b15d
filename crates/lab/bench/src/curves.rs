//! Curves of a run as an SVG file: what was measured, its floor, and what others published.
//!
//! One file is one chart, without scripts, fonts or links, in colours that read on a light and on a dark ground. Numbers
//! are written with one decimal of a pixel, so that the same rows give the same bytes.
//!
//! ```text
//!   title
//!   ┌─────────────────────────┐  ─●─ measured
//! y │ grid at each tick       │  ··· floor
//!   └─────────────────────────┘  - - published
//!     x
//! ```

use anyhow::{Context, Result};
use std::fmt::{self, Write};
use std::path::Path;

/// A chart of curves that share two axes.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What is shown, in a line.
    pub title: String,
    /// The lower edge.
    pub x: Axis,
    /// The left edge.
    pub y: Axis,
    /// What is drawn, the first at the bottom.
    pub curves: Vec<Curve>,
}

/// An edge of a chart. Its range is that of all finite points, rounded out to ticks.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What the numbers are, with their unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
}

/// How an axis is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Even steps from zero.
    Linear,
    /// Each step twice the one before; for points above zero.
    Doubling,
    /// 1, 2, 5, 10, 20 …; for points above zero.
    Decades,
}

/// A line through points.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its words in the legend.
    pub name: String,
    /// Points from left to right. An infinite coordinate lies on the edge; one that is not a number leaves its point out.
    pub points: Vec<(f64, f64)>,
    /// How the line is drawn.
    pub line: Line,
    /// Its colour: curves with the same number are of the same kind. 0 is grey.
    pub hue: usize,
}

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// With a dot at each point: measured.
    Solid,
    /// A floor.
    Dotted,
    /// Published by others.
    Dashed,
}

const WIDTH: f64 = 980.0;
const HEIGHT: f64 = 420.0;
/// The plot within the file: left, top, right, lower edge.
const PLOT: (f64, f64, f64, f64) = (96.0, 48.0, 740.0, 360.0);
const LEGEND_X: f64 = 760.0;
const LEGEND_STEP: f64 = 22.0;
/// Ticks of an axis at most.
const TICKS_MAX: usize = 15;
/// Grey, then blue, orange, green, purple, red, brown: readable on white and on black, told apart by most eyes.
const HUES: [&str; 7] = ["#8a8f98", "#3b82c4", "#d9822b", "#2f9e74", "#9a6fc4", "#d05a5a", "#a07850"];
const STYLE: &str = "text{font:13px sans-serif;fill:#555b66}.title{font-size:15px;font-weight:600}\
    .grid{stroke:#8a8f98;stroke-opacity:.28}.edge{stroke:#8a8f98;fill:none}.curve{fill:none;stroke-width:2}\
    @media(prefers-color-scheme:dark){text{fill:#c3c8d1}}";

impl Chart {
    /// Writes the chart to `name`.svg in `folder`, which is made where it is absent.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let path = folder.join(format!("{name}.svg"));
        std::fs::write(&path, self.to_svg()).with_context(|| path.display().to_string())
    }

    /// The chart as SVG.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        self.draw(&mut svg).unwrap_or_default();
        svg
    }

    fn draw(&self, out: &mut String) -> fmt::Result {
        let (left, top, right, low) = PLOT;
        let title = escape(&self.title);
        writeln!(out, r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">"#)?;
        writeln!(out, "<title>{title}</title>\n<style>{STYLE}</style>")?;
        writeln!(out, r#"<text class="title" x="{left}" y="26">{title}</text>"#)?;
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let x = Ruler::new(self.x.scale, points().map(|point| point.0), (left, right));
        let y = Ruler::new(self.y.scale, points().map(|point| point.1), (low, top));
        for (tick, at) in x.marks() {
            writeln!(out, r#"<path class="grid" d="M{at:.1} {top}V{low}"/>"#)?;
            writeln!(out, r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{}</text>"#, low + 18.0, words(tick))?;
        }
        for (tick, at) in y.marks() {
            writeln!(out, r#"<path class="grid" d="M{left} {at:.1}H{right}"/>"#)?;
            let (end, base) = (left - 8.0, at + 4.5);
            writeln!(out, r#"<text x="{end:.1}" y="{base:.1}" text-anchor="end">{}</text>"#, words(tick))?;
        }
        writeln!(out, r#"<path class="edge" d="M{left} {top}V{low}H{right}"/>"#)?;
        let (across, down) = (f64::midpoint(left, right), f64::midpoint(top, low));
        writeln!(
            out,
            r#"<text x="{across}" y="{}" text-anchor="middle">{}</text>"#,
            low + 42.0,
            escape(&self.x.label)
        )?;
        let turned = format!(r#"transform="translate(16 {down}) rotate(-90)""#);
        writeln!(out, r#"<text {turned} text-anchor="middle">{}</text>"#, escape(&self.y.label))?;
        for (row, curve) in self.curves.iter().enumerate() {
            curve.draw(out, &x, &y)?;
            curve.draw_name(out, top + 8.0 + row_offset(row))?;
        }
        writeln!(out, "</svg>")
    }
}

impl Curve {
    fn draw(&self, out: &mut String, x: &Ruler, y: &Ruler) -> fmt::Result {
        let seen = self.points.iter().filter(|(x, y)| !x.is_nan() && !y.is_nan());
        let places: Vec<_> = seen.map(|point| (x.place(point.0), y.place(point.1))).collect();
        if places.is_empty() {
            return Ok(());
        }
        let line: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
        writeln!(out, r#"<path class="curve" {} d="M{}"/>"#, self.stroke(), line.join("L"))?;
        if self.line == Line::Solid {
            for (x, y) in places {
                writeln!(out, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{}"/>"#, self.colour())?;
            }
        }
        Ok(())
    }

    fn draw_name(&self, out: &mut String, y: f64) -> fmt::Result {
        let (end, words) = (LEGEND_X + 26.0, LEGEND_X + 34.0);
        writeln!(out, r#"<path class="curve" {} d="M{LEGEND_X} {y:.1}H{end}"/>"#, self.stroke())?;
        writeln!(out, r#"<text x="{words}" y="{:.1}">{}</text>"#, y + 4.5, escape(&self.name))
    }

    fn stroke(&self) -> String {
        let dashes = match self.line {
            Line::Solid => "",
            Line::Dotted => r#" stroke-dasharray="2 4""#,
            Line::Dashed => r#" stroke-dasharray="8 5""#,
        };
        format!(r#"stroke="{}"{dashes}"#, self.colour())
    }

    fn colour(&self) -> &'static str {
        HUES.get(self.hue).copied().unwrap_or(HUES[0])
    }
}

/// Where numbers lie between two edges.
#[derive(Clone, Debug)]
struct Ruler {
    scale: Scale,
    ticks: Vec<f64>,
    edges: (f64, f64),
}

impl Ruler {
    fn new(scale: Scale, numbers: impl Iterator<Item = f64>, edges: (f64, f64)) -> Self {
        let shown = numbers.filter(|number| number.is_finite() && (scale == Scale::Linear || *number > 0.0));
        let range = shown.fold(None, |range: Option<(f64, f64)>, number| {
            let (least, most) = range.unwrap_or((number, number));
            Some((least.min(number), most.max(number)))
        });
        let (least, most) = range.unwrap_or((1.0, 1.0));
        let ticks = match scale {
            Scale::Linear => even_ticks(least.min(0.0), most.max(f64::MIN_POSITIVE)),
            Scale::Doubling => doubling_ticks(least, most),
            Scale::Decades => decade_ticks(least, most),
        };
        Self { scale, ticks, edges }
    }

    /// Each tick that has words, and its place.
    fn marks(&self) -> impl Iterator<Item = (f64, f64)> {
        let every = self.ticks.len().div_ceil(TICKS_MAX).max(1);
        self.ticks.iter().step_by(every).map(|tick| (*tick, self.place(*tick)))
    }

    fn place(&self, number: f64) -> f64 {
        let (first, last) = (self.ticks.first().copied().unwrap_or(0.0), self.ticks.last().copied().unwrap_or(1.0));
        let turned = |number: f64| if self.scale == Scale::Linear { number } else { number.log2() };
        let within = number.clamp(first, last);
        let part = (turned(within) - turned(first)) / (turned(last) - turned(first));
        self.edges.0 + part * (self.edges.1 - self.edges.0)
    }
}

/// Five steps or so of 1, 2 or 5 times a power of ten.
fn even_ticks(least: f64, most: f64) -> Vec<f64> {
    let rough = (most - least) / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(power);
    let first = (least / step).floor();
    std::iter::successors(Some(first), |at| Some(at + 1.0))
        .map(|at| at * step)
        .scan(false, |over, tick| (!std::mem::replace(over, tick >= most * 0.999_999)).then_some(tick))
        .collect()
}

/// The powers of two around a range: two at least.
fn doubling_ticks(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log2().floor(), most.log2().ceil());
    std::iter::successors(Some(first), |at| Some(at + 1.0))
        .take_while(|at| *at <= last.max(first + 1.0))
        .map(f64::exp2)
        .collect()
}

/// 1, 2 and 5 times the powers of ten around a range.
fn decade_ticks(least: f64, most: f64) -> Vec<f64> {
    let first = least.log10().floor();
    let all = std::iter::successors(Some(first), |at| Some(at + 1.0))
        .flat_map(|power| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powf(power)));
    let mut ticks: Vec<f64> = Vec::new();
    for tick in all {
        if tick <= least * 1.000_001 {
            ticks.clear();
        }
        ticks.push(tick);
        if ticks.len() > 1 && tick >= most * 0.999_999 {
            break;
        }
    }
    ticks
}

fn row_offset(row: usize) -> f64 {
    LEGEND_STEP * u32::try_from(row).map_or(0.0, f64::from)
}

/// A tick in words: 16384 as 16,384, five millions as 5 M, small ones with the digits that they need.
fn words(tick: f64) -> String {
    let rounded = tick.round();
    if (tick - rounded).abs() > 1e-9 * tick.abs().max(1.0) {
        let text = format!("{tick:.6}");
        return text.trim_end_matches('0').to_owned();
    }
    if rounded.abs() >= 1e6 && rounded % 1e5 == 0.0 {
        return format!("{} M", rounded / 1e6);
    }
    let digits = format!("{:.0}", rounded.abs());
    let mut text = if rounded < 0.0 { "-".to_owned() } else { String::new() };
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lie_around_the_range() {
        let check = |scale, numbers: &[f64], expect: &[f64]| {
            let ruler = Ruler::new(scale, numbers.iter().copied(), (0.0, 100.0));
            let same = ruler.ticks.len() == expect.len()
                && ruler.ticks.iter().zip(expect).all(|(a, b)| (a - b).abs() <= 1e-9 * b.abs());
            assert!(same, "{scale:?} {numbers:?}: {:?}, not {expect:?}", ruler.ticks);
        };
        check(Scale::Linear, &[3.0, 97.0], &[0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        check(Scale::Linear, &[0.3], &[0.0, 0.1, 0.2, 0.3]);
        check(Scale::Linear, &[-1.0, 4.0], &[-1.0, 0.0, 1.0, 2.0, 3.0, 4.0]);
        check(Scale::Doubling, &[1.0, 8.0], &[1.0, 2.0, 4.0, 8.0]);
        check(Scale::Doubling, &[3.0, 5.0, f64::INFINITY], &[2.0, 4.0, 8.0]);
        check(Scale::Doubling, &[4.0], &[4.0, 8.0]);
        check(Scale::Decades, &[7.0, 130.0], &[5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        check(Scale::Decades, &[0.02], &[0.02, 0.05]);
        check(Scale::Decades, &[0.0, 10.0, 50.0], &[10.0, 20.0, 50.0]);
        check(Scale::Decades, &[], &[1.0, 2.0]);
    }

    #[test]
    fn numbers_have_their_place() {
        let ruler = Ruler::new(Scale::Doubling, [1.0, 16.0].into_iter(), (100.0, 0.0));
        let places = [1.0, 4.0, 16.0, f64::INFINITY, f64::NEG_INFINITY].map(|number| ruler.place(number));
        assert_eq!(places, [100.0, 50.0, 0.0, 0.0, 100.0]);
    }

    #[test]
    fn ticks_in_words() {
        let check = |tick: f64, expect: &str| assert_eq!(words(tick), expect);
        check(0.0, "0");
        check(16_384.0, "16,384");
        check(999_000.0, "999,000");
        check(2_500_000.0, "2.5 M");
        check(0.05, "0.05");
        check(-20.0, "-20");
    }

    #[test]
    fn a_chart_has_every_curve_and_escapes_words() {
        let curve =
            |name: &str, line, points: &[(f64, f64)]| Curve { name: name.into(), points: points.into(), line, hue: 1 };
        let chart = Chart {
            title: "a < b & c".into(),
            x: Axis { label: "sessions".into(), scale: Scale::Doubling },
            y: Axis { label: "kB".into(), scale: Scale::Linear },
            curves: vec![
                curve("ours", Line::Solid, &[(1.0, 0.0), (2.0, 10.0), (4.0, f64::NAN)]),
                curve("published", Line::Dashed, &[(2.0, f64::NEG_INFINITY), (2.0, f64::INFINITY)]),
                curve("nothing", Line::Dotted, &[]),
            ],
        };
        let svg = chart.to_svg();
        assert!(svg.contains("<title>a &lt; b &amp; c</title>"), "{svg}");
        assert!(svg.contains(r##"stroke="#3b82c4" d="M96.0 360.0L418.0 48.0"/>"##), "{svg}");
        assert!(svg.contains(r##"stroke="#3b82c4" stroke-dasharray="8 5" d="M418.0 360.0L418.0 48.0"/>"##), "{svg}");
        assert_eq!((svg.matches("<circle").count(), svg.matches("NaN").count()), (2, 0));
        assert!(["ours", "published", "nothing"].iter().all(|name| svg.contains(name)), "{svg}");
        let folder = tempfile::tempdir().unwrap();
        chart.save(&folder.path().join("made"), "curves").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("made/curves.svg")).unwrap(), svg);
    }
}
