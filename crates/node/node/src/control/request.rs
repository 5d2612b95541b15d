//! What programs ask of control beside a single command, over HTTP and MQTT alike.
//!
//! Reservations are in the words of VOLTTRON's actuator agent: whatever is wrong with one is an answer of `FAILURE` with its
//! reason, and not an error.

use super::command::{mode, settable};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value as Json;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tieline_control::{
    Action, BatchEntry, NewOverride, NewSchedule, Pattern, Priority, RequestType, ScheduleResult, SlotRequest,
};
use tieline_core::{Now, Timestamp, Topic};
use tieline_service::parse::parse_duration;

/// The longest time that a caller may give each command of a call.
const TIMEOUT_MS_MAX: u64 = 300_000;
/// The leases that a reservation may have.
const LEASES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(7 * 86_400);
/// The longest override that has an end.
const OVERRIDE_S_MAX: f64 = 31_536_000.0;

/// A wish for time at devices.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ReservationRequest")]
pub struct ReserveBody {
    /// Its name, which no other reservation has
    task: Option<String>,
    /// Who asks: the name of a program, to tell a user's programs apart; over MQTT it is the client identifier, whatever this is
    pub requester: Option<String>,
    /// HIGH pre-empts LOW_PREEMPT always, and LOW that has not started; it needs the right to administer the devices
    #[schemars(extend("enum" = ["HIGH", "LOW", "LOW_PREEMPT", null]))]
    priority: Option<String>,
    /// When which device is wanted
    slots: Option<Vec<SlotBody>>,
    /// NEW_SCHEDULE, or CANCEL_SCHEDULE, which ends the reservation
    #[schemars(extend("enum" = ["NEW_SCHEDULE", "CANCEL_SCHEDULE", null]))]
    r#type: Option<String>,
    /// How long the requester may be silent before the reservation ends, as in 60s; none: it ends with its last slot. By default
    /// over HTTP as control.lease says, over MQTT none: there it ends with the session
    lease: Option<String>,
}

/// A time slot: `[device, start, end]`, or an object.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "TimeSlot")]
pub enum SlotBody {
    /// Device, start, end.
    Triple(String, String, String),
    /// The same with names.
    Named(NamedSlot),
}

/// A time slot with names.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NamedTimeSlot")]
pub struct NamedSlot {
    /// The topic of the device
    device: String,
    /// RFC 3339; without a zone in UTC; by default the present
    start: Option<String>,
    /// RFC 3339; without a zone in UTC
    end: Option<String>,
    /// In place of the end: how long, as in 30m
    r#for: Option<String>,
}

impl ReserveBody {
    /// The devices.
    pub fn devices(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().flatten().map(|slot| match slot {
            SlotBody::Triple(device, _, _) => device.trim_matches('/'),
            SlotBody::Named(slot) => slot.device.trim_matches('/'),
        })
    }

    /// What is asked for.
    ///
    /// # Errors
    /// The failure `INVALID_REQUEST_TYPE`.
    pub fn request_type(&self) -> Result<RequestType, ScheduleResult> {
        self.r#type.as_deref().map_or(Ok(RequestType::New), |name| RequestType::from_name(Some(name)))
    }

    /// The task's name; empty where it has none.
    #[must_use]
    pub fn task(&self) -> &str {
        self.task.as_deref().unwrap_or_default()
    }

    /// Whether it may pre-empt others.
    #[must_use]
    pub fn is_high(&self) -> bool {
        self.priority.as_deref().and_then(Priority::from_name) == Some(Priority::High)
    }

    /// As the engine takes it, of a holder, with the lease that it has where it does not say its own.
    ///
    /// # Errors
    /// The failure `MALFORMED_REQUEST`, with what was found and what was expected.
    pub fn schedule(self, now: Now, requester: &str, lease: Option<Duration>) -> Result<NewSchedule, String> {
        let slot = |slot| match slot {
            SlotBody::Triple(device, start, end) => Ok(SlotRequest { device, start, end }),
            SlotBody::Named(slot) => slot.request(now),
        };
        let slots = self.slots.unwrap_or_default().into_iter().map(slot).collect::<Result<_, String>>();
        let malformed = |why| format!("MALFORMED_REQUEST: ValueError: {why}");
        let slots = slots.map_err(malformed)?;
        let lease = match self.lease.as_deref() {
            None => lease,
            Some("none") => None,
            Some(text) => Some(lease_of(text).map_err(malformed)?),
        };
        let requester = Some(requester.to_owned());
        Ok(NewSchedule { requester, task: self.task, priority: self.priority, slots, lease })
    }
}

fn lease_of(text: &str) -> Result<Duration, String> {
    let lease = parse_duration(text).filter(|lease| LEASES.contains(lease));
    lease.ok_or_else(|| format!("lease is {text:?}, expected as in 60s, from 1s to 7d, or none"))
}

impl NamedSlot {
    fn request(self, now: Now) -> Result<SlotRequest, String> {
        let Self { device, start, end, r#for } = self;
        let start = start.unwrap_or_else(|| now.utc.to_string());
        let end = match (end, r#for) {
            (Some(end), None) => end,
            (None, Some(span)) => {
                let lasts = parse_duration(&span).ok_or_else(|| format!("for is {span:?}, expected as in 30m"))?;
                let from: Timestamp = start.parse().map_err(|error| format!("start is {start:?}: {error}"))?;
                from.later(lasts).to_string()
            }
            (None, None) | (Some(_), Some(_)) => {
                return Err(format!("the slot of {device:?}: expected either \"end\" or \"for\""));
            }
        };
        Ok(SlotRequest { device, start, end })
    }
}

/// The end of a reservation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Cancellation")]
pub struct CancelBody {
    /// The reservation's name
    pub task: String,
    /// Whose it is; as in the request for it
    pub requester: Option<String>,
    /// Whether it is ended whosever it is: needs the right to administer its devices
    #[serde(default)]
    pub force: bool,
}

/// A sign of life of the holder of a reservation.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Renewal")]
pub struct RenewBody {
    /// The reservation's name
    pub task: String,
    /// Whose it is; as in the request for it
    pub requester: Option<String>,
}

/// A call that sets many points.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "SetRequest")]
pub struct SetBody {
    /// The points; those of one device are set in their order, one at a time, devices at the same time
    points: Vec<SetPoint>,
    /// Who asks; as in a reservation
    pub requester: Option<String>,
    /// The longest time of each command
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX))]
    timeout_ms: Option<u64>,
    /// Whether each point is answered only once a reading shows its value, or none did in time
    #[serde(default)]
    confirm: bool,
    /// Whether nothing is sent: the answer says what would be
    #[serde(default)]
    dry_run: bool,
}

/// A point with its value.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SetPoint {
    /// Its topic
    topic: String,
    /// true, false, a number, a word that the point takes, or null where the point has priorities: it is relinquished
    #[schemars(extend("type" = ["boolean", "number", "string", "null"]))]
    value: Json,
    /// How the device is asked; by default as the point list says
    #[schemars(extend("enum" = ["select", "direct", null]))]
    mode: Option<String>,
}

/// A call that reverts points.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RevertRequest")]
pub struct RevertBody {
    /// Topics of points
    #[serde(default)]
    points: Vec<String>,
    /// Topics of devices, all of whose points are reverted that can be
    #[serde(default)]
    devices: Vec<String>,
    /// Who asks; as in a reservation
    pub requester: Option<String>,
    /// The longest time of each command
    #[schemars(range(min = 1, max = TIMEOUT_MS_MAX))]
    timeout_ms: Option<u64>,
    /// Whether each point is answered only once a reading shows its value, or none did in time
    #[serde(default)]
    confirm: bool,
    /// Whether nothing is sent: the answer says what would be
    #[serde(default)]
    dry_run: bool,
}

/// What a call asks for, read.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Points, each with what to do.
    pub actions: Vec<(Topic, Action)>,
    /// Devices that are reverted.
    pub devices: Vec<Topic>,
    /// The longest time of each command.
    pub timeout: Option<Duration>,
    /// Whether readings are waited for.
    pub confirm: bool,
    /// Whether nothing is sent.
    pub dry_run: bool,
}

impl Points {
    /// All topics that are commanded.
    pub fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.actions.iter().map(|(topic, _)| topic).chain(&self.devices)
    }

    /// As the engine takes it; `exists` says whether there is a topic.
    pub fn entries(actions: Vec<(Topic, Action)>, exists: impl Fn(&Topic) -> bool) -> Vec<BatchEntry> {
        let entry = |(topic, action): (Topic, Action)| {
            let topic_exists = exists(&topic);
            BatchEntry { topic, topic_exists, action }
        };
        actions.into_iter().map(entry).collect()
    }
}

impl SetBody {
    /// Reads it.
    ///
    /// # Errors
    /// One sentence: what was found, and what was expected.
    pub fn read(self) -> Result<Points, String> {
        let action = |(SetPoint { topic, value, mode: asked }, at): (SetPoint, usize)| {
            let wrong = |why: String| format!("points[{at}]: {why}");
            let topic = topic_of(&topic).map_err(wrong)?;
            let value = settable(&value).map_err(wrong)?;
            let mode = mode(asked.map(Json::from).as_ref()).map_err(wrong)?;
            Ok((topic, Action::Set { value, mode }))
        };
        Ok(Points {
            actions: self.points.into_iter().zip(0..).map(action).collect::<Result<_, String>>()?,
            devices: Vec::new(),
            timeout: timeout(self.timeout_ms)?,
            confirm: self.confirm,
            dry_run: self.dry_run,
        })
    }
}

impl RevertBody {
    /// Reads it.
    ///
    /// # Errors
    /// One sentence: what was found, and what was expected.
    pub fn read(self) -> Result<Points, String> {
        let topics = |all: Vec<String>| all.iter().map(|text| topic_of(text)).collect::<Result<Vec<Topic>, String>>();
        Ok(Points {
            actions: topics(self.points)?.into_iter().map(|topic| (topic, Action::Revert)).collect(),
            devices: topics(self.devices)?,
            timeout: timeout(self.timeout_ms)?,
            confirm: self.confirm,
            dry_run: self.dry_run,
        })
    }
}

/// Topics whose last values are asked for in one call.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "GetRequest")]
pub struct GetBody {
    /// The topics
    pub topics: Vec<String>,
}

/// An override.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OverrideRequest")]
pub struct OverrideBody {
    /// What it takes: a topic filter where it has + or #, else a pattern with * ? and [ ]
    pub pattern: String,
    /// How long, in seconds; 0 or none: until it is set off
    #[schemars(range(min = 0.0, max = OVERRIDE_S_MAX))]
    duration_s: Option<f64>,
    /// Whether its points are reverted first
    #[serde(default)]
    failsafe_revert: bool,
    /// Whether that is done device by device, 50 ms apart
    #[serde(default)]
    staggered_revert: bool,
}

impl OverrideBody {
    /// Reads it.
    ///
    /// # Errors
    /// One sentence: what was found, and what was expected.
    pub fn read(self, who: &Arc<str>) -> Result<NewOverride, String> {
        let pattern: Pattern = self.pattern.parse().map_err(|error| format!("pattern: {error}"))?;
        let duration = match self.duration_s {
            None => None,
            Some(s) if (0.0..=OVERRIDE_S_MAX).contains(&s) => Some(Duration::from_secs_f64(s)),
            Some(s) => return Err(format!("duration_s is {s}, expected 0 to {OVERRIDE_S_MAX}")),
        };
        let (failsafe_revert, staggered_revert) = (self.failsafe_revert, self.staggered_revert);
        Ok(NewOverride { pattern, duration, failsafe_revert, staggered_revert, who: Arc::clone(who) })
    }
}

/// The end of an override.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "OverrideEnd")]
pub struct OffBody {
    /// The pattern as it was set on; none: all overrides
    pub pattern: Option<String>,
}

fn topic_of(text: &str) -> Result<Topic, String> {
    Topic::new(text).map_err(|error| format!("the topic {text:?}: {error}"))
}

fn timeout(ms: Option<u64>) -> Result<Option<Duration>, String> {
    match ms {
        None => Ok(None),
        Some(ms) if (1..=TIMEOUT_MS_MAX).contains(&ms) => Ok(Some(Duration::from_millis(ms))),
        Some(ms) => Err(format!("timeout_ms is {ms}, expected a whole number from 1 to {TIMEOUT_MS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::Value;

    fn at() -> Now {
        Now { utc: "2026-11-20T09:00:00Z".parse().unwrap(), ..Now::default() }
    }

    fn reserve(text: &str) -> Result<NewSchedule, String> {
        let body: ReserveBody = serde_json::from_str(text).map_err(|error| error.to_string())?;
        body.schedule(at(), "anna", Some(Duration::from_secs(60)))
    }

    #[test]
    fn a_lease_is_asked_for_or_the_default() {
        let lease = |member: &str| reserve(&format!(r#"{{"task":"t","slots":[]{member}}}"#)).map(|asked| asked.lease);
        assert_eq!(lease(""), Ok(Some(Duration::from_secs(60))));
        assert_eq!(lease(r#","lease":"none""#), Ok(None));
        assert_eq!(lease(r#","lease":"15m""#), Ok(Some(Duration::from_secs(900))));
        for wrong in ["soon", "10ms", "8d", ""] {
            let told = lease(&format!(r#","lease":"{wrong}""#)).unwrap_err();
            assert!(
                told.ends_with(&format!("lease is {wrong:?}, expected as in 60s, from 1s to 7d, or none")),
                "{told}"
            );
        }
    }

    #[test]
    fn slots_are_triples_or_have_names() {
        let text = r#"{"task":"t","priority":"LOW","slots":[["a/b","2026-11-20 10:00:00","2026-11-20 11:00:00"],
                       {"device":"/a/c","for":"30m"},{"device":"a/d","start":"2026-11-20T10:00:00Z","end":"x"}]}"#;
        let asked = reserve(text).unwrap();
        let [triple, named, ended] = asked.slots.as_slice() else { panic!("{asked:?}") };
        assert_eq!((triple.device.as_str(), triple.start.as_str()), ("a/b", "2026-11-20 10:00:00"));
        let span: [Timestamp; 2] = [&named.start, &named.end].map(|text| text.parse().unwrap());
        assert_eq!(span[1].micros() - span[0].micros(), 1_800_000_000);
        assert_eq!(ended.end, "x");
        let wrong = reserve(r#"{"slots":[{"device":"a","for":"long"}]}"#).unwrap_err();
        assert!(wrong.starts_with("MALFORMED_REQUEST: ValueError: for is"), "{wrong}");
        assert!(reserve(r#"{"slots":[{"device":"a"}]}"#).unwrap_err().contains("either"));
        assert_eq!(reserve("{}").unwrap().slots, []);
    }

    #[test]
    fn calls_are_read_or_refused_with_a_reason() {
        let set = |text: &str| serde_json::from_str::<SetBody>(text).unwrap().read();
        let points = set(r#"{"points":[{"topic":"a","value":null},{"topic":"b","value":2,"mode":"direct"}]}"#).unwrap();
        assert_eq!(points.topics().map(|topic| topic.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(points.actions[0].1, Action::Set { value: Value::Null, mode: None });
        assert!(set(r#"{"points":[{"topic":"a/#","value":1}]}"#).unwrap_err().starts_with("points[0]: the topic"));
        assert!(set(r#"{"points":[{"topic":"a","value":[]}]}"#).unwrap_err().starts_with("points[0]: value is []"));
        assert!(set(r#"{"points":[],"timeout_ms":0}"#).unwrap_err().contains("expected a whole number"));
        let revert: RevertBody = serde_json::from_str(r#"{"points":["a"],"devices":["d"]}"#).unwrap();
        let points = revert.read().unwrap();
        assert_eq!((points.actions.len(), points.devices.len()), (1, 1));
    }

    #[test]
    fn overrides_have_a_pattern_and_a_duration() {
        let who = "anna".into();
        let read = |text: &str| serde_json::from_str::<OverrideBody>(text).unwrap().read(&who);
        let asked = read(r#"{"pattern":"site/+/x","duration_s":1.5}"#).unwrap();
        assert_eq!(asked.duration, Some(Duration::from_millis(1500)));
        assert!(read(r#"{"pattern":"site/#/x"}"#).is_err());
        assert!(read(r#"{"pattern":"a","duration_s":-1}"#).unwrap_err().contains("duration_s is -1"));
    }
}
