//! The conditions of the node itself: a look at all of them once a second. What has changed is published below `$SYS/conditions/`,
//! recorded, and goes into the alarms like any value.
//!
//! A condition that is not known has a value without a quality: it neither raises an alarm nor lets one return. One that does not
//! apply, as that of a database that is no longer configured, has no topic.

use super::super::ledger::LedgerState;
use super::super::state::Bus;
use crate::access::Authenticator;
use crate::bus::MirrorSeen;
use crate::cluster::ClusterSeen;
use crate::edge::LinkState;
use crate::sites::{FabricLink, SiteSeen, SitesBoard};
use crate::wall_clock::WallClock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_alarms::{CONDITIONS, Condition};
use tieline_core::{Body, Instant, Now, Point, Quality, Timestamp, Topic, Update, Value, Words as _};
use tieline_history::{DatabaseStatus, HistoryState};
use tieline_net::tls::Expiry;
use tieline_senders::ReceiverState;
use tieline_transport::CertificateCache;

/// How often the node looks at itself.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often counts of what is lost are said: each time is a row of the journal.
const LOST_EVERY: Duration = Duration::from_secs(60);
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// What the bus does not have itself.
#[derive(Debug)]
pub struct Outside {
    /// Whether the wall clock is believed.
    pub wall: WallClock,
    /// TLS files in use.
    pub certificates: Arc<CertificateCache>,
    /// Where users are checked.
    pub authenticator: Option<Authenticator>,
    /// What is shown of sites and the centre.
    pub sites: Arc<SitesBoard>,
    /// Logins of the user for emergencies; none where there is no such user.
    pub break_glass: Option<Arc<AtomicU64>>,
}

/// What was said of the node.
#[derive(Debug, Default)]
pub struct Conditions {
    outside: Option<Outside>,
    /// The next look.
    due: Instant,
    /// When counts of what is lost are said again.
    lost_due: Instant,
    said: Found,
    /// Whether conditions of before the start that do not apply any more are gone.
    has_cleared: bool,
}

/// What a look has found: each condition with its value, none where it is not known.
#[derive(Debug, Default, PartialEq)]
struct Found(BTreeMap<Topic, Option<Value>>);

impl Conditions {
    /// A look is due: other conditions may be alarmed.
    pub(super) const fn look_again(&mut self) {
        self.due = Instant::ZERO;
    }
}

impl Bus {
    /// From here on, the node looks at itself, where its alarms are to know of it.
    pub fn set_outside(&mut self, outside: Outside) {
        self.conditions.outside = Some(outside);
    }

    /// Looks at the node, where that is due.
    pub(super) fn look_at_conditions(&mut self, now: Now) {
        let Some(alarming) = self.alarming.as_ref().filter(|_| self.conditions.due <= now.mono) else { return };
        let Some(outside) = &self.conditions.outside else { return };
        let mut found = if alarming.with_conditions { self.find_conditions(now, outside) } else { Found::default() };
        self.conditions.due = now.mono + LOOK_EVERY;
        if self.conditions.lost_due <= now.mono {
            self.conditions.lost_due = now.mono + LOST_EVERY;
        } else {
            found.keep_lost(&self.conditions.said);
        }
        let gone: Vec<Topic> =
            self.conditions.said.0.keys().filter(|topic| !found.0.contains_key(*topic)).cloned().collect();
        for topic in gone {
            self.apply_node(now, topic, Body::empty(), true);
        }
        let is_new = |(topic, value): &(&Topic, &Option<Value>)| self.conditions.said.0.get(*topic) != Some(*value);
        let changed: Vec<_> =
            found.0.iter().filter(is_new).map(|(topic, value)| (topic.clone(), value.clone())).collect();
        for (topic, value) in changed {
            self.say_condition(now, topic, value);
        }
        if !std::mem::replace(&mut self.conditions.has_cleared, true) {
            self.clear_conditions(now, &found);
        }
        self.conditions.said = found;
    }

    /// When the next look is due.
    pub(super) fn conditions_timeout(&self) -> Option<Instant> {
        let is_on = self.alarming.as_ref().is_some_and(|alarming| alarming.with_conditions);
        (is_on && self.conditions.outside.is_some()).then_some(self.conditions.due)
    }

    fn say_condition(&mut self, now: Now, topic: Topic, value: Option<Value>) {
        let is_known = value.is_some();
        let quality = if is_known { Quality::GOOD } else { Quality::INITIAL };
        let body = Body::Point(Point { value: value.unwrap_or(Value::Null), quality, time: now.utc });
        if is_known {
            let time = self.recorder.own_time(now);
            self.recorder.record_own(time, Update { topic: topic.clone(), body: body.clone() });
        }
        self.apply_node(now, topic, body, true);
    }

    /// Takes away alarms of before the start whose conditions do not apply any more: no value would let them return.
    fn clear_conditions(&mut self, now: Now, found: &Found) {
        let Some(alarming) = self.alarming.as_deref_mut() else { return };
        let topics = alarming.engine.alarms().map(|alarm| alarm.record.id.topic);
        let gone: Vec<_> =
            topics.filter(|topic| topic.starts_with(CONDITIONS) && !found.0.contains_key(topic)).collect();
        for topic in gone {
            alarming.engine.remove(now, &topic);
        }
    }

    fn find_conditions(&self, now: Now, outside: &Outside) -> Found {
        let mut found = Found::default();
        let (history, ledger) = (self.recorder.status(), self.ledger_status(now));
        found.add_disk(history.as_ref().map(|status| &status.state), &ledger.state);
        found.add(Condition::LedgerDamaged, "", (ledger.state != LedgerState::Off).then_some(ledger.lost.is_some()));
        found.add(Condition::Audit, "", Some(self.commands.audit_trouble().is_some()));
        found.add(Condition::Clock, "", Some(outside.wall.doubt().is_some()));
        let users = outside.authenticator.as_ref().map(|users| users.trouble().is_some());
        found.add(Condition::Users, "", users);
        found.add_certificates(now.utc, &outside.certificates.expiries(), outside.certificates.has_unread());
        history.iter().flat_map(|status| &status.databases).for_each(|status| found.add_database(status));
        if let Some(desk) = self.notifying.desk() {
            desk.counts().receivers().iter().for_each(|(name, state)| found.add_receiver(name, state));
        }
        if let Some(site) = outside.sites.site() {
            found.add_site(&site);
        }
        found.add(Condition::Servers, "", outside.sites.link_of_centre().map(|link| link != FabricLink::Up));
        if let Some(core) = &self.statistics.cluster {
            found.add_members(&core.look());
        }
        self.mirrors_seen().iter().for_each(|mirror| found.add_upstream(mirror));
        let logins = outside.break_glass.as_ref().map(|count| whole(count.load(Ordering::Relaxed)));
        found.add(Condition::BreakGlass, "", logins);
        found
    }
}

impl Found {
    /// A condition that applies, and is known.
    fn add(&mut self, condition: Condition, of: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.put(condition, of, Some(value.into()));
        }
    }

    /// Leaves counts of what is lost as they were said.
    fn keep_lost(&mut self, said: &Self) {
        let lost = [Condition::DatabaseLost, Condition::CentreLost];
        let is_lost = |topic: &Topic| {
            let word = topic.strip_prefix(CONDITIONS).and_then(|rest| rest.split('/').next());
            word.and_then(Condition::of_word).is_some_and(|condition| lost.contains(&condition))
        };
        for (topic, value) in self.0.iter_mut().filter(|(topic, _)| is_lost(topic)) {
            if let Some(before) = said.0.get(topic) {
                value.clone_from(before);
            }
        }
    }

    fn put(&mut self, condition: Condition, of: &str, value: Option<Value>) {
        if let Some(topic) = condition.topic(of) {
            self.0.insert(topic, value);
        }
    }

    fn add_disk(&mut self, history: Option<&HistoryState>, ledger: &LedgerState) {
        let history = history.map(|state| match state {
            HistoryState::Ok | HistoryState::CatchingUp => (false, false),
            HistoryState::DiskFull => (true, false),
            HistoryState::Hung { .. } | HistoryState::Failed { .. } => (false, true),
        });
        let ledger = match ledger {
            LedgerState::Off => None,
            LedgerState::Good | LedgerState::Mending => Some((false, false)),
            LedgerState::Failing { full: true, .. } => Some((true, false)),
            LedgerState::Failing { full: false, .. } | LedgerState::Hung { .. } => Some((false, true)),
        };
        let is_full =
            [history, ledger].into_iter().flatten().map(|(is_full, _)| is_full).reduce(|one, other| one || other);
        self.add(Condition::Disk, "", is_full);
        self.add(Condition::History, "", history.map(|(_, has_failed)| has_failed));
        self.add(Condition::Ledger, "", ledger.map(|(_, has_failed)| has_failed));
    }

    /// Whole days of each file, until the first of its certificates ends.
    fn add_certificates(&mut self, now: Timestamp, expiries: &[Expiry], has_unread: bool) {
        let mut files = BTreeMap::new();
        for Expiry { file, not_after, .. } in expiries {
            let days = (not_after.millis() - now.millis()).div_euclid(DAY_MS);
            files
                .entry(file.display().to_string())
                .and_modify(|least: &mut i64| *least = days.min(*least))
                .or_insert(days);
        }
        for (file, days) in files {
            self.add(Condition::Certificate, &file, Some(Value::Int(days)));
        }
        self.add(Condition::CertificateFiles, "", (!expiries.is_empty()).then_some(has_unread));
    }

    fn add_database(&mut self, status: &DatabaseStatus) {
        let is_away = match (&status.trouble, status.position) {
            (Some(_), _) => Some(true),
            (None, Some(_)) => Some(false),
            (None, None) => None,
        };
        self.put(Condition::Database, &status.name, is_away.map(Value::Bool));
        let lost = whole(status.missing_records.saturating_add(status.given_up_records));
        self.add(Condition::DatabaseLost, &status.name, Some(lost));
    }

    /// Of a receiver that was not tried yet nothing is known.
    fn add_receiver(&mut self, name: &str, state: &ReceiverState) {
        let is_tried = state.failure.is_some() || state.delivered.is_some();
        self.put(Condition::Receiver, name, is_tried.then_some(Value::Bool(state.failing_since.is_some())));
    }

    fn add_site(&mut self, site: &SiteSeen) {
        let is_up = site.link == FabricLink::Up;
        self.add(Condition::Centre, "", Some(!is_up));
        self.add(Condition::CentreLost, "", Some(whole(site.lost)));
        // Tenths of a second: it is not to change with each measurement.
        let offset = site.clock_offset.filter(|_| is_up).map(|(micros, _)| Value::Float(tenths(micros.unsigned_abs())));
        self.put(Condition::ClockOffset, "", offset);
    }

    fn add_members(&mut self, core: &ClusterSeen) {
        for (name, member) in &core.members {
            self.add(Condition::Standby, name, Some(!member.is_heard()));
        }
    }

    fn add_upstream(&mut self, mirror: &MirrorSeen) {
        let is_up = matches!(mirror.link.0, LinkState::Up { .. });
        self.add(Condition::Upstream, &mirror.name, Some(!is_up));
    }
}

fn whole(count: u64) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

fn tenths(micros: u64) -> f64 {
    f64::from(u32::try_from(micros / 100_000).unwrap_or(u32::MAX)) / 10.0
}

#[cfg(test)]
mod tests;
