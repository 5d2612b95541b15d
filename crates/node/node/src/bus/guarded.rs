//! Authorization on the bus: read filters of subscribers, denials, sessions that have to end.

use super::counters::BusCounters;
use super::sessions::Away;
use super::state::{Bus, Subscriber};
use crate::access::{AccessRecord, ClientIdentity, Guard, Serial, denial};
use crate::control::audit::AuditLine;
use std::net::IpAddr;
use std::sync::Arc;
use tieline_access::{EndReason, Policy, SessionKey, Verb};
use tieline_core::Now;
use tieline_mqtt::{Delivery, ReasonCode};

impl Bus {
    /// Those who came in by showing who they are; none where nobody has to.
    #[must_use]
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_deref()
    }

    /// The same, to be changed.
    pub fn guard_mut(&mut self) -> Option<&mut Guard> {
        self.guard.as_deref_mut()
    }

    /// From the start on, somebody has to show who it is.
    pub fn set_guard(&mut self, guard: Guard) {
        self.guard = Some(Box::new(guard));
    }

    /// A session has its place. One that goes on has subscriptions of before, of which nothing is known here.
    pub fn place_session(&mut self, session: SessionKey, key: usize, generation: u64, resumed: bool) {
        if let Some(guard) = self.guard.as_deref_mut() {
            guard.place(session, key, generation);
            let identity = guard.identity(session).map(Box::new);
            if let Some(client) = self.client(key, generation) {
                client.session.close_passage();
                client.identity = identity;
            }
            if resumed {
                self.put_read_filter(session, key);
                self.withhold(key);
            }
        }
    }

    /// Whether a client identifier is in use by another user: taking it over would take its subscriptions over.
    #[must_use]
    pub fn belongs_to_another(&self, client_id: &str, user: &str) -> bool {
        let of_another = |identity: Option<&ClientIdentity>| identity.is_none_or(|identity| *identity.user != *user);
        let here = self.clients.get(client_id).and_then(|key| self.subscribers.get(*key));
        match here {
            Some(Subscriber::Client(client)) => of_another(client.identity.as_deref()),
            Some(Subscriber::Away(away)) => !away.is_unclaimed() && of_another(away.identity.as_deref()),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => false,
        }
    }

    /// A user takes a client identifier of which there may be a session from before anybody had to show who it is: it ends.
    pub fn end_unclaimed(&mut self, now: Now, client_id: &str) {
        let Some(key) = self.clients.get(client_id).copied() else { return };
        if matches!(self.subscribers.get(key), Some(Subscriber::Away(away)) if away.is_unclaimed()) {
            tracing::info!("a session from before users were configured ends: its client identifier is a user's now");
            self.revoke_away(now, key);
        }
    }

    /// Whether a client identifier is in use by a user, whom one that has not shown who it is may not push out.
    #[must_use]
    pub fn belongs_to_a_user(&self, client_id: &str) -> bool {
        let here = self.clients.get(client_id).and_then(|key| self.subscribers.get(*key));
        match here {
            Some(Subscriber::Client(client)) => client.identity.is_some(),
            Some(Subscriber::Away(away)) => away.identity.is_some(),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => false,
        }
    }

    /// Whether a session may be given a message of this topic.
    #[must_use]
    pub(super) fn may_get(&self, key: usize, topic: &str) -> bool {
        let identity = match self.subscribers.get(key) {
            Some(Subscriber::Client(client)) => client.identity.as_deref(),
            Some(Subscriber::Away(away)) => away.identity.as_deref(),
            Some(Subscriber::Group(_) | Subscriber::Feed(_)) | None => None,
        };
        identity.is_none_or(|identity| identity.may_read(topic))
    }

    /// How many subscriptions a client holds.
    #[must_use]
    pub fn subscriptions_of(&self, key: usize) -> usize {
        self.tree.subscription_count(super::state::id_of(key))
    }

    /// Gives a client the read filter that its deliveries have to pass.
    pub fn put_read_filter(&mut self, session: SessionKey, key: usize) {
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        client.put_read_filter(self.guard.as_deref_mut().and_then(|guard| guard.read_filter(session, &client.id)));
    }

    /// Counts a connection that was closed because too many had not been let in yet.
    pub const fn count_unauthenticated_refused(&mut self) {
        self.counters.unauthenticated_refused += 1;
    }

    /// Counts a denial and writes it down.
    pub fn deny(&mut self, now: Now, user: &str, who: &str, verb: Verb, topic: &str) {
        tracing::debug!(who, %verb, topic, "denied");
        let record = self.guard.as_deref_mut().and_then(|guard| guard.denied(now, user, who, verb, topic));
        record.into_iter().for_each(|record| self.note_access(record));
        self.work.notify_one();
    }

    /// Writes a record about access down.
    pub fn note_access(&mut self, record: AccessRecord) {
        self.commands.note(line_of(record));
    }

    /// Writes down that a peer was refused, unless it is one of many refusals: then they are counted, and their number is written.
    pub fn note_refused(&mut self, peer: IpAddr, record: AccessRecord) {
        let now = self.now().mono;
        if self.guard.as_deref_mut().is_some_and(|guard| guard.refused(now, peer, &record.reason)) {
            tracing::info!(who = record.who, reason = record.reason, detail = record.detail, "a peer was refused");
            self.note_access(record);
        }
        self.work.notify_one();
    }

    /// Other users and roles hold, from this moment on: for deliveries on their way to sessions, too.
    pub fn replace_policy(&mut self, now: Now, policy: Arc<Policy>) {
        let users = policy.users().count();
        self.forget_rights_of_sites();
        let Some(guard) = self.guard.as_deref_mut() else { return };
        let is_revoked = |(key, subscriber): (usize, &Subscriber)| match subscriber {
            Subscriber::Away(away) => away.user().filter(|user| guard.is_revoked(&policy, user)).map(|_| key),
            Subscriber::Client(_) | Subscriber::Group(_) | Subscriber::Feed(_) => None,
        };
        let revoked: Vec<usize> = self.subscribers.iter().filter_map(is_revoked).collect();
        let mut here = Vec::new();
        for (session, key, generation) in guard.replace(policy) {
            // What a session has subscribed to is not kept twice; its read filter checks each topic from now on.
            if let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key)
                && client.generation == generation
                && client.identity.is_some()
            {
                client.put_read_filter(guard.read_filter(session, &client.id));
                here.push(key);
            }
        }
        // Who is away is judged as its user in the file: what a token said is not kept.
        let mut changed = Vec::new();
        for (key, subscriber) in &mut self.subscribers {
            if let Subscriber::Away(away) = subscriber
                && let Some(identity) = &mut away.identity
            {
                identity.read_filter = Some(guard.read_filter_of_user(&identity.user));
                let gone = self.kept.withhold(away);
                count_withheld(&mut self.counters, gone);
                changed.push(key);
            }
        }
        changed.into_iter().for_each(|key| self.session_changed(key));
        for key in revoked {
            tracing::info!("a session that waits for its client ends: its user is gone or has changed");
            self.revoke_away(now, key);
        }
        here.into_iter().for_each(|key| self.withhold(key));
        self.end_gated_feeds();
        self.note_access(denial(now, "files", "policy", "", "", "", format!("{users} users")));
        self.work.notify_one();
    }

    /// Drops what waits for a client and was never sent, where it may not be read by what holds now.
    fn withhold(&mut self, key: usize) {
        let Some(Subscriber::Client(client)) = self.subscribers.get_mut(key) else { return };
        let Some(identity) = client.identity.as_deref().filter(|identity| identity.read_filter.is_some()) else {
            return;
        };
        let may_read = |delivery: &Delivery| identity.may_read(&delivery.message.topic);
        let gone = client.session.with(|wire, _| wire.mqtt.keep_only(may_read));
        count_withheld(&mut self.counters, gone);
    }

    /// Readers of live updates come again, and show again who they are.
    fn end_gated_feeds(&mut self) {
        for (_, subscriber) in &mut self.subscribers {
            if let Subscriber::Feed(feed) = subscriber {
                feed.end_if_gated();
            }
        }
    }

    /// Ends the sessions whose time is over, before anything is sent to them.
    #[inline]
    pub(super) fn end_expired(&mut self, now: Now) {
        if self.guard.as_deref().is_some_and(|guard| guard.has_expired(now.mono)) {
            self.end_unwanted(now);
        }
    }

    /// Ends the sessions that may not stay.
    pub(super) fn end_unwanted(&mut self, now: Now) {
        let Some(guard) = self.guard.as_deref_mut() else { return };
        guard.handle_timeout(now.mono);
        let sums = guard.poll_sums(now);
        sums.into_iter().for_each(|record| self.note_access(record));
        while let Some((key, generation, user, why)) = self.guard.as_deref_mut().and_then(Guard::poll_end) {
            let words = match why {
                EndReason::User => "the user may not be here any longer",
                EndReason::Credential => "what its user shows itself by has changed",
                EndReason::Expired => "the token or the certificate has expired",
            };
            let Some(client) = self.client(key, generation) else { continue };
            if why != EndReason::Expired {
                // Nothing of it waits for another connection.
                client.expiry_s = 0;
            }
            client.disconnect(ReasonCode::NotAuthorized, words);
            let who = format!("mqtt {user} {}", &*client.id);
            tracing::info!(who, words, "session ended");
            self.note_access(denial(now, &who, "session_ended", "", "", "", words.to_owned()));
        }
    }
}

impl Away {
    /// Whether it is from before anybody had to show who it is, and no client has come back to it since: who shows that may take
    /// its identifier. Asked where somebody has to.
    fn is_unclaimed(&self) -> bool {
        let kept = self.kept.as_ref().and_then(|kept| kept.session.as_ref());
        self.identity.is_none() && kept.is_some_and(|session| session.stamp.is_none())
    }
}

/// A record about access as a line of the audit log.
#[must_use]
pub fn line_of(record: AccessRecord) -> AuditLine {
    let AccessRecord { time, who, phase, verb, topic, reason, detail } = record;
    let (device, value) = (String::new(), String::new());
    let time = time.to_string();
    AuditLine { id: 0, time, who, topic, device, value, mode: verb, phase, reason, detail, call: None }
}

fn count_withheld(counters: &mut BusCounters, gone: u64) {
    counters.withheld += gone;
    if gone > 0 {
        tracing::info!(messages = gone, "what waited for a client is dropped: its rights have changed");
    }
}

/// Whether an update may pass to a subscriber; costs a comparison where nobody shows who it is.
#[must_use]
pub(super) fn allows_update(identity: Option<&ClientIdentity>, serial: Serial, topic: &str) -> bool {
    identity
        .and_then(|identity| identity.read_filter.as_ref())
        .is_none_or(|read_filter| read_filter.allows_update(serial, topic))
}
