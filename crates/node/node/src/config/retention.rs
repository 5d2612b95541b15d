//! `[[history.retention]]`: how long samples of topics are kept, and how many of them.

use super::parse;
use super::reader::{Document, Section};
use super::settings::{
    HISTORY_RETENTION_DOWNSAMPLE_AFTER, HISTORY_RETENTION_DOWNSAMPLE_AGGREGATE, HISTORY_RETENTION_DOWNSAMPLE_EVERY,
    HISTORY_RETENTION_KEEP,
};
use std::time::Duration;
use tieline_core::Filter;
use tieline_history::{Keep, Rule, Stage};
use toml::de::DeValue;

/// Rules of one node: each topic of a day is matched with them.
const RULES_MAX: usize = 100;
/// Stages of one rule.
const STAGES_MAX: usize = 8;
const DAY: Duration = Duration::from_secs(86_400);

/// Reads all `[[history.retention]]`. What a rule does not say is kept as `keep` says.
pub fn read_retention(all: Vec<Section<'_>>, doc: &mut Document<'_>, keep: Option<Duration>) -> Vec<Rule> {
    let (at, count) = (all.first().map_or(0, Section::at), all.len());
    if count > RULES_MAX {
        doc.report(at, "history.retention", format!("{count} tables"), format!("{RULES_MAX} at most"));
    }
    all.into_iter().filter_map(|section| read_rule(section, doc, keep)).collect()
}

fn read_rule(mut s: Section<'_>, doc: &mut Document<'_>, keep: Option<Duration>) -> Option<Rule> {
    let topics = s.required(doc, "topics", FILTERS, filters);
    let own = HISTORY_RETENTION_KEEP.optional(&mut s, doc);
    let keep = own.or(keep);
    let (at, key) = (s.value_at("downsample"), s.key("downsample"));
    let tables = s.array(doc, "downsample");
    if tables.len() > STAGES_MAX {
        doc.report(at, &key, format!("{} tables", tables.len()), format!("{STAGES_MAX} at most"));
    }
    let mut downsample: Vec<Stage> = Vec::new();
    for table in tables {
        if let Some(stage) = read_stage(table, doc, downsample.last(), keep) {
            downsample.push(stage);
        }
    }
    s.finish(doc);
    Some(Rule { topics: topics?, keep, downsample })
}

fn read_stage(
    mut s: Section<'_>,
    doc: &mut Document<'_>,
    before: Option<&Stage>,
    kept: Option<Duration>,
) -> Option<Stage> {
    let after = HISTORY_RETENTION_DOWNSAMPLE_AFTER.required(&mut s, doc, "an age, as in \"2d\"");
    let every = HISTORY_RETENTION_DOWNSAMPLE_EVERY.required(&mut s, doc, "an interval, as in \"1m\"");
    let words = [Keep::Mean, Keep::Last, Keep::Extremes];
    let keep = HISTORY_RETENTION_DOWNSAMPLE_AGGREGATE.read(&mut s, doc, words);
    let (after_at, every_at) = (s.value_at("after"), s.value_at("every"));
    let (after_key, every_key) = (s.key("after"), s.key("every"));
    s.finish(doc);
    let (after, every) = (after?, every?);
    let found = |time: Duration| format!("{:?}", parse::duration_words(time));
    let mut wrong = |at, key: &str, time, expected: String| doc.report(at, key, found(time), expected);
    if !DAY.as_micros().is_multiple_of(every.as_micros().max(1)) {
        wrong(
            every_at,
            &every_key,
            every,
            "an interval that divides a day into equal parts, as 1m, 15m or 1h".to_owned(),
        );
    }
    if let Some(before) = before {
        let (age, interval) = (parse::duration_words(before.after), parse::duration_words(before.every));
        if after <= before.after {
            wrong(after_at, &after_key, after, format!("more than {age}, the age of the stage before"));
        }
        if every <= before.every || every.as_micros() % before.every.as_micros().max(1) != 0 {
            wrong(every_at, &every_key, every, format!("a multiple of {interval}, the interval of the stage before"));
        }
    }
    if let Some(kept) = kept.filter(|kept| after >= *kept) {
        wrong(
            after_at,
            &after_key,
            after,
            format!("less than {}: older samples are removed", parse::duration_words(kept)),
        );
    }
    Some(Stage { after, every, keep })
}

const FILTERS: &str = "a topic filter or a list of them, as in \"plant/+/vibration/#\"";

fn filters(value: &DeValue<'_>) -> Result<Vec<Filter>, String> {
    let filter = |value: &DeValue<'_>| {
        let text = value.as_str().ok_or_else(|| FILTERS.to_owned())?;
        Filter::new(text).map_err(|error| format!("{FILTERS} ({error})"))
    };
    match value.as_array() {
        Some(items) if items.is_empty() => Err(FILTERS.to_owned()),
        Some(items) => items.iter().map(|item| filter(item.get_ref())).collect(),
        None => Ok(vec![filter(value)?]),
    }
}
