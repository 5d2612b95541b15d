//! What rules of retention hold, and what came of them.

use crate::columns::policy::{Action, Plan, Policy, get_filters, get_rule};
use crate::columns::reader::HistoryReader;
use crate::store::{Rule, Stage};
use std::collections::HashMap;
use std::time::Duration;
use tieline_core::{Filter, Timestamp, Topic};
use tieline_store::{RuleCounts, RuleRow, StoreError};

/// Samples and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// How many samples.
    pub samples: u64,
    /// Bytes that they take.
    pub bytes: u64,
}

/// A rule of retention: what it says, what it holds and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleStats {
    /// Its topics; none of the last, which is of all others.
    pub topics: Vec<Filter>,
    /// Older samples are removed.
    pub keep: Option<Duration>,
    /// How many topics have samples.
    pub topic_count: u64,
    /// What it holds as it was recorded.
    pub recorded: Held,
    /// What it holds of each stage.
    pub stages: Vec<(Stage, Held)>,
    /// Of what it holds: what is to be removed or down-sampled, as days are old enough.
    pub due: Held,
    /// Samples that were removed.
    pub removed: u64,
    /// Samples in the place of which others stand.
    pub downsampled: u64,
}

impl Held {
    const fn add(&mut self, other: Self) {
        self.samples += other.samples;
        self.bytes += other.bytes;
    }
}

impl HistoryReader {
    /// What the rules of retention hold of topics, at a time; none where the store has no rules.
    pub(crate) fn rule_stats(&self, topics: &[(u32, Topic)], now: Timestamp) -> Result<Vec<RuleStats>, StoreError> {
        let rows = self.index.rules()?;
        if rows.len() < 2 {
            return Ok(Vec::new());
        }
        let plans: HashMap<i32, Plan> =
            self.index.plans()?.into_iter().map(|(day, text)| (day, Plan::read(&text))).collect();
        let (policy, mut stats) = read(&rows);
        for (number, topic) in topics {
            let sums = self.index.day_sums(*number)?;
            let Some(rule) = stats.get_mut(policy.place(topic)).filter(|_| !sums.is_empty()) else { continue };
            rule.topic_count += 1;
            for sums in sums {
                let held = Held { samples: sums.samples, bytes: sums.bytes };
                let done = plans.get(&sums.day).filter(|_| sums.is_closed).map(|plan| plan.action(topic).1);
                let (done, (_, due)) = (done.unwrap_or_default(), policy.due(sums.day, now).action(topic));
                if due == Action::Remove || due.is_behind(done) {
                    rule.due.add(held);
                }
                rule.held(done).add(held);
            }
        }
        Ok(stats)
    }
}

impl RuleStats {
    /// Where samples are counted to which that was done.
    fn held(&mut self, done: Action) -> &mut Held {
        let Action::Downsample(every, keep) = done else { return &mut self.recorded };
        let is = |stage: &Stage| stage.keep == keep && i64::try_from(stage.every.as_micros()) == Ok(every);
        match self.stages.iter_mut().find(|(stage, _)| is(stage)) {
            Some((_, held)) => held,
            // Of a rule that was changed since.
            None => &mut self.recorded,
        }
    }
}

fn read(rows: &[RuleRow]) -> (Policy, Vec<RuleStats>) {
    let mut policy = Policy::default();
    let (mut rules, mut stats) = (Vec::new(), Vec::new());
    for RuleRow { topics, rule, counts } in rows {
        let RuleCounts { removed, downsampled } = *counts;
        let (topics, (keep, downsample)) = (get_filters(topics), get_rule(rule));
        let stages = downsample.iter().map(|stage| (*stage, Held::default())).collect();
        stats.push(RuleStats { topics: topics.clone(), keep, stages, removed, downsampled, ..RuleStats::default() });
        rules.push(Rule { topics, keep, downsample });
    }
    policy.others = rules.pop().and_then(|others| others.keep);
    policy.rules = rules.into();
    (policy, stats)
}
