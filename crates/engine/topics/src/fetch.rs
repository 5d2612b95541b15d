//! Topics that somebody asks for once: a page of them, from the front or from the end.

use crate::browse::{Page, SCANNED_MAX, Snapshot, is_literal};
use crate::order::compare;
use crate::tree::payload_bytes;
use crate::{Selector, TopicId, Tree, View};
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;
use tieline_core::{Filter, Topic};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// Topics that this selects,
    pub filter: Filter,
    /// and this, where there is one.
    pub select: Option<Selector>,
    /// Levels below those of the filter before its first wildcard; topics that have more are passed over.
    pub depth: Option<usize>,
    /// Topics behind this one.
    pub after: Option<Topic>,
    /// Topics before this one.
    pub before: Option<Topic>,
    /// Whether the page ends where the topics end, and begins as far before as it reaches.
    pub from_end: bool,
    /// Topics of a page.
    pub limit: usize,
    /// Bytes of the names and values of a page; the first topic is taken all the same.
    pub bytes_max: usize,
    /// Whether values count.
    pub values: bool,
}

impl Fetch {
    /// All that a filter selects.
    #[must_use]
    pub fn new(filter: Filter) -> Self {
        Self {
            filter,
            select: None,
            depth: None,
            after: None,
            before: None,
            from_end: false,
            limit: usize::MAX,
            bytes_max: usize::MAX,
            values: true,
        }
    }

    /// Whether a topic is asked for, whatever holds it: selected, between `after` and `before`, and of no more levels than `depth`
    /// allows.
    #[must_use]
    pub fn asks_for(&self, topic: &str) -> bool {
        let levels = || self.filter.levels().take_while(is_literal).count();
        let is_deep = |depth| topic.match_indices('/').nth(levels().saturating_add(depth).saturating_sub(1)).is_some();
        self.after.as_ref().is_none_or(|after| compare(topic, after).is_gt())
            && self.before.as_ref().is_none_or(|before| compare(topic, before).is_lt())
            && !self.depth.is_some_and(is_deep)
            && self.wants(topic)
    }

    fn wants(&self, topic: &str) -> bool {
        self.filter.matches(topic) && self.select.as_ref().is_none_or(|select| select.matches(topic))
    }
}

/// How far a page has grown that is made piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    items: usize,
    bytes: usize,
    scanned: usize,
    /// The topic that was looked at last.
    last: Option<Topic>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Of all topics that are asked for.
    Topics,
    /// Of the page.
    Page,
}

impl Growth {
    /// Whether the page is whole.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.end.is_some()
    }

    /// Where the next page starts, or ends where pages are taken from the end; none when there are no more.
    #[must_use]
    pub fn next_page(&self) -> Option<&Topic> {
        self.last.as_ref().filter(|_| self.end != Some(End::Topics))
    }
}

/// A page that grows.
struct Growing<'a, 'g, M> {
    fetch: &'a Fetch,
    may: M,
    tree: &'a Tree,
    items: Vec<View<'a>>,
    growth: &'g mut Growth,
    /// Topics that may still be looked at for now, and bytes that may be given.
    left: (usize, usize),
    /// Levels that a topic may have.
    levels_max: usize,
    /// The topic that was looked at last.
    last: Option<&'a Topic>,
}

/// Where a walk goes on.
enum Onward {
    /// At the next topic.
    Next,
    /// Past all that lies below this path.
    Past(String),
    /// Nowhere: the page is full.
    Full,
    /// Here, another time.
    Later,
}

/// How far a walk went.
enum Walked {
    /// To where topics end, or those that are asked for.
    ToTheEnd,
    /// To a branch that is to be passed over.
    To(String),
    /// Until the page was full.
    UntilFull,
    /// As far as it goes for now.
    ForNow,
}

impl Tree {
    /// One page of what is asked for, in the order of the tree, of topics that `may` be seen. [`Page::after`] is the place
    /// where the next page starts, or ends where pages are taken from the end; it is none when there are no more. A
    /// page may be short, even empty, before that.
    pub fn fetch<'a>(&'a self, fetch: &'a Fetch, may: impl Fn(&Topic) -> bool) -> Page<View<'a>> {
        let mut growth = Growth::default();
        let mut items = self.grow(fetch, &mut growth, (usize::MAX, usize::MAX), may);
        if fetch.from_end {
            items.reverse();
        }
        Page { items, after: growth.next_page().map(|topic| topic.as_str().to_owned()) }
    }

    /// The next piece of a page, made by looking at so many topics at most, of so many bytes but for the last. Pages
    /// from the end grow towards the front, and their topics come in that order. The tree may change between two pieces
    /// as it may
    /// between pages.
    pub fn grow<'a>(
        &'a self,
        fetch: &'a Fetch,
        growth: &mut Growth,
        left: (usize, usize),
        may: impl Fn(&Topic) -> bool,
    ) -> Vec<View<'a>> {
        if growth.is_done() {
            return Vec::new();
        }
        let from = growth.last.clone().filter(|_| !fetch.from_end).or_else(|| fetch.after.clone());
        let walk = Snapshot::resume(fetch.filter.clone(), from);
        let levels_max = fetch.depth.map_or(usize::MAX, |depth| walk.prefix_levels().saturating_add(depth));
        let (items, last) = (Vec::new(), None);
        let mut page = Growing { fetch, may, tree: self, items, growth, left, levels_max, last };
        let end = if fetch.from_end { page.fill_back(&walk) } else { page.fill(&walk) };
        page.growth.end = end;
        page.growth.items += page.items.len();
        if let Some(last) = page.last {
            page.growth.last = Some(last.clone());
        }
        page.items
    }
}

/// What comes next after all that stands below a branch: `/` sorts first, and then U+0001.
fn past(mut branch: String) -> String {
    branch.push('\u{1}');
    branch
}

impl<'a, M: Fn(&Topic) -> bool> Growing<'a, '_, M> {
    /// Walks on from the front.
    fn fill(&mut self, walk: &Snapshot) -> Option<End> {
        let (tree, fetch) = (self.tree, self.fetch);
        let mut from = self.growth.last.as_ref().and_then(|last| self.too_deep(last)).map(past);
        loop {
            let start = from.as_deref().map_or_else(|| walk.start(), Bound::Included);
            let is_over = |topic: &Topic| fetch.before.as_ref().is_some_and(|before| compare(topic, before).is_ge());
            let branch = match self.walk(tree.order.range(start), |topic| is_over(topic) || walk.is_behind(topic)) {
                Walked::ToTheEnd => return Some(End::Topics),
                Walked::UntilFull => return Some(End::Page),
                Walked::ForNow => return None,
                Walked::To(branch) => branch,
            };
            from = Some(past(branch));
        }
    }

    /// The same from the end.
    fn fill_back(&mut self, walk: &Snapshot) -> Option<End> {
        let (tree, fetch) = (self.tree, self.fetch);
        let before = self.growth.last.clone().or_else(|| fetch.before.clone());
        let mut to = self.growth.last.as_ref().and_then(|last| self.too_deep(last));
        loop {
            let outer = walk.end();
            let end = match (&to, &before) {
                (Some(to), _) => Bound::Included(to.as_str()),
                (None, Some(before)) if !walk.is_behind(before) => Bound::Excluded(before.as_str()),
                (None, Some(before)) if walk.is_ahead(before) => return Some(End::Topics),
                (None, _) => outer.as_deref().map_or(Bound::Unbounded, Bound::Excluded),
            };
            let is_over = |topic: &Topic| fetch.after.as_ref().is_some_and(|after| compare(topic, after).is_le());
            match self.walk(tree.order.range_back(end), |topic| is_over(topic) || walk.is_behind(topic)) {
                Walked::ToTheEnd => return Some(End::Topics),
                Walked::UntilFull => return Some(End::Page),
                Walked::ForNow => return None,
                Walked::To(branch) => to = Some(branch),
            }
        }
    }

    /// Takes topics one after the other, until one is over the end.
    fn walk(&mut self, topics: impl Iterator<Item = (&'a Topic, u32)>, is_over: impl Fn(&Topic) -> bool) -> Walked {
        for (topic, id) in topics {
            if is_over(topic) {
                break;
            }
            match self.look(topic, id) {
                Onward::Next => {}
                Onward::Past(branch) => return Walked::To(branch),
                Onward::Full => return Walked::UntilFull,
                Onward::Later => return Walked::ForNow,
            }
        }
        Walked::ToTheEnd
    }

    /// The branch that a topic is in which has too many levels: all below it have.
    fn too_deep(&self, topic: &Topic) -> Option<String> {
        let (end, _) = topic.match_indices('/').nth(self.levels_max.saturating_sub(1))?;
        (self.levels_max < usize::MAX).then(|| topic.get(..end).unwrap_or_default().to_owned())
    }

    /// Takes a topic, where it is asked for and there is room.
    fn look(&mut self, topic: &'a Topic, id: u32) -> Onward {
        let items = self.growth.items + self.items.len();
        if items >= self.fetch.limit.max(1) || self.growth.scanned >= SCANNED_MAX {
            return Onward::Full;
        }
        let (topics, bytes) = self.left;
        if topics == 0 || bytes == 0 {
            return Onward::Later;
        }
        self.left.0 -= 1;
        self.growth.scanned += 1;
        if let Some(branch) = self.too_deep(topic) {
            self.last = Some(topic);
            return Onward::Past(branch);
        }
        if self.fetch.wants(topic)
            && (self.may)(topic)
            && let Some(view) = self.tree.view(TopicId(id))
        {
            let bytes = topic.len() + if self.fetch.values { payload_bytes(view.body) } else { 0 };
            self.growth.bytes = self.growth.bytes.saturating_add(bytes);
            self.left.1 = self.left.1.saturating_sub(bytes);
            if self.growth.bytes > self.fetch.bytes_max && items > 0 {
                return Onward::Full;
            }
            self.items.push(view);
        }
        self.last = Some(topic);
        Onward::Next
    }
}
