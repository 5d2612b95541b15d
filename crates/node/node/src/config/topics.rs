//! `[[topic]]`: what topics hold, how much of it is kept, and for how long.

use super::parse;
use super::reader::{Document, Section};
use std::time::Duration;
use tieline_core::Filter;
use tieline_topics::{Keep, Removal};
use toml::de::DeValue;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Rules of one node: each new topic is matched with them.
const RULES_MAX: usize = 1000;
/// Events of a topic, unless the rule says.
const EVENTS: usize = 1000;

/// What a topic may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicKind {
    /// What its publishers like.
    #[default]
    Any,
    /// Points.
    Point,
    /// JSON.
    Json,
    /// UTF-8.
    Text,
    /// Bytes.
    Binary,
}

impl TopicKind {
    /// Their words.
    pub const ALL: [(&'static str, Self); 5] = [
        ("any", Self::Any),
        ("point", Self::Point),
        ("json", Self::Json),
        ("text", Self::Text),
        ("binary", Self::Binary),
    ];
}

/// What is declared of the topics that a filter selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRule {
    /// Which.
    pub filter: Filter,
    /// What they may hold.
    pub kind: TopicKind,
    /// Which events they keep; none keeps the last value alone.
    pub keep: Option<Keep>,
    /// When their values are removed.
    pub remove: Removal,
}

/// Reads all `[[topic]]`.
pub fn read_topics(all: Vec<Section<'_>>, doc: &mut Document<'_>) -> Vec<TopicRule> {
    let at = all.first().map_or(0, Section::at);
    let count = all.len();
    if count > RULES_MAX {
        doc.report(at, "topic", format!("{count} tables"), format!("{RULES_MAX} at most"));
    }
    all.into_iter().filter_map(|section| read_topic(section, doc)).collect()
}

fn read_topic(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<TopicRule> {
    let filter = s.required(doc, "filter", "the filter of the topics, as in \"site/+/notes\"", filter);
    let kind = s.or(doc, "type", TopicKind::Any, parse::word(&TopicKind::ALL));
    let keep = s.has("keep").then(|| {
        let mut inner = s.section(doc, "keep");
        let events = inner.or(doc, "events", EVENTS, |v| {
            parse::integer(1..=1_000_000_u32)(v).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
        });
        let span = inner.optional(doc, "span", parse::duration(SECOND..=36_500 * DAY));
        inner.finish(doc);
        Keep { events, span }
    });
    let mut remove = Removal::default();
    if s.has("remove") {
        let mut inner = s.section(doc, "remove");
        let span = || parse::duration(Duration::from_millis(100)..=36_500 * DAY);
        remove.after = inner.optional(doc, "after", span());
        remove.idle = inner.optional(doc, "idle", span());
        remove.unsubscribed = inner.optional(doc, "unsubscribed", span());
        remove.with_publisher = inner.or(doc, "with_publisher", false, parse::boolean);
        inner.finish(doc);
    }
    s.finish(doc);
    Some(TopicRule { filter: filter?, kind, keep, remove })
}

fn filter(value: &DeValue<'_>) -> Result<Filter, String> {
    let words = |why: String| format!("a topic filter, as in \"site/+/notes\" ({why})");
    let text = value.as_str().ok_or_else(|| words("a text".to_owned()))?;
    Filter::new(text).map_err(|error| words(error.to_string()))
}
