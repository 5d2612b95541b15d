//! `GET /v1/alarms`.

use super::super::authorization::Authenticated;
use super::super::body::Answer;
use super::super::problem::Problem;
use super::order::{AlarmOrder, AlarmPlace};
use super::walk::walk;
use crate::control::alarms::AlarmShown;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use tieline_access::Verb;
use tieline_alarms::{Alarm, AlarmId, Kind, Priority, State};
use tieline_core::{Filter, Topic, Words};
use tieline_service::http::parameters::{Fault, Parameter, Query, Whole, Word};
use tieline_service::parameters;

parameters! {
    /// Which alarms are asked for.
    pub struct AlarmsAsked {
        /// Topic filter of the alarmed topics
        filter: Filter = "#",
        /// Only those of this priority and above
        priority: Option<Word<Priority>>,
        /// Only those in one of these states, separated by commas
        state: Option<States>,
        /// Only those of this group
        group: Option<String>,
        /// none: only those that are not consequences of others; TOPIC|KIND: only consequences of this alarm
        cause: Option<CauseAsked>,
        /// worst: unacknowledged, then active, then the most urgent, the newest first; time: the newest first
        order: Word<AlarmOrder> = "worst",
        /// The member next of the page before
        after: Option<AlarmPlace>,
        /// Entries of the page
        limit: Whole<1, 10_000> = "1000",
    }
}

/// Some states.
#[derive(Debug)]
pub struct States(Vec<State>);

impl Parameter for States {
    fn read(text: &str) -> Result<Self, Fault> {
        let states = text.split(',').map(State::of_word).collect::<Option<_>>();
        let words = || State::words().collect::<Vec<_>>().join(", ");
        states.map(Self).ok_or_else(|| Fault::Expected(format!("states of {}, separated by commas", words())))
    }

    fn schema() -> serde_json::Value {
        let words = State::words().collect::<Vec<_>>().join("|");
        serde_json::json!({ "type": "string", "pattern": format!("^({words})(,({words}))*$") })
    }
}

/// Whose consequences are asked for.
#[derive(Debug)]
pub enum CauseAsked {
    /// Alarms that are no consequences.
    None,
    /// Consequences of this alarm.
    Of(AlarmId),
}

impl Parameter for CauseAsked {
    fn read(text: &str) -> Result<Self, Fault> {
        if text == "none" {
            return Ok(Self::None);
        }
        let named = text.rsplit_once('|').and_then(|(topic, kind)| {
            let (topic, kind) = (Topic::new(topic).ok()?, Kind::of_word(kind)?);
            Some(AlarmId { topic, kind })
        });
        named.map(Self::Of).ok_or_else(|| Fault::Expected("none, or an alarm as in site/relay1|away".to_owned()))
    }

    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "pattern": "^(none|.+[|][a-z_]+)$" })
    }
}

/// Alarms that are not normal
#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Alarms")]
pub struct AlarmList {
    alarms: Vec<AlarmShown>,
    /// What to ask for the next page with, as `after`; null where there are no more
    next: Option<String>,
}

/// A page of the alarms that the caller may read.
pub async fn list(
    authenticated: Authenticated,
    Query(asked): Query<AlarmsAsked>,
) -> Result<Answer<AlarmList>, Problem> {
    let authorized = authenticated.each();
    let caller = authorized.caller.clone();
    let take = move |page: &mut Page, alarm: Alarm| {
        if caller.may(Verb::Read, &alarm.record.id.topic) {
            page.take(alarm);
        }
    };
    let (alarms, next) = walk(&authorized, Page::new(asked), take, |page, _| page.finish()).await?;
    let next = next.map(|place| place.to_string());
    Ok(Answer(AlarmList { alarms: alarms.iter().map(AlarmShown::of).collect(), next }))
}

/// The first alarms of those that are asked for.
struct Page {
    asked: AlarmsAsked,
    first: BTreeMap<AlarmPlace, Alarm>,
    is_more: bool,
}

impl Page {
    const fn new(asked: AlarmsAsked) -> Self {
        Self { asked, first: BTreeMap::new(), is_more: false }
    }

    fn take(&mut self, alarm: Alarm) {
        if !self.asked.selects(&alarm) {
            return;
        }
        let place = AlarmPlace::of(self.asked.order.0, &alarm);
        if self.asked.after.as_ref().is_some_and(|after| place <= *after) {
            return;
        }
        self.first.insert(place, alarm);
        if self.first.len() > self.asked.limit.0 {
            self.first.pop_last();
            self.is_more = true;
        }
    }

    /// The alarms in order, and the place of the last where there are more.
    fn finish(self) -> (Vec<Alarm>, Option<AlarmPlace>) {
        let next = self.first.last_key_value().filter(|_| self.is_more).map(|(place, _)| place.clone());
        (self.first.into_values().collect(), next)
    }
}

impl AlarmsAsked {
    fn selects(&self, alarm: &Alarm) -> bool {
        let Alarm { record, rule, .. } = alarm;
        let of_cause = match &self.cause {
            None => true,
            Some(CauseAsked::None) => record.cause.is_none(),
            Some(CauseAsked::Of(cause)) => record.cause.as_ref() == Some(cause),
        };
        of_cause
            && self.filter.matches_all_or(&record.id.topic)
            && self.priority.as_ref().is_none_or(|Word(least)| rule.priority <= *least)
            && self.state.as_ref().is_none_or(|States(states)| states.contains(&record.flags.state()))
            && self.group.as_ref().is_none_or(|group| **group == *rule.group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_alarms::{Alarms, PlaceName, Rules, Settings};
    use tieline_core::{Instant, Now, Point, Timestamp, Value};
    use tieline_service::http::parameters::Parameters;

    const RULES: &str =
        "topic,kind,limit,priority,group\na/+,high,10,high,one\nb/+,high,10,critical,two\n+,away,,low,one\n";

    /// b/1 (critical), a/1 and a/2 (high), the newest last, and b, away, whose consequence b/1 is not: it came long after it.
    fn engine() -> Alarms {
        let mut alarms = Alarms::new(Settings::default(), Rules::parse(RULES, 10, false).unwrap());
        let at = |seconds: u64| Now {
            mono: Instant(seconds * 1_000_000_000),
            utc: Timestamp::from_micros(i64::try_from(seconds * 1_000_000).unwrap()),
        };
        alarms.set_places(at(0), &["a", "b"].map(|name| PlaceName { name: Topic::new(name).unwrap(), parent: None }));
        for (seconds, topic) in [(10, "b/1"), (20, "a/1"), (30, "a/2")] {
            let topic = Topic::new(topic).unwrap();
            let input = alarms.declare(at(seconds), &topic).unwrap();
            alarms.handle_point(at(seconds), input, &Point { value: Value::Float(11.0), ..Point::default() });
        }
        alarms.handle_presence(at(40), "b", false);
        alarms
    }

    fn topics(query: &[(&str, &str)], may_read: impl Fn(&str) -> bool) -> (Vec<String>, Option<String>) {
        let pairs: Vec<_> = query.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let asked = AlarmsAsked::read("parameter", &pairs).unwrap();
        let mut page = Page::new(asked);
        engine().alarms().filter(|alarm| may_read(&alarm.record.id.topic)).for_each(|alarm| page.take(alarm));
        let (alarms, next) = page.finish();
        let topics = alarms.iter().map(|alarm| alarm.record.id.topic.to_string()).collect();
        (topics, next.map(|place| place.to_string()))
    }

    #[test]
    fn alarms_are_selected_and_the_worst_come_first() {
        let check = |query: &[(&str, &str)], expect: &[&str]| {
            assert_eq!(topics(query, |_| true).0, expect, "{query:?}");
        };
        check(&[], &["b/1", "a/2", "a/1", "b"]);
        check(&[("order", "time")], &["b", "a/2", "a/1", "b/1"]);
        check(&[("filter", "a/#")], &["a/2", "a/1"]);
        check(&[("priority", "critical")], &["b/1"]);
        check(&[("priority", "high")], &["b/1", "a/2", "a/1"]);
        check(&[("group", "two")], &["b/1"]);
        check(&[("state", "acknowledged,shelved")], &[]);
        check(&[("state", "unacknowledged,shelved"), ("group", "one")], &["a/2", "a/1", "b"]);
        check(&[("cause", "none"), ("filter", "b/#")], &["b/1", "b"]);
        check(&[("cause", "b|away")], &[]);
    }

    #[test]
    fn alarms_of_other_topics_are_left_out_and_pages_go_on() {
        assert_eq!(topics(&[], |topic| topic.starts_with("a/")).0, ["a/2", "a/1"]);
        let (mut all, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut query = vec![("limit", "1")];
            query.extend(after.as_deref().map(|after| ("after", after)));
            let (page, next) = topics(&query, |_| true);
            all.extend(page);
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(all, ["b/1", "a/2", "a/1", "b"]);
    }

    #[test]
    fn wrong_parameters_say_what_was_expected() {
        for (name, text, words) in [
            ("state", "active", "expected states of out_of_service"),
            ("cause", "site/a", "expected none, or an alarm as in site/relay1|away"),
            ("after", "x", "expected the member next of a page"),
            ("priority", "urgent", "expected one of critical"),
        ] {
            let error = AlarmsAsked::read("parameter", &[(name.to_owned(), text.to_owned())]).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
