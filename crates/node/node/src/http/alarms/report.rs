//! `GET /v1/alarms/report`.

use super::super::authorization::Authenticated;
use super::super::body::Answer;
use super::super::history::{in_turn, span};
use super::super::problem::Problem;
use super::rows::each_row;
use super::walk::walk;
use crate::bus::Bus;
use crate::config::Moment;
use crate::control::alarms::{AlarmName, JournalRow};
use schemars::JsonSchema;
use serde::Serialize;
use std::ops::ControlFlow;
use tieline_access::Verb;
use tieline_alarms::{
    Alarm, Figures, Flags, Frequent, Kind, Measure, Priority, REPORT_BEFORE, REPORT_SPAN_MAX, Report, ReportRow,
    Transition,
};
use tieline_core::{Filter, Timestamp, Topic, Words};
use tieline_service::http::parameters::{Query, Whole};
use tieline_service::parameters;

/// Rows of the journal that one report looks at.
const ROWS_MAX: usize = 5_000_000;

parameters! {
    /// Of which time figures are asked for.
    pub struct ReportAsked {
        /// Start, inclusive: RFC 3339, or a duration before the end, as in 30d
        from: Moment = "7d",
        /// End, exclusive: RFC 3339; default and latest the present
        to: Option<Moment>,
        /// Topic filter of the alarmed topics
        filter: Filter = "#",
        /// People who share the annunciations; default: operators of the configuration
        operators: Option<Whole<1, 1000>>,
    }
}

/// Figures of the load of operators, as ISA-18.2 rates them
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "AlarmReport")]
pub struct Shown {
    /// Start, inclusive
    #[schemars(extend("format" = "date-time"))]
    from: String,
    /// End, exclusive
    #[schemars(extend("format" = "date-time"))]
    to: String,
    /// People who share the annunciations
    operators: u32,
    /// Annunciations
    annunciated: u64,
    /// Figures that are rated; numbers of annunciations are for each operator
    measures: Vec<MeasureShown>,
    /// Annunciations of each priority. A good share: critical and high 5, medium 15, low 80 percent
    priorities: Vec<PriorityShown>,
    /// The ten most frequent alarms, the most frequent first
    frequent: Vec<FrequentShown>,
    /// Times from annunciations to acknowledgements
    responses: ResponsesShown,
}

/// A rated figure
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "AlarmMeasure")]
struct MeasureShown {
    name: &'static str,
    value: f64,
    /// Good up to this
    good: f64,
    /// Acceptable up to this
    at_most: f64,
    #[schemars(extend("enum" = ["good", "acceptable", "exceeded"]))]
    rating: &'static str,
}

/// Annunciations of a priority
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "AlarmPriorityShare")]
struct PriorityShown {
    priority: &'static str,
    annunciated: u64,
    percent: f64,
}

/// An alarm that was annunciated often
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "FrequentAlarm")]
struct FrequentShown {
    topic: String,
    kind: String,
    annunciated: u32,
    percent: f64,
}

/// Times from annunciations to acknowledgements, in seconds
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(rename = "AlarmResponses")]
struct ResponsesShown {
    count: usize,
    median_s: u32,
    longest_s: u32,
}

/// Figures of a time, of the alarms that the caller may read.
pub async fn report(authenticated: Authenticated, Query(asked): Query<ReportAsked>) -> Result<Answer<Shown>, Problem> {
    let now = authenticated.now().utc;
    let (from, to) = span(&asked.from, asked.to.as_ref(), now)?;
    let to = to.unwrap_or(now).min(now);
    if to.micros().saturating_sub(from.micros()) > i64::try_from(REPORT_SPAN_MAX.as_micros()).unwrap_or(i64::MAX) {
        let days = REPORT_SPAN_MAX.as_secs() / 86_400;
        return Err(Problem::bad_request(format!("from is {from}, expected {days} days at most before to")));
    }
    let authorized = authenticated.each();
    let before = i64::try_from(REPORT_BEFORE.as_micros()).unwrap_or(i64::MAX);
    let begin = Timestamp::from_micros(from.micros().saturating_sub(before));
    let (caller, filter) = (authorized.caller.clone(), asked.filter.clone());
    let take = move |active: &mut Vec<_>, Alarm { record, .. }: Alarm| {
        let is_old = record.flags.has(Flags::ACTIVE) && record.since < begin;
        if is_old && filter.matches_all_or(&record.id.topic) && caller.may(Verb::Read, &record.id.topic) {
            active.push((record.id, record.since));
        }
    };
    let finish = |active, bus: &mut Bus| (active, bus.alarm_operators());
    let (active, operators) = walk(&authorized, Vec::new(), take, finish).await?;
    let operators = asked.operators.map_or(operators, |Whole(count)| u32::try_from(count).unwrap_or(1));
    let filter = asked.filter;
    let figures = in_turn(authorized, move |source, may_read| {
        let mut report = Report::new(from, to, operators);
        active.into_iter().for_each(|(id, since)| report.add_active(id, since));
        let mut left = ROWS_MAX;
        each_row(&source, (begin, to), |row| {
            left = left.saturating_sub(1);
            if filter.matches_all_or(&row.topic)
                && may_read(&row.topic)
                && let Some(row) = read(&row)
            {
                report.add(&row);
            }
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match left {
            0 => {
                Err(Problem::bad_request(format!("the journal has more than {ROWS_MAX} rows, expected a shorter time")))
            }
            _ => Ok(report.finish()),
        }
    });
    Ok(Answer(Shown::of(figures.await?)))
}

/// A row as the report needs it; none of one whose words are not known.
fn read(row: &JournalRow) -> Option<ReportRow> {
    Some(ReportRow {
        time: Timestamp::from_micros(row.id),
        topic: Topic::new(&row.topic).ok()?,
        kind: Kind::of_word(&row.kind)?,
        priority: Priority::of_word(&row.priority)?,
        transition: Transition::of_word(&row.transition)?,
        is_annunciated: row.annunciated,
    })
}

impl Shown {
    fn of(figures: Figures) -> Self {
        let Figures { from, to, operators, annunciated, priorities, frequent, responses, measures } = figures;
        let percent = |part: u64| rounded(percent(part, annunciated));
        let frequent = frequent.into_iter().map(|Frequent { id, annunciated }| {
            let AlarmName { topic, kind } = AlarmName::of(&id);
            FrequentShown { topic, kind, annunciated, percent: percent(annunciated.into()) }
        });
        let priorities = priorities.into_iter().map(|(priority, count)| PriorityShown {
            priority: priority.word(),
            annunciated: count,
            percent: percent(count),
        });
        Self {
            from: from.to_string(),
            to: to.to_string(),
            operators,
            annunciated,
            measures: measures.iter().map(MeasureShown::of).collect(),
            priorities: priorities.collect(),
            frequent: frequent.collect(),
            responses: ResponsesShown {
                count: responses.count,
                median_s: responses.median_s,
                longest_s: responses.longest_s,
            },
        }
    }
}

impl MeasureShown {
    fn of(measure: &Measure) -> Self {
        let Measure { name, value, good, at_most } = *measure;
        Self { name, value: rounded(value), good, at_most, rating: measure.rating().word() }
    }
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}
