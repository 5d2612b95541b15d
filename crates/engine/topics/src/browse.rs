//! Last values in pages: for a new subscriber, for HTTP, for a tree on a screen.
//!
//! All pages are ordered by path, level by level (`a/b` before `a/b/c` before `a/b-c`), and name the place where they
//! ended, so that the tree may change between two of them: a topic that stays is seen once, one that comes or goes
//! meanwhile may or may not be.

use crate::order::compare;
use crate::{Selector, TopicId, Tree, View};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;
use tieline_core::{Filter, Topic};

/// Topics looked at in one call at most: a bound on its time where a filter selects few of many.
pub(crate) const SCANNED_MAX: usize = 8_192;
/// The same where an expression is matched with each.
const NARROWED_SCANNED_MAX: usize = 128;

/// A place in the walk over the last values that a filter selects.
#[derive(Clone, Debug)]
pub struct Snapshot {
    filter: Filter,
    /// What narrows it.
    selector: Option<Selector>,
    /// The levels before the first wildcard.
    prefix: Box<str>,
    /// Whether the filter names one topic.
    is_exact: bool,
    after: Option<Topic>,
    is_done: bool,
}

impl Snapshot {
    /// Before the first.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self::resume(filter, None)
    }

    /// After `after`, which need not be in the tree.
    #[must_use]
    pub fn resume(filter: Filter, after: Option<Topic>) -> Self {
        let prefix = filter.levels().take_while(is_literal).collect::<Vec<_>>().join("/").into_boxed_str();
        let is_exact = prefix.len() == filter.len();
        Self { filter, selector: None, prefix, is_exact, after, is_done: false }
    }

    /// Of what a selector selects, too.
    #[must_use]
    pub fn narrowed(self, selector: Option<Selector>) -> Self {
        Self { selector, ..self }
    }

    fn selects(&self, topic: &str) -> bool {
        self.filter.matches(topic) && self.selector.as_ref().is_none_or(|selector| selector.matches(topic))
    }

    /// What it walks over, but for a selector.
    #[must_use]
    pub const fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether the walk is over.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.is_done
    }

    /// The one topic that the filter selects, where it has no wildcards.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.is_exact.then_some(&*self.filter)
    }

    /// Goes back to the place after a topic that the walk has passed.
    pub fn go_back(&mut self, after: &Topic) {
        (self.after, self.is_done) = (Some(after.clone()), false);
    }

    /// Whether the topic, if it holds a value then, is still to come.
    #[must_use]
    pub fn awaits(&self, topic: &Topic) -> bool {
        let is_ahead = self.after.as_ref().is_none_or(|after| compare(topic, after).is_gt());
        !self.is_done && is_ahead && self.selects(topic)
    }

    /// The topic that the walk has come to; none at its beginning.
    #[must_use]
    pub const fn place(&self) -> Option<&Topic> {
        self.after.as_ref()
    }

    /// Goes back to a [`Snapshot::place`] where it has been.
    pub fn return_to(&mut self, place: Option<Topic>) {
        (self.after, self.is_done) = (place, false);
    }

    /// Levels before the first wildcard.
    pub(crate) fn prefix_levels(&self) -> usize {
        self.filter.levels().take_while(is_literal).count()
    }

    /// Whether a path lies outside the span of topics that may be selected.
    pub(crate) fn is_behind(&self, topic: &str) -> bool {
        let whole = self.prefix.is_empty() && !self.is_exact;
        !whole && (!is_within(topic, &self.prefix) || self.is_exact && topic.len() > self.prefix.len())
    }

    /// Whether a path lies before the span.
    pub(crate) fn is_ahead(&self, topic: &str) -> bool {
        compare(topic, &self.prefix).is_lt()
    }

    /// What follows the span; none where it is all topics.
    pub(crate) fn end(&self) -> Option<String> {
        match (self.is_exact, self.prefix.is_empty()) {
            (false, true) => None,
            // `/` sorts first, so U+0001 is the next after all that stands below a name.
            (false, false) => Some(format!("{}\u{1}", self.prefix)),
            (true, _) => Some(format!("{}/", self.prefix)),
        }
    }

    pub(crate) fn start(&self) -> Bound<&str> {
        let in_span = |after: &&Topic| self.prefix.is_empty() || is_within(after, &self.prefix);
        match &self.after {
            Some(after) if in_span(&after) => Bound::Excluded(after),
            // A place that lies before the span starts it; one behind it is found to be so at the first topic.
            Some(after) if compare(after, &self.prefix).is_gt() => Bound::Excluded(after),
            Some(_) | None => Bound::Included(&self.prefix),
        }
    }
}

/// Part of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Page<T> {
    /// In order.
    pub items: Vec<T>,
    /// Where the next page starts; none when this is the last. A page may be short, even empty, and not the last.
    pub after: Option<String>,
}

/// One level below a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// The level's name.
    pub name: String,
    /// Whether the topic of that name holds a value itself.
    pub has_value: bool,
    /// Topics with a value below it.
    pub below: u32,
}

impl Tree {
    /// The next `count` last values of a walk at most. May be short or empty before the walk is done, where the
    /// filter selects few of many: ask again until [`Snapshot::is_done`].
    pub fn next(&self, walk: &mut Snapshot, count: usize) -> Vec<View<'_>> {
        let mut page = Vec::new();
        let mut last = None;
        if walk.is_done || count == 0 {
            return page;
        }
        let mut ended = true;
        let scanned_max = if walk.selector.is_some() { NARROWED_SCANNED_MAX } else { SCANNED_MAX };
        for (scanned, (topic, id)) in self.order.range(walk.start()).enumerate() {
            if walk.is_behind(topic) {
                break;
            }
            if page.len() == count || scanned == scanned_max {
                ended = false;
                break;
            }
            last = Some(topic);
            if walk.selects(topic) {
                page.extend(self.view(TopicId(id)));
            }
        }
        walk.is_done = ended;
        if let Some(topic) = last {
            walk.after = Some(topic.clone());
        }
        page
    }

    /// The last values that a filter selects, from behind `after`.
    #[must_use]
    pub fn list(&self, filter: &Filter, after: Option<&Topic>, limit: usize) -> Page<View<'_>> {
        let mut walk = Snapshot::resume(filter.clone(), after.cloned());
        let items = self.next(&mut walk, limit.max(1));
        let after = if walk.is_done { None } else { walk.after.map(|topic| topic.as_str().to_owned()) };
        Page { items, after }
    }

    /// The levels right below `branch` (none: the first levels), from behind the name `after`.
    #[must_use]
    pub fn children(&self, branch: Option<&str>, after: Option<&str>, limit: usize) -> Page<Child> {
        let stem = branch.map_or_else(String::new, |branch| format!("{branch}/"));
        // `/` sorts first, so U+0001 is the next after all that stands below a name.
        let mut from = after.map_or_else(|| stem.clone(), |name| format!("{stem}{name}\u{1}"));
        let mut items: Vec<Child> = Vec::new();
        while let Some((topic, _)) = self.order.range(Bound::Included(&from)).next() {
            let Some(rest) = topic.strip_prefix(stem.as_str()) else { break };
            if items.len() == limit.max(1) {
                let after = items.last().map(|child| child.name.clone());
                return Page { items, after };
            }
            let (name, is_branch) = rest.split_once('/').map_or((rest, false), |(name, _)| (name, true));
            let path = format!("{stem}{name}");
            let below = self.order.count_below(&path);
            items.push(Child { name: name.to_owned(), has_value: !is_branch, below });
            from = path;
            from.push('\u{1}');
        }
        Page { items, after: None }
    }
}

pub(crate) fn is_literal(level: &&str) -> bool {
    !matches!(*level, "+" | "#")
}

fn is_within(topic: &str, branch: &str) -> bool {
    topic.strip_prefix(branch).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
