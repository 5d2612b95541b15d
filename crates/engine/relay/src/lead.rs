//! Which node of a centre leads: silence is noticed by heartbeats, the right to lead is a lease, and what the right is worth is decided
//! by the stream that all nodes append to.
//!
//! ```text
//!            silence                the lease's revision        written: revision = term
//!  Standby ───────────▶ Reading ─────────────────────▶ Taking ─────────────────────────▶ Claiming
//!     ▲                    │ no answer                    │ another was first                │ the term's record is in the stream
//!     │◀───────────────────┴──────────────────────────────┘                                  ▼
//!     │◀─────────────── a higher term · lease lost · nothing acknowledged for too long ─── Leading
//! ```
//!
//! Heartbeats prove nothing; they only spare the lease. Two nodes may believe that they lead for a moment, each in a term of its own, but
//! only one of them can append ([`crate::Writer`]), and only what is appended is acknowledged.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use tieline_core::{Instant, Random, Timer, Timers};

/// Times of a leader and its standbys.
#[derive(Clone, Copy, Debug)]
pub struct LeadLimits {
    /// A leader says so this often.
    pub heartbeat: Duration,
    /// A standby that has heard nothing for this long reaches for the lease. A leader renews the lease this often, and one without any
    /// acknowledgement for twice as long steps down.
    pub silence: Duration,
    /// The answer of the lease is waited for this long.
    pub lease_timeout: Duration,
    /// A node that has the lease must have its record in the stream in this time.
    pub claim_timeout: Duration,
}

impl Default for LeadLimits {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            silence: Duration::from_millis(400),
            lease_timeout: Duration::from_secs(1),
            claim_timeout: Duration::from_secs(10),
        }
    }
}

/// The lease as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Each change has a higher one.
    pub revision: u64,
    /// Who wrote it: [`Lead::name`].
    pub holder: Box<str>,
}

/// Why a lease was not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseError {
    /// It has another revision than the one that was expected.
    Changed,
    /// No answer: it may have been written.
    Unknown,
}

/// What a node must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadAction {
    /// Tells all others that it leads in this term, for [`Lead::handle_heartbeat`].
    Heartbeat {
        /// The term.
        term: u64,
    },
    /// Reads the lease, for [`Lead::handle_lease`].
    ReadLease {
        /// Which request.
        request: u64,
    },
    /// Writes the lease with its own name, for [`Lead::handle_lease_written`].
    WriteLease {
        /// Which request.
        request: u64,
        /// Only if it has this revision; none: only if there is no lease.
        expected: Option<u64>,
    },
}

/// Why a node no longer leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Another node has a higher term.
    HigherTerm,
    /// The lease is another's.
    LeaseLost,
    /// Nothing was acknowledged for twice the silence.
    NotAcknowledged,
    /// The record of the term did not get into the stream in time.
    NotClaimed,
    /// Its owner wanted that.
    Resigned,
}

/// What the owner of a node learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadEvent {
    /// It has the lease: a [`crate::Writer`] of this term must append the term's record, for [`Lead::handle_begun`].
    Claim {
        /// The term.
        term: u64,
    },
    /// It leads: sessions may be taken.
    Lead {
        /// The term.
        term: u64,
    },
    /// It leads no longer: its writer must go, and sessions must be sent to another.
    StepDown {
        /// The term that is over for it.
        term: u64,
        /// Why.
        reason: Reason,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Standby,
    Reading,
    Taking,
    /// The lease has this revision; the term is the revision at which it was taken.
    Claiming {
        term: u64,
        revision: u64,
    },
    Leading {
        term: u64,
        revision: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A standby reaches for the lease.
    Silence,
    /// The lease has not answered.
    Lease,
    Heartbeat,
    Renewal,
    /// The term's record is not in the stream.
    Claim,
    /// Nothing was acknowledged.
    Acknowledgement,
}

impl Timer for Due {
    const ALL: &'static [Self] =
        &[Self::Silence, Self::Lease, Self::Heartbeat, Self::Renewal, Self::Claim, Self::Acknowledgement];

    fn place(self) -> usize {
        match self {
            Self::Silence => 0,
            Self::Lease => 1,
            Self::Heartbeat => 2,
            Self::Renewal => 3,
            Self::Claim => 4,
            Self::Acknowledgement => 5,
        }
    }
}

/// One node of a centre.
#[derive(Debug)]
pub struct Lead {
    name: Box<str>,
    limits: LeadLimits,
    role: Role,
    /// The highest term that was heard of: lower heartbeats are of the past.
    known_term: u64,
    /// The request that is waited for.
    request: Option<u64>,
    next_request: u64,
    timers: Timers<Due, 6>,
    random: Random,
    actions: VecDeque<LeadAction>,
    events: VecDeque<LeadEvent>,
}

impl Lead {
    /// A standby. `name` must be of this run of this node alone: a node that was restarted does not have the lease of its earlier run.
    #[must_use]
    pub fn new(now: Instant, name: &str, limits: LeadLimits, seed: u64) -> Self {
        let mut lead = Self {
            name: name.into(),
            limits,
            role: Role::Standby,
            known_term: 0,
            request: None,
            next_request: 0,
            timers: Timers::new(),
            random: Random::new(seed),
            actions: VecDeque::new(),
            events: VecDeque::new(),
        };
        lead.wait(now);
        lead
    }

    /// What it writes into the lease.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The term in which it leads. Ask at the moment of an act: a node that was stopped for a while learns here that its time is over.
    #[must_use]
    pub fn leads(&self, now: Instant) -> Option<u64> {
        match self.role {
            Role::Leading { term, .. } => (!self.timers.has_passed(Due::Acknowledgement, now)).then_some(term),
            Role::Standby | Role::Reading | Role::Taking | Role::Claiming { .. } => None,
        }
    }

    /// Another node says that it leads.
    pub fn handle_heartbeat(&mut self, now: Instant, term: u64) {
        if term < self.known_term {
            return;
        }
        self.known_term = term;
        match self.role {
            Role::Standby | Role::Reading => self.wait(now),
            // What is on its way decides.
            Role::Taking => {}
            Role::Claiming { term: own, .. } | Role::Leading { term: own, .. } => {
                if term > own {
                    self.step_down(now, Reason::HigherTerm);
                }
            }
        }
    }

    /// The leader of a term has said that it leaves: a standby need not wait for its silence.
    pub fn handle_leader_left(&mut self, now: Instant, term: u64) {
        if self.role == Role::Standby && term >= self.known_term {
            self.timers = Timers::new();
            self.read_lease(now);
        }
    }

    /// The lease, none where there is none yet; an error where it did not answer.
    pub fn handle_lease(&mut self, now: Instant, request: u64, lease: Result<Option<Lease>, LeaseError>) {
        if self.role != Role::Reading || !self.answers(request) {
            return;
        }
        match lease {
            Err(LeaseError::Changed | LeaseError::Unknown) => self.wait(now),
            // One's own lease is of an earlier term, too: it is written again for a new one.
            Ok(lease) => {
                let expected = lease.map(|lease| lease.revision);
                self.known_term = self.known_term.max(expected.unwrap_or_default());
                self.role = Role::Taking;
                self.write_lease(now, expected);
            }
        }
    }

    /// The revision that the lease has since it was written.
    pub fn handle_lease_written(&mut self, now: Instant, request: u64, written: Result<u64, LeaseError>) {
        if !self.answers(request) {
            return;
        }
        match (self.role, written) {
            (Role::Standby | Role::Reading, _) => {}
            (Role::Taking, Ok(revision)) => self.claim(now, revision),
            (Role::Taking, Err(LeaseError::Changed)) => self.wait(now),
            (Role::Taking, Err(LeaseError::Unknown)) => self.read_lease(now),
            (Role::Claiming { term, .. }, Ok(revision)) => self.role = Role::Claiming { term, revision },
            (Role::Leading { term, .. }, Ok(revision)) => {
                self.role = Role::Leading { term, revision };
                self.handle_acknowledged(now);
            }
            // A renewal that was done without an answer looks the same, and ends in a new term.
            (Role::Claiming { .. } | Role::Leading { .. }, Err(LeaseError::Changed)) => {
                self.step_down(now, Reason::LeaseLost);
            }
            (Role::Claiming { .. } | Role::Leading { .. }, Err(LeaseError::Unknown)) => {}
        }
    }

    /// The record of this term is in the stream: the node leads.
    pub fn handle_begun(&mut self, now: Instant, term: u64) {
        if let Role::Claiming { term: own, revision } = self.role
            && own == term
        {
            self.role = Role::Leading { term, revision };
            self.timers.clear(Due::Claim);
            self.handle_acknowledged(now);
            self.events.push_back(LeadEvent::Lead { term });
        }
    }

    /// The stream has acknowledged something of this term.
    pub fn handle_acknowledged(&mut self, now: Instant) {
        if matches!(self.role, Role::Leading { .. }) {
            self.timers.set(Due::Acknowledgement, now + self.limits.silence * 2);
        }
    }

    /// The owner of a leader does not want to lead any longer: the first node that asks for the lease gets it.
    pub fn handle_resignation(&mut self, now: Instant) {
        self.step_down(now, Reason::Resigned);
    }

    /// The stream has a record of a higher term.
    pub fn handle_fenced(&mut self, now: Instant, term: u64) {
        self.known_term = self.known_term.max(term);
        self.step_down(now, Reason::HigherTerm);
    }

    /// Lets deadlines that have passed take effect.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(due) = self.timers.take_next(now) {
            match due {
                Due::Silence => self.read_lease(now),
                Due::Lease => self.handle_lease_silence(now),
                Due::Heartbeat => self.beat(now),
                Due::Renewal => self.renew(now),
                Due::Claim => self.step_down(now, Reason::NotClaimed),
                Due::Acknowledgement => self.step_down(now, Reason::NotAcknowledged),
            }
        }
    }

    /// When [`Lead::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.timers.timeout()
    }

    /// What must be done next.
    pub fn poll_action(&mut self) -> Option<LeadAction> {
        self.actions.pop_front()
    }

    /// What happened since.
    pub fn poll_event(&mut self) -> Option<LeadEvent> {
        self.events.pop_front()
    }

    fn answers(&mut self, request: u64) -> bool {
        let is_awaited = self.request == Some(request);
        if is_awaited {
            self.request = None;
            self.timers.clear(Due::Lease);
        }
        is_awaited
    }

    /// A standby waits for a silence; nodes do not wait equally long.
    fn wait(&mut self, now: Instant) {
        self.role = Role::Standby;
        self.request = None;
        self.timers = Timers::new();
        let spread = self.limits.silence * u32::try_from(self.random.number() % 256).unwrap_or(0) / 1024;
        self.timers.set(Due::Silence, now + self.limits.silence + spread);
    }

    fn begin_request(&mut self, now: Instant) -> u64 {
        self.next_request += 1;
        self.request = Some(self.next_request);
        self.timers.set(Due::Lease, now + self.limits.lease_timeout);
        self.next_request
    }

    fn read_lease(&mut self, now: Instant) {
        self.role = Role::Reading;
        let request = self.begin_request(now);
        self.actions.push_back(LeadAction::ReadLease { request });
    }

    fn write_lease(&mut self, now: Instant, expected: Option<u64>) {
        let request = self.begin_request(now);
        self.actions.push_back(LeadAction::WriteLease { request, expected });
    }

    fn handle_lease_silence(&mut self, now: Instant) {
        self.request = None;
        match self.role {
            Role::Standby => {}
            Role::Reading => self.wait(now),
            Role::Taking => self.read_lease(now),
            Role::Claiming { .. } | Role::Leading { .. } => self.renew(now),
        }
    }

    fn claim(&mut self, now: Instant, term: u64) {
        self.known_term = self.known_term.max(term);
        self.role = Role::Claiming { term, revision: term };
        self.timers = Timers::new();
        self.timers.set(Due::Claim, now + self.limits.claim_timeout);
        self.timers.set(Due::Renewal, now + self.limits.silence);
        self.beat(now);
        self.events.push_back(LeadEvent::Claim { term });
    }

    fn beat(&mut self, now: Instant) {
        let (Role::Claiming { term, .. } | Role::Leading { term, .. }) = self.role else { return };
        self.timers.set(Due::Heartbeat, now + self.limits.heartbeat);
        // One that is not taken is worth no more than none.
        if !self.actions.contains(&LeadAction::Heartbeat { term }) {
            self.actions.push_back(LeadAction::Heartbeat { term });
        }
    }

    fn renew(&mut self, now: Instant) {
        let (Role::Claiming { revision, .. } | Role::Leading { revision, .. }) = self.role else { return };
        self.timers.set(Due::Renewal, now + self.limits.silence);
        if self.request.is_none() {
            self.write_lease(now, Some(revision));
        }
    }

    fn step_down(&mut self, now: Instant, reason: Reason) {
        let (Role::Claiming { term, .. } | Role::Leading { term, .. }) = self.role else { return };
        self.wait(now);
        self.events.push_back(LeadEvent::StepDown { term, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    /// A node that leads in term 5 since 0 ms.
    fn leader() -> Lead {
        let mut lead = Lead::new(at(0), "a", LeadLimits::default(), 1);
        lead.handle_leader_left(at(0), 4);
        assert_eq!(lead.poll_action(), Some(LeadAction::ReadLease { request: 1 }));
        lead.handle_lease(at(0), 1, Ok(Some(Lease { revision: 4, holder: "b".into() })));
        assert_eq!(lead.poll_action(), Some(LeadAction::WriteLease { request: 2, expected: Some(4) }));
        lead.handle_lease_written(at(0), 2, Ok(5));
        lead.handle_begun(at(0), 5);
        assert_eq!(lead.leads(at(0)), Some(5));
        lead
    }

    #[test]
    fn the_silence_of_a_leader_that_left_is_not_waited_for() {
        let mut lead = leader();
        // It is of the past, and the leader itself does not take it.
        lead.handle_leader_left(at(1), 4);
        assert_eq!(lead.leads(at(1)), Some(5));
        let mut lead = Lead::new(at(0), "a", LeadLimits::default(), 1);
        lead.handle_heartbeat(at(0), 7);
        lead.handle_leader_left(at(0), 6);
        assert_eq!(lead.poll_action(), None);
        lead.handle_leader_left(at(0), 7);
        assert_eq!(lead.poll_action(), Some(LeadAction::ReadLease { request: 1 }));
        // One that is asked for already is not asked for again.
        lead.handle_leader_left(at(0), 7);
        assert_eq!(lead.poll_action(), None);
    }

    #[test]
    fn who_resigns_leads_no_longer() {
        let mut lead = leader();
        while lead.poll_event().is_some() {}
        lead.handle_resignation(at(1));
        assert_eq!(lead.poll_event(), Some(LeadEvent::StepDown { term: 5, reason: Reason::Resigned }));
        assert_eq!(lead.leads(at(1)), None);
        lead.handle_resignation(at(2));
        assert_eq!(lead.poll_event(), None);
    }
}
