//! The columns of a point of a simulated device.
//!
//! | column | holds | default |
//! |---|---|---|
//! | `type` | `bool`, `int`, `float`, `text` | required |
//! | `index` | a number for people: the point has no address | 0 |
//! | `value` | the value at the start, before scaling | what the curve says, else 0, false, an empty text |
//! | `curve` | how the value comes about, as in `sine(20 5 24h)`: [`Curve`] | none: it stays, or is commanded |
//! | `noise` | numbers: the standard deviation of what is added to each value | 0 |
//! | `decimals` | `float`: digits behind the point, 0 to 15, to which values are rounded | not rounded |
//! | `every` | how often it is read, as in `1s` | as often as the device |
//! | `writable` | `true`, `false` | `false` |

use super::list::{List, Row, finite};
use super::{ControlConfig, PointAddress, PointConfig, Takes, ValueKind};
use std::fs;
use tieline_core::CommandMode;
use tieline_model::{Curve, Kind, Model, ModelError, PointSpec};

/// The columns that not every protocol has.
pub(super) const COLUMNS: [&str; 5] = ["value", "curve", "noise", "decimals", "every"];

/// The columns by which a list of another protocol says what a server of ours shows; a node reads past them.
pub(super) const SERVED_COLUMNS: [&str; 4] = ["value", "curve", "noise", "decimals"];

/// The largest whole number that a double has one of its own for.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// A point of a simulated device.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedPoint {
    /// What its values are.
    pub kind: Kind,
    /// A number for people.
    pub index: u32,
    /// Its value at the start; none: what its curve says.
    pub start: Option<f64>,
    /// How its value comes about.
    pub curve: Curve,
    /// The standard deviation of what is added to each value.
    pub noise: f64,
    /// To how many digits behind the point values are rounded; none: they are not.
    pub decimals: Option<u8>,
}

impl SimulatedPoint {
    /// The word for its type.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self.kind {
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Text(_) => "text",
        }
    }

    const fn value_kind(&self) -> ValueKind {
        match self.kind {
            Kind::Bool => ValueKind::Bool,
            Kind::Int => ValueKind::Int,
            Kind::Float => ValueKind::Float,
            Kind::Text(_) => ValueKind::Text,
        }
    }
}

/// The type and the curve of a row; none where one is wrong.
pub(super) fn read_place(list: &mut List<'_>, row: &Row<'_>) -> Option<SimulatedPoint> {
    let kind = list.cell(row, "type", "one of bool, int, float, text", None, kind_of);
    let index = list.cell(row, "index", "a whole number, or nothing", Some(0), |s| s.parse().ok());
    read_curve(list, row, kind?, index?)
}

/// How the value of a row comes about; none where a cell is wrong.
fn read_curve(list: &mut List<'_>, row: &Row<'_>, kind: Kind, index: u32) -> Option<SimulatedPoint> {
    let (kind, start) = start(list, row, kind)?;
    let curve = curve(list, row)?;
    let expected = "a standard deviation: a number from 0 up";
    let noise = list.cell(row, "noise", expected, Some(0.0), |s| finite(s).filter(|noise| *noise >= 0.0))?;
    let expected = "a whole number from 0 to 15";
    let places = |s: &str| s.parse().ok().filter(|places| *places <= 15).map(Some);
    let decimals = list.cell(row, "decimals", expected, Some(None), places)?;
    let point = SimulatedPoint { kind, index, start, curve, noise, decimals };
    check_idle(list, row, &point);
    Some(point)
}

fn kind_of(word: &str) -> Option<Kind> {
    Some(match word {
        "bool" => Kind::Bool,
        "int" => Kind::Int,
        "float" => Kind::Float,
        "text" => Kind::Text("".into()),
        _ => return None,
    })
}

/// The value at the start, which is that of a text at all times.
fn start(list: &mut List<'_>, row: &Row<'_>, kind: Kind) -> Option<(Kind, Option<f64>)> {
    let mut number = |expected: &str, parse: fn(&str) -> Option<f64>| {
        list.cell(row, "value", expected, Some(None), |text| parse(text).map(Some))
    };
    let start = match &kind {
        Kind::Bool => number("true or false", |text| match text {
            "true" | "1" => Some(1.0),
            "false" | "0" => Some(0.0),
            _ => None,
        })?,
        Kind::Int => {
            number("a whole number", |text| finite(text).filter(|x| x.fract() == 0.0 && x.abs() <= WHOLE_MAX))?
        }
        Kind::Float => number("a number", finite)?,
        Kind::Text(_) => return Some((Kind::Text(row.cell("value").unwrap_or_default().into()), None)),
    };
    Some((kind, start))
}

fn curve(list: &mut List<'_>, row: &Row<'_>) -> Option<Curve> {
    let Some(text) = row.cell("curve") else { return Some(Curve::Held) };
    let folder = list.folder().to_owned();
    let mut read = |file: &str| fs::read_to_string(folder.join(file)).map_err(|error| error.to_string());
    match Curve::parse(text, &mut read) {
        Ok(curve) => Some(curve),
        Err(error) => {
            list.report(row.line, "curve", error.found, error.expected);
            None
        }
    }
}

/// Cells that would do nothing.
fn check_idle(list: &mut List<'_>, row: &Row<'_>, point: &SimulatedPoint) {
    let is_number = point.value_kind().is_number();
    let is_text = matches!(point.kind, Kind::Text(_));
    let given = |column: &str| row.cell(column).map(|text| format!("{text:?}"));
    if let Some(found) = given("curve").filter(|_| is_text) {
        list.report(row.line, "curve", found, "nothing: a text stays as it is".to_owned());
    }
    if let Some(found) = given("noise").filter(|_| point.noise > 0.0 && !is_number) {
        list.report(row.line, "noise", found, "nothing: only numbers have noise".to_owned());
    }
    if let Some(found) = given("decimals").filter(|_| point.kind != Kind::Float) {
        list.report(row.line, "decimals", found, "nothing: only points of type float have decimals".to_owned());
    }
    if let Some(found) = given("value").filter(|_| !point.curve.has_start()) {
        list.report(row.line, "value", found, "nothing: the curve says all values".to_owned());
    }
    if let (Some(start), Curve::Walk { min, max, .. }) = (point.start, &point.curve)
        && !(*min..=*max).contains(&start)
    {
        list.report(row.line, "value", start.to_string(), format!("a value from {min} to {max}, as the curve has it"));
    }
}

/// The rest of a row; none where it is wrong.
pub(super) fn read_rest(
    list: &mut List<'_>,
    row: &Row<'_>,
    point: SimulatedPoint,
) -> Option<(PointAddress, ValueKind, Option<ControlConfig>)> {
    let kind = point.value_kind();
    let takes = match point.kind {
        Kind::Bool => Some(Takes::Bool),
        Kind::Int => Some(Takes::Number { raw: -WHOLE_MAX..=WHOLE_MAX, whole: true }),
        // A quarter, so that the width of the range is a number too.
        Kind::Float => Some(Takes::Number { raw: f64::MIN / 4.0..=f64::MAX / 4.0, whole: false }),
        Kind::Text(_) => None,
    };
    let is_writable = list.writable(row, false)?;
    let control = match takes.filter(|_| is_writable) {
        Some(takes) => {
            let (min, max) = list.limits(row)?;
            Some(ControlConfig {
                mode: CommandMode::DirectOperate,
                has_select: false,
                takes,
                min,
                max,
                rules: Box::default(),
            })
        }
        None if is_writable => {
            list.report(row.line, "writable", "true".to_owned(), "false: texts cannot be commanded".to_owned());
            return None;
        }
        None => None,
    };
    Some((PointAddress::Simulated(point), kind, control))
}

/// What the points of a list are to each other.
///
/// # Errors
/// They make no model; lists that were read do.
pub fn model_of(points: &[PointConfig]) -> Result<Model, ModelError> {
    let spec = |point: &PointConfig| Some(spec_of(&point.name, point.address.simulated()?, point.control.is_some()));
    Model::new(points.iter().filter_map(spec).collect())
}

fn spec_of(name: &str, point: &SimulatedPoint, writable: bool) -> PointSpec {
    let SimulatedPoint { kind, start, curve, noise, decimals, .. } = point;
    PointSpec {
        name: name.into(),
        kind: kind.clone(),
        start: *start,
        curve: curve.clone(),
        noise: *noise,
        decimals: *decimals,
        writable,
    }
}

/// What the points of another protocol are to each other, by the columns of [`SERVED_COLUMNS`]: in the unit of their
/// topics. Whoever serves them may set all that have no curve. None where a cell is wrong.
pub(super) fn read_model(list: &mut List<'_>, points: &[PointConfig], rows: &[Row<'_>]) -> Option<Model> {
    let mut specs = Vec::new();
    for (point, row) in points.iter().zip(rows) {
        let kind = match point.kind {
            ValueKind::Bool => Kind::Bool,
            ValueKind::DoubleBit | ValueKind::Int | ValueKind::Float => Kind::Float,
            ValueKind::Text => Kind::Text("".into()),
        };
        let Some(simulated) = read_curve(list, row, kind, point.address.index()) else { continue };
        let is_held = simulated.curve == Curve::Held && point.kind != ValueKind::Text;
        specs.push(spec_of(&point.name, &simulated, is_held || point.control.is_some()));
    }
    if specs.len() < points.len() {
        return None;
    }
    let lines: Vec<u64> = rows.iter().map(|row| row.line).collect();
    Model::new(specs).map_err(|error| report(list, &error, &lines)).ok()
}

/// Reports curves that name what is not there, and the like. `lines` are those of the points.
pub(super) fn check(list: &mut List<'_>, points: &[PointConfig], lines: &[u64]) {
    if let Err(error) = model_of(points) {
        report(list, &error, lines);
    }
}

fn report(list: &mut List<'_>, error: &ModelError, lines: &[u64]) {
    let line = error.point().and_then(|point| lines.get(point)).copied().unwrap_or(1);
    let column = match error {
        ModelError::NotSettable { .. } => "writable",
        ModelError::TooManyPoints { .. } => "(rows)",
        ModelError::UnknownPoint { .. } | ModelError::TextInCurve { .. } | ModelError::Loop { .. } => "curve",
    };
    list.report(line, column, error.to_string(), error.expected());
}

#[cfg(test)]
mod tests {
    use crate::config::{Findings, PointConfig, ProtocolName, read_points, read_served_points};
    use tieline_model::Kind;

    const HEADER: &str = "name,type,value,curve,noise,writable,min,max,scale,decimals\n";

    fn read(folder: &std::path::Path, rows: &str) -> Result<Vec<PointConfig>, Vec<String>> {
        let (mut findings, file) = (Findings::default(), folder.join("p.csv"));
        let text = format!("{HEADER}{rows}");
        let points = read_points(&mut findings, &file.display().to_string(), &text, ProtocolName::Simulated);
        let shown = |finding: &crate::config::Finding| finding.to_string().rsplit("p.csv:").next().unwrap().to_owned();
        points.ok_or_else(|| findings.sorted().iter().map(shown).collect())
    }

    #[test]
    fn lists_of_other_protocols_say_what_a_server_shows() {
        let check = |protocol, rows: &str, expect: Result<usize, &str>| {
            let mut findings = Findings::default();
            let text = format!("name,type,index,writable,value,curve,noise,decimals\n{rows}");
            let served = read_served_points(&mut findings, "p.csv", &text, protocol);
            let found = findings.sorted().first().map(ToString::to_string).unwrap_or_default();
            assert_eq!(served.map(|served| served.lines.len()).ok_or(&*found), expect, "{rows}");
            // A node reads past the curves, right or wrong.
            assert!(read_points(&mut Findings::default(), "p.csv", &text, protocol).is_some());
        };
        let (modbus, bacnet) = (ProtocolName::Modbus, ProtocolName::Bacnet);
        check(modbus, "on,coil,0,true,true,,,\nload,input-register,0,,,when(on 40 2),0.5,1\n", Ok(2));
        check(bacnet, "t,analog-input,1,,,follow(sp 5m),,\nsp,analog-value,1,true,21,,,\n", Ok(2));
        check(
            modbus,
            "load,input-register,0,,,when(off 40 2),,\n",
            Err(
                "p.csv:2:1: curve: found a curve with \"off\", which is no point, expected numbers and names of points of this list",
            ),
        );
        let wrong = "p.csv:3:1: value: found \"warm\", expected a number";
        check(bacnet, "t,analog-input,1,,,,,\nsp,analog-value,1,true,warm,,,\n", Err(wrong));
    }

    #[test]
    fn points_have_curves_and_no_address() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("week.csv"), "0s,1\n1h,2\n").unwrap();
        let rows = "setpoint,float,21,,,true,15,28,\nroom,float,19,\"follow(setpoint, 5m)\",0.1,true,,,\n\
                    fan,bool,true,,,true,,,\nload,int,,steps(week.csv 1d),,,,,0.1\nlabel,text,VAV 7,,,,,,\n";
        let points = read(folder.path(), rows).unwrap();
        let simulated = |at: usize| points[at].address.simulated().unwrap();
        assert_eq!((simulated(0).start, points[0].control.as_ref().unwrap().max), (Some(21.0), Some(28.0)));
        assert_eq!((simulated(1).noise, points[1].control.is_some()), (0.1, true));
        assert_eq!((&simulated(4).kind, points[4].address.type_name()), (&Kind::Text("VAV 7".into()), "text"));
    }

    #[test]
    fn what_is_wrong_with_a_row_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let check = |row: &str, expect: &str| {
            let found = read(folder.path(), row).unwrap_err();
            assert!(found.len() == 1 && found[0].starts_with(expect), "{row}: {found:?}, expected {expect:?}");
        };
        check("a,analog,,,,,,,\n", "2:1: type: found \"analog\", expected one of bool, int, float, text");
        check("a,int,1.5,,,,,,\n", "2:1: value: found \"1.5\", expected a whole number");
        check("a,bool,on,,,,,,\n", "2:1: value: found \"on\", expected true or false");
        check("a,float,,sine(1 2),,,,,\n", "2:1: curve: found nothing more in \"sine(1 2)\", expected period");
        check("a,float,,steps(no.csv),,,,,\n", "2:1: curve: found \"no.csv\" (");
        check("a,float,5,sine(1 2 3s),,,,,\n", "2:1: value: found \"5\", expected nothing: the curve says all values");
        check("a,float,5,walk(0 1 1),,,,,\n", "2:1: value: found 5, expected a value from 0 to 1");
        check("a,float,,,-1,,,,\n", "2:1: noise: found \"-1\", expected a standard deviation");
        check("a,bool,,,1,,,,\n", "2:1: noise: found \"1\", expected nothing");
        check("a,float,,,,,,,,16\n", "2:1: decimals: found \"16\", expected a whole number from 0 to 15");
        check("a,int,,,,,,,,1\n", "2:1: decimals: found \"1\", expected nothing");
        check("a,text,x,,,true,,,\n", "2:1: writable: found true, expected false: texts cannot be commanded");
        check("a,text,x,lag(1s),,,,,\n", "2:1: curve: found \"lag(1s)\", expected nothing: a text stays");
        check("a,float,,,,true,5,1,\n", "2:1: max: found 1, expected at least min, which is 5");
        check(
            "a,float,,,,,,,\nb,float,,follow(c 1s),,,,,\n",
            "3:1: curve: found a curve with \"c\", which is no point",
        );
        check("a,float,,linear(a 1),,,,,\n", "2:1: curve: found a curve that needs its own value");
        check("a,float,,sine(1 2 3s),,true,,,\n", "2:1: writable: found a writable point that a command cannot set");
    }
}
