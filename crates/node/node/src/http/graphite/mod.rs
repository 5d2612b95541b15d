//! `/graphite`: the part of Graphite's HTTP API that Grafana's built-in data source calls, so that Grafana shows the history
//! without a database and without a plug-in.
//!
//! In: forms and queries as Grafana sends them. Out: series of the history, names of topics, annotations as events. Never: functions
//! of Graphite besides `consolidateBy` and `constantLine`.

mod form;
mod names;
mod target;

pub use form::{GraphiteForm, Pairs};

use self::names::{Pattern, name_of};
use self::target::{CONSOLIDATIONS, Target};
use super::authorization::Authenticated;
use super::body::Answer;
use super::history::in_turn;
use super::problem::Problem;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use tieline_core::{Filter, Timestamp, Topic, Value};
use tieline_history::calendar::Buckets;
use tieline_history::{Aggregate, HistoryQuery, HistorySource};
use tieline_store::{EditKind, EditQuery};

/// Targets of a request.
const TARGETS_MAX: usize = 64;
/// Series of an answer.
const SERIES_MAX: usize = 500;
/// Points of an answer, of all series together.
const POINTS_MAX: u64 = 1_000_000;
/// Names of an answer.
const NAMES_MAX: usize = 10_000;
/// Events of an answer.
const EVENTS_MAX: usize = 1000;
/// The release of Graphite whose API this is a part of.
const GRAPHITE: &str = "1.1.10";

/// A series.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "GraphiteSeries")]
pub struct Series {
    /// Name
    target: String,
    /// Number or null, and seconds since 1970
    datapoints: Vec<(Option<f64>, i64)>,
}

/// A level of names.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "GraphiteNode")]
pub struct Node {
    /// The last part of the name
    text: String,
    /// The name
    id: String,
    /// 1 where it is the name of a topic
    leaf: u8,
    /// 1 where there are names below
    expandable: u8,
    #[serde(rename = "allowChildren")]
    allow_children: u8,
}

/// Names that a pattern selects.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "GraphiteNames")]
pub struct Names {
    results: Vec<String>,
}

/// An annotation of the history.
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "GraphiteEvent")]
pub struct Event {
    /// Its number
    id: u64,
    /// Start, seconds since 1970
    when: i64,
    /// The topic
    what: String,
    /// The name of the topic
    tags: Vec<String>,
    /// What it says
    data: String,
}

/// Series between two times.
pub async fn render<const POST: bool>(
    authenticated: Authenticated,
    GraphiteForm(form): GraphiteForm<POST>,
) -> Result<Answer<Vec<Series>>, Problem> {
    if let Some(format) = form.get("format").filter(|format| *format != "json") {
        return Err(Problem::bad_request(format!("format is {format:?}, expected \"json\"")));
    }
    let (from, until) = form.span(authenticated.now().utc)?;
    let points = target::points(form.get("maxDataPoints"));
    let points =
        points.ok_or_else(|| Problem::bad_request("maxDataPoints is wrong, expected a whole number above 0"))?;
    let targets =
        form.all("target").map(|text| Target::parse(text).map_err(|why| Problem::bad_request(format!("target {why}"))));
    let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
    if targets.is_empty() || targets.len() > TARGETS_MAX {
        return Err(Problem::bad_request(format!(
            "target is given {} times, expected 1 to {TARGETS_MAX}",
            targets.len()
        )));
    }
    let patterns = targets.iter().filter_map(|target| match target {
        Target::Series(pattern, _) => Some(pattern),
        Target::Constant(_) => None,
    });
    let filters: Vec<Filter> = patterns.flat_map(|pattern| pattern.filters(false)).collect();
    let asked = Asked { targets, from, until, points };
    if filters.is_empty() {
        let _ = authenticated.each();
        return asked.constant_lines().map(Answer);
    }
    let (authorized, _) = authenticated.reads(&filters).await?;
    in_turn(authorized, move |source, may| asked.read(source, may)).await.map(Answer)
}

/// The names one level below others.
pub async fn find<const POST: bool>(
    authenticated: Authenticated,
    GraphiteForm(form): GraphiteForm<POST>,
) -> Result<Answer<Vec<Node>>, Problem> {
    let nodes = nodes(authenticated, &form).await?;
    let node = |(id, (leaf, branch)): (String, (bool, bool))| Node {
        text: id.rsplit_once('.').map_or(id.as_str(), |(_, last)| last).to_owned(),
        id,
        leaf: u8::from(leaf && !branch),
        expandable: u8::from(branch),
        allow_children: u8::from(branch),
    };
    // A topic that has others below it is there twice, as Graphite has it.
    let twice: Vec<_> = nodes.iter().filter(|(_, (leaf, branch))| *leaf && *branch).collect();
    let twice: Vec<_> = twice.into_iter().map(|(id, _)| (id.clone(), (true, false))).collect();
    Ok(Answer(nodes.into_iter().chain(twice).map(node).collect()))
}

/// The names that a pattern selects.
pub async fn expand<const POST: bool>(
    authenticated: Authenticated,
    GraphiteForm(form): GraphiteForm<POST>,
) -> Result<Answer<Names>, Problem> {
    let nodes = nodes(authenticated, &form).await?;
    Ok(Answer(Names { results: nodes.into_keys().collect() }))
}

/// The functions that a target may have, as Grafana's query editor reads them.
pub async fn functions(authenticated: Authenticated, _: GraphiteForm<false>) -> Answer<Json> {
    let _ = authenticated.each();
    let parameter = |name: &str, kind: &str| json!({ "name": name, "type": kind, "required": true });
    let mut word = parameter("consolidationFunc", "string");
    word["options"] = json!(CONSOLIDATIONS);
    Answer(json!({
        "consolidateBy": {
            "name": "consolidateBy",
            "function": "consolidateBy(seriesList, consolidationFunc)",
            "description": "What a point shows of the samples of its interval.",
            "module": "tieline",
            "group": "Special",
            "params": [parameter("seriesList", "seriesList"), word],
        },
    }))
}

/// The release of Graphite whose functions there may be.
pub async fn version(authenticated: Authenticated, _: GraphiteForm<false>) -> Answer<&'static str> {
    let _ = authenticated.each();
    Answer(GRAPHITE)
}

/// Tags: series have none.
pub async fn tags(authenticated: Authenticated, _: GraphiteForm<false>) -> Answer<Vec<String>> {
    let _ = authenticated.each();
    Answer(Vec::new())
}

/// Annotations of the history between two times.
pub async fn events(
    authenticated: Authenticated,
    GraphiteForm(form): GraphiteForm<false>,
) -> Result<Answer<Vec<Event>>, Problem> {
    let (from, to) = form.span(authenticated.now().utc)?;
    let wanted: Vec<String> = form.all("tags").flat_map(|tags| tags.split([' ', ','])).map(str::to_owned).collect();
    let wanted: Vec<String> = wanted.into_iter().filter(|tag| !tag.is_empty()).collect();
    let topics = Filter::new("#").map_err(|error| Problem::bad_request(error.to_string()))?;
    let (authorized, _) = authenticated.reads(std::slice::from_ref(&topics)).await?;
    let asked = EditQuery {
        topics,
        from,
        to,
        who: None,
        kind: Some(EditKind::Annotation),
        active: Some(true),
        before: None,
        limit: EVENTS_MAX,
    };
    let read = move |source: HistorySource, may: &dyn Fn(&str) -> bool| {
        let (records, _) = source.edits(&asked).map_err(|error| Problem::unavailable(error.to_string()))?;
        let events = records.into_iter().filter(|record| may(&record.edit.topic)).map(|record| Event {
            id: record.id,
            when: record.edit.from.micros().div_euclid(1_000_000),
            tags: vec![name_of(&record.edit.topic)],
            what: record.edit.topic.to_string(),
            data: record.edit.text.unwrap_or_default(),
        });
        Ok(events.filter(|event| wanted.iter().all(|tag| event.tags.contains(tag))).collect())
    };
    in_turn(authorized, read).await.map(Answer)
}

/// Names as deep as the pattern of a request, each with whether it is a topic's and whether there are names below.
async fn nodes(authenticated: Authenticated, form: &Pairs) -> Result<BTreeMap<String, (bool, bool)>, Problem> {
    let pattern = Pattern::parse(form.get("query").unwrap_or_default());
    let pattern = pattern.map_err(|why| Problem::bad_request(format!("query {why}")))?;
    let filters = pattern.filters(true);
    if filters.is_empty() {
        let _ = authenticated.each();
        return Ok(BTreeMap::new());
    }
    let (authorized, _) = authenticated.reads(&filters).await?;
    let read = move |source: HistorySource, may: &dyn Fn(&str) -> bool| {
        let mut nodes = BTreeMap::<String, (bool, bool)>::new();
        for topic in topics_of(&source, &filters)? {
            let Some((name, is_below)) = pattern.node(&topic).filter(|_| may(&topic)) else { continue };
            let (leaf, branch) = nodes.entry(name).or_default();
            (*leaf, *branch) = (*leaf || !is_below, *branch || is_below);
        }
        match nodes.len() {
            0..=NAMES_MAX => Ok(nodes),
            count => Err(Problem::bad_request(format!("query selects {count} names, expected {NAMES_MAX} at most"))),
        }
    };
    in_turn(authorized, read).await
}

fn topics_of(source: &HistorySource, filters: &[Filter]) -> Result<BTreeSet<Topic>, Problem> {
    let failed = |error: tieline_store::StoreError| Problem::unavailable(error.to_string());
    let reader = source.reader().map_err(failed)?;
    let mut topics = BTreeSet::new();
    for filter in filters {
        topics.extend(reader.topics(filter).map_err(failed)?);
    }
    Ok(topics)
}

/// What a request for series asks for.
struct Asked {
    targets: Vec<Target>,
    from: Timestamp,
    until: Timestamp,
    points: u64,
}

impl Asked {
    fn constant_lines(&self) -> Result<Vec<Series>, Problem> {
        let line = |target: &Target| match target {
            Target::Constant(number) => Some(self.line(*number)),
            Target::Series(..) => None,
        };
        Ok(self.targets.iter().filter_map(line).collect())
    }

    fn line(&self, number: f64) -> Series {
        let at = |time: Timestamp| (Some(number), time.micros().div_euclid(1_000_000));
        Series { target: number.to_string(), datapoints: vec![at(self.from), at(self.until)] }
    }

    fn read(&self, source: HistorySource, may: &dyn Fn(&str) -> bool) -> Result<Vec<Series>, Problem> {
        let (mut series, mut left) = (Vec::new(), POINTS_MAX);
        for target in &self.targets {
            match target {
                Target::Constant(number) => series.push(self.line(*number)),
                Target::Series(pattern, aggregate) => {
                    let topics = topics_of(&source, &pattern.filters(false))?;
                    let topics: Vec<Topic> =
                        topics.into_iter().filter(|topic| pattern.selects(topic) && may(topic)).collect();
                    if series.len() + topics.len() > SERIES_MAX {
                        let words = format!(
                            "target {:?} selects too many series, expected {SERIES_MAX} at most in a request",
                            pattern.as_str()
                        );
                        return Err(Problem::bad_request(words));
                    }
                    self.read_into(&source, (topics, *aggregate), &mut series, &mut left)?;
                }
            }
        }
        Ok(series)
    }

    fn read_into(
        &self,
        source: &HistorySource,
        (topics, aggregate): (Vec<Topic>, Aggregate),
        series: &mut Vec<Series>,
        left: &mut u64,
    ) -> Result<(), Problem> {
        if topics.is_empty() {
            return Ok(());
        }
        let failed = |error: tieline_store::StoreError| Problem::unavailable(error.to_string());
        let reader = source.reader().map_err(failed)?;
        let width = target::width(self.from, self.until, self.points);
        let begin = series.len();
        let filters = topics.iter().filter_map(|topic| Filter::new(topic).ok()).collect();
        let query = HistoryQuery {
            from: Some(self.from),
            to: Some(self.until),
            aggregate,
            ..HistoryQuery::of_several(filters)
        };
        for row in reader.query(query.in_buckets(Buckets::Every(width), self.until)).map_err(failed)? {
            let row = row.map_err(failed)?;
            *left = left.checked_sub(1).ok_or_else(|| {
                Problem::bad_request(format!("the answer has too many points, expected {POINTS_MAX} at most: a smaller maxDataPoints, or fewer targets"))
            })?;
            let name = name_of(&row.topic);
            let point = (number_of(&row.point.value), row.point.time.micros().div_euclid(1_000_000));
            // A topic of two targets has a series for each.
            match series.get_mut(begin..).and_then(<[Series]>::last_mut).filter(|last| last.target == name) {
                Some(last) => last.datapoints.push(point),
                None => series.push(Series { target: name, datapoints: vec![point] }),
            }
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "Grafana's numbers are floating-point")]
fn number_of(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(is_on) => Some(f64::from(u8::from(*is_on))),
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number).filter(|number| number.is_finite()),
        Value::Null | Value::Text(_) | Value::Bytes(_) => None,
    }
}
