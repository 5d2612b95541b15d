//! Topics of alarms, `$alarms/TOPIC/KIND`: the rights to one are those to `TOPIC`, and no rule about `$alarms/…` changes them.
//!
//! `$alarms/x`, which has one level below the prefix and is no alarm, counts as one of `x`.

use crate::pattern::Level;
use crate::{Effect, Names, Reach, Rule, Verb};
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::Filter;

const PREFIX: &str = "$alarms/";

/// The topic that the rules are asked about.
pub(crate) fn decisive(topic: &str) -> &str {
    match topic.strip_prefix(PREFIX) {
        Some(rest) => rest.rsplit_once('/').map_or(rest, |(alarmed, _)| alarmed),
        None => topic,
    }
}

/// What a filter of topics of alarms selects, as filters of the alarmed topics.
#[derive(Debug)]
pub(crate) struct Alarmed {
    filters: Vec<Filter>,
    /// Whether it selects alarms of topics that begin with `$` besides, which the filters, beginning with a wildcard, do not.
    with_hidden: bool,
}

impl Alarmed {
    /// None where a filter does not begin with the prefix.
    pub(crate) fn of(filter: &Filter) -> Option<Self> {
        let rest = filter.strip_prefix(PREFIX)?;
        let texts = match rest.rsplit_once('/') {
            None => [Some(rest.into()), None],
            // `a/b/#` selects `a/b` too, which is the alarm `b` of `a`.
            Some((head, "#")) => {
                let alarm = head.rsplit_once('/').map(|(alarmed, _)| String::from(alarmed));
                [Some(String::from(rest)), Some(alarm.unwrap_or_else(|| head.into()))]
            }
            Some((alarmed, _)) => [Some(alarmed.into()), None],
        };
        let filters = texts.into_iter().flatten().filter_map(|text| Filter::new(&text).ok()).collect();
        Some(Self { filters, with_hidden: rest.starts_with(['+', '#']) })
    }

    /// What is known of each of its filters, together; `rules` are all rules.
    pub(crate) fn reach<'a>(
        &self,
        verb: Verb,
        rules: impl IntoIterator<Item = &'a Rule>,
        of: impl FnMut(&Filter) -> Reach,
    ) -> Reach {
        let reaches = self.filters.iter().map(of);
        let reach = reaches.reduce(|all, one| if all == one { all } else { Reach::Some }).unwrap_or(Reach::Nothing);
        if !self.with_hidden || reach == Reach::Some {
            return reach;
        }
        let hidden = |rule: &Rule| rule.pattern.levels().first().is_some_and(is_hidden);
        let allows = |rule: &Rule| rule.effect == Effect::Allow && rule.verbs.contains(verb) && hidden(rule);
        // No rules allow all topics that begin with `$`.
        let some = reach == Reach::All || rules.into_iter().any(allows);
        if some { Reach::Some } else { Reach::Nothing }
    }

    /// How much of it a rule selects.
    pub(crate) fn selected(&self, rule: &Rule, names: Names<'_>) -> Reach {
        let hidden = self.with_hidden && rule.pattern.levels().first().is_some_and(is_hidden);
        let covered = !self.with_hidden && self.filters.iter().all(|filter| rule.pattern.covers(filter, names));
        match () {
            () if covered => Reach::All,
            () if hidden || self.filters.iter().any(|filter| rule.pattern.meets(filter, names)) => Reach::Some,
            () => Reach::Nothing,
        }
    }
}

fn is_hidden(level: &Level) -> bool {
    matches!(level, Level::Literal(text) if text.starts_with('$'))
}
