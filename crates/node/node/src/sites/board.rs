//! What is shown of sites and the centre.

use super::behind::Behind;
use super::events::{EventPeer, EventsSeen};
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tieline_core::{Instant, Timestamp};

/// How the link to the other end is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FabricLink {
    /// It was never up.
    #[default]
    Connecting,
    /// It is.
    Up,
    /// It is not; why.
    Away(String),
}

impl FabricLink {
    /// All words.
    pub const NAMES: [&'static str; 3] = ["connecting", "up", "away"];

    /// A word of it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up => "up",
            Self::Away(_) => "away",
        }
    }

    /// Why it is away.
    #[must_use]
    pub fn why(&self) -> &str {
        match self {
            Self::Connecting | Self::Up => "",
            Self::Away(why) => why,
        }
    }
}

/// A site, as it sees itself. Counts begin with the process.
#[derive(Clone, Debug, Default)]
pub struct SiteSeen {
    /// Its name at the centre.
    pub name: String,
    /// Whether the centre answers.
    pub link: FabricLink,
    /// Since when.
    pub since: Timestamp,
    /// Records of the journal that the centre does not have.
    pub waiting: u64,
    /// Of these, live ones.
    pub waiting_live: u64,
    /// How long ago the first of the live ones was recorded.
    pub lag: Duration,
    /// Records that the centre will never get.
    pub lost: u64,
    /// Batches and questions that were sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Times without an answer.
    pub silences: u64,
    /// The clock of the centre minus that of the site, in microseconds, and by how much that may be wrong.
    pub clock_offset: Option<(i64, i64)>,
    /// The way on the link, both directions.
    pub round_trip: Option<Duration>,
    /// What the centre refuses; empty where it takes all.
    pub refused: String,
}

/// A site, as the centre sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteRow {
    /// Whether it was heard in time.
    pub is_up: bool,
    /// Since when it is up, or away.
    pub since: Timestamp,
    /// When it was heard last; none since the start.
    pub heard: Option<Timestamp>,
    /// The same by the clock on which silence is measured.
    pub heard_at: Option<Instant>,
    /// What it says: how old the first live record is that waits.
    pub lag: Duration,
    /// What it says: records that wait.
    pub waiting: u64,
    /// Numbers that it said it lost, since the start of this node.
    pub lost: u64,
    /// Records that were stored, since the start of this node.
    pub records: u64,
    /// Samples of them.
    pub samples: u64,
    /// What it says: the clock of the centre minus its own, in microseconds.
    pub clock_offset: Option<i64>,
    /// What it says: the way on the link, both directions.
    pub round_trip: Option<Duration>,
    /// Which nodes say this name.
    pub runs: Runs,
    /// Sites behind it, as it says; none where it is no centre.
    pub behind: Option<Behind>,
}

/// The runs of nodes that say one name: one follows the other, or they are two at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    current: u64,
    former: u64,
    doubled_at: Option<Instant>,
}

impl Runs {
    /// Two nodes are seen no more if only one of them was heard for so long.
    const FORGOTTEN_AFTER: Duration = Duration::from_secs(10);

    /// A run is heard; true where there are two nodes, and that was not known.
    pub fn heard(&mut self, now: Instant, run: u64) -> bool {
        if run == 0 || run == self.current {
            return false;
        }
        // A node that was replaced by a new start of itself is not heard again.
        let is_back = run == self.former;
        (self.former, self.current) = (self.current, run);
        let was_known = self.is_doubled(now);
        if is_back {
            self.doubled_at = Some(now);
        }
        is_back && !was_known
    }

    /// Whether two nodes say the name.
    #[must_use]
    pub fn is_doubled(&self, now: Instant) -> bool {
        self.doubled_at.is_some_and(|at| now.since(at) < Self::FORGOTTEN_AFTER)
    }
}

/// A centre. Counts begin with the process.
#[derive(Clone, Debug, Default)]
pub struct CentreSeen {
    /// Whether the servers answer.
    pub link: FabricLink,
    /// Since when.
    pub since: Timestamp,
    /// Sites by name.
    pub sites: BTreeMap<Arc<str>, SiteRow>,
    /// Batches that are on the disk.
    pub stored: u64,
    /// Batches that did not continue after the mark.
    pub not_stored: u64,
    /// Batches that came while too much waited.
    pub busy: u64,
    /// Batches that were refused.
    pub refused: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Records that no release at hand can read, and samples whose topics are too long.
    pub unreadable: u64,
    /// Bytes of records that wait for the disk.
    pub waiting_bytes: usize,
}

/// Read by many, written by the thread of the room.
#[derive(Debug, Default)]
pub struct SitesBoard {
    site: Mutex<Option<SiteSeen>>,
    centre: Mutex<Option<CentreSeen>>,
    /// The topics of sites are below it.
    prefix: OnceLock<String>,
    run: OnceLock<u64>,
    /// The runs of the centres above, the nearest first.
    above: Mutex<Vec<u64>>,
    /// The links of messages: that to the centre, and those to sites.
    events: Mutex<BTreeMap<EventPeer, EventsSeen>>,
}

impl SitesBoard {
    /// What a site shows; none where the node is none.
    #[must_use]
    pub fn site(&self) -> Option<SiteSeen> {
        lock(&self.site).clone()
    }

    /// What a centre shows; none where the node is none.
    #[must_use]
    pub fn centre(&self) -> Option<CentreSeen> {
        lock(&self.centre).clone()
    }

    /// The link of a centre to the servers; none where the node is no centre.
    #[must_use]
    pub fn link_of_centre(&self) -> Option<FabricLink> {
        lock(&self.centre).as_ref().map(|centre| centre.link.clone())
    }

    /// A number that this run of the node has drawn; never 0.
    #[must_use]
    pub fn run(&self) -> u64 {
        *self.run.get_or_init(|| RandomState::new().hash_one(0).max(1))
    }

    /// The runs of the centres above, the nearest first.
    #[must_use]
    pub fn above(&self) -> Vec<u64> {
        lock(&self.above).clone()
    }

    /// Sites behind this node; none where it is no centre.
    #[must_use]
    pub fn behind(&self) -> Option<Behind> {
        let prefix = self.prefix()?;
        Some(lock(&self.centre).as_ref().map_or_else(Behind::default, |seen| Behind::of(prefix, &seen.sites)))
    }

    /// Says who is above.
    pub fn set_above(&self, above: Vec<u64>) {
        *lock(&self.above) = above;
    }

    /// Says below what the topics of sites are.
    pub fn set_prefix(&self, prefix: String) {
        let _ = self.prefix.set(prefix);
    }

    /// What stands before the names of sites in topics; none where the node has no sites.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.get().map(String::as_str)
    }

    /// Whether a topic is one of a site: only the site changes it.
    #[must_use]
    pub fn is_of_site(&self, topic: &str) -> bool {
        self.prefix.get().is_some_and(|prefix| topic.starts_with(prefix.as_str()))
    }

    /// Shows links of messages.
    pub fn set_events(&self, links: impl Iterator<Item = (EventPeer, EventsSeen)>) {
        lock(&self.events).extend(links);
    }

    /// A link of messages: that to a site, or to the centre.
    #[must_use]
    pub fn events(&self, peer: &EventPeer) -> EventsSeen {
        lock(&self.events).get(peer).copied().unwrap_or_default()
    }

    /// Shows a site.
    pub fn set_site(&self, seen: SiteSeen) {
        *lock(&self.site) = Some(seen);
    }

    /// Shows a centre.
    pub fn set_centre(&self, seen: CentreSeen) {
        *lock(&self.centre) = Some(seen);
    }
}

/// What is locked here is whole between statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_nodes_of_one_name_are_seen_and_a_restart_is_not() {
        let at = |seconds: u64| Instant::default() + Duration::from_secs(seconds);
        let mut runs = Runs::default();
        for (second, run, is_new, is_doubled) in [
            (0, 1, false, false),
            (1, 1, false, false),
            // It starts again, and again.
            (2, 2, false, false),
            (3, 3, false, false),
            // Another one that says nothing of itself.
            (4, 0, false, false),
            // The one before is there besides.
            (5, 2, true, true),
            (6, 3, false, true),
            (7, 2, false, true),
            (12, 2, false, true),
            (18, 2, false, false),
            (19, 3, true, true),
        ] {
            assert_eq!((runs.heard(at(second), run), runs.is_doubled(at(second))), (is_new, is_doubled), "{second}");
        }
    }
}
