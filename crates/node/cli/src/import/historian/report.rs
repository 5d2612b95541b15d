//! What became of each topic and of each table.

use super::Topics;
use crate::api::table::count;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::time::SystemTime;
use tieline_core::Timestamp;
use tieline_databases::historian::{HistorianTopic, Survey};

/// Characters of a value that are shown.
const SHOWN_CHARS: usize = 40;
/// Numbers of topics that are not there and are named.
const ORPHANS_MAX: usize = 1000;

/// Days that a node keeps samples, where its configuration does not say it.
const KEEP_DAYS: i64 = 90;
const DAY_MICROS: i64 = 86_400_000_000;

/// What is counted of all topics.
pub struct Report<'a> {
    survey: &'a Survey,
    topics: &'a Topics,
    by_topic: Vec<TopicCounts>,
    orphans: BTreeMap<String, u64>,
    /// Values of earlier runs.
    pub resumed: u64,
}

#[derive(Clone, Default)]
struct TopicCounts {
    samples: u64,
    span: Option<(Timestamp, Timestamp)>,
    /// Why values were left out, how many, and the first.
    left_out: BTreeMap<&'static str, (u64, String)>,
}

impl<'a> Report<'a> {
    pub fn new(survey: &'a Survey, topics: &'a Topics) -> Self {
        let by_topic = vec![TopicCounts::default(); survey.topics.len()];
        Self { survey, topics, by_topic, orphans: BTreeMap::new(), resumed: 0 }
    }

    /// Counts a sample.
    pub fn take(&mut self, at: usize, time: Timestamp) {
        let Some(counts) = self.by_topic.get_mut(at) else { return };
        counts.samples += 1;
        let (first, last) = counts.span.unwrap_or((time, time));
        counts.span = Some((first.min(time), last.max(time)));
    }

    /// Counts a value that is none.
    pub fn leave_out(&mut self, at: usize, why: &'static str, value: &str) {
        let Some(counts) = self.by_topic.get_mut(at) else { return };
        let entry = counts.left_out.entry(why).or_insert_with(|| (0, value.chars().take(SHOWN_CHARS).collect()));
        entry.0 += 1;
    }

    /// Counts a value of a topic that is not there.
    pub fn orphan(&mut self, id: &str) {
        if let Some(rows) = self.orphans.get_mut(id) {
            *rows += 1;
        } else {
            let id = if self.orphans.len() < ORPHANS_MAX { id } else { "others" };
            *self.orphans.entry(id.to_owned()).or_default() += 1;
        }
    }

    /// Whether nothing is lost but aggregates.
    pub fn is_complete(&self) -> bool {
        let has_all =
            |(at, counts): (usize, &TopicCounts)| counts.left_out.is_empty() && self.topics.said(at).0.is_none();
        self.orphans.is_empty() && self.by_topic.iter().enumerate().all(has_all)
    }

    fn samples(&self) -> u64 {
        self.by_topic.iter().map(|counts| counts.samples).sum()
    }

    fn left_out(&self) -> u64 {
        let of = |counts: &TopicCounts| counts.left_out.values().map(|(rows, _)| rows).sum::<u64>();
        self.by_topic.iter().map(of).sum::<u64>() + self.orphans.values().sum::<u64>()
    }

    /// What is to be set so that a node keeps the oldest sample.
    fn retention(&self) -> Option<String> {
        let first = self.by_topic.iter().filter_map(|counts| counts.span).map(|(first, _)| first).min()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let age = i64::try_from(now.as_micros()).ok()?.checked_sub(first.micros())?;
        let days = age / DAY_MICROS;
        (days >= KEEP_DAYS).then(|| {
            format!("the oldest sample is of {first}: a node removes it, unless history.keep is more than {days}d (90d if not set)")
        })
    }

    /// A line for each topic and table, and the sums.
    pub fn lines(&self, is_dry: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (at, (topic, counts)) in self.survey.topics.iter().zip(&self.by_topic).enumerate() {
            lines.push(self.line(at, topic, counts));
        }
        for (id, rows) in &self.orphans {
            lines.push(format!("topic {id}: left out: {}: the table of topics has none of this number", values(*rows)));
        }
        for (table, what) in &self.survey.others {
            lines.push(format!("table {table}: not needed: {}", why_not(what)));
        }
        lines.push(String::new());
        if self.resumed > 0 {
            lines.push(format!("{} of earlier runs are not in this report", values(self.resumed)));
        }
        lines.extend(self.retention());
        let words = if is_dry { "would be imported" } else { "imported" };
        lines.push(format!(
            "{} of {} {words}, {} left out",
            samples(self.samples()),
            count(self.survey.topics.len(), "topic"),
            values(self.left_out())
        ));
        lines
    }

    fn line(&self, at: usize, topic: &HistorianTopic, counts: &TopicCounts) -> String {
        let (why, notes) = self.topics.said(at);
        let name = &topic.name;
        if let Some(why) = why {
            let rows = counts.left_out.values().map(|(rows, _)| rows).sum();
            return format!("{name}: left out: {}: {why}", values(rows));
        }
        let to = self.topics.get(at).map(tieline_core::Topic::as_str).unwrap_or_default();
        let mut line = format!("{name}: mapped {to}: {}", samples(counts.samples));
        if let Some((first, last)) = counts.span {
            line.push_str(&format!(" from {first} to {last}"));
        }
        for (key, value) in metadata(topic) {
            line.push_str(&format!(", {key} {value}"));
        }
        for (why, (rows, first)) in &counts.left_out {
            line.push_str(&format!("; {} left out: {why}: {first:?}", values(*rows)));
        }
        for note in notes {
            line.push_str(&format!("; {note}"));
        }
        line
    }

    /// An object for each topic and table.
    pub fn as_json(&self, is_dry: bool) -> Json {
        let topic = |(at, (topic, counts)): (usize, (&HistorianTopic, &TopicCounts))| {
            let (why, notes) = self.topics.said(at);
            let left_out: Vec<Json> = counts
                .left_out
                .iter()
                .map(|(why, (rows, first))| json!({ "why": why, "values": rows, "first": first }))
                .collect();
            json!({
                "topic": topic.name,
                "status": if why.is_some() { "left_out" } else { "mapped" },
                "to": self.topics.get(at).map(tieline_core::Topic::as_str),
                "samples": counts.samples,
                "first": counts.span.map(|(first, _)| first.to_string()),
                "last": counts.span.map(|(_, last)| last.to_string()),
                "metadata": metadata(topic).into_iter().collect::<BTreeMap<_, _>>(),
                "left_out": left_out,
                "why": why,
                "notes": notes,
                "dry_run": is_dry,
            })
        };
        let topics = self.survey.topics.iter().zip(&self.by_topic).enumerate().map(topic);
        let orphan = |(id, rows): (&String, &u64)| json!({ "topic_id": id, "status": "left_out", "values": rows, "why": "the table of topics has none of this number" });
        let table = |(table, what): &(String, &'static str)| json!({ "table": table, "status": "not_needed", "why": why_not(what) });
        topics.chain(self.orphans.iter().map(orphan)).chain(self.survey.others.iter().map(table)).collect()
    }
}

/// The metadata that people look for.
fn metadata(topic: &HistorianTopic) -> Vec<(String, String)> {
    let parsed: Option<Json> = topic.metadata.as_deref().and_then(|text| serde_json::from_str(text).ok());
    let of = |key: &str| {
        let value = parsed.as_ref()?.get(key)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        (!text.is_empty() && text != "null").then(|| (key.to_owned(), text))
    };
    ["units", "type", "tz"].into_iter().filter_map(of).collect()
}

fn why_not(what: &str) -> &str {
    if what == "aggregates" { "aggregates; a query computes them from the samples" } else { what }
}

fn values(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "value")
}

fn samples(number: u64) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), "sample")
}
