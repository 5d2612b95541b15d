//! Clients that are told which topics come and go, and which are asked for and missing: subscriptions to `$topics/added/…`,
//! `$topics/removed/…`, `$topics/missing/…` (docs/topics-and-mqtt.md, Topic notifications).
//!
//! Such a subscription stands in the tree like any other, where it selects nothing; what it means is kept here.

use super::state::{Bus, Subscriber};
use super::wire::Wire;
use std::collections::{BTreeSet, HashMap};
use tieline_core::{Filter, Now, Topic};
use tieline_mqtt::{Aside, Message};
use tieline_topics::{Applied, Change, Notice, Notices, Tree, Watch};

/// Where notices are published.
const BRANCH: &str = "$topics/";
/// Clients that watch topics at a time, and filters of one of them.
const WATCHERS_MAX: usize = 1000;
const WATCHED_MAX: usize = 64;
/// Bytes that are made at a time.
const BURST_BYTES: usize = 64 * 1024;

/// All clients that watch topics.
#[derive(Debug, Default)]
pub struct Watchers {
    by_key: HashMap<usize, Watcher>,
    /// Those that something waits for.
    due: BTreeSet<usize>,
    /// Times that clients that are gone were told everything again.
    overruns: u64,
    /// Notices of missing topics that clients that are gone were not told.
    untold: u64,
}

#[derive(Debug, Default)]
struct Watcher {
    notices: Notices,
}

/// What a filter below `$topics/` watches; none where it does not lie there.
///
/// # Errors
/// It lies there and watches nothing; the words are for the client.
pub fn watch_of(filter: &Filter) -> Option<Result<Watch, &'static str>> {
    let rest = filter.strip_prefix(BRANCH)?;
    let (kind, inner) = rest.split_once('/').unwrap_or((rest, "#"));
    let is_bare = !rest.contains('/');
    let (added, removed, missing) = match kind {
        "added" if !is_bare => (true, false, false),
        "removed" if !is_bare => (false, true, false),
        "missing" if !is_bare => (false, false, true),
        "+" if !is_bare => (true, true, false),
        "#" => (true, true, false),
        _ => return Some(Err("below $topics stands added/, removed/, missing/ or +/, and a filter of topics")),
    };
    let inner = Filter::new(inner).map_err(|_| "below $topics/added/ stands a filter of topics");
    Some(inner.map(|filter| Watch { filter, added, removed, missing }))
}

impl Watchers {
    /// Whether something waits for any.
    #[must_use]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether a client may watch one filter more.
    fn has_room(&self, key: usize) -> bool {
        match self.by_key.get(&key) {
            Some(watcher) => watcher.notices.len() < WATCHED_MAX,
            None => self.by_key.len() < WATCHERS_MAX,
        }
    }

    fn watch(&mut self, key: usize, watch: Watch, walk: bool) {
        self.by_key.entry(key).or_default().notices.watch(watch, walk);
        self.due.insert(key);
    }

    fn unwatch(&mut self, key: usize, watch: &Watch) {
        let Some(watcher) = self.by_key.get_mut(&key) else { return };
        watcher.notices.unwatch(watch);
        if watcher.notices.is_empty() {
            self.forget(key);
        }
    }

    /// The client's session has ended.
    pub fn forget(&mut self, key: usize) {
        if let Some(gone) = self.by_key.remove(&key) {
            self.overruns += gone.notices.overruns();
            self.untold += gone.notices.untold();
        }
        self.due.remove(&key);
    }

    /// The client comes over another connection: what the last one had may be lost.
    pub fn restart(&mut self, key: usize) {
        if let Some(watcher) = self.by_key.get_mut(&key) {
            watcher.notices.restart();
            self.due.insert(key);
        }
    }

    /// A topic was updated.
    pub fn note(&mut self, topic: &Topic, applied: &Applied) {
        if self.by_key.is_empty() || !(applied.is_new || applied.change == Change::Cleared) {
            return;
        }
        for (key, watcher) in &mut self.by_key {
            watcher.notices.changed(topic, applied.is_new);
            if watcher.notices.has_work() {
                self.due.insert(*key);
            }
        }
    }

    /// Somebody asks for a topic that has no value.
    fn miss(&mut self, topic: &Topic) {
        for (key, watcher) in &mut self.by_key {
            watcher.notices.missed(topic);
            if watcher.notices.has_work() {
                self.due.insert(*key);
            }
        }
    }

    /// Notices of missing topics that were not told for want of room.
    #[must_use]
    pub fn untold(&self) -> u64 {
        self.untold + self.by_key.values().map(|watcher| watcher.notices.untold()).sum::<u64>()
    }

    /// Times that a client had to be told everything again because too much waited.
    #[must_use]
    pub fn overruns(&self) -> u64 {
        self.overruns + self.by_key.values().map(|watcher| watcher.notices.overruns()).sum::<u64>()
    }
}

impl Bus {
    /// Whether a client may subscribe to a filter, as far as it watches topics.
    #[must_use]
    pub fn may_watch(&self, key: usize, filter: &Filter) -> bool {
        watch_of(filter).is_none() || self.watchers.has_room(key)
    }

    /// A client has subscribed: where that watches topics, they are told from here on.
    pub(super) fn watch(&mut self, key: usize, filter: &Filter, walk: bool) {
        if let Some(Ok(watch)) = watch_of(filter) {
            self.watchers.watch(key, watch, walk);
            self.work.notify_one();
        }
    }

    /// Somebody may read a topic, and asks for it: where it has no value, who watches for that is told. Topics that only a node
    /// publishes are not made by clients.
    pub fn miss(&mut self, topic: &str) {
        if self.watchers.by_key.is_empty() || topic.starts_with('$') || self.tree.get(topic).is_some() {
            return;
        }
        if self.is_reserved(topic) || self.derives(topic) || self.is_of_upstream(topic) {
            return;
        }
        // What has wildcards is no topic.
        if let Ok(topic) = Topic::new(topic) {
            self.watchers.miss(&topic);
            self.work.notify_one();
        }
    }

    /// The subscription has ended.
    pub(super) fn unwatch(&mut self, key: usize, filter: &Filter) {
        if let Some(Ok(watch)) = watch_of(filter) {
            self.watchers.unwatch(key, &watch);
        }
    }

    /// Tells clients of topics that have come and gone, as far as they keep up.
    pub(super) fn flush_watchers(&mut self, now: Now) {
        if self.watchers.due.is_empty() {
            return;
        }
        let Self { subscribers, tree, watchers, pump, work, .. } = self;
        let Watchers { by_key, due, .. } = watchers;
        let mut is_more = false;
        due.retain(|key| {
            // Who is away is told again when it comes again.
            let Some(Subscriber::Client(client)) = subscribers.get(*key) else { return false };
            let Some(watcher) = by_key.get_mut(key) else { return false };
            if client.session.look(Wire::is_output_held) {
                return true;
            }
            if client.session.is_clear() {
                let out = watcher.fill(now, client, tree);
                client.session.send(|wire, _| wire.push_shared(out.into()));
            }
            let has_work = watcher.notices.has_work();
            if has_work && !client.session.is_clear() {
                client.session.look(|wire| wire.tell_when_clear(*key, pump.clear()));
            }
            is_more |= has_work && client.session.is_clear();
            has_work
        });
        if is_more {
            // Others have their turn first.
            work.notify_one();
        }
    }
}

impl Watcher {
    fn fill(&mut self, now: Now, client: &super::client::Client, tree: &Tree) -> Vec<u8> {
        let mut out = Vec::new();
        client.session.look(|wire| {
            while out.len() < BURST_BYTES
                && let Some(notice) = self.notices.next(tree)
            {
                let (path, word, retain) = match &notice {
                    Notice::Anew => (None, "anew", false),
                    Notice::Added { topic, first } => (Some(topic), "added", *first),
                    Notice::Removed(topic) => (Some(topic), "removed", false),
                    Notice::Missing(topic) => (Some(topic), "missing", false),
                };
                if path.is_some_and(|path| client.identity.as_ref().is_some_and(|identity| !identity.may_read(path))) {
                    continue;
                }
                let name = path.map_or_else(|| format!("{BRANCH}{word}"), |path| format!("{BRANCH}{word}/{path}"));
                // A topic that is too deep or too long for its notice has none.
                let Ok(topic) = Topic::new(&name) else { continue };
                let message = Message::new(topic, bytes::Bytes::from_static(word.as_bytes()), now.mono);
                let aside = Aside { message: &message, retain, subscription_ids: &[], alias: None };
                wire.mqtt.emit_aside(now.mono, &aside, &mut out);
            }
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// None where the filter lies elsewhere; some none where it watches nothing.
    fn check(filter: &str, expect: Option<Option<(&str, bool, bool)>>) {
        let found = watch_of(&Filter::new(filter).unwrap()).map(Result::ok);
        let shown =
            |watch: &Option<Watch>| watch.as_ref().map(|watch| (watch.filter.to_string(), watch.added, watch.removed));
        let expect = expect.map(|watch| watch.map(|(filter, added, removed)| (filter.to_owned(), added, removed)));
        assert_eq!(found.as_ref().map(shown), expect, "{filter}");
    }

    #[test]
    fn filters_say_what_is_watched() {
        check("a/#", None);
        check("$topics/added/a/#", Some(Some(("a/#", true, false))));
        check("$topics/removed/+/b", Some(Some(("+/b", false, true))));
        check("$topics/+/#", Some(Some(("#", true, true))));
        check("$topics/#", Some(Some(("#", true, true))));
        check("$topics/missing/a/+", Some(Some(("a/+", false, false))));
        for wrong in ["$topics/added", "$topics/+", "$topics/missing", "$topics/other/#", "$topics/"] {
            check(wrong, Some(None));
        }
    }
}
