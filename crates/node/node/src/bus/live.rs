//! Live feeds for HTTP: each is a subscriber of the tree that is sent what changed, conflated, ten times a second.
//!
//! A feed is a set of dirty topics, not a queue: a reader that is slow gets the newest value of each topic later.

use super::state::{Bus, Subscriber, id_of};
use super::view::write_body;
use crate::access::Gate;
use std::collections::HashSet;
use std::fmt::Write;
use tieline_core::{Filter, Instant, json_string};
use tieline_topics::{Options, RetainHandling, Snapshot, TopicId, Tree, TreeError, Wish};
use tokio::sync::mpsc;

/// Topics in one message.
const CHUNK: usize = 500;
/// Removed topics that may wait for a reader; one that is slower is ended, and finds the present values when it comes
/// again.
const REMOVED_MAX: usize = 10_000;
/// Messages that may wait for a reader.
pub const WAITING_MAX: usize = 4;

/// One reader.
#[derive(Debug)]
pub struct LiveFeed {
    out: mpsc::Sender<String>,
    snapshots: Vec<Snapshot>,
    dirty: HashSet<TopicId>,
    removed: Vec<String>,
    /// More was removed than could wait, or its rights have changed: the reader must begin again.
    is_behind: bool,
    /// What is told has to pass it.
    gate: Option<Gate>,
    /// When the reader has to show again who it is.
    until: Option<Instant>,
}

impl LiveFeed {
    /// A feed that begins with the last values that the filters select.
    #[must_use]
    pub fn new(filters: &[Filter], out: mpsc::Sender<String>, gate: Option<Gate>, until: Option<Instant>) -> Self {
        let snapshots = filters.iter().cloned().map(Snapshot::new).collect();
        Self { out, snapshots, dirty: HashSet::new(), removed: Vec::new(), is_behind: false, gate, until }
    }

    /// Ends it at its next turn where its reader had to show who it is.
    pub fn end_if_gated(&mut self) {
        self.is_behind |= self.gate.is_some();
    }

    /// The topic has a new value.
    pub fn changed(&mut self, topic: TopicId) {
        self.dirty.insert(topic);
    }

    /// The topic has no value any more, and its number may become another's.
    pub fn removed(&mut self, topic: TopicId, path: &str) {
        self.dirty.remove(&topic);
        if self.gate.as_ref().is_some_and(|gate| !gate.allows(path)) {
            return;
        }
        if self.removed.len() < REMOVED_MAX {
            self.removed.push(path.to_owned());
        } else {
            self.is_behind = true;
        }
    }

    /// Sends what is due as far as the reader takes it; false when the reader is gone, or has to go.
    pub fn flush(&mut self, now: Instant, tree: &Tree) -> bool {
        if self.is_behind || self.until.is_some_and(|until| until <= now) {
            return false;
        }
        while self.has_work() {
            let permit = match self.out.try_reserve() {
                Ok(permit) => permit,
                Err(mpsc::error::TrySendError::Full(())) => return true,
                Err(mpsc::error::TrySendError::Closed(())) => return false,
            };
            if let Some(message) =
                next_message(&mut self.snapshots, &mut self.dirty, &mut self.removed, self.gate.as_ref(), tree)
            {
                permit.send(message);
            }
        }
        !self.out.is_closed()
    }

    fn has_work(&self) -> bool {
        !(self.snapshots.is_empty() && self.dirty.is_empty() && self.removed.is_empty())
    }
}

impl Bus {
    /// Adds a reader of live updates.
    ///
    /// # Errors
    /// There are too many subscriptions.
    pub fn add_feed(&mut self, filters: &[Filter], feed: LiveFeed) -> Result<(), TreeError> {
        let key = self.subscribers.insert(Subscriber::Feed(Box::new(feed)));
        let options = Options {
            qos: 0,
            no_local: false,
            retain_as_published: false,
            retain_handling: RetainHandling::Skip,
            subscription_id: None,
            wish: Wish::default(),
        };
        for filter in filters {
            if let Err(error) = self.tree.subscribe(id_of(key), filter, options) {
                self.tree.drop_subscriber(id_of(key));
                self.subscribers.remove(key);
                return Err(error);
            }
        }
        self.feeds.push(key);
        self.work.notify_one();
        Ok(())
    }

    /// Removes a feed whose reader is gone.
    pub(super) fn remove_feed(&mut self, key: usize) {
        self.tree.drop_subscriber(id_of(key));
        self.subscribers.remove(key);
        self.feeds.retain(|feed| *feed != key);
    }
}

fn next_message(
    snapshots: &mut Vec<Snapshot>,
    dirty: &mut HashSet<TopicId>,
    removed: &mut Vec<String>,
    gate: Option<&Gate>,
    tree: &Tree,
) -> Option<String> {
    let mut updates = Vec::new();
    if let Some(walk) = snapshots.last_mut() {
        updates = tree.next(walk, CHUNK);
        if walk.is_done() {
            snapshots.pop();
        }
    } else {
        let some: Vec<TopicId> = dirty.iter().copied().take(CHUNK).collect();
        for id in some {
            dirty.remove(&id);
            updates.extend(tree.view(id));
        }
    }
    updates.retain(|view| gate.is_none_or(|gate| gate.allows(view.topic)));
    // A topic that came back is among the updates, of this message or of one to come.
    removed.retain(|path| tree.get(path).is_none());
    if updates.is_empty() && removed.is_empty() {
        return None;
    }
    let mut text = String::from("{\"updates\":[");
    for (i, view) in updates.iter().enumerate() {
        text.push_str(if i == 0 { "{\"topic\":" } else { ",{\"topic\":" });
        json_string(view.topic, &mut text);
        text.push(',');
        write_body(view.body, &mut text);
        let _ = write!(text, ",\"seq\":{}}}", view.version);
    }
    text.push(']');
    if !removed.is_empty() {
        text.push_str(",\"removed\":[");
        for (i, path) in removed.drain(..).enumerate() {
            if i > 0 {
                text.push(',');
            }
            json_string(&path, &mut text);
        }
        text.push(']');
    }
    text.push('}');
    Some(text)
}
