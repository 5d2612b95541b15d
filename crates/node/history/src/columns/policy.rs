//! How long samples are kept and how many of them, topic by topic: what is due for a day, and what it went through.
//!
//! ```text
//! rules ─ a day, the time ─▶ Plan: for each rule what is due ─ a topic, by the first rule that matches ─▶ Action
//!                              └ as text in the index, once the day went through it
//! ```
//!
//! A stage is due for a whole day: when the end of the day is old enough.

use crate::store::{Rule, Stage};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Timestamp, Topic, Words as _};
use tieline_series::Keep;
use tieline_store::{DAY_US, RuleRow};

/// How long after samples are too old the files are looked at that have them: they have left the index by then.
const REMOVED_AFTER: Duration = Duration::from_secs(120);

/// What is done with samples of a topic of one day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    #[default]
    None,
    /// Fewer stand for them, one value or the extremes for so many microseconds.
    Downsample(i64, Keep),
    /// They are removed.
    Remove,
}

/// All rules, and what holds for topics that none matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) rules: Arc<[Rule]>,
    pub(crate) others: Option<Duration>,
}

/// What is due for a day, rule by rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    rules: Vec<(Action, Vec<Filter>)>,
    others: Action,
}

/// Before which time samples are too old, topic by topic.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cutoffs {
    policy: Policy,
    /// By the places of rules; the last is of all others.
    by_age: Vec<Option<Timestamp>>,
    /// Of all topics.
    floor: Option<Timestamp>,
}

impl Action {
    /// Whether a day is to be written again, for a topic to which another was done.
    pub(crate) fn is_behind(self, applied: Self) -> bool {
        match (self, applied) {
            (Self::Downsample(every, keep), Self::Downsample(done, kept)) => every > done || keep != kept,
            (Self::Downsample(..), Self::None | Self::Remove) => true,
            // What is too old leaves the index by itself; its bytes are looked at.
            (Self::None | Self::Remove, _) => false,
        }
    }

    fn word(self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Downsample(every, keep) => format!("{} {every}", keep.word()),
            Self::Remove => "remove".to_owned(),
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "none" => Some(Self::None),
            "remove" => Some(Self::Remove),
            word => {
                let (name, every) = word.split_once(' ')?;
                Some(Self::Downsample(every.parse().ok()?, Keep::of_word(name)?))
            }
        }
    }
}

/// Filters as one line, in which none has a tab.
pub(crate) fn put_filters(filters: &[Filter]) -> String {
    let escape = |filter: &Filter| filter.replace('%', "%25").replace('\t', "%09").replace('\n', "%0a");
    filters.iter().map(escape).collect::<Vec<_>>().join("\t")
}

pub(crate) fn get_filters(line: &str) -> Vec<Filter> {
    let plain = |part: &str| part.replace("%0a", "\n").replace("%09", "\t").replace("%25", "%");
    line.split('\t').filter_map(|part| Filter::new(&plain(part)).ok()).collect()
}

/// What a rule says, as text for the index.
pub(crate) fn put_rule(keep: Option<Duration>, stages: &[Stage]) -> String {
    let micros = |time: Duration| super::micros(time).to_string();
    let stage = |stage: &Stage| format!("{} {} {}", micros(stage.after), micros(stage.every), stage.keep.word());
    let keep = keep.map_or("-".to_owned(), micros);
    std::iter::once(keep).chain(stages.iter().map(stage)).collect::<Vec<_>>().join("\t")
}

/// Reads it.
pub(crate) fn get_rule(line: &str) -> (Option<Duration>, Vec<Stage>) {
    let time = |word: &str| word.parse().ok().map(Duration::from_micros);
    let stage = |part: &str| {
        let mut words = part.split(' ');
        Some(Stage { after: time(words.next()?)?, every: time(words.next()?)?, keep: Keep::of_word(words.next()?)? })
    };
    let mut parts = line.split('\t');
    (parts.next().and_then(time), parts.filter_map(stage).collect())
}

/// The rules that the index has, without how long samples are kept: that is for a node to say.
pub(crate) fn noted(rows: &[RuleRow]) -> Arc<[Rule]> {
    let rules = rows.iter().take(rows.len().saturating_sub(1));
    let rule = |row: &RuleRow| Rule { topics: get_filters(&row.topics), keep: None, downsample: get_rule(&row.rule).1 };
    rules.map(rule).collect()
}

impl Policy {
    /// The place of the first rule that matches a topic; that of all others is behind the last.
    pub(crate) fn place(&self, topic: &str) -> usize {
        place(self.rules.iter().map(|rule| rule.topics.as_slice()), topic).unwrap_or(self.rules.len())
    }

    /// How long samples are kept, by the places of rules.
    fn ages(&self) -> impl Iterator<Item = Option<Duration>> {
        self.rules.iter().map(|rule| rule.keep).chain([self.others])
    }

    /// Whether age removes anything.
    pub(crate) fn has_age(&self) -> bool {
        self.ages().any(|age| age.is_some())
    }

    /// What is due for a day.
    pub(crate) fn due(&self, day: i32, now: Timestamp) -> Plan {
        let end = i64::from(day).saturating_add(1).saturating_mul(DAY_US);
        let is_due = |after: Duration| end.saturating_add(super::micros(after)) <= now.micros();
        let action = |keep: Option<Duration>, stages: &[Stage]| {
            if keep.is_some_and(|keep| is_due(keep.saturating_add(REMOVED_AFTER))) {
                return Action::Remove;
            }
            let last = stages.iter().rev().find(|stage| is_due(stage.after));
            last.map_or(Action::None, |stage| Action::Downsample(super::micros(stage.every), stage.keep))
        };
        let rules = self.rules.iter().map(|rule| (action(rule.keep, &rule.downsample), rule.topics.clone()));
        Plan { rules: rules.collect(), others: action(self.others, &[]) }
    }

    /// Rules as the index has them.
    pub(crate) fn words(&self) -> Vec<(String, String)> {
        let rule = |rule: &Rule| (put_filters(&rule.topics), put_rule(rule.keep, &rule.downsample));
        self.rules.iter().map(rule).chain([(String::new(), put_rule(self.others, &[]))]).collect()
    }

    /// What is too old at a time.
    pub(crate) fn cutoffs(&self, now: Timestamp, floor: Option<Timestamp>) -> Cutoffs {
        let before = |age: Duration| Timestamp::from_micros(now.micros().saturating_sub(super::micros(age)));
        Cutoffs { policy: self.clone(), by_age: self.ages().map(|age| age.map(before)).collect(), floor }
    }
}

impl Cutoffs {
    /// Samples of all topics are too old before a time.
    pub(crate) fn raise_floor(&mut self, floor: Option<Timestamp>) {
        self.floor = self.floor.max(floor);
    }

    /// Before which time samples of all topics are too old because of the size of the store.
    pub(crate) const fn floor(&self) -> Option<Timestamp> {
        self.floor
    }

    /// Before which time samples of topics of a rule are too old.
    pub(crate) fn at(&self, place: usize) -> Option<Timestamp> {
        self.by_age.get(place).copied().flatten().max(self.floor)
    }

    /// The same of a topic.
    pub(crate) fn of(&self, topic: &str) -> Option<Timestamp> {
        self.at(self.policy.place(topic))
    }

    /// After which time samples of no topic are too old.
    pub(crate) fn highest(&self) -> Option<Timestamp> {
        self.by_age.iter().copied().max().flatten().max(self.floor)
    }

    /// Before which time samples of all topics are too old.
    pub(crate) fn lowest(&self) -> Option<Timestamp> {
        // None is lower than any time.
        self.by_age.iter().copied().min().flatten().max(self.floor)
    }
}

impl Plan {
    /// Whether it leaves everything as it is.
    pub(crate) fn is_empty(&self) -> bool {
        self.others == Action::None && self.rules.iter().all(|(action, _)| *action == Action::None)
    }

    /// Whether samples may be replaced by fewer.
    pub(crate) fn downsamples(&self) -> bool {
        self.rules.iter().any(|(action, _)| matches!(action, Action::Downsample(..)))
    }

    /// The number of rules, with that of all others.
    pub(crate) const fn len(&self) -> usize {
        self.rules.len() + 1
    }

    /// What is due for a topic, and the place of its rule.
    pub(crate) fn action(&self, topic: &Topic) -> (usize, Action) {
        let place = place(self.rules.iter().map(|(_, filters)| filters.as_slice()), topic);
        let found = place.and_then(|place| Some((place, self.rules.get(place)?.0)));
        found.unwrap_or((self.rules.len(), self.others))
    }

    /// The plan as text; that of one that leaves everything as it is is empty.
    pub(crate) fn text(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let rule = |(action, filters): &(Action, Vec<Filter>)| format!("{}\t{}", action.word(), put_filters(filters));
        self.rules.iter().map(rule).chain([self.others.word()]).collect::<Vec<_>>().join("\n")
    }

    /// Reads a plan; of what is none, one that leaves everything as it is.
    pub(crate) fn read(text: &str) -> Self {
        let mut plan = Self::default();
        for line in text.lines() {
            match line.split_once('\t') {
                Some((word, filters)) => {
                    plan.rules.push((Action::from_word(word).unwrap_or_default(), get_filters(filters)));
                }
                None => plan.others = Action::from_word(line).unwrap_or_default(),
            }
        }
        plan
    }
}

fn place<'f>(rules: impl Iterator<Item = &'f [Filter]>, topic: &str) -> Option<usize> {
    let mut rules = rules;
    rules.position(|filters| filters.iter().any(|filter| filter.matches(topic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(all: &[&str]) -> Vec<Filter> {
        all.iter().map(|filter| Filter::new(filter).unwrap()).collect()
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        let stage = |after, every, keep| Stage { after: hours(after), every: Duration::from_secs(every), keep };
        let fast = Rule {
            topics: filters(&["plant/+/vibration/#", "100%/a b"]),
            keep: Some(hours(24 * 30)),
            downsample: vec![stage(48, 60, Keep::Mean), stage(24 * 14, 900, Keep::Extremes)],
        };
        let kept = Rule { topics: filters(&["plant/#"]), keep: None, downsample: Vec::new() };
        let policy = Policy { rules: vec![fast, kept].into(), others: Some(hours(24 * 90)) };
        let at = |days: i64| Timestamp::from_micros(days * DAY_US);
        let actions = |plan: &Plan| {
            let action = |topic: &str| plan.action(&Topic::new(topic).unwrap());
            [action("plant/1/vibration/x"), action("plant/1/p"), action("other")]
        };
        let check = |days, of_fast: Action, others: Action| {
            let plan = policy.due(0, at(days).later(REMOVED_AFTER));
            assert_eq!(actions(&plan), [(0, of_fast), (1, Action::None), (2, others)], "{days}");
            let read = Plan::read(&plan.text());
            assert_eq!(read == plan, !plan.is_empty(), "{days}");
            assert_eq!(actions(&read).map(|(_, action)| action), actions(&plan).map(|(_, action)| action));
        };
        // A day is old enough by its end.
        check(2, Action::None, Action::None);
        check(3, Action::Downsample(60_000_000, Keep::Mean), Action::None);
        check(15, Action::Downsample(900_000_000, Keep::Extremes), Action::None);
        check(31, Action::Remove, Action::None);
        check(91, Action::Remove, Action::Remove);
        for (topics, rule) in policy.words() {
            assert_eq!(put_filters(&get_filters(&topics)), topics);
            let (keep, stages) = get_rule(&rule);
            assert_eq!(put_rule(keep, &stages), rule);
        }
        let cutoffs = policy.cutoffs(at(100), None);
        let of = |topic| cutoffs.of(topic);
        assert_eq!((of("plant/1/vibration/x"), of("plant/1/p"), of("other")), (Some(at(70)), None, Some(at(10))));
        assert_eq!((cutoffs.lowest(), policy.cutoffs(at(100), Some(at(1))).lowest()), (None, Some(at(1))));
    }
}
