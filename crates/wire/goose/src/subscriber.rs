//! A subscription to one control block: which of its messages count, and for how long.
//!
//! | a message against the last one | is |
//! |---|---|
//! | the same `stNum`, a later `sqNum` | a repetition, which renews the time allowed to live |
//! | a later `stNum` | a change; what lies between was missed |
//! | the same `stNum` and `sqNum` | a duplicate, as a redundant network makes it |
//! | an earlier one, not of a later time | late, and dropped |
//! | an earlier one of a later time | the first of a publisher that restarted |
//!
//! Both numbers go from the highest to 1. Without a trusted time, `stNum` 1 tells a restart. Where the time allowed to live passes, the
//! next message is the first one again, whatever it says.

use crate::pdu::Message;
use crate::time::UtcTime;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use tieline_core::Instant;

/// Numbers before the highest, and behind 1, that are taken for a number that began again.
const WRAP: u32 = 0xFFFF;

/// What a subscription expects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubscriberConfig {
    /// The reference of the control block.
    pub gocb_ref: Box<str>,
    /// The identifier of the application; none: any.
    pub app_id: Option<u16>,
    /// The reference of the data set; none: any.
    pub dat_set: Option<Box<str>>,
    /// The identifier of the message; none: any.
    pub go_id: Option<Box<str>>,
    /// The revision of the configuration; none: any.
    pub conf_rev: Option<u32>,
    /// What simulated messages are for.
    pub simulation: Simulation,
}

/// What simulated messages are for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Simulation {
    /// They are dropped.
    #[default]
    Ignore,
    /// From the first one on they count, and those that are not simulated are dropped, as with `LPHD.Sim`.
    Accept,
}

/// What a message is to a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// The first one, or the first one after the time allowed to live had passed: all values are to be taken.
    First,
    /// The publisher restarted: all values are to be taken.
    Restarted,
    /// The revision of the configuration changed: all values are to be taken.
    Reconfigured {
        /// From this one.
        from: u32,
    },
    /// Some values changed.
    Changed {
        /// So many changes before it never came.
        missed: u32,
    },
    /// Nothing changed.
    Repeated,
    /// It does not count: a duplicate, late, or simulated.
    Dropped,
    /// It is not what the subscription expects: no value can be trusted.
    Refused(Misfit),
}

/// What a message has that a subscription does not expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Another identifier of the application.
    AppId {
        /// What came.
        found: u16,
        /// What is expected.
        expected: u16,
    },
    /// Another data set.
    DatSet,
    /// Another identifier of the message.
    GoId,
    /// Another revision of the configuration.
    ConfRev {
        /// What came.
        found: u32,
        /// What is expected.
        expected: u32,
    },
    /// The publisher says so itself.
    NeedsCommissioning,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AppId { found, expected } => write!(f, "APPID {found:#06x}, expected {expected:#06x}"),
            Self::DatSet => write!(f, "another data set than expected"),
            Self::GoId => write!(f, "another goID than expected"),
            Self::ConfRev { found, expected } => write!(f, "confRev {found}, expected {expected}"),
            Self::NeedsCommissioning => write!(f, "the publisher says that its control block needs commissioning"),
        }
    }
}

/// What a subscription has counted since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriberCounters {
    /// Messages of the control block.
    pub messages: u64,
    /// Changes that came.
    pub changes: u64,
    /// Of these, changes that `stNum` did not tell.
    pub untold: u64,
    /// Changes that never came.
    pub missed: u64,
    /// Repetitions that never came.
    pub lost: u64,
    /// Messages that came twice.
    pub duplicates: u64,
    /// Messages that came after later ones.
    pub late: u64,
    /// Restarts of the publisher.
    pub restarts: u64,
    /// Times that the time allowed to live passed.
    pub expired: u64,
    /// Messages that were dropped as they are simulated, or are not while others are.
    pub simulation: u64,
    /// Messages that are not what the subscription expects.
    pub refused: u64,
    /// Changes of the revision of the configuration.
    pub conf_rev_changes: u64,
}

/// A subscription to one control block.
#[derive(Debug)]
pub struct Subscriber {
    config: SubscriberConfig,
    last: Option<Last>,
    /// The data of the last message; empty without one.
    data: Vec<u8>,
    /// A simulated message came, and they count.
    is_simulated: bool,
    counters: SubscriberCounters,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    st_num: u32,
    sq_num: u32,
    time: UtcTime,
    conf_rev: u32,
    deadline: Instant,
}

impl Subscriber {
    /// Without a message.
    #[must_use]
    pub fn new(config: SubscriberConfig) -> Self {
        Self { config, last: None, data: Vec::new(), is_simulated: false, counters: SubscriberCounters::default() }
    }

    /// What it expects.
    #[must_use]
    pub const fn config(&self) -> &SubscriberConfig {
        &self.config
    }

    /// What it has counted.
    #[must_use]
    pub const fn counters(&self) -> &SubscriberCounters {
        &self.counters
    }

    /// Whether the time allowed to live of a message lasts.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        self.last.is_some()
    }

    /// Whether its values are simulated.
    #[must_use]
    pub const fn is_simulated(&self) -> bool {
        self.is_simulated
    }

    /// When [`Subscriber::handle_timeout`] must be called at the latest.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.last.map(|last| last.deadline)
    }

    /// Whether the time allowed to live has passed: the values are not to be trusted until the next message.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let is_expired = self.last.is_some_and(|last| last.deadline <= now);
        if is_expired {
            self.last = None;
            self.counters.expired += 1;
        }
        is_expired
    }

    /// Takes a message whose reference is that of the control block.
    pub fn receive(&mut self, now: Instant, message: &Message<'_>) -> Received {
        self.counters.messages += 1;
        // A deadline that has passed counts, even where the message was there first.
        self.handle_timeout(now);
        if let Some(misfit) = self.misfit(message) {
            self.counters.refused += 1;
            self.last = None;
            return Received::Refused(misfit);
        }
        if message.is_simulated() != self.is_simulated {
            if self.is_simulated || self.config.simulation == Simulation::Ignore {
                self.counters.simulation += 1;
                return Received::Dropped;
            }
            (self.is_simulated, self.last) = (true, None);
        }
        let received = self.received(message);
        if received == Received::Dropped {
            return received;
        }
        let head = &message.pdu.head;
        let deadline = now + Duration::from_millis(head.time_allowed_ms.into());
        let (st_num, sq_num, time, conf_rev) = (head.st_num, head.sq_num, head.time, head.conf_rev);
        self.last = Some(Last { st_num, sq_num, time, conf_rev, deadline });
        if received != Received::Repeated {
            self.data.clear();
            self.data.extend_from_slice(message.pdu.all_data.bytes());
        }
        received
    }

    fn misfit(&self, message: &Message<'_>) -> Option<Misfit> {
        let (config, head) = (&self.config, &message.pdu.head);
        let is_other = |expected: &Option<Box<str>>, found: Option<&str>| {
            expected.as_deref().is_some_and(|expected| found != Some(expected))
        };
        let app_id = config.app_id.filter(|expected| *expected != message.frame.app_id);
        let conf_rev = config.conf_rev.filter(|expected| *expected != head.conf_rev);
        if let Some(expected) = app_id {
            return Some(Misfit::AppId { found: message.frame.app_id, expected });
        }
        if is_other(&config.dat_set, Some(head.dat_set)) {
            return Some(Misfit::DatSet);
        }
        if is_other(&config.go_id, head.go_id.or(Some(head.gocb_ref))) {
            return Some(Misfit::GoId);
        }
        let conf_rev = conf_rev.map(|expected| Misfit::ConfRev { found: head.conf_rev, expected });
        conf_rev.or(head.needs_commissioning.then_some(Misfit::NeedsCommissioning))
    }

    fn received(&mut self, message: &Message<'_>) -> Received {
        let (head, counters) = (&message.pdu.head, &mut self.counters);
        let Some(last) = self.last else { return Received::First };
        if head.conf_rev != last.conf_rev {
            counters.conf_rev_changes += 1;
            return Received::Reconfigured { from: last.conf_rev };
        }
        if let Some(by) = ahead(last.st_num, head.st_num) {
            counters.changes += 1;
            counters.missed += u64::from(by - 1);
            return Received::Changed { missed: by - 1 };
        }
        if head.st_num == last.st_num {
            if let Some(by) = ahead(last.sq_num, head.sq_num) {
                counters.lost += u64::from(by - 1);
                if message.pdu.all_data.bytes() == self.data {
                    return Received::Repeated;
                }
                (counters.changes, counters.untold) = (counters.changes + 1, counters.untold + 1);
                return Received::Changed { missed: 0 };
            }
            if head.sq_num == last.sq_num && head.time.moment() == last.time.moment() {
                counters.duplicates += 1;
                return Received::Dropped;
            }
        }
        if last.is_later_than(head.st_num, head.time) {
            counters.late += 1;
            return Received::Dropped;
        }
        counters.restarts += 1;
        Received::Restarted
    }
}

impl Last {
    /// Whether an earlier number is late, and not that of a publisher that restarted.
    fn is_later_than(&self, st_num: u32, time: UtcTime) -> bool {
        let is_trusted = time.quality.is_trusted() && self.time.quality.is_trusted();
        let is_first = st_num == 1 && self.st_num != 1;
        time.moment() == self.time.moment() || (time.moment() < self.time.moment() && (is_trusted || !is_first))
    }
}

/// By how much a number is later; none where it is the same or an earlier one. 0 is skipped when a number begins again.
fn ahead(last: u32, number: u32) -> Option<u32> {
    let (is_end, is_start) = (|number| number >= u32::MAX - WRAP, |number| number <= WRAP);
    if is_end(last) && is_start(number) {
        return (u32::MAX - last).checked_add(number.max(1));
    }
    // From before it began again.
    let is_behind = is_start(last) && is_end(number);
    number.checked_sub(last).filter(|by| *by > 0 && !is_behind)
}
