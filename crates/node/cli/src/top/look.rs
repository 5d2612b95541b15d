//! One look at a node, and what two of them tell.

use crate::uri;
use serde::{Deserialize, Serialize};
use std::time::Instant;
use tieline_client::{HttpClient, HttpError};
use tieline_node::SessionOrder;

/// What to ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which sessions come first.
    pub order: SessionOrder,
    /// What their client identifier holds.
    pub client: String,
    /// How many of them, and of topics.
    pub limit: u16,
}

/// Everything at one time.
#[derive(Clone, Debug)]
pub struct Look {
    at: Instant,
    pub status: Status,
    pub sessions: Vec<Session>,
    pub topics: Vec<Topic>,
}

/// `/v1/status`, as far as it is shown.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Status {
    pub name: String,
    pub version: String,
    pub time: String,
    pub uptime_s: f64,
    pub topics: u64,
    pub sessions: u64,
    pub subscriptions: u64,
    pub devices: Devices,
    pub totals: Totals,
    pub lag: Lag,
    pub process: Process,
    pub cluster: Option<Cluster>,
}

/// The core that the node is a member of.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Cluster {
    pub cluster: String,
    pub term: u64,
    pub leader: Option<String>,
    #[serde(default)]
    pub members: Vec<Member>,
}

/// A member of a core.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Member {
    pub name: String,
    pub role: String,
    /// Absent where it is not known.
    pub lag: Option<u64>,
    /// Absent where it is not known.
    pub behind_s: Option<f64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Devices {
    pub total: u64,
    pub online: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Totals {
    updates: u64,
    deliveries: u64,
    conflated: u64,
    dropped: u64,
    published: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// How far sessions are behind.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Lag {
    pub sessions: u64,
    pub waiting: u64,
    pub bytes: u64,
    pub ms: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Process {
    memory_bytes: u64,
    cpu_s: f64,
}

/// An entry of `/v1/sessions`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Session {
    pub client: String,
    pub late_ms: u64,
    pub waiting: u64,
    pub waiting_bytes: u64,
    pub blocked: bool,
    pub deltas: bool,
    pub subscriptions: u64,
    pub messages_per_s: f64,
    pub bytes_per_s: f64,
    pub conflated: u64,
    pub dropped: u64,
}

/// An entry of `/v1/busiest`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Topic {
    pub topic: String,
    pub updates_per_s: f64,
    pub bytes_per_s: f64,
}

#[derive(Deserialize)]
struct Sessions {
    sessions: Vec<Session>,
}

#[derive(Deserialize)]
struct Busiest {
    topics: Vec<Topic>,
}

/// What went on between two looks, a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Rates {
    pub updates_per_s: f64,
    pub deliveries_per_s: f64,
    pub published_per_s: f64,
    pub conflated_per_s: f64,
    pub dropped_per_s: f64,
    pub bytes_in_per_s: f64,
    pub bytes_out_per_s: f64,
    /// Of one core: 200 is two of them, whole.
    pub cpu_percent: f64,
}

/// What is printed of two looks.
#[derive(Debug, Serialize)]
pub struct Printed<'a> {
    name: &'a str,
    time: &'a str,
    topics: u64,
    sessions: u64,
    subscriptions: u64,
    #[serde(flatten)]
    rates: Rates,
    memory_bytes: u64,
    lag: &'a Lag,
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<&'a Cluster>,
    by_lag: &'a [Session],
    busiest: &'a [Topic],
}

impl Look {
    /// Asks a node.
    pub fn take(client: &HttpClient, wanted: &Wanted) -> Result<Self, HttpError> {
        let limit = wanted.limit.to_string();
        let status = client.get("/v1/status")?;
        let at = Instant::now();
        let part = Some(wanted.client.as_str()).filter(|part| !part.is_empty());
        let order = wanted.order.word();
        let parameters = [("order", Some(order)), ("limit", Some(limit.as_str())), ("client", part)];
        let Sessions { sessions } = client.get(&uri::path("/v1/sessions", &parameters))?;
        let Busiest { topics } = client.get(&uri::path("/v1/busiest", &[("limit", Some(limit.as_str()))]))?;
        Ok(Self { at, status, sessions, topics })
    }

    /// What went on since an earlier look; nothing where the node has begun again.
    pub fn rates_since(&self, earlier: &Self) -> Rates {
        let (now, before) = (&self.status.totals, &earlier.status.totals);
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        if seconds <= 0.0 || self.status.uptime_s < earlier.status.uptime_s {
            return Rates::default();
        }
        let per_s = |now: u64, before: u64| tenths(now.saturating_sub(before) as f64 / seconds);
        let cpu = (self.status.process.cpu_s - earlier.status.process.cpu_s).max(0.0);
        Rates {
            updates_per_s: per_s(now.updates, before.updates),
            deliveries_per_s: per_s(now.deliveries, before.deliveries),
            published_per_s: per_s(now.published, before.published),
            conflated_per_s: per_s(now.conflated, before.conflated),
            dropped_per_s: per_s(now.dropped, before.dropped),
            bytes_in_per_s: per_s(now.bytes_in, before.bytes_in),
            bytes_out_per_s: per_s(now.bytes_out, before.bytes_out),
            cpu_percent: tenths(100.0 * cpu / seconds),
        }
    }

    /// Bytes of memory that are resident.
    pub const fn memory(&self) -> u64 {
        self.status.process.memory_bytes
    }

    /// What is printed.
    pub fn printed(&self, rates: Rates) -> Printed<'_> {
        Printed {
            name: &self.status.name,
            time: &self.status.time,
            topics: self.status.topics,
            sessions: self.status.sessions,
            subscriptions: self.status.subscriptions,
            rates,
            memory_bytes: self.memory(),
            lag: &self.status.lag,
            cluster: self.status.cluster.as_ref(),
            by_lag: &self.sessions,
            busiest: &self.topics,
        }
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
fn member(name: &str, role: &str, lag: Option<u64>, behind_s: Option<f64>) -> Member {
    Member { name: name.to_owned(), role: role.to_owned(), lag, behind_s }
}

/// A look for tests: a node that was looked at so long after the first look.
#[cfg(test)]
pub fn sample(first: Instant, seconds: u64, updates: u64) -> Look {
    let status = Status {
        name: "west".to_owned(),
        version: "0.1.0".to_owned(),
        uptime_s: 100.0 + seconds as f64,
        topics: 12_345,
        sessions: 2,
        subscriptions: 1001,
        totals: Totals { updates, deliveries: 2 * updates, bytes_out: 1000 * updates, ..Totals::default() },
        process: Process { memory_bytes: 52_428_800, cpu_s: 0.5 * seconds as f64 },
        lag: Lag { sessions: 1, waiting: 7, bytes: 4096, ms: 1500 },
        cluster: Some(Cluster {
            cluster: "core".to_owned(),
            term: 12,
            leader: Some("west".to_owned()),
            members: vec![member("east", "standby", Some(3), Some(0.25)), member("north", "unknown", None, None)],
        }),
        ..Status::default()
    };
    let session = |client: &str, late_ms, waiting| Session {
        client: client.to_owned(),
        late_ms,
        waiting,
        blocked: late_ms > 0,
        bytes_per_s: 2048.0,
        ..Session::default()
    };
    let topic = |topic: &str, updates_per_s| Topic { topic: topic.to_owned(), updates_per_s, bytes_per_s: 80.0 };
    Look {
        at: first + std::time::Duration::from_secs(seconds),
        status,
        sessions: vec![session("scada/1", 1500, 7), session("historian", 0, 0)],
        topics: vec![topic("site/a/amps", 10.0), topic("site/a/volts", 0.5)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_looks_tell_rates() {
        let first = Instant::now();
        let (before, now) = (sample(first, 0, 1000), sample(first, 2, 1500));
        let rates = now.rates_since(&before);
        let told = (rates.updates_per_s, rates.deliveries_per_s, rates.bytes_out_per_s, rates.cpu_percent);
        assert_eq!(told, (250.0, 500.0, 250_000.0, 50.0));
        assert_eq!(before.rates_since(&now), Rates::default());
        let printed = serde_json::to_value(now.printed(rates)).unwrap();
        assert_eq!(printed["updates_per_s"], 250.0);
        assert_eq!(printed["by_lag"][0]["client"], "scada/1");
    }
}
