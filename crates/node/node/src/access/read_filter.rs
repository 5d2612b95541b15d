//! What a session may read: the filter that each delivery has to pass.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::{Names, Rules, Verb};

/// Decides which topics a user may read.
#[derive(Clone, Debug)]
pub struct ReadFilter {
    rules: Arc<Rules>,
    user: Box<str>,
    client: Box<str>,
}

/// The read filter of a session on the bus, whose subscriptions select more than it may read. Sessions with the same rules share
/// one, unless rules about reading name users or clients; those share what is decided without the names.
#[derive(Debug)]
pub struct DeliveryFilter {
    own: ReadFilter,
    last: Rc<Cell<Option<Decided>>>,
}

/// The last update that was asked about, and what holds for all with the same rules, who need not ask again; none where that
/// depends on their names.
type Decided = (Serial, Option<bool>);

/// Names one update among all that are sent, for the decisions about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial(u64);

/// Gives each update a serial of its own.
#[derive(Debug, Default)]
pub struct Serials(u64);

impl Serials {
    /// One that no update had.
    pub const fn fresh(&mut self) -> Serial {
        self.0 += 1;
        Serial(self.0)
    }
}

impl ReadFilter {
    /// What these rules let a user read.
    #[must_use]
    pub fn new(rules: Arc<Rules>, user: &str, client: &str) -> Self {
        Self { rules, user: user.into(), client: client.into() }
    }

    /// Whether both allow the same topics.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let same_names = (&self.user, &self.client) == (&other.user, &other.client);
        self.rules.rules() == other.rules.rules() && (same_names || !self.rules.is_personal(Verb::Read))
    }

    /// Whether a topic may be read.
    #[must_use]
    pub fn allows(&self, topic: &str) -> bool {
        self.rules.allows(Verb::Read, topic, Names { user: &self.user, client: &self.client })
    }
}

impl DeliveryFilter {
    /// What nobody else shares yet.
    #[must_use]
    pub fn new(own: ReadFilter) -> Self {
        Self { own, last: Rc::default() }
    }

    /// Of another session with the same rules.
    pub(super) fn for_names(&self, user: &str, client: &str) -> Self {
        Self { own: ReadFilter::new(Arc::clone(&self.own.rules), user, client), last: Rc::clone(&self.last) }
    }

    /// Whether a topic may be read.
    #[must_use]
    pub fn allows(&self, topic: &str) -> bool {
        self.own.allows(topic)
    }

    /// Whether an update may pass; `serial` is the update's own. All who have the same rules ask them once.
    #[inline]
    #[must_use]
    pub fn allows_update(&self, serial: Serial, topic: &str) -> bool {
        let all = match self.last.get() {
            Some((known, all)) if known == serial => all,
            Some(_) | None => self.ask(serial, topic),
        };
        all.unwrap_or_else(|| self.own.allows(topic))
    }

    #[inline(never)]
    fn ask(&self, serial: Serial, topic: &str) -> Option<bool> {
        let all = self.own.rules.allows_all(Verb::Read, topic);
        self.last.set(Some((serial, all)));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_with_the_same_rules_ask_them_once_for_an_update() {
        let rules = ["allow read open/#", "allow read notes/{user}/#"].map(|rule| rule.parse().unwrap());
        let of_all = DeliveryFilter::new(ReadFilter::new(Arc::new(Rules::new(rules.into())), "", ""));
        let [anna, ben] = ["anna", "ben"].map(|user| of_all.for_names(user, ""));
        let mut serials = Serials::default();
        let first = serials.fresh();
        assert!(anna.allows_update(first, "open/a"));
        // It is the answer to the other.
        assert!(ben.allows_update(first, "closed"));
        let both = |serial, topic| [&anna, &ben].map(|filter| filter.allows_update(serial, topic));
        assert_eq!(both(serials.fresh(), "closed"), [false, false]);
        // What depends on the name is asked with each.
        assert_eq!(both(serials.fresh(), "notes/anna/x"), [true, false]);
        assert_eq!(both(serials.fresh(), "notes/ben/x"), [false, true]);
    }
}
