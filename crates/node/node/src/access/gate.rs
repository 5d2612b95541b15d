//! The bus's side: sessions of users, what each delivery has to pass, and what is denied.

use super::door::Door;
use crate::audit::AuditLine;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::{
    Bucket, EndReason, Identity, Names, Policy, Reach, Refused, Rules, SessionKey, Sessions, Stats, Verb,
};
use tieline_core::{Filter, Instant, Now};

/// Denials written to the audit log in a second; more are counted, and how many they were is written.
const DENIALS_PER_S: u32 = 50;

/// What deliveries to a session have to pass, where its subscriptions select more than it may read. One is shared by
/// all sessions with the same rules, unless the rules name users or clients.
#[derive(Debug)]
pub struct Gate {
    rules: Arc<Rules>,
    user: Box<str>,
    client: Box<str>,
    /// The last update that was asked about, and the answer: the others of the same rules need not ask again.
    last: Cell<(u64, bool)>,
}

impl Entrance {
    /// Who may do what; none where all may do all.
    #[must_use]
    pub fn policy(&self) -> Option<Arc<Policy>> {
        self.door().map(Door::policy)
    }

    /// Where peers show who they are.
    #[must_use]
    pub const fn door(&self) -> Option<&Door> {
        match self {
            Self::Open => None,
            Self::Guarded(door) => Some(door),
        }
    }
}

impl Gate {
    /// What these rules let a user read.
    #[must_use]
    pub fn new(rules: Arc<Rules>, user: &str, client: &str) -> Self {
        Self { rules, user: user.into(), client: client.into(), last: Cell::new((u64::MAX, false)) }
    }

    /// Whether an update may pass; `serial` is the update's own.
    #[must_use]
    pub fn lets(&self, serial: u64, topic: &str) -> bool {
        match self.last.get() {
            (known, lets) if known == serial => lets,
            _ => {
                let lets = self.allows(topic);
                self.last.set((serial, lets));
                lets
            }
        }
    }

    /// Whether a topic may be read.
    #[must_use]
    pub fn allows(&self, topic: &str) -> bool {
        self.rules.allows(Verb::Read, topic, Names { user: &self.user, client: &self.client })
    }
}

/// Who a client is.
#[derive(Debug)]
pub struct Badge {
    /// The user.
    pub user: Box<str>,
    /// What deliveries have to pass, where it may not read all that it has subscribed to.
    pub gate: Option<Rc<Gate>>,
}

impl Badge {
    /// Whether a topic may be read.
    #[must_use]
    pub fn may_read(&self, topic: &str) -> bool {
        self.gate.as_ref().is_none_or(|gate| gate.allows(topic))
    }
}

/// Who came in, on the bus.
#[derive(Debug)]
pub struct Guard {
    sessions: Sessions,
    gates: HashMap<*const Rules, Rc<Gate>>,
    /// The bus's key and generation of each session.
    seats: HashMap<SessionKey, (usize, u64)>,
    denials: Denials,
}

/// How a broker lets clients in.
#[derive(Clone, Debug, Default)]
pub enum Entrance {
    /// All may do all.
    #[default]
    Open,
    /// Each shows who it is.
    Guarded(Door),
}

#[derive(Debug)]
struct Denials {
    bucket: Bucket,
    unwritten: u64,
    counts: [u64; 4],
}

/// A record of the audit log about access.
#[must_use]
pub fn denial(now: Now, who: &str, phase: &str, verb: &str, topic: &str, reason: &str, detail: String) -> AuditLine {
    AuditLine {
        id: 0,
        time: now.utc.to_string(),
        who: who.to_owned(),
        topic: topic.to_owned(),
        device: String::new(),
        value: String::new(),
        mode: verb.to_owned(),
        phase: phase.to_owned(),
        reason: reason.to_owned(),
        detail,
    }
}

impl Guard {
    /// Nobody is here yet.
    #[must_use]
    pub fn new(door: &Door, now: Instant) -> Self {
        Self {
            sessions: Sessions::new(door.policy(), door.config().limits),
            gates: HashMap::new(),
            seats: HashMap::new(),
            denials: Denials { bucket: Bucket::full(DENIALS_PER_S, now), unwritten: 0, counts: [0; 4] },
        }
    }

    /// Lets a session in.
    ///
    /// # Errors
    /// It may not come in.
    pub fn admit(&mut self, now: Instant, identity: Identity, client: &str) -> Result<SessionKey, Refused> {
        self.sessions.admit(now, identity, client)
    }

    /// Where the bus has the session.
    pub fn seat(&mut self, session: SessionKey, key: usize, generation: u64) {
        self.seats.insert(session, (key, generation));
    }

    /// A session has ended.
    pub fn leave(&mut self, session: SessionKey) {
        self.sessions.leave(session);
        self.seats.remove(&session);
    }

    /// Whether a session may do something to a topic.
    #[must_use]
    pub fn decide(&self, session: SessionKey, verb: Verb, topic: &str) -> bool {
        self.sessions.decide(session, verb, topic)
    }

    /// How much of what a filter selects a session may read.
    #[must_use]
    pub fn reach(&self, session: SessionKey, filter: &Filter) -> Reach {
        self.sessions.reach(session, filter)
    }

    /// Whether a session may hold one more subscription than it has.
    #[must_use]
    pub fn may_subscribe(&self, held: usize) -> bool {
        let max = self.sessions.limits().subscriptions_max;
        max == 0 || u32::try_from(held).is_ok_and(|held| held < max)
    }

    /// Counts a message against the session's rates; false when it is over one.
    pub fn spend(&mut self, now: Instant, session: SessionKey, octets: usize) -> bool {
        self.sessions.spend(now, session, octets).is_ok()
    }

    /// The user of a session.
    #[must_use]
    pub fn user(&self, session: SessionKey) -> Option<&str> {
        self.sessions.look(session).map(|(user, _)| user)
    }

    /// What deliveries to a session have to pass.
    #[must_use]
    pub fn gate(&mut self, session: SessionKey, client: &str) -> Option<Rc<Gate>> {
        let (user, rules) = self.sessions.look(session)?;
        let make = |user: &str, client: &str| Rc::new(Gate::new(Arc::clone(rules), user, client));
        if rules.is_personal() {
            return Some(make(user, client));
        }
        let gate = self.gates.entry(Arc::as_ptr(rules)).or_insert_with(|| make("", ""));
        Some(Rc::clone(gate))
    }

    /// The same for a user who is not connected: nothing passes for one that there is not.
    #[must_use]
    pub fn gate_of_user(&self, user: &str) -> Rc<Gate> {
        let none = || Arc::new(Rules::new(Vec::new()));
        Rc::new(Gate::new(self.sessions.policy().rules_of(user).unwrap_or_else(none), user, ""))
    }

    /// Other users and roles hold. The sessions that stay, each with its place on the bus, are to be given new gates.
    pub fn replace(&mut self, policy: Arc<Policy>) -> Vec<(SessionKey, usize, u64)> {
        self.sessions.replace(policy);
        self.gates.clear();
        self.seats.iter().map(|(session, (key, generation))| (*session, *key, *generation)).collect()
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.sessions.handle_timeout(now);
    }

    /// When to call [`Guard::handle_timeout`].
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.sessions.timeout()
    }

    /// A session that has to end: its place on the bus, its user, and why.
    pub fn poll_end(&mut self) -> Option<(usize, u64, String, EndReason)> {
        while let Some((session, why)) = self.sessions.poll_end() {
            let user = self.user(session).unwrap_or_default().to_owned();
            if let Some((key, generation)) = self.seats.get(&session) {
                return Some((*key, *generation, user, why));
            }
        }
        None
    }

    /// Counts a denial; gives what is to be written to the audit log.
    pub fn denied(&mut self, now: Now, who: &str, verb: Verb, topic: &str) -> Option<AuditLine> {
        let at = Verb::ALL.iter().position(|known| *known == verb).unwrap_or_default();
        if let Some(count) = self.denials.counts.get_mut(at) {
            *count += 1;
        }
        self.note(now, denial(now, who, "denied", verb.word(), topic, "not_authorized", String::new()))
    }

    /// What is to be written of a record of which there may be many.
    pub fn note(&mut self, now: Now, mut line: AuditLine) -> Option<AuditLine> {
        let Denials { bucket, unwritten, .. } = &mut self.denials;
        if !bucket.take(now.mono, 1) {
            *unwritten += 1;
            return None;
        }
        if *unwritten > 0 {
            line.detail = format!("{}; {unwritten} records like this were not written", line.detail);
            *unwritten = 0;
        }
        Some(line)
    }

    /// Denials by verb.
    pub fn denials(&self) -> impl Iterator<Item = (Verb, u64)> {
        Verb::ALL.into_iter().zip(self.denials.counts)
    }

    /// What sessions came to.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.sessions.stats()
    }
}
