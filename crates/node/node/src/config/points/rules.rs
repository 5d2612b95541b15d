//! The columns of a point list that say what holds for commands of a point beside its range.
//!
//! Names of other points are below the device, so that a list can be that of many devices; one that begins with `/` is the
//! whole topic.

use super::list::{List, Row, finite};
use super::{ControlConfig, PointAddress, PointConfig, States};
use std::collections::HashSet;
use std::time::Duration;
use tieline_control::{Interlock, RevertTo};
use tieline_core::{Topic, TopicError, Value};
use tieline_service::parse::parse_duration;

/// The columns that only a point that can be commanded has.
const COLUMNS: [&str; 7] = ["revert", "step_max", "rate_max", "interval_min", "allow_when", "read_back", "tolerance"];
/// Interlocks of one point.
const INTERLOCKS_MAX: usize = 16;
/// The longest time between two commands.
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);

/// What holds for commands of a point.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RulesConfig {
    /// What a revert does.
    pub revert: RevertTo,
    /// The greatest change by one command.
    pub step_max: Option<f64>,
    /// The greatest change a second.
    pub rate_max: Option<f64>,
    /// The least time between two commands.
    pub interval_min: Option<Duration>,
    /// What other points must show; their names are as in the list.
    pub allow_when: Vec<Interlock>,
    /// The point that shows a command, as in the list; none: the point itself.
    pub read_back: Option<Topic>,
    /// How far a number that is read back may be from the one that was commanded.
    pub tolerance: f64,
}

impl RulesConfig {
    /// The topic of a name of the list, at a device.
    ///
    /// # Errors
    /// Both together are too long.
    pub fn topic_at(device: &Topic, name: &Topic) -> Result<Topic, TopicError> {
        match name.strip_prefix('/') {
            Some(whole) => Topic::new(whole),
            None => device.join(name),
        }
    }
}

/// Reads the rules of a row; none where a cell is wrong, or has no place there.
pub(super) fn read(
    list: &mut List<'_>,
    row: &Row<'_>,
    (address, control, states): (&PointAddress, Option<&ControlConfig>, Option<&States>),
    (scale, offset): (f64, f64),
) -> Option<RulesConfig> {
    let Some(control) = control else {
        let given: Vec<_> = COLUMNS.into_iter().filter(|column| row.cell(column).is_some()).collect();
        for column in &given {
            let found = format!("{:?}", row.cell(column).unwrap_or_default());
            list.report(row.line, column, found, "nothing, or writable = true".to_owned());
        }
        return given.is_empty().then(RulesConfig::default);
    };
    let is_number = control.limits(scale, offset).is_some();
    let positive = |text: &str| finite(text).filter(|x| *x > 0.0).map(Some);
    for column in ["step_max", "rate_max", "tolerance"].into_iter().filter(|_| !is_number) {
        if let Some(cell) = row.cell(column) {
            list.report(row.line, column, format!("{cell:?}"), "nothing: the point has two states".to_owned());
            return None;
        }
    }
    let default = default_revert(address);
    let revert = match row.cell("revert") {
        None => default,
        Some(text) => revert_of(list, row, text, (address, control, states), (scale, offset))?,
    };
    let names = "the name of another point below the device, or / and its whole topic";
    Some(RulesConfig {
        revert,
        step_max: list.cell(row, "step_max", "a number above 0", Some(None), positive)?,
        rate_max: list.cell(row, "rate_max", "a number above 0, a second", Some(None), positive)?,
        interval_min: list.cell(row, "interval_min", "a time up to 1d, as in 3m", Some(None), |text| {
            parse_duration(text).filter(|interval| *interval <= INTERVAL_MAX).map(Some)
        })?,
        allow_when: interlocks(list, row)?,
        read_back: list.cell(row, "read_back", names, Some(None), |text| Topic::new(text).ok().map(Some))?,
        tolerance: list.cell(row, "tolerance", "a number from 0", Some(0.0), |s| finite(s).filter(|x| *x >= 0.0))?,
    })
}

/// Reports names of points that the list does not have: an interlock with such a one would refuse every command.
pub(super) fn check(list: &mut List<'_>, points: &[PointConfig], lines: &[u64]) {
    let names: HashSet<&str> = points.iter().map(|point| point.name.as_str()).collect();
    for (point, line) in points.iter().zip(lines) {
        let Some(rules) = point.control.as_ref().map(|control| &control.rules) else { continue };
        let conditions = rules.allow_when.iter().map(|interlock| ("allow_when", interlock.topic.as_str()));
        let read_back = rules.read_back.iter().map(|topic| ("read_back", topic.as_str()));
        for (column, name) in conditions.chain(read_back) {
            if !name.starts_with('/') && !names.contains(name) {
                let expected = "the name of a point of this list, or / and the whole topic of another";
                list.report(*line, column, format!("{name:?}"), expected.to_owned());
            }
        }
    }
}

/// What a revert does of a point whose list does not say: outputs of BACnet have priorities, a register or a value what it had
/// before, and a breaker is nothing that is moved by the end of a reservation.
fn default_revert(address: &PointAddress) -> RevertTo {
    match address {
        PointAddress::Dnp3(_) | PointAddress::Iec104(_) | PointAddress::Goose(_) => RevertTo::Nothing,
        PointAddress::Modbus(_) | PointAddress::Simulated(_) => RevertTo::Previous,
        PointAddress::Bacnet(point) => {
            let is_output = point.reference.object.object_type().name().is_some_and(|name| name.ends_with("-output"));
            let has_priorities = point.is_present_value() && (is_output || point.write_priority.is_some());
            if has_priorities { RevertTo::Relinquish } else { RevertTo::Previous }
        }
    }
}

fn revert_of(
    list: &mut List<'_>,
    row: &Row<'_>,
    text: &str,
    (address, control, states): (&PointAddress, &ControlConfig, Option<&States>),
    (scale, offset): (f64, f64),
) -> Option<RevertTo> {
    let refuse = |list: &mut List<'_>, expected: String| {
        list.report(row.line, "revert", format!("{text:?}"), expected);
        None
    };
    match text {
        "none" => return Some(RevertTo::Nothing),
        "previous" => return Some(RevertTo::Previous),
        "relinquish" if address.bacnet().is_some_and(super::BacnetPoint::is_present_value) => {
            return Some(RevertTo::Relinquish);
        }
        "relinquish" => {
            let expected = "none, previous or a value: only present values of BACnet have priorities";
            return refuse(list, expected.to_owned());
        }
        _ => {}
    }
    let Some(range) = control.limits(scale, offset) else {
        let own = states.is_some_and(|states| [&states.off, &states.on].into_iter().any(|word| **word == *text));
        let is_word = own || ["true", "false", "on", "off", "1", "0"].contains(&text);
        if is_word {
            return Some(RevertTo::Value(Value::from(text)));
        }
        return refuse(list, "none, previous, relinquish, or a state of the point".to_owned());
    };
    match finite(text).filter(|number| range.contains(number)) {
        Some(number) => Some(RevertTo::Value(Value::Float(number))),
        None => refuse(list, "none, previous, relinquish, or a number that the point takes".to_owned()),
    }
}

/// What other points must show, with semicolons between them.
fn interlocks(list: &mut List<'_>, row: &Row<'_>) -> Option<Vec<Interlock>> {
    let Some(text) = row.cell("allow_when") else { return Some(Vec::new()) };
    let parts: Vec<&str> = text.split(';').map(str::trim).filter(|part| !part.is_empty()).collect();
    if parts.len() > INTERLOCKS_MAX {
        let found = format!("{} conditions", parts.len());
        list.report(row.line, "allow_when", found, format!("at most {INTERLOCKS_MAX}"));
        return None;
    }
    let mut read = Vec::new();
    for part in parts {
        match part.parse() {
            Ok(interlock) => read.push(interlock),
            Err(error) => {
                let expected = "conditions like door == false or /site/tank/level >= 2.5, with ; between them";
                list.report(row.line, "allow_when", format!("{part:?}: {error}"), expected.to_owned());
                return None;
            }
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use crate::config::{Findings, PointConfig, ProtocolName, read_points};
    use std::time::Duration;
    use tieline_control::RevertTo;
    use tieline_core::{Topic, Value};

    fn read(protocol: ProtocolName, text: &str) -> Result<Vec<PointConfig>, Vec<String>> {
        let mut findings = Findings::default();
        let points = read_points(&mut findings, "p.csv", text, protocol);
        points.ok_or_else(|| findings.sorted().iter().map(ToString::to_string).collect())
    }

    fn reverts(protocol: ProtocolName, text: &str) -> Vec<RevertTo> {
        let points = read(protocol, text).unwrap();
        points.iter().filter_map(|point| Some(point.control.as_ref()?.rules.revert.clone())).collect()
    }

    #[test]
    fn a_revert_is_what_the_list_says_or_what_suits_the_protocol() {
        let modbus = "name,type,index,writable,revert,states\na,holding-register,1,true,,\nb,holding-register,2,true,7,\n\
                      c,coil,3,true,none,\nd,coil,4,true,shut,shut/open\n";
        let value = |value: Value| RevertTo::Value(value);
        let expect = [RevertTo::Previous, value(Value::Float(7.0)), RevertTo::Nothing, value("shut".into())];
        assert_eq!(reverts(ProtocolName::Modbus, modbus), expect);
        let bacnet = "name,type,index,writable,write_priority,revert\na,analog-output,1,true,,\nb,analog-value,1,true,,\n\
                      c,analog-value,2,true,10,\nd,analog-value,3,true,,relinquish\n";
        let expect = [RevertTo::Relinquish, RevertTo::Previous, RevertTo::Relinquish, RevertTo::Relinquish];
        assert_eq!(reverts(ProtocolName::Bacnet, bacnet), expect);
        assert_eq!(reverts(ProtocolName::Dnp3, "name,type,index\na,binary-output,1\n"), [RevertTo::Nothing]);
    }

    #[test]
    fn limits_and_interlocks_are_read() {
        let text = "name,type,index,writable,step_max,rate_max,interval_min,allow_when,read_back,tolerance\n\
                    a,holding-register,1,true,5,0.5,3m,\"door == false; /site/mode == \"\"auto\"\"\",speed,0.2\n\
                    door,coil,1,,,,,,,\nspeed,input-register,1,,,,,,,\n";
        let points = read(ProtocolName::Modbus, text).unwrap();
        let rules = &points[0].control.as_ref().unwrap().rules;
        assert_eq!((rules.step_max, rules.rate_max, rules.tolerance), (Some(5.0), Some(0.5), 0.2));
        assert_eq!(rules.interval_min, Some(Duration::from_secs(180)));
        let device = Topic::new("site/pump").unwrap();
        let at = |name: &Topic| super::RulesConfig::topic_at(&device, name).unwrap().to_string();
        let topics: Vec<String> = rules.allow_when.iter().map(|interlock| at(&interlock.topic)).collect();
        assert_eq!(topics, ["site/pump/door", "site/mode"]);
        assert_eq!(rules.read_back.as_ref().map(at).as_deref(), Some("site/pump/speed"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |cells: &str, expect: &str| {
            let head = "name,type,index,writable,revert,step_max,interval_min,allow_when";
            let errors = read(ProtocolName::Modbus, &format!("{head}\n{cells}\n")).unwrap_err();
            assert!(errors.iter().any(|error| error.contains(expect)), "{errors:?}");
        };
        check("a,holding-register,1,true,relinquish,,,", "only present values of BACnet have priorities");
        check("a,holding-register,1,true,70000,,,", "a number that the point takes");
        check("a,coil,1,true,ajar,,,", "a state of the point");
        check("a,coil,1,true,,2,,", "the point has two states");
        check("a,holding-register,1,true,,-2,,", "a number above 0");
        check("a,holding-register,1,true,,,2d,", "a time up to 1d");
        check("a,holding-register,1,true,,,,door", "conditions like door == false");
        check("a,holding-register,1,true,,,,door == false", "the name of a point of this list");
        check("a,holding-register,1,false,none,,,", "nothing, or writable = true");
    }
}
