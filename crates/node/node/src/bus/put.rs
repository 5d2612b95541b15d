//! Values that are set on a condition, and values that HTTP sets.

use super::receipts::Receipt;
use super::state::Bus;
use bytes::Bytes;
use std::fmt;
use tieline_core::{Now, Topic, Update};
use tieline_mqtt::{Message, Properties, Qos};
use tieline_topics::{Condition, TreeError, Unmet};
use tokio::sync::oneshot;

/// Why a value was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutError {
    /// The payload is not what the topic may hold, or what it says of itself.
    Format(String),
    /// A condition is not met.
    Unmet(Unmet),
    /// The tree is full.
    Full(TreeError),
    /// The disk does not take it; in words.
    Disk(&'static str),
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(words) => f.write_str(words),
            Self::Unmet(unmet) => unmet.fmt(f),
            Self::Full(error) => error.fmt(f),
            Self::Disk(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for PutError {}

impl Bus {
    /// Whether all conditions of an update are met.
    ///
    /// # Errors
    /// One is not, and was counted.
    pub fn check_conditions(&mut self, topic: &Topic, conditions: &[Condition]) -> Result<(), Unmet> {
        let unmet = conditions.iter().try_for_each(|condition| self.tree.check(topic, condition));
        unmet.inspect_err(|_| self.counters.unmet += 1)
    }

    /// Sets a topic's value for HTTP where all conditions are met; no bytes take it away. Gives the version, and a
    /// receiver that hears whether history has stored it.
    ///
    /// # Errors
    /// A condition is not met, or the tree or the disk is full; nothing has changed then.
    pub fn put(
        &mut self,
        now: Now,
        topic: Topic,
        payload: Bytes,
        conditions: &[Condition],
    ) -> Result<(u64, oneshot::Receiver<bool>), PutError> {
        self.check_conditions(&topic, conditions).map_err(PutError::Unmet)?;
        let hears = self.publish(now, topic.clone(), payload, true)?;
        Ok((self.tree.get(&topic).map_or(0, |view| view.version), hears))
    }

    /// Publishes for HTTP. The receiver hears whether history has stored it.
    ///
    /// # Errors
    /// The payload is not what the topic may hold, or the tree or the disk is full; nothing has changed then.
    pub fn publish(
        &mut self,
        now: Now,
        topic: Topic,
        payload: Bytes,
        retain: bool,
    ) -> Result<oneshot::Receiver<bool>, PutError> {
        let message = Message { topic, payload, properties: Properties::default(), received: now.mono };
        let update = Update { topic: message.topic.clone(), body: self.admit(&message, retain)? };
        let (stored, hears) = oneshot::channel();
        if let Some(why) = self.cannot_store(&message, &update, Qos::AtLeastOnce, retain, None) {
            return Err(PutError::Disk(why));
        }
        self.begin_act();
        self.apply_message(now, message, &update.body, Qos::AtLeastOnce, retain, None).map_err(PutError::Full)?;
        let batch_number = self.end_act(now).unwrap_or(0);
        self.record(now, &update, Some(Receipt::Call { answer: stored, batch_number }));
        self.work.notify_one();
        Ok(hears)
    }
}
