//! `[[topic]]`: what topics hold, how much of it is kept, and for how long.

use super::reader::{Document, Section};
use super::settings::{
    TOPIC_KEEP_EVENTS, TOPIC_KEEP_SPAN, TOPIC_REMOVE_AFTER, TOPIC_REMOVE_IDLE, TOPIC_REMOVE_UNSUBSCRIBED,
    TOPIC_REMOVE_WITH_PUBLISHER, TOPIC_TYPE,
};
use tieline_core::Filter;
use tieline_topics::{Keep, Removal};
use toml::de::DeValue;

/// Rules of one node: each new topic is matched with them.
const RULES_MAX: usize = 1000;

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
    let kinds = [TopicKind::Any, TopicKind::Point, TopicKind::Json, TopicKind::Text, TopicKind::Binary];
    let kind = TOPIC_TYPE.read(&mut s, doc, kinds);
    let keep = s.has("keep").then(|| {
        let mut inner = s.section(doc, "keep");
        let events = TOPIC_KEEP_EVENTS.read_size(&mut inner, doc);
        let span = TOPIC_KEEP_SPAN.optional(&mut inner, doc);
        inner.finish(doc);
        Keep { events, span }
    });
    let mut remove = Removal::default();
    if s.has("remove") {
        let mut inner = s.section(doc, "remove");
        remove.after = TOPIC_REMOVE_AFTER.optional(&mut inner, doc);
        remove.idle = TOPIC_REMOVE_IDLE.optional(&mut inner, doc);
        remove.unsubscribed = TOPIC_REMOVE_UNSUBSCRIBED.optional(&mut inner, doc);
        remove.with_publisher = TOPIC_REMOVE_WITH_PUBLISHER.read(&mut inner, doc);
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
