//! The lag of sessions: what waits for each, and since when its socket does not take all that is due.

use super::client::Client;
use super::pump::Pump;
use super::state::{Bus, Subscriber};
use std::collections::HashMap;
use std::time::Duration;
use tieline_core::Instant;

/// Room for so many that are late stays when none is.
const LATE_KEPT: usize = 64;

/// What is shown of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionView {
    /// Its identifier.
    pub client: String,
    /// Its subscriptions, shared ones not among them.
    pub subscriptions: usize,
    /// Topics and messages that wait for it.
    pub waiting: usize,
    /// Bytes that are made and wait for its socket; values of topics are made when the socket takes them.
    pub waiting_bytes: usize,
    /// How long its socket has not taken all that was due.
    pub late: Duration,
    /// Whether its socket takes no bytes at the moment.
    pub blocked: bool,
    /// Whether it has asked for deltas.
    pub deltas: bool,
    /// Messages, and groups of them, that it was sent over this connection.
    pub messages_out: u64,
    /// Bytes that its socket took.
    pub bytes_out: u64,
    /// Messages a second that it was sent, over a second or more.
    pub messages_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Values that it was never sent because a newer one came first.
    pub conflated: u64,
    /// QoS 0 messages dropped because too many waited.
    pub dropped: u64,
    /// QoS 1 and 2 messages that its session was to get and never will, over all its connections.
    pub lost: u64,
}

/// Who comes first among sessions; [`SessionOrder::ALL`] says it in words.
#[expect(missing_docs, reason = "they are in words below")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    Lag,
    Waiting,
    Rate,
    Conflated,
    Dropped,
    Client,
}

impl SessionOrder {
    /// All of them, each with its word in the API and on the command line, and who comes first.
    pub const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Lag, "lag", "Those that are late the longest, then those that most waits for"),
        (Self::Waiting, "waiting", "Those that most waits for"),
        (Self::Rate, "rate", "Those that are sent the most bytes a second"),
        (Self::Conflated, "conflated", "Those of which the most values were replaced by newer ones"),
        (Self::Dropped, "dropped", "Those of which the most messages were dropped"),
        (Self::Client, "client", "By client identifier"),
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(order, ..)| *order == self).map_or("", |(_, word, _)| word)
    }

    /// The order of that word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == word).map(|(order, ..)| *order)
    }

    /// The one after it, round and round.
    #[must_use]
    pub fn next(self) -> Self {
        let mut orders = Self::ALL.iter().cycle().skip_while(|(order, ..)| *order != self);
        orders.nth(1).map_or(self, |(order, ..)| *order)
    }
}

/// How far all are behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Clients whose socket has not taken all that was due.
    pub sessions: usize,
    /// Topics and messages that wait, for all clients.
    pub waiting: usize,
    /// Bytes that are made and wait.
    pub bytes: usize,
    /// The longest that a client is behind.
    pub longest: Duration,
}

impl Pump {
    /// A client's socket does not take all that is due, from now on or for longer already.
    pub(super) fn begin_late(&mut self, now: Instant, key: usize, generation: u64) {
        let known = self.late.entry(key).or_insert((generation, now));
        if known.0 != generation {
            *known = (generation, now);
        }
    }

    /// It has taken all.
    pub(super) fn end_late(&mut self, key: usize) {
        self.late.remove(&key);
        if self.late.is_empty() && self.late.capacity() > LATE_KEPT {
            self.late = HashMap::new();
        }
    }

    /// Forgets clients that have gone.
    pub(super) fn keep_late(&mut self, is_here: impl Fn(usize, u64) -> bool) {
        self.late.retain(|key, (generation, _)| is_here(*key, *generation));
    }

    fn late_for(&self, now: Instant, key: usize, generation: u64) -> Duration {
        let since = self.late.get(&key).filter(|(known, _)| *known == generation);
        since.map_or(Duration::ZERO, |(_, since)| now.since(*since))
    }
}

impl Bus {
    /// How far all are behind.
    #[must_use]
    pub fn lag(&self, now: Instant) -> Lag {
        let mut lag = Lag::default();
        for (key, client) in self.each_client() {
            let late = self.pump.late_for(now, key, client.generation);
            lag.sessions += usize::from(!late.is_zero());
            lag.longest = lag.longest.max(late);
            lag.waiting += client.waiting();
            lag.bytes += waiting_bytes(client);
        }
        lag
    }

    /// Clients that are connected, in an order, no more than `limit` and only those whose identifier holds `part`.
    #[must_use]
    pub fn sessions(&mut self, now: Instant, order: SessionOrder, limit: usize, part: &str) -> Vec<SessionView> {
        self.look_at_rates(now);
        let found = self.each_client().filter(|(_, client)| client.id.contains(part));
        let mut ranked: Vec<_> = found.map(|(key, client)| (self.rank(now, order, key, client), client, key)).collect();
        ranked.sort_unstable_by(|(a, one, _), (b, other, _)| b.cmp(a).then_with(|| str::cmp(&one.id, &other.id)));
        ranked.truncate(limit);
        ranked.into_iter().map(|(_, client, key)| self.session_view(now, key, client)).collect()
    }

    fn each_client(&self) -> impl Iterator<Item = (usize, &Client)> {
        self.subscribers.iter().filter_map(|(key, subscriber)| match subscriber {
            Subscriber::Client(client) => Some((key, &**client)),
            Subscriber::Away(_) | Subscriber::Group(_) | Subscriber::Feed(_) => None,
        })
    }

    /// The greater, the earlier a client comes.
    fn rank(&self, now: Instant, order: SessionOrder, key: usize, client: &Client) -> [u64; 3] {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let bytes_out = client.session.traffic().bytes_out;
        match order {
            SessionOrder::Lag => {
                let late = self.pump.late_for(now, key, client.generation).as_micros();
                [u64::try_from(late).unwrap_or(u64::MAX), number(client.waiting()), bytes_out]
            }
            SessionOrder::Waiting => [number(client.waiting()), number(waiting_bytes(client)), bytes_out],
            // A rate is positive: its bits are in its order.
            SessionOrder::Rate => [client.rate.per_s(now, client.session.traffic()).1.to_bits().into(), bytes_out, 0],
            SessionOrder::Conflated => [client.conflated(), client.dropped(), bytes_out],
            SessionOrder::Dropped => [client.dropped() + client.lost(), client.conflated(), bytes_out],
            SessionOrder::Client => [0; 3],
        }
    }

    fn session_view(&self, now: Instant, key: usize, client: &Client) -> SessionView {
        let traffic = client.session.traffic();
        let (messages_per_s, bytes_per_s) = client.rate.per_s(now, traffic);
        SessionView {
            client: client.id.to_string(),
            subscriptions: self.tree.subscription_count(super::state::id_of(key)),
            waiting: client.waiting(),
            waiting_bytes: waiting_bytes(client),
            late: self.pump.late_for(now, key, client.generation),
            blocked: !client.session.is_clear(),
            deltas: client.follower.is_some(),
            messages_out: traffic.messages_out,
            bytes_out: traffic.bytes_out,
            messages_per_s: messages_per_s.into(),
            bytes_per_s: bytes_per_s.into(),
            conflated: client.conflated(),
            dropped: client.dropped(),
            lost: client.lost(),
        }
    }
}

fn waiting_bytes(client: &Client) -> usize {
    client.session.look(|wire| wire.waiting_bytes() + wire.mqtt.queued_bytes()) + client.log_bytes()
}
