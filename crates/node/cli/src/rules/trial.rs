//! Rules over what was recorded: time is that of the history.

use crate::api::table::{self, Align, count};
use crate::replay::recorded::Recorded;
use anyhow::Result;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::time::Duration;
use tieline_alarms::{Alarm, Alarms, Change, Event, InputId, PlaceName, Priority, Rules, Settings, Transition};
use tieline_core::{Body, Instant, Now, Point, Quality, Timestamp, Topic, Words, json_value};

/// Alarms that are listed as the most frequent.
const FREQUENT_MAX: usize = 10;

/// Alarms of a node that had these rules then.
pub struct Trial {
    alarms: Alarms,
    /// What is known of a topic: its number, or that it had none at a generation of the alarms.
    inputs: HashMap<String, Result<InputId, u64>>,
    devices: Vec<Topic>,
    now: Now,
    counts: Counts,
}

/// What is summed up.
#[derive(Debug, Default)]
struct Counts {
    values: u64,
    raised: u64,
    annunciated: u64,
    consequences: u64,
    chattering: u64,
    floods: u64,
    most_10min: u32,
    by_priority: BTreeMap<Priority, u64>,
    by_alarm: BTreeMap<(String, &'static str), u64>,
}

impl Trial {
    /// Before the first value.
    pub fn new(rules: Rules, devices: &[Topic], from: Timestamp) -> Self {
        let mut alarms = Alarms::new(Settings::default(), rules);
        let now = Now { mono: Instant::ZERO + Duration::from_secs(1), utc: from };
        let places: Vec<PlaceName> =
            devices.iter().map(|device| PlaceName { name: device.clone(), parent: None }).collect();
        alarms.set_places(now, &places);
        let counts = Counts::default();
        Self { alarms, inputs: HashMap::new(), devices: devices.to_vec(), now, counts }
    }

    /// Takes a recorded value in.
    pub fn take(&mut self, recorded: Recorded) {
        let Recorded { topic, payload, time } = recorded;
        let Body::Published(published) = Body::read(payload.into()) else { return };
        let Ok(topic) = Topic::new(&topic) else { return };
        self.advance(time.unwrap_or(self.now.utc));
        self.counts.values += 1;
        let point = published.point(self.now.utc);
        self.presence(&topic, &point);
        if let Some(input) = self.input(&topic) {
            self.alarms.handle_point(self.now, input, &point);
        }
    }

    /// Goes on to the end of the span.
    pub fn end(&mut self, to: Timestamp) {
        self.advance(to);
    }

    fn input(&mut self, topic: &Topic) -> Option<InputId> {
        let generation = self.alarms.generation();
        match self.inputs.get(topic.as_str()) {
            Some(Ok(input)) => return Some(*input),
            Some(Err(at)) if *at == generation => return None,
            Some(Err(_)) | None => {}
        }
        let input = self.alarms.declare(self.now, topic);
        self.inputs.insert(topic.to_string(), input.ok_or(self.alarms.generation()));
        input
    }

    /// A device is away from the first of its values that says so to the first that does not.
    fn presence(&mut self, topic: &Topic, point: &Point) {
        let is_of = |device: &&Topic| topic.strip_prefix(device.as_str()).is_some_and(|rest| rest.starts_with('/'));
        let Some(device) = self.devices.iter().filter(is_of).max_by_key(|device| device.len()) else { return };
        self.alarms.handle_presence(self.now, device, !point.quality.contains(Quality::AWAY));
    }

    fn advance(&mut self, to: Timestamp) {
        let micros = u64::try_from(to.micros().saturating_sub(self.now.utc.micros())).unwrap_or(0);
        let end = self.now.later(Duration::from_micros(micros));
        while let Some(due) = self.alarms.timeout().filter(|due| *due <= end.mono) {
            self.now = self.now.later(due.since(self.now.mono));
            self.alarms.handle_timeout(self.now);
        }
        self.now = end;
    }

    /// Prints what has happened.
    pub fn tell(&mut self, is_all: bool, is_json: bool, out: &mut impl Write) -> Result<()> {
        while let Some(event) = self.alarms.poll_event() {
            self.counts.most_10min = self.counts.most_10min.max(self.alarms.stats().annunciated_10min);
            let change = match event {
                Event::Change(change) => change,
                Event::Flood(begins) => {
                    self.counts.floods += u64::from(begins);
                    continue;
                }
                Event::Removed(_) => continue,
            };
            self.count(&change);
            let is_wanted = is_all && change.transition != Transition::Counted;
            match (change.is_annunciated || is_wanted, is_json) {
                (false, _) => {}
                (true, true) => writeln!(out, "{}", as_json(&change))?,
                (true, false) => writeln!(out, "{}", crate::terminal::lines(&line(&change)))?,
            }
        }
        Ok(())
    }

    fn count(&mut self, change: &Change) {
        let counts = &mut self.counts;
        let record = &change.alarm.record;
        if change.transition == Transition::Raised {
            counts.raised += 1;
            counts.consequences += u64::from(record.cause.is_some());
        }
        counts.chattering += u64::from(change.transition == Transition::Chattering);
        if change.is_annunciated {
            counts.annunciated += 1;
            *counts.by_priority.entry(change.alarm.rule.priority).or_default() += 1;
            *counts.by_alarm.entry((record.id.topic.to_string(), record.id.kind.word())).or_default() += 1;
        }
    }

    /// Prints what it came to.
    pub fn tell_summary(&self, from: Timestamp, to: Timestamp, is_json: bool, out: &mut impl Write) -> Result<()> {
        let counts = &self.counts;
        let mut frequent: Vec<_> = counts.by_alarm.iter().collect();
        frequent.sort_by_key(|(id, times)| (std::cmp::Reverse(**times), (*id).clone()));
        frequent.truncate(FREQUENT_MAX);
        if is_json {
            let priorities: serde_json::Map<String, Json> =
                counts.by_priority.iter().map(|(priority, times)| (priority.word().to_owned(), json!(times))).collect();
            let frequent: Vec<_> = frequent
                .iter()
                .map(|((topic, kind), times)| json!({ "topic": topic, "kind": kind, "annunciated": times }))
                .collect();
            let summary = json!({
                "from": from.to_string(), "to": to.to_string(), "values": counts.values,
                "alarms": self.alarms.stats().alarms, "raised": counts.raised, "annunciated": counts.annunciated,
                "consequences": counts.consequences, "chattering": counts.chattering, "floods": counts.floods,
                "most_10min": counts.most_10min, "priorities": priorities, "frequent": frequent,
            });
            writeln!(out, "{}", json!({ "summary": summary }))?;
            return Ok(());
        }
        let alarms = count(self.alarms.stats().alarms, "alarm");
        let values = counts.values;
        writeln!(out, "{alarms}, {values} values from {from} to {to}")?;
        let Counts { raised, annunciated, consequences, chattering, floods, most_10min, .. } = counts;
        writeln!(out, "raised {raised}, annunciated {annunciated}, consequences {consequences}")?;
        writeln!(out, "most in 10 minutes {most_10min}, floods {floods}, chattering {chattering}")?;
        if !frequent.is_empty() {
            let head = [("TIMES", Align::Right), ("TOPIC", Align::Left), ("KIND", Align::Left)];
            let rows: Vec<_> = frequent
                .iter()
                .map(|((topic, kind), times)| [times.to_string(), topic.clone(), (*kind).to_owned()])
                .collect();
            table::write(head, &rows, out)?;
        }
        Ok(())
    }
}

fn as_json(change: &Change) -> Json {
    let Alarm { record, rule, count } = &change.alarm;
    let mut value = String::new();
    json_value(&record.value, &mut value);
    json!({
        "t": change.at.to_string(), "transition": change.transition.word(), "topic": record.id.topic.as_str(),
        "kind": record.id.kind.word(), "seq": record.seq, "state": record.flags.state().word(),
        "priority": rule.priority.word(), "value": serde_json::from_str::<Json>(&value).unwrap_or_default(),
        "limit": rule.limit.to_string(), "text": &*rule.text, "line": rule.line, "count": count,
        "cause": record.cause.as_ref().map(|cause| cause.topic.as_str()), "annunciated": change.is_annunciated,
    })
}

/// `2026-11-17T14:03:20.000Z  high  site/a/current high, 412 above 400: overload`
fn line(change: &Change) -> String {
    let Alarm { record, rule, .. } = &change.alarm;
    let mut value = String::new();
    json_value(&record.value, &mut value);
    let (topic, kind, priority) = (&record.id.topic, record.id.kind.word(), rule.priority.word());
    let mut line = format!("{}  {priority:8}  {:12}  {topic} {kind}", change.at, change.transition.word());
    line.push_str(&format!(", value {value}"));
    let limit = rule.limit.to_string();
    if !limit.is_empty() {
        line.push_str(&format!(", limit {limit}"));
    }
    if !rule.text.is_empty() {
        line.push_str(&format!(": {}", rule.text));
    }
    line
}
