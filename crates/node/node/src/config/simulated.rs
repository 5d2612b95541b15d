//! `[device.NAME.simulated]`.
//!
//! ```toml
//! [device.room1]
//! protocol = "simulated"
//! points = "room.csv"
//! poll = { every = "1s" }
//!
//! [device.room1.simulated]
//! seed = 7
//! delay = "20ms"
//! faults = [
//!     { kind = "no_answer", per_hour = 2, for = "30s" },
//!     { kind = "bad", points = ["temperature"], at = "5m", every = "1h", for = "1m" },
//! ]
//! ```

use super::parse;
use super::points::{PointConfig, ValueKind};
use super::protocol::ProtocolName;
use super::reader::{ConfigError, Document, Expected, Findings, Section};
use super::settings::{
    DEVICE_SIMULATED_DELAY, DEVICE_SIMULATED_DELAY_JITTER, DEVICE_SIMULATED_FAULTS_AT, DEVICE_SIMULATED_FAULTS_EVERY,
    DEVICE_SIMULATED_FAULTS_FOR, DEVICE_SIMULATED_FAULTS_PER_HOUR, DEVICE_SIMULATED_SEED, DEVICE_SIMULATED_SPEED,
    DEVICE_SIMULATED_STEP, DEVICE_SIMULATED_TIMEOUT,
};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{PointId, Quality, Timestamp};
use tieline_model::{Effect, FAULTS_MAX, Fault, FaultKind, Kind, When};
use toml::de::DeValue;

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// `[device.NAME.simulated]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedConfig {
    /// Of all that is random; with the device's topic.
    pub seed: u64,
    /// What the device's clock says when the node starts; none: what that of the node says.
    pub start: Option<Timestamp>,
    /// Seconds that pass for the device in one second.
    pub speed: f64,
    /// From one value of a point to the next, in the device's time.
    pub step: Duration,
    /// From a request to its answer.
    pub delay: Duration,
    /// An answer comes up to so much later.
    pub delay_jitter: Duration,
    /// How long the node waits for an answer.
    pub timeout: Duration,
    /// What goes wrong.
    pub faults: Arc<[Fault]>,
}

/// Reads `[device.NAME.simulated]`.
pub fn read_simulated(doc: &mut Document<'_>, mut s: Section<'_>, points: &[PointConfig]) -> SimulatedConfig {
    let step = DEVICE_SIMULATED_STEP.read(&mut s, doc);
    let config = SimulatedConfig {
        seed: DEVICE_SIMULATED_SEED.read(&mut s, doc).into(),
        start: s.optional(doc, "start", moment),
        speed: DEVICE_SIMULATED_SPEED.read(&mut s, doc),
        step,
        delay: DEVICE_SIMULATED_DELAY.read(&mut s, doc),
        delay_jitter: DEVICE_SIMULATED_DELAY_JITTER.read(&mut s, doc),
        timeout: DEVICE_SIMULATED_TIMEOUT.read(&mut s, doc),
        faults: read_faults(doc, &mut s, step, points).into(),
    };
    s.finish(doc);
    config
}

/// What goes wrong at a device that is served, and how late it answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedFaults {
    /// From a request to its answer.
    pub delay: Duration,
    /// An answer comes up to so much later.
    pub delay_jitter: Duration,
    /// What goes wrong.
    pub faults: Arc<[Fault]>,
}

/// Reads the file of a served device: the keys of `[device.NAME.simulated]` that are of its answers.
///
/// # Errors
/// Everything that is wrong.
pub fn read_served_faults(
    file: &str,
    text: &str,
    protocol: ProtocolName,
    points: &[PointConfig],
) -> Result<ServedFaults, ConfigError> {
    let mut findings = Findings::default();
    let read = |doc: &mut Document<'_>, mut s: Section<'_>| {
        // A server answers at once unless it is told to wait.
        let delay = if s.has("delay") { DEVICE_SIMULATED_DELAY.read(&mut s, doc) } else { Duration::ZERO };
        let delay_jitter = DEVICE_SIMULATED_DELAY_JITTER.read(&mut s, doc);
        let faults = read_faults(doc, &mut s, SECOND, points);
        if protocol == ProtocolName::Modbus && faults.iter().any(|fault| matches!(fault.kind, FaultKind::Bad(_))) {
            let expected = "another kind: registers say nothing of quality".to_owned();
            doc.report(s.value_at("faults"), &s.key("faults"), "\"bad\" at a Modbus device".to_owned(), expected);
        }
        s.finish(doc);
        ServedFaults { delay, delay_jitter, faults: faults.into() }
    };
    let served = Document::read(file, text, &mut findings, read);
    if findings.is_empty() { Ok(served) } else { Err(ConfigError(findings.sorted())) }
}

fn read_faults(doc: &mut Document<'_>, device: &mut Section<'_>, step: Duration, points: &[PointConfig]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for mut s in device.array(doc, "faults") {
        if faults.len() == FAULTS_MAX {
            doc.report(s.at(), &s.key("kind"), "one more".to_owned(), format!("{FAULTS_MAX} faults at most"));
            break;
        }
        faults.extend(read_fault(doc, &mut s, step, points));
        s.finish(doc);
    }
    faults
}

/// One fault; none where it is wrong (which has been reported then).
fn read_fault(doc: &mut Document<'_>, s: &mut Section<'_>, step: Duration, points: &[PointConfig]) -> Option<Fault> {
    let expected = "no_answer, refuse, garbage, slow, restart, stuck, drift, spike or bad";
    let effect = s.required(doc, "kind", expected, |value| {
        let effect = value.as_str().and_then(|text| Effect::ALL.into_iter().find(|effect| effect.word() == text));
        effect.ok_or_else(|| expected.to_owned())
    });
    let when = read_when(doc, s);
    let effect = effect?;
    let lasts = DEVICE_SIMULATED_FAULTS_FOR;
    let lasts = match effect {
        Effect::Restart => lasts.from_least((10 * SECOND).max(step), step),
        Effect::Spike => lasts.from_least(step, step),
        Effect::Stuck | Effect::Drift | Effect::Bad => lasts.from_least(lasts.default.max(step), step),
        Effect::NoAnswer | Effect::Refuse | Effect::Garbage | Effect::Slow => lasts,
    };
    let lasts = lasts.read(s, doc);
    let kind = read_kind(doc, s, effect);
    let named = read_named(doc, s, effect, points);
    Some(Fault { kind: kind?, when: when?, lasts, points: named?.into() })
}

fn read_when(doc: &mut Document<'_>, s: &mut Section<'_>) -> Option<When> {
    let per_hour = DEVICE_SIMULATED_FAULTS_PER_HOUR.optional(s, doc);
    let first = DEVICE_SIMULATED_FAULTS_AT.optional(s, doc);
    let every = DEVICE_SIMULATED_FAULTS_EVERY.optional(s, doc);
    match (s.has("per_hour"), s.has("at")) {
        (true, false) if s.has("every") => {
            let expected = "nothing, or at in place of per_hour".to_owned();
            doc.report(s.value_at("every"), &s.key("every"), "every with per_hour".to_owned(), expected);
            None
        }
        (true, false) => per_hour.map(|per_hour| When::Random { per_hour }),
        (false, true) => first.map(|first| When::At { first, every }),
        (both, _) => {
            let found = if both { "per_hour and at" } else { "nothing" };
            let expected = "per_hour, for faults at random, or at, for a schedule".to_owned();
            doc.report(s.at(), &s.key("per_hour"), found.to_owned(), expected);
            None
        }
    }
}

fn read_kind(doc: &mut Document<'_>, s: &mut Section<'_>, effect: Effect) -> Option<FaultKind> {
    Some(match effect {
        Effect::NoAnswer => FaultKind::NoAnswer,
        Effect::Refuse => FaultKind::Refuse,
        Effect::Garbage => FaultKind::Garbage,
        Effect::Restart => FaultKind::Restart,
        Effect::Stuck => FaultKind::Stuck,
        Effect::Slow => {
            let expected = "how much later answers come, as in \"3s\"";
            FaultKind::Slow(s.required(doc, "by", expected, parse::duration(MILLISECOND..=60 * MINUTE))?)
        }
        Effect::Drift => FaultKind::Drift(s.required(doc, "by", "how far values go off in an hour", parse::number)?),
        Effect::Spike => FaultKind::Spike(s.required(doc, "by", "how far values are off", parse::number)?),
        Effect::Bad => FaultKind::Bad(s.or(doc, "reason", Quality::COMM_LOST, reason)),
    })
}

/// The points that a fault names; none where one is not there.
fn read_named(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    effect: Effect,
    points: &[PointConfig],
) -> Option<Vec<PointId>> {
    if !effect.is_of_points() {
        return Some(Vec::new());
    }
    let is_of_numbers = matches!(effect, Effect::Drift | Effect::Spike);
    let is_number = |point: &PointConfig| match point.address.simulated() {
        Some(point) => matches!(point.kind, Kind::Int | Kind::Float),
        None => matches!(point.kind, ValueKind::Int | ValueKind::Float),
    };
    let fits = |point: &PointConfig| !is_of_numbers || is_number(point);
    let expected = if is_of_numbers { "names of points that are numbers" } else { "names of points" };
    let given = s.has("points");
    let named = s.each_text(doc, "points", expected, |name| {
        let found = points.iter().zip(0..).find(|(point, _)| point.name == name && fits(point));
        found.map(|(_, number)| PointId(number)).ok_or_else(|| format!("{expected} of the list"))
    });
    if given {
        return (!named.is_empty()).then_some(named);
    }
    let all = points.iter().zip(0..).filter(|(point, _)| fits(point)).map(|(_, number)| PointId(number));
    Some(if is_of_numbers { all.collect() } else { Vec::new() })
}

/// What a device may say against a value.
fn reason(value: &DeValue<'_>) -> Result<Quality, Expected> {
    let expected =
        "offline, comm_lost, remote_forced, local_forced, chatter_filter, over_range, reference_err or discontinuity";
    let word = value.as_str().filter(|word| expected.replace(" or ", ", ").split(", ").any(|known| known == *word));
    word.and_then(Quality::from_reason).ok_or_else(|| expected.to_owned())
}

/// A time like those of topics, in quotes or not.
fn moment(value: &DeValue<'_>) -> Result<Timestamp, Expected> {
    let text = match value {
        DeValue::Datetime(time) => time.to_string(),
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Array(_) | DeValue::Table(_) => {
            String::new()
        }
    };
    text.parse().map_err(|_| "a time with its zone, as in \"2026-06-01T06:00:00Z\"".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, from_text};

    const LIST: &str = "name,type,curve\ntemperature,float,sine(20 5 24h)\nfan,bool,\n";

    fn read(keys: &str) -> Result<SimulatedConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let text = format!("[device.d]\nprotocol='simulated'\npoints='p.csv'\n[device.d.simulated]\n{keys}");
        let config = from_text("t.toml", &text, folder.path());
        let shown = |ConfigError(found): ConfigError| found.iter().map(ToString::to_string).collect();
        config.map_err(shown).map(|config| config.devices[0].protocol.simulated().unwrap().clone())
    }

    #[test]
    fn a_device_needs_no_address() {
        let config = read("seed=3\nstart=2026-06-01T06:00:00Z\nspeed=60\ndelay='1ms'\n").unwrap();
        assert_eq!((config.seed, config.speed, config.delay), (3, 60.0, MILLISECOND));
        assert_eq!(config.start.unwrap().to_string(), "2026-06-01T06:00:00.000Z");
        assert_eq!(read("").unwrap().faults.len(), 0);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let text = "[device.d]\nprotocol='simulated'\npoints='p.csv'\naddress='h:1'\n";
        let error = from_text("t.toml", text, folder.path()).unwrap_err().to_string();
        assert!(error.contains("device.d.address: found the unknown key \"address\""), "{error}");
    }

    #[test]
    fn faults_are_random_or_scheduled() {
        let faults = read(
            "faults=[{kind='no_answer',per_hour=2,for='30s'},{kind='bad',at='5m',every='1h',points=['fan'],reason='offline'},\
             {kind='spike',at='1s',by=5},{kind='slow',per_hour=1,by='3s'}]\n",
        );
        let expect = [
            (FaultKind::NoAnswer, When::Random { per_hour: 2.0 }, 30 * SECOND, vec![]),
            (
                FaultKind::Bad(Quality::OFFLINE),
                When::At { first: 5 * MINUTE, every: Some(60 * MINUTE) },
                MINUTE,
                vec![PointId(1)],
            ),
            (FaultKind::Spike(5.0), When::At { first: SECOND, every: None }, SECOND, vec![PointId(0)]),
            (FaultKind::Slow(3 * SECOND), When::Random { per_hour: 1.0 }, MINUTE, vec![]),
        ];
        let expect = expect.map(|(kind, when, lasts, points)| Fault { kind, when, lasts, points: points.into() });
        assert_eq!(&*faults.unwrap().faults, expect);
    }

    #[test]
    fn a_served_device_has_the_same_faults() {
        let list = "name,type,index,format\npower,input-register,0,f32\ndoor,discrete-input,0,\n";
        let points = crate::config::read_points(&mut Findings::default(), "p.csv", list, ProtocolName::Modbus).unwrap();
        let read = |text: &str| read_served_faults("f.toml", text, ProtocolName::Modbus, &points);
        let served = read(
            "delay = '20ms'\n[[faults]]\nkind = 'garbage'\nper_hour = 2\n[[faults]]\nkind = 'spike'\nat = '1s'\nby = 5\n",
        );
        let served = served.unwrap();
        assert_eq!((served.delay, served.delay_jitter), (20 * MILLISECOND, Duration::ZERO));
        let found: Vec<_> = served.faults.iter().map(|fault| (fault.kind, fault.points.len())).collect();
        assert_eq!(found, [(FaultKind::Garbage, 0), (FaultKind::Spike(5.0), 1)]);
        let check = |text: &str, expect: &str| {
            let told = read(text).unwrap_err().to_string();
            assert!(told.contains(expect), "{told}");
        };
        check("faults=[{kind='bad',at='1s'}]", "faults: found \"bad\" at a Modbus device, expected another kind");
        check("faults=[{kind='drift',at='1s',by=1,points=['door']}]", "names of points that are numbers");
        check("seed=1", "unknown key \"seed\"");
        check("faults=[", "a TOML document");
    }

    #[test]
    fn what_is_wrong_with_a_fault_is_told() {
        let check = |fault: &str, expect: &str| {
            let found = read(&format!("faults=[{{{fault}}}]\n")).unwrap_err();
            let expect = format!("device.d.simulated.faults[0].{expect}");
            assert!(found.len() == 1 && found[0].contains(&expect), "{fault}: {found:?}, expected {expect:?}");
        };
        check("kind='x',at='1s'", "kind: found \"x\", expected no_answer, refuse, garbage");
        check("kind='refuse'", "per_hour: found nothing, expected per_hour, for faults at random");
        check("kind='refuse',at='1s',per_hour=1", "per_hour: found per_hour and at");
        check("kind='refuse',per_hour=0", "per_hour: found 0, expected a number from 0.0001 to 3600");
        check("kind='refuse',per_hour=1,every='1h'", "every: found every with per_hour");
        check("kind='refuse',at='1s',points=['fan']", "points: found the unknown key");
        check("kind='slow',at='1s'", "by: found nothing, expected how much later answers come");
        check(
            "kind='drift',at='1s',by=1,points=['fan']",
            "points: found \"fan\", expected names of points that are numbers",
        );
        check("kind='bad',at='1s',reason='away'", "reason: found \"away\", expected offline, comm_lost");
        check("kind='restart',at='1s',for='10ms'", "for: found \"10ms\", expected a duration from 1s");
    }
}
