//! Holders: whom reservations are of, and which of them end with an MQTT session.

use super::Commands;
use super::state::Record;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use tieline_control::Coordinator;
use tieline_core::{Instant, Now};

/// The name of a holder: a user's programs are told apart by their names, and no user is taken for another.
#[must_use]
pub fn holder_of(user: Option<&str>, name: Option<&str>) -> Option<Arc<str>> {
    match (user, name) {
        (Some(user), Some(name)) => Some(format!("{user}/{name}").into()),
        (Some(one), None) | (None, Some(one)) => Some(one.into()),
        (None, None) => None,
    }
}

/// Whether a holder is this one, or one of the programs of this user.
#[must_use]
pub fn is_own(own: &str, holder: &str) -> bool {
    holder.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The holders that end with a session.
#[derive(Debug, Default)]
pub(super) struct Holders {
    /// By the client's identifier. No more than there are reservations.
    by_client: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// What is to be written down.
    records: Vec<Record>,
}

impl Holders {
    /// A holder ends with the session of a client.
    pub(super) fn bind(&mut self, client: &Arc<str>, requester: &Arc<str>) {
        if self.by_client.entry(Arc::clone(client)).or_default().insert(Arc::clone(requester)) {
            let (client, requester) = (Arc::clone(client), Arc::clone(requester));
            self.records.push(Record::Session { client, requester });
        }
    }

    /// What is to be written down and has not been.
    pub(super) fn take_records(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records)
    }

    /// All that is to be written down, of holders that have something still.
    pub(super) fn snapshot(&mut self, coordinator: &Coordinator) -> Vec<Record> {
        self.records.clear();
        self.by_client.retain(|_, requesters| {
            requesters.retain(|requester| coordinator.has_holder(requester));
            !requesters.is_empty()
        });
        let of = |(client, requesters): (&Arc<str>, &BTreeSet<Arc<str>>)| {
            let record =
                |requester: &Arc<str>| Record::Session { client: Arc::clone(client), requester: Arc::clone(requester) };
            requesters.iter().map(record).collect::<Vec<_>>()
        };
        self.by_client.iter().flat_map(of).collect()
    }

    fn requesters(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<str>)> {
        self.by_client.iter().flat_map(|(client, of)| of.iter().map(move |requester| (client, requester)))
    }
}

impl<A> Commands<A> {
    /// With the records of the life before, where there are some.
    #[must_use]
    pub fn restored(mut self, now: Now, records: Option<Vec<Record>>) -> Self {
        if let Some(records) = records {
            self.restore(now, records);
        }
        self
    }

    fn restore(&mut self, now: Now, records: Vec<Record>) {
        let mut entries = Vec::new();
        for record in records {
            match record {
                Record::Engine(entry) => entries.push(entry),
                Record::Session { client, requester } => {
                    self.holders.by_client.entry(client).or_default().insert(requester);
                }
            }
        }
        self.coordinator.restore(now, entries);
        let stats = self.coordinator.stats();
        if stats.tasks + stats.holds + stats.overrides > 0 {
            let (reservations, points, overrides) = (stats.tasks, stats.holds, stats.overrides);
            tracing::info!(reservations, points, overrides, "reservations of before the restart hold on");
        }
        self.durability.rewrite(now.mono);
    }

    /// Says after a restart which clients have a session still: holders of the others have to come back.
    pub fn settle_holders(&mut self, now: Now, has_session: impl Fn(&str) -> bool) {
        let bound: HashMap<Arc<str>, bool> =
            self.holders.requesters().map(|(client, requester)| (Arc::clone(requester), has_session(client))).collect();
        let owners: BTreeSet<Arc<str>> = self.coordinator.schedule().tasks().map(|task| task.owner.requester).collect();
        for requester in owners {
            match bound.get(&requester) {
                Some(false) => self.coordinator.handle_holder_absent(now, &requester),
                Some(true) | None => self.coordinator.handle_holder_here(now.mono, &requester),
            }
        }
    }

    /// A client has connected.
    pub fn handle_session_here(&mut self, now: Instant, client: &str) {
        let Some(requesters) = self.holders.by_client.get(client) else { return };
        for requester in requesters {
            self.coordinator.handle_holder_here(now, requester);
        }
    }

    /// The session of a client has ended, and with it the holders that it was.
    pub fn handle_session_gone(&mut self, now: Now, client: &str) {
        for requester in self.holders.by_client.remove(client).unwrap_or_default() {
            if self.coordinator.has_holder(&requester) {
                tracing::info!(requester = &*requester, client, "a holder has ended: what it commanded is reverted");
                self.coordinator.handle_holder_gone(now, &requester);
            }
        }
    }
}
