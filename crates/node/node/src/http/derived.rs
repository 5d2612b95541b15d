//! `/v1/derived`, and derived series as metrics.

use super::authorization::Authenticated;
use super::body::Answer;
use super::problem::Problem;
use crate::bus::DerivedSeen;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_access::Verb;
use tieline_core::Words as _;
use tieline_history::DerivedState;
use tieline_service::exposition::Exposition;

/// Series that are calculated from series
#[derive(JsonSchema, Serialize)]
pub struct DerivedList {
    series: Vec<DerivedShown>,
}

/// A derived series
#[derive(JsonSchema, Serialize)]
struct DerivedShown {
    topic: String,
    /// What is calculated
    value: String,
    /// Width of its intervals in seconds; absent where it is calculated at each change
    #[serde(skip_serializing_if = "Option::is_none")]
    every_s: Option<f64>,
    #[schemars(extend("enum" = ["waiting", "deleting", "backfilling", "live"]))]
    state: &'static str,
    /// How much of the past is calculated, from 0 to 1
    progress: f64,
    /// Up to when the past, and intervals, are calculated
    #[serde(skip_serializing_if = "Option::is_none")]
    upto: Option<String>,
    /// The last result, a point
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<serde_json::Value>,
    /// Results since the start of the node
    results: u64,
    /// Those of them that are bad
    bad: u64,
    /// Samples that came too late for a result of their own
    late: u64,
    /// Samples whose time was too far ahead of the clock
    ahead: u64,
    /// Samples that were taken early, because too many waited
    early: u64,
    /// What failed; it is tried again
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// All derived series, in the order of the file.
pub async fn list(authenticated: Authenticated) -> Result<Answer<DerivedList>, Problem> {
    let authorized = authenticated.must(Verb::Read, "$SYS/derived").await?;
    let seen = authorized.app.bus.call(|bus, _| bus.derived_seen()).await?;
    Ok(Answer(DerivedList { series: seen.into_iter().map(shown).collect() }))
}

fn shown(DerivedSeen { series, status, counts, last }: DerivedSeen) -> DerivedShown {
    DerivedShown {
        topic: series.topic.to_string(),
        value: series.expression.text().to_owned(),
        every_s: series.every.map(|every| every.as_secs_f64()),
        state: status.state.word(),
        progress: status.progress(),
        upto: status.span.map(|(_, upto, _)| upto.to_string()),
        last: last.and_then(|point| serde_json::from_str(&point.to_json()).ok()),
        results: status.results + counts.results,
        bad: status.bad + counts.bad,
        late: counts.late,
        ahead: counts.ahead,
        early: counts.early,
        error: status.error,
    }
}

/// A figure of a series.
type Count = fn(&DerivedSeen) -> u64;

/// Nothing where there are none.
pub(super) fn metrics(e: &mut Exposition, seen: &[DerivedSeen]) {
    if seen.is_empty() {
        return;
    }
    let in_state = |state: DerivedState| seen.iter().filter(|one| one.status.state == state).count();
    let states = DerivedState::WORDS.iter().map(|(word, state)| (*word, in_state(*state)));
    e.labelled(("tieline_derived_series", "Derived series by state.", "gauge"), "state", states);
    let failed = seen.iter().filter(|one| one.status.error.is_some()).count();
    e.gauge("tieline_derived_failed", "Derived series whose last step failed; it is tried again.", failed);
    let least = seen.iter().map(|one| one.status.progress()).fold(1.0, f64::min);
    e.gauge("tieline_derived_progress", "Least part of the past that a series has calculated, 0 to 1.", least);
    let sum = |of: Count| seen.iter().map(of).sum::<u64>();
    let counts: [(&str, &str, Count); 6] = [
        ("tieline_derived_results_total", "Results of derived series.", |one| one.status.results + one.counts.results),
        ("tieline_derived_bad_results_total", "Results that are bad.", |one| one.status.bad + one.counts.bad),
        ("tieline_derived_samples_total", "Samples that were read of the history.", |one| one.status.samples),
        ("tieline_derived_late_total", "Samples that came too late for a result of their own.", |one| one.counts.late),
        ("tieline_derived_ahead_total", "Samples whose time was too far ahead.", |one| one.counts.ahead),
        ("tieline_derived_early_total", "Samples that were taken early because too many waited.", |one| {
            one.counts.early
        }),
    ];
    for (name, help, of) in counts {
        e.counter(name, help, sum(of));
    }
}
