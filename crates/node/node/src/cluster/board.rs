//! What is shown of a member.

use crate::config::ClusterConfig;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tieline_core::Words;

/// A member that was not heard for so long is away: how it does is not known.
const MEMBER_PATIENCE: Duration = Duration::from_secs(5);
/// Members that are shown.
const MEMBERS_MAX: usize = 32;

/// What a member is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClusterRole {
    /// It does not reach the servers, or cannot read the log yet.
    #[default]
    Connecting,
    /// It cannot become what the leader is without help.
    Behind,
    /// It reads what it does not have yet.
    CatchingUp,
    /// It has what the log has, and takes over where no leader is heard.
    Standby,
    /// It was elected, and starts.
    Starting,
    /// It leads.
    Leader,
}

impl Words for ClusterRole {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("connecting", Self::Connecting),
        ("behind", Self::Behind),
        ("catching_up", Self::CatchingUp),
        ("standby", Self::Standby),
        ("starting", Self::Starting),
        ("leader", Self::Leader),
    ];
}

/// A leader as others hear it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderSeen {
    /// The name of its node.
    pub name: String,
    /// Where clients reach it; none where it does not say so.
    pub reference: Option<String>,
    /// When it was heard last.
    pub heard: Instant,
}

/// A member as others hear it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSeen {
    /// What it was.
    pub role: ClusterRole,
    /// The highest term that it knew.
    pub term: u64,
    /// The last message of the log that it had.
    pub applied: u64,
    /// How old the oldest message was that it did not have; none where it did not know.
    pub behind: Option<Duration>,
    /// Where clients reach it when it leads.
    pub reference: Option<String>,
    /// When it was heard last.
    pub heard: Instant,
}

impl MemberSeen {
    /// Whether what is known of it is of now.
    #[must_use]
    pub fn is_heard(&self) -> bool {
        self.heard.elapsed() < MEMBER_PATIENCE
    }
}

/// A look at a member.
#[derive(Clone, Debug, Default)]
pub struct ClusterSeen {
    /// The core.
    pub cluster: String,
    /// The name of this node.
    pub node: String,
    /// What it is.
    pub role: ClusterRole,
    /// Whether the node of a leader serves.
    pub serves: bool,
    /// The highest term that it knows.
    pub term: u64,
    /// The leader, while it is heard; this node where it leads.
    pub leader: Option<LeaderSeen>,
    /// The last message of the log that this node has.
    pub applied: u64,
    /// The last message of the log that it has heard of.
    pub last: u64,
    /// How old the oldest message is that it does not have; none where it does not know.
    pub behind: Option<Duration>,
    /// The other members that it has heard, by name.
    pub members: BTreeMap<String, MemberSeen>,
    /// What a person must know, in words; empty where there is nothing.
    pub trouble: String,
    /// Messages that it has appended.
    pub appends: u64,
    /// Bytes that wait for the log.
    pub waiting_bytes: usize,
    /// How often it was elected since the start.
    pub elections: u64,
    /// How often it had to step down.
    pub depositions: u64,
    /// Between a record's way to the log and its acknowledgement, last.
    pub append_time: Duration,
}

impl ClusterSeen {
    /// Messages that the log has and this node does not have.
    #[must_use]
    pub const fn lag(&self) -> u64 {
        self.last.saturating_sub(self.applied)
    }

    /// Notes what a member says. One that is new takes the place of the one that was not heard for longest, where there are many.
    pub fn note_member(&mut self, name: &str, seen: MemberSeen) {
        if !self.members.contains_key(name) && self.members.len() >= MEMBERS_MAX {
            let oldest = self.members.iter().min_by_key(|(_, member)| member.heard).map(|(name, _)| name.clone());
            oldest.map(|name| self.members.remove(&name));
        }
        self.members.insert(name.to_owned(), seen);
    }
}

/// What is shown of a member, for all threads.
#[derive(Debug)]
pub struct ClusterBoard {
    seen: Mutex<ClusterSeen>,
    /// A leader that was not heard for so long is none.
    patience: Duration,
}

impl ClusterBoard {
    /// One of a member that has not begun.
    #[must_use]
    pub fn new(config: &ClusterConfig, node: &str) -> Self {
        let (cluster, node) = (config.name.clone(), node.to_owned());
        let seen = ClusterSeen { cluster, node, ..ClusterSeen::default() };
        Self { seen: Mutex::new(seen), patience: 3 * config.silence }
    }

    /// A look. A leader that is silent is not shown.
    #[must_use]
    pub fn look(&self) -> ClusterSeen {
        let mut seen = self.lock().clone();
        seen.leader = seen.leader.filter(|leader| leader.heard.elapsed() < self.patience);
        seen
    }

    /// Changes what is shown.
    pub fn note(&self, change: impl FnOnce(&mut ClusterSeen)) {
        change(&mut self.lock());
    }

    /// What is here is whole between statements.
    fn lock(&self) -> MutexGuard<'_, ClusterSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
