//! Why MQTT clients are refused, in words: the reason strings of PUBACK, PUBREC, SUBACK and UNSUBACK.

use tieline_mqtt::ReasonCode;

/// Octets of all that a packet says; further refusals are counted.
const WORDS_MAX: usize = 400;

/// A session of a user publishes too much.
pub const OVER_RATE: &str = "more messages or octets a second than a session of this user may publish";
/// A command is not for this user.
pub const COMMAND: &str = "the user may not operate this point";
/// An answer may not go where it is asked for.
pub const RESPONSE: &str = "the user may not publish to the response topic";
/// A topic is not for clients.
pub const RESERVED: &str = "only the node publishes to topics of devices, of views, and to those that begin with $";
/// A topic is not for this user.
pub const PUBLISH: &str = "the user may not publish to this topic";
/// A delta of a client that has not asked for deltas.
pub const MARKED: &str = "delta: not agreed on in CONNECT";
/// A delta where there is no value.
pub const MARKED_REQUEST: &str = "delta: not of topics that begin with $";
/// History takes nothing.
pub const NOT_STORED: &str = "history cannot store it";
/// The ledger takes nothing.
pub const NOT_KEPT: &str = "it cannot be kept over a restart: the disk takes nothing";
/// A message does not fit the ledger.
pub const TOO_LONG_TO_KEEP: &str = "longer than what can be kept over a restart";
/// What is to be ended is not there.
pub const NO_SUBSCRIPTION: &str = "there is no such subscription";

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
