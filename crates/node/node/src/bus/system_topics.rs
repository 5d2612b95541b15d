//! `$SYS`: what the node counts, as topics. Names below `$SYS/broker` are those of Mosquitto, for tools that know them;
//! those below `$SYS/node` are ours. A value is published when it has changed.

use super::process::Usage;
use super::state::Bus;
use super::statistics::MINUTES;
use bytes::Bytes;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tieline_alarms::Priority;
use tieline_core::{Body, Instant, Now, Topic, Words as _};

/// What there are moving averages of.
pub const LOADS: [&str; 9] = [
    "messages/received",
    "messages/sent",
    "publish/received",
    "publish/sent",
    "publish/dropped",
    "bytes/received",
    "bytes/sent",
    "sockets",
    "connections",
];

/// Names below `$SYS` with their values.
type Values = Vec<(String, String)>;

impl Bus {
    /// Publishes what has changed.
    pub(super) fn publish_sys(&mut self, now: Now, passed: Duration) {
        self.look_at_loads(passed);
        let mut values = self.broker_values(now.mono);
        values.extend(self.node_values(now.mono));
        values.extend(self.cluster_values());
        values.extend(self.alarm_values());
        for (load, name) in self.statistics.loads.iter().zip(LOADS) {
            let averages = load.per_minute.iter().zip(MINUTES);
            let named = |(average, minutes)| (format!("broker/load/{name}/{minutes}min"), format!("{average:.2}"));
            values.extend(averages.map(named));
        }
        for (name, value) in values {
            if self.statistics.shown.get(&name) == Some(&value) {
                continue;
            }
            let Ok(topic) = Topic::new(&format!("$SYS/{name}")) else { continue };
            self.apply_value(now, topic, Body::Opaque(Bytes::from(value.clone())), true);
            self.statistics.shown.insert(name, value);
        }
    }

    fn look_at_loads(&mut self, passed: Duration) {
        let (counters, sockets) = (self.counters(), self.shard.counters().clone());
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let totals: [u64; LOADS.len()] = [
            counters.packets_in,
            of(&sockets.messages_out),
            counters.published,
            counters.deliveries - counters.conflated.min(counters.deliveries),
            counters.dropped.total(),
            of(&sockets.bytes_in),
            of(&sockets.bytes_out),
            of(&sockets.accepts),
            counters.connected,
        ];
        for (load, total) in self.statistics.loads.iter_mut().zip(totals) {
            load.look(passed, total);
        }
    }

    /// What Mosquitto would tell.
    fn broker_values(&self, now: Instant) -> Values {
        let (counters, sockets, tree) = (self.counters(), self.shard.counters(), self.tree.stats());
        let (away, away_bytes) = self.away();
        let of = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed).to_string();
        let counts = [
            ("clients/connected", self.client_count().to_string()),
            ("clients/disconnected", away.to_string()),
            ("clients/expired", counters.sessions_expired.to_string()),
            ("clients/maximum", self.statistics.clients_max.to_string()),
            ("clients/total", (self.client_count() + away).to_string()),
            ("messages/received", counters.packets_in.to_string()),
            ("messages/sent", of(&sockets.messages_out)),
            ("bytes/received", of(&sockets.bytes_in)),
            ("bytes/sent", of(&sockets.bytes_out)),
            ("publish/messages/received", counters.published.to_string()),
            ("publish/messages/sent", (counters.deliveries - counters.conflated.min(counters.deliveries)).to_string()),
            ("publish/messages/dropped", counters.dropped.total().to_string()),
            ("publish/bytes/received", counters.published_bytes.to_string()),
            ("retained messages/count", tree.topics.to_string()),
            ("store/messages/bytes", away_bytes.to_string()),
            ("subscriptions/count", tree.subscriptions.to_string()),
            ("shared_subscriptions/count", self.shares.count().to_string()),
            ("uptime", format!("{} seconds", now.since(self.statistics.began.unwrap_or(now)).as_secs())),
            ("version", concat!("tieline version ", env!("CARGO_PKG_VERSION")).to_owned()),
        ];
        counts.into_iter().map(|(name, value)| (format!("broker/{name}"), value)).collect()
    }

    /// How many alarms there are; nothing where there are none.
    fn alarm_values(&self) -> Values {
        let Some((counts, stats)) = self.alarm_counts() else { return Values::new() };
        let priorities = Priority::WORDS.iter().zip(counts.by_priority).flat_map(|((word, _), of)| {
            [("active", of.active), ("unacknowledged", of.unacknowledged)]
                .map(|(name, count)| (format!("alarms/{word}/{name}"), count.to_string()))
        });
        let others = [
            ("shelved", counts.shelved),
            ("suppressed", counts.suppressed),
            ("out_of_service", counts.out_of_service),
            ("chattering", counts.chattering),
            ("flood", usize::from(stats.is_flood)),
            ("rate_10min", stats.annunciated_10min as usize),
        ];
        let others = others.into_iter().map(|(name, count)| (format!("alarms/{name}"), count.to_string()));
        priorities.chain(others).collect()
    }

    /// What there is of the core that this node leads.
    fn cluster_values(&self) -> Values {
        let Some(seen) = self.statistics.cluster.as_ref().map(|board| board.look()) else { return Values::new() };
        let leader = seen.leader.map(|leader| leader.name).unwrap_or_default();
        let values = [
            ("role", seen.role.word().to_owned()),
            ("leader", leader),
            ("term", seen.term.to_string()),
            ("log/last", seen.last.to_string()),
            ("elections", seen.elections.to_string()),
        ];
        values.into_iter().map(|(name, value)| (format!("cluster/{name}"), value)).collect()
    }

    /// What is ours.
    fn node_values(&self, now: Instant) -> Values {
        let (counters, tree, lag, usage) = (self.counters(), self.tree.stats(), self.lag(now), Usage::look());
        let (control, locks) = (self.commands.stats(), self.lock_counters());
        let counts = [
            ("updates/count", counters.updates.to_string()),
            ("updates/per_s", format!("{:.1}", self.updates_per_s())),
            ("updates/refused", counters.refused.to_string()),
            ("deliveries/count", counters.deliveries.to_string()),
            ("deliveries/conflated", counters.conflated.to_string()),
            ("deliveries/dropped", counters.dropped.total().to_string()),
            ("topics/count", tree.topics.to_string()),
            ("topics/bytes", tree.bytes.to_string()),
            ("lag/sessions", lag.sessions.to_string()),
            ("lag/waiting", lag.waiting.to_string()),
            ("lag/bytes", lag.bytes.to_string()),
            ("lag/ms", lag.longest.as_millis().to_string()),
            ("control/reservations", control.tasks.to_string()),
            ("control/overrides", control.overrides.to_string()),
            ("control/tags", control.tags.to_string()),
            ("control/held_points", control.holds.to_string()),
            ("locks/held", locks.held.to_string()),
            ("locks/waiting", locks.waiting.to_string()),
            ("locks/acquired", locks.acquired.to_string()),
            ("process/memory_bytes", usage.resident_bytes.to_string()),
            ("process/cpu_seconds", format!("{:.2}", usage.cpu.as_secs_f64())),
        ];
        let dropped = counters.dropped.by_cause();
        let dropped = dropped.into_iter().map(|(cause, count)| (format!("node/dropped/{cause}"), count.to_string()));
        counts.into_iter().map(|(name, value)| (format!("node/{name}"), value)).chain(dropped).collect()
    }
}
