//! What has changed in the tree and was not sent to a live feed: topics, not values, so that a reader that is slow gets the newest.

use super::view::{write_body, write_end};
use crate::access::ReadFilter;
use std::collections::HashSet;
use tieline_core::{Filter, json_string};
use tieline_topics::{Snapshot, TopicId, Tree, View};

/// Topics in one message.
const CHUNK: usize = 500;
/// Bytes of values in one message; one value comes all the same.
pub(super) const MESSAGE_BYTES: usize = 64 * 1024;
/// Changed topics that may wait for a reader; one that is slower is sent all present values again.
pub(super) const DIRTY_MAX: usize = 20_000;
/// Removed topics that may wait for a reader; one that is slower is ended, and finds the present values when it comes
/// again.
const REMOVED_MAX: usize = 10_000;

/// More was removed than may wait: the reader must begin again.
#[derive(Debug)]
pub(super) struct Behind;

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Changes {
    filters: Box<[Filter]>,
    snapshots: Vec<Snapshot>,
    /// More has changed than may wait: all present values are sent after those that are being sent.
    restarts: bool,
    dirty: HashSet<TopicId>,
    removed: Vec<String>,
}

impl Changes {
    /// All last values that the filters select.
    pub(super) fn new(filters: &[Filter]) -> Self {
        let mut changes = Self {
            filters: filters.into(),
            snapshots: Vec::new(),
            restarts: true,
            dirty: HashSet::new(),
            removed: Vec::new(),
        };
        changes.restart_where_behind();
        changes
    }

    /// The topic has a new value.
    pub(super) fn changed(&mut self, topic: TopicId) {
        if self.restarts {
            return;
        }
        self.dirty.insert(topic);
        if self.dirty.len() > DIRTY_MAX {
            self.dirty = HashSet::new();
            self.restarts = true;
        }
    }

    /// The topic has no value any more; the reader is told its path, if it is given.
    pub(super) fn removed(&mut self, topic: TopicId, path: Option<&str>) -> Result<(), Behind> {
        self.dirty.remove(&topic);
        let Some(path) = path else { return Ok(()) };
        if self.removed.len() >= REMOVED_MAX {
            return Err(Behind);
        }
        self.removed.push(path.to_owned());
        Ok(())
    }

    /// Begins with all present values again where more has changed than could wait.
    pub(super) fn restart_where_behind(&mut self) {
        if self.snapshots.is_empty() && std::mem::take(&mut self.restarts) {
            self.snapshots = self.filters.iter().cloned().map(Snapshot::new).collect();
        }
    }

    #[cfg(test)]
    pub(super) fn is_behind(&self) -> bool {
        self.restarts && self.dirty.capacity() == 0
    }

    /// Whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.dirty.is_empty() && self.removed.is_empty()
    }

    /// The next values and removed topics; none where the reader may see none of them.
    pub(super) fn next_message(&mut self, read_filter: Option<&ReadFilter>, tree: &Tree) -> Option<String> {
        let mut updates = Vec::new();
        if let Some(walk) = self.snapshots.last_mut() {
            updates = tree.next(walk, CHUNK);
            let count = fitting(&updates);
            if count < updates.len()
                && let Some(last) = updates.get(..count).and_then(<[_]>::last)
            {
                walk.go_back(last.topic);
                updates.truncate(count);
            }
            if walk.is_done() {
                self.snapshots.pop();
            }
        } else {
            let some: Vec<TopicId> = self.dirty.iter().copied().take(CHUNK).collect();
            for id in some {
                self.dirty.remove(&id);
                updates.extend(tree.view(id));
            }
            self.dirty.extend(updates.drain(fitting(&updates)..).map(|view| view.id));
        }
        updates.retain(|view| read_filter.is_none_or(|read_filter| read_filter.allows(view.topic)));
        // A topic that came back is among the updates, of this message or of one to come.
        self.removed.retain(|path| tree.get(path).is_none());
        if updates.is_empty() && self.removed.is_empty() {
            return None;
        }
        let mut text = String::from("{\"updates\":[");
        for (i, view) in updates.iter().enumerate() {
            text.push_str(if i == 0 { "{\"topic\":" } else { ",{\"topic\":" });
            json_string(view.topic, &mut text);
            text.push(',');
            write_body(view.body, view.time, &mut text);
            write_end(tree, view, &mut text);
        }
        text.push(']');
        if !self.removed.is_empty() {
            text.push_str(",\"removed\":[");
            for (i, path) in self.removed.drain(..).enumerate() {
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
}

/// How many of the first values go into one message.
fn fitting(updates: &[View<'_>]) -> usize {
    let mut bytes = 0;
    let fits = |view: &&View<'_>| {
        let room = bytes < MESSAGE_BYTES;
        bytes += view.topic.len() + view.body.value_bytes();
        room
    };
    updates.iter().take_while(fits).count()
}
