//! `/v1/history/stats`: what each topic takes on the disk.

use super::authorization::Authenticated;
use super::body::Answer;
use super::history::{reads_all, source};
use super::problem::Problem;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_core::{Filter, Words as _};
use tieline_history::{Held, HistoryStats, RuleStats, Stage, Taken};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;
use tieline_service::parse::duration_words;

parameters! {
    /// Which topics are asked for.
    pub struct StatsAsked {
        /// Topic or topic filter
        topic: Filter = "#",
        /// Only the largest so many topics
        limit: Whole<1, 1_000_000> = "100",
    }
}

/// What a history takes.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "HistoryStats")]
pub struct Shown {
    /// The largest topics, the largest first
    topics: Vec<TopicShown>,
    /// Topics that the filter selects
    topic_count: u64,
    /// What they take together
    total: TakenShown,
    /// Files of chunks, of all topics
    files: u64,
    /// Bytes of these files
    file_bytes: u64,
    /// Day files, of all topics
    day_files: u64,
    /// Bytes of these files
    day_file_bytes: u64,
    /// Bytes of the index
    index_bytes: u64,
    /// Edits and annotations of all topics that are not undone
    edits: u64,
    /// Edits and annotations that were ever made
    edits_ever: u64,
    /// Bytes of their database
    edits_bytes: u64,
    /// Rules of retention, in their order; the last is of all other topics. Empty without rules
    rules: Vec<RuleShown>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct RuleShown {
    /// Topic filters; empty of the last
    topics: Vec<String>,
    /// Older samples are removed; null: never
    keep: Option<String>,
    /// Topics that have samples
    topic_count: u64,
    /// Samples as they were recorded
    samples: u64,
    /// Bytes that they take
    bytes: u64,
    /// The stages of down-sampling
    downsample: Vec<StageShown>,
    /// Samples that are to be removed or down-sampled now
    due_samples: u64,
    /// Samples that the rule removed
    removed: u64,
    /// Samples in the place of which others stand
    downsampled: u64,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct StageShown {
    /// From this age on
    after: String,
    /// Interval
    every: String,
    /// What stands for the samples of an interval: mean, last, extremes
    aggregate: &'static str,
    /// Samples of days that went through the stage
    samples: u64,
    /// Bytes that they take
    bytes: u64,
}

impl From<&RuleStats> for RuleShown {
    fn from(rule: &RuleStats) -> Self {
        let stage = |(stage, held): &(Stage, Held)| StageShown {
            after: duration_words(stage.after),
            every: duration_words(stage.every),
            aggregate: stage.keep.word(),
            samples: held.samples,
            bytes: held.bytes,
        };
        Self {
            topics: rule.topics.iter().map(ToString::to_string).collect(),
            keep: rule.keep.map(duration_words),
            topic_count: rule.topic_count,
            samples: rule.recorded.samples,
            bytes: rule.recorded.bytes,
            downsample: rule.stages.iter().map(stage).collect(),
            due_samples: rule.due.samples,
            removed: rule.removed,
            downsampled: rule.downsampled,
        }
    }
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct TopicShown {
    topic: String,
    #[serde(flatten)]
    taken: TakenShown,
}

#[derive(JsonSchema, Serialize)]
#[schemars(inline)]
struct TakenShown {
    /// Samples in chunks and day files
    samples: u64,
    /// Samples in memory or in the journal, which may be in no chunk yet
    waiting: u64,
    /// Chunks, and parts of day files
    chunks: u64,
    /// Bytes of the chunks, and the topic's share of day files
    bytes: u64,
    /// Bytes for each of their samples; null without samples
    bytes_per_sample: Option<f64>,
    /// Samples of chunks whose file is lost or ends before them
    damaged: u64,
    /// Edits and annotations that are not undone
    edits: u64,
    /// Time of the first sample; null without samples
    #[schemars(extend("format" = "date-time"))]
    first: Option<String>,
    /// Time of the last sample; null without samples
    #[schemars(extend("format" = "date-time"))]
    last: Option<String>,
}

impl From<&Taken> for TakenShown {
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    fn from(taken: &Taken) -> Self {
        let Taken { samples, chunks, bytes, waiting, damaged, edits, span } = *taken;
        let bytes_per_sample = (samples > 0).then(|| (bytes as f64 / samples as f64 * 1000.0).round() / 1000.0);
        let (first, last) = span.map(|(first, last)| (first.to_string(), last.to_string())).unzip();
        Self { samples, waiting, chunks, bytes, bytes_per_sample, damaged, edits, first, last }
    }
}

impl From<&HistoryStats> for Shown {
    fn from(stats: &HistoryStats) -> Self {
        let topic = |(topic, taken): &(tieline_core::Topic, Taken)| TopicShown {
            topic: topic.to_string(),
            taken: TakenShown::from(taken),
        };
        Self {
            topics: stats.topics.iter().map(topic).collect(),
            topic_count: stats.topic_count,
            total: TakenShown::from(&stats.total),
            files: stats.files,
            file_bytes: stats.file_bytes,
            day_files: stats.day_files,
            day_file_bytes: stats.day_file_bytes,
            index_bytes: stats.index_bytes,
            rules: stats.rules.iter().map(RuleShown::from).collect(),
            edits: stats.edits.active,
            edits_ever: stats.edits.all,
            edits_bytes: stats.edits.bytes,
        }
    }
}

/// What is known of a history, as `/v1/history/stats` shows it.
#[must_use]
pub fn shown_history_stats(stats: &HistoryStats) -> serde_json::Value {
    serde_json::to_value(Shown::from(stats)).unwrap_or_default()
}

/// What the topics that a filter selects take.
pub async fn stats(authenticated: Authenticated, Query(asked): Query<StatsAsked>) -> Result<Answer<Shown>, Problem> {
    let authorized = reads_all(authenticated, std::slice::from_ref(&asked.topic)).await?;
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let found = tokio::task::spawn_blocking(move || {
        let stats = source.reader()?.stats(&asked.topic, asked.limit.0);
        drop(recall);
        stats
    });
    let stats = found.await.map_err(|error| Problem::unavailable(error.to_string()))?;
    Ok(Answer(Shown::from(&stats.map_err(|error| Problem::unavailable(error.to_string()))?)))
}
