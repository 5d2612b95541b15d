//! `GET /v1/alarms/rules`.

use super::super::authorization::Authenticated;
use super::super::body::Answer;
use super::super::problem::Problem;
use crate::bus::Bus;
use crate::control::alarms::limit_of;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value as Json;
use tieline_access::Reach;
use tieline_alarms::Rule;
use tieline_core::{Value, Words as _};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::json::of_value;
use tieline_service::parameters;

parameters! {
    /// Which rules are asked for.
    pub struct RulesAsked {
        /// Rules behind this line of the file; the member next of the page before
        after: Option<u64>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// Rules of alarms in use, of topics that the caller may read some of
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AlarmRules")]
pub struct RuleList {
    rules: Vec<RuleShown>,
    /// What to ask for the next page with, as `after`; null where there are no more
    next: Option<u64>,
}

/// A rule of alarms
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "AlarmRule")]
struct RuleShown {
    /// The line of the file; of the node's own rules, a number above all of them
    line: u32,
    /// Whether it is one of the node's own, for a condition of the node itself
    built_in: bool,
    /// Topic filter
    topic: String,
    kind: &'static str,
    /// A number, a value, or a time in seconds, as the kind needs it
    limit: Json,
    hysteresis: f64,
    /// The topic whose value a deviation is measured from
    reference: Option<String>,
    on_delay_s: f64,
    off_delay_s: f64,
    priority: &'static str,
    latch: bool,
    group: String,
    /// TOPIC=VALUE: while it holds, the alarm is suppressed
    suppress_when: Option<String>,
    text: String,
    cause: String,
    consequence: String,
    action: String,
    respond_in_s: Option<f64>,
}

impl RuleShown {
    fn of(rule: &Rule) -> Self {
        let suppression = rule.suppress_when.as_ref();
        Self {
            line: rule.line,
            built_in: rule.is_built_in,
            topic: rule.filter.to_string(),
            kind: rule.kind.word(),
            limit: limit_of(&rule.limit),
            hysteresis: rule.hysteresis,
            reference: rule.reference.as_ref().map(ToString::to_string),
            on_delay_s: rule.on_delay.as_secs_f64(),
            off_delay_s: rule.off_delay.as_secs_f64(),
            priority: rule.priority.word(),
            latch: rule.is_latching,
            group: rule.group.to_string(),
            suppress_when: suppression.map(|one| format!("{}={}", one.topic, text_of(&one.value))),
            text: rule.text.to_string(),
            cause: rule.cause.to_string(),
            consequence: rule.consequence.to_string(),
            action: rule.action.to_string(),
            respond_in_s: rule.respond_in.map(|time| time.as_secs_f64()),
        }
    }
}

fn text_of(value: &Value) -> String {
    match of_value(value) {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

/// A page of the rules, in the order of the file.
pub async fn rules(authenticated: Authenticated, Query(asked): Query<RulesAsked>) -> Result<Answer<RuleList>, Problem> {
    let RulesAsked { after, limit: Whole(limit) } = asked;
    let authorized = authenticated.each();
    let caller = authorized.caller.clone();
    let look = move |bus: &mut Bus, _| {
        let all = bus.alarm_rules().into_iter().flat_map(tieline_alarms::Rules::iter);
        let behind = all.filter(|rule| after.is_none_or(|after| u64::from(rule.line) > after));
        let mut readable: Vec<&Rule> = behind.filter(|rule| caller.reach(&rule.filter) != Reach::Nothing).collect();
        readable.sort_by_key(|rule| rule.line);
        let next = readable.get(limit).and(readable.get(limit - 1)).map(|last| u64::from(last.line));
        RuleList { rules: readable.into_iter().take(limit).map(RuleShown::of).collect(), next }
    };
    Ok(Answer(authorized.app.bus.ask_once(&authorized.share(), look).await?))
}
