//! The reason strings of PUBACK, PUBREC, SUBACK and UNSUBACK: why a request of an MQTT client is refused.

use super::reserved::REPLAY_PREFIX;
use crate::control::command::REQUEST_PREFIX;
use tieline_mqtt::ReasonCode;

/// Bytes of all that a packet says; further refusals are counted.
const WORDS_MAX: usize = 400;

/// A session of a user publishes too much.
pub const OVER_RATE: &str = "more messages or bytes a second than a session of this user may publish";
/// A command is not for this user.
pub const COMMAND: &str = "the user may not operate this point";
/// An answer may not go where it is asked for.
pub const RESPONSE: &str = "the user may not publish to the response topic";
/// A topic is derived by a view, or one of a derived series.
pub const DERIVED: &str =
    "this topic is derived from others, and only the node publishes it; publish to those it is made from";
/// A topic is not for this user.
pub const PUBLISH: &str = "the user may not publish to this topic";
/// A delta of a client that has not asked for deltas.
pub const MARKED: &str = "delta: not agreed on in CONNECT";
/// A delta where there is no value.
pub const MARKED_REQUEST: &str = "delta: not of topics that begin with $";
/// A client may not say for whom it publishes.
pub const SPEAK: &str = "the user may not publish for others: that is the right to publish to $for/ and their names";
/// A lock is not for this user.
pub const LOCK: &str = "the user may not use this lock: that is the right to publish to $locks/ and its name";
/// A lock of another node than the topic.
pub const LOCK_ELSEWHERE: &str = "the lock and the topic are of different nodes: use a lock whose name is one of the topics of the node that has this topic";
/// A command that depends on a lock.
pub const LOCK_COMMAND: &str = "a command cannot depend on a lock";
/// A lock of the upstream, while there is no connection with it.
pub const LOCK_AWAY: &str = "the upstream of this lock is away: nothing was acquired";
/// The same of one that a client had.
pub const LOCK_LOST: &str = "the connection to the upstream of this lock was lost, and the lock with it";
/// A request for a lock that an operator takes away at that moment.
pub const LOCK_REVOKED: &str = "an operator has taken the lock away";
/// As many locks of an upstream as a node keeps for its clients.
pub const LOCKS_ABOVE: &str = "this node has or waits for 16,384 locks of the upstream, as many as it may";
/// A lock through too many edges.
pub const LOCK_FAR: &str = "the request comes through too many edges";
/// There is no connection to the upstream.
pub const UPSTREAM_AWAY: &str = "the upstream is away, and this topic is its own: nothing was published";
/// Too much waits for the upstream.
pub const UPSTREAM_BUSY: &str = "too much waits for the upstream: nothing was published";
/// A request went to the upstream, and the connection was lost before its answer.
pub const ANSWER_LOST: &str = "the connection to the upstream was lost before its answer: it may have been carried out";
/// The same, and the connection is there.
pub const ANSWER_LATE: &str = "the upstream has not answered in time: it may have been carried out";
/// One call for this node and its upstreams.
pub const MIXED: &str = "these topics are not of one upstream, or some are this node's own: make a call for each";
/// History has not taken what was passed on.
pub const NOT_STORED: &str = "history could not store it; subscribers may have it";
/// The same, before it was passed on.
pub const CANNOT_STORE: &str = "not taken: history cannot store it, see /healthz";
/// The ledger has not taken what was passed on.
pub const NOT_KEPT: &str = "it could not be kept over a restart; subscribers may have it";
/// The same, before it was passed on.
pub const CANNOT_KEEP: &str = "not taken: the disk cannot keep it over a restart, see /healthz";
/// There are as many clients as may be.
pub const SESSIONS_FULL: &str = "as many clients as sessions_max lets in are connected";
/// What is to be ended is not there.
pub const NO_SUBSCRIPTION: &str = "there is no such subscription";

/// The topic is one of a site.
pub const OF_SITE: &str = "this is a topic of a site, and only the site changes it";

/// Why only the node publishes a topic, and what to do.
#[must_use]
pub fn reserved(topic: &str) -> String {
    if topic.starts_with(REPLAY_PREFIX) {
        return "values of a replay are published over MQTT, and go with the session that published them".to_owned();
    }
    if topic.starts_with('$') {
        return "only the node publishes to topics that begin with $".to_owned();
    }
    format!(
        "this is a topic of a device, and only the node publishes it; to operate a point publish to {REQUEST_PREFIX}{topic}, \
         or use tieline command {topic} VALUE"
    )
}

/// Why a subscription is refused before the tree is asked.
#[must_use]
pub fn subscription(reason: ReasonCode) -> &'static str {
    match reason {
        ReasonCode::TopicFilterInvalid => {
            "below $topics/ stands added/, removed/ or +/, and a filter; it is not shared"
        }
        ReasonCode::ImplementationSpecificError => {
            "a selector narrows neither shared subscriptions nor those to $topics/"
        }
        ReasonCode::UnspecifiedError => "requests go to the node and no further",
        ReasonCode::QuotaExceeded => "as many subscriptions as a session of this user may have",
        _ => "the user may not read it",
    }
}

/// Refusals of one packet, each with its filter.
#[derive(Debug, Default)]
pub struct Refusals(String);

impl Refusals {
    /// A filter was refused.
    pub fn add(&mut self, filter: &str, why: &str) {
        const MORE: &str = "; …";
        if self.0.ends_with(MORE) {
            return;
        }
        let sign = if self.0.is_empty() { "" } else { "; " };
        if self.0.len() + sign.len() + filter.len() + why.len() + 2 <= WORDS_MAX {
            self.0.push_str(sign);
            self.0.extend([filter, ": ", why]);
        } else if self.0.is_empty() {
            // A filter may be longer than all words together.
            self.0.push_str(why);
        } else {
            self.0.push_str(MORE);
        }
    }

    /// All in words; empty where there are none.
    #[must_use]
    pub fn words(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_as_far_as_there_is_room() {
        let mut refusals = Refusals::default();
        refusals.add("a/#", NO_SUBSCRIPTION);
        refusals.add("b", NO_SUBSCRIPTION);
        assert_eq!(refusals.words(), "a/#: there is no such subscription; b: there is no such subscription");
        (0..100).for_each(|number| refusals.add(&format!("c/{number}"), NO_SUBSCRIPTION));
        assert!(refusals.words().len() < WORDS_MAX + 8 && refusals.words().ends_with("; …"), "{refusals:?}");
        let mut long = Refusals::default();
        long.add(&"x".repeat(500), NO_SUBSCRIPTION);
        assert_eq!(long.words(), NO_SUBSCRIPTION);
    }
}
