//! What an edge asks of its upstream: the filters that its own clients have, each once, and none that another one covers.
//!
//! ```text
//! a client's filter ─▶ what it has in common with the allowed ones ─▶ counted ─▶ asked, unless another one covers it
//! ```
//!
//! A filter that nobody has any more is kept for a while: a client that comes back finds its values.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;
use hashbrown::{HashMap, HashSet};
use tieline_core::{Deadlines, Filter, Instant};

/// Filters that are wanted, and which of them are asked for.
#[derive(Debug)]
pub struct Wants {
    /// Nothing else may be asked for.
    allowed: Vec<Filter>,
    linger: Duration,
    wanted: HashMap<Filter, Want>,
    ends: Deadlines<Filter>,
    tree: Node,
    asked: HashSet<Filter>,
    /// Changes of `asked` that were not told yet.
    begun: BTreeSet<Filter>,
    ended: BTreeSet<Filter>,
}

#[derive(Debug, Default)]
struct Want {
    count: usize,
    /// Until when it stays although nobody has it.
    until: Option<Instant>,
}

/// One level of the wanted filters; the wildcards are levels as others.
#[derive(Debug, Default)]
struct Node {
    below: HashMap<Box<str>, Node>,
    here: Option<Filter>,
}

/// A change of what is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asking {
    /// From here on.
    Begin(Filter),
    /// No longer.
    End(Filter),
}

impl Wants {
    /// Nothing is wanted. Nothing but what `allowed` selects will be; what nobody has any more stays for `linger`.
    #[must_use]
    pub fn new(allowed: Vec<Filter>, linger: Duration) -> Self {
        Self {
            allowed,
            linger,
            wanted: HashMap::new(),
            ends: Deadlines::default(),
            tree: Node::default(),
            asked: HashSet::new(),
            begun: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }

    /// One more has the filter.
    pub fn want(&mut self, filter: &Filter) {
        for part in self.parts(filter) {
            let want = self.wanted.entry(part.clone()).or_default();
            want.count += 1;
            if let Some(until) = want.until.take() {
                self.ends.remove(until, part);
            } else if want.count == 1 {
                self.enter(part);
            }
        }
    }

    /// One fewer has it.
    pub fn release(&mut self, now: Instant, filter: &Filter) {
        for part in self.parts(filter) {
            let Some(want) = self.wanted.get_mut(&part).filter(|want| want.count > 0) else { continue };
            want.count -= 1;
            if want.count == 0 {
                let until = now + self.linger;
                want.until = Some(until);
                self.ends.add(until, part);
            }
        }
    }

    /// Somebody has looked at what the filter selects, and may look again: it is wanted for at least as long as one that
    /// was released now.
    pub fn look(&mut self, now: Instant, filter: &Filter) {
        self.want(filter);
        self.release(now, filter);
    }

    /// Gives up what nobody has had for long enough.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((until, part)) = self.ends.due(now) {
            let part = part.clone();
            self.ends.remove(until, part.clone());
            self.wanted.remove(&part);
            self.leave(&part);
        }
    }

    /// When something is to be given up.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        self.ends.timeout()
    }

    /// The next change of what is asked for. What begins comes before what ends: a topic of both is never missed.
    pub fn poll_asking(&mut self) -> Option<Asking> {
        let begun = self.begun.pop_first().map(Asking::Begin);
        begun.or_else(|| self.ended.pop_first().map(Asking::End))
    }

    /// All that is asked for, in no order.
    pub fn asked(&self) -> impl Iterator<Item = &Filter> {
        self.asked.iter()
    }

    /// How many filters are wanted, and how many of them are asked for.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.wanted.len(), self.asked.len())
    }

    /// Whether the topic is one of those that are asked for.
    #[must_use]
    pub fn asks_for(&self, topic: &str) -> bool {
        let levels: Vec<&str> = topic.split('/').collect();
        self.tree.covers(&levels, true, true)
    }

    fn parts(&self, filter: &Filter) -> Vec<Filter> {
        self.allowed.iter().filter_map(|allowed| allowed.common(filter)).collect()
    }

    fn enter(&mut self, part: Filter) {
        let levels: Vec<&str> = part.levels().collect();
        let is_covered = self.tree.covers(&levels, true, false);
        let mut covered = Vec::new();
        self.tree.covered_by(&levels, true, &mut covered);
        self.tree.insert(&levels, part.clone());
        if is_covered {
            return;
        }
        covered.into_iter().for_each(|other| self.end(&other));
        self.begin(part);
    }

    fn leave(&mut self, part: &Filter) {
        let levels: Vec<&str> = part.levels().collect();
        self.tree.remove(&levels);
        if !self.asked.contains(part) {
            return;
        }
        self.end(part);
        let mut covered = Vec::new();
        self.tree.covered_by(&levels, true, &mut covered);
        for other in covered {
            let levels: Vec<&str> = other.levels().collect();
            if !self.tree.covers(&levels, true, false) {
                self.begin(other.clone());
            }
        }
    }

    fn begin(&mut self, filter: Filter) {
        if !self.asked.insert(filter.clone()) {
            return;
        }
        if !self.ended.remove(&filter) {
            self.begun.insert(filter);
        }
    }

    fn end(&mut self, filter: &Filter) {
        if self.asked.remove(filter) && !self.begun.remove(filter) {
            self.ended.insert(filter.clone());
        }
    }
}

impl Node {
    fn insert(&mut self, levels: &[&str], filter: Filter) {
        match levels {
            [] => self.here = Some(filter),
            [level, rest @ ..] => self.below.entry((*level).into()).or_default().insert(rest, filter),
        }
    }

    /// Removes a filter, and the levels that only it used.
    fn remove(&mut self, levels: &[&str]) {
        let [level, rest @ ..] = levels else { return self.here = None };
        let Some(below) = self.below.get_mut(*level) else { return };
        below.remove(rest);
        if below.here.is_none() && below.below.is_empty() {
            self.below.remove(*level);
        }
    }

    /// Whether one of the filters covers this one; itself only where `or_same`.
    fn covers(&self, levels: &[&str], is_first: bool, or_same: bool) -> bool {
        let hidden = is_first && levels.first().is_some_and(|level| level.starts_with('$'));
        let wild = |level: &str| if hidden { None } else { self.below.get(level) };
        let all = wild("#").is_some_and(|below| below.here.is_some());
        let Some((level, rest)) = levels.split_first() else { return all || (or_same && self.here.is_some()) };
        if *level == "#" {
            return all && or_same;
        }
        let any = |below: &Self| below.covers(rest, false, or_same || *level != "+");
        all || wild("+").is_some_and(any)
            || (*level != "+" && self.below.get(*level).is_some_and(|below| below.covers(rest, false, or_same)))
    }

    /// Adds the filters that this one covers, itself among them.
    fn covered_by(&self, levels: &[&str], is_first: bool, found: &mut Vec<Filter>) {
        let shown = |level: &str| !(is_first && level.starts_with('$'));
        match levels {
            [] => found.extend(self.here.clone()),
            ["#"] => {
                found.extend(self.here.clone());
                let below = self.below.iter().filter(|(level, _)| shown(level));
                below.for_each(|(_, below)| below.covered_by(levels, false, found));
            }
            ["+", rest @ ..] => {
                let below = self.below.iter().filter(|(level, _)| &***level != "#" && shown(level));
                below.for_each(|(_, below)| below.covered_by(rest, false, found));
            }
            [level, rest @ ..] => {
                if let Some(below) = self.below.get(*level) {
                    below.covered_by(rest, false, found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    const LINGER: Duration = Duration::from_secs(10);

    fn filter(text: &str) -> Filter {
        Filter::new(text).unwrap()
    }

    struct Desk(Wants, Instant);

    impl Desk {
        fn new(allowed: &str) -> Self {
            Self(Wants::new(allowed.split(' ').map(filter).collect(), LINGER), Instant::ZERO)
        }

        fn changes(&mut self) -> String {
            let shown = |asking| match asking {
                Asking::Begin(filter) => format!("+{filter} "),
                Asking::End(filter) => format!("-{filter} "),
            };
            let changes: String = core::iter::from_fn(|| self.0.poll_asking()).map(shown).collect();
            changes.trim_end().into()
        }

        /// `+a` wants, `-a` releases, `.` is the end of a linger; what changes then.
        fn check(&mut self, does: &str, expect: &str) {
            match does.split_at(1) {
                ("+", text) => self.0.want(&filter(text)),
                ("-", text) => self.0.release(self.1, &filter(text)),
                _ => {
                    self.1 = self.1 + LINGER;
                    self.0.handle_timeout(self.1);
                }
            }
            assert_eq!(self.changes(), expect, "{does}");
        }
    }

    #[test]
    fn filters_are_counted_and_asked_for_once() {
        let mut desk = Desk::new("#");
        desk.check("+a/b", "+a/b");
        desk.check("+a/b", "");
        desk.check("-a/b", "");
        desk.check(".", "");
        desk.check("-a/b", "");
        desk.check("+a/b", "");
        desk.check(".", "");
        desk.check("-a/b", "");
        desk.check(".", "-a/b");
        assert_eq!((desk.0.counts(), desk.0.timeout(), desk.0.tree.below.len()), ((0, 0), None, 0));
        desk.check("-a/b", "");
    }

    #[test]
    fn a_filter_that_covers_others_takes_their_place() {
        let mut desk = Desk::new("#");
        desk.check("+a/b/c", "+a/b/c");
        desk.check("+a/+/d", "+a/+/d");
        desk.check("+x", "+x");
        desk.check("+a/#", "+a/# -a/+/d -a/b/c");
        desk.check("+a/b/e", "");
        desk.check("+#", "+# -a/# -x");
        desk.check("-#", "");
        desk.check(".", "+a/# +x -#");
        desk.check("-a/#", "");
        desk.check("-a/b/e", "");
        desk.check(".", "+a/+/d +a/b/c -a/#");
        assert!(desk.0.asks_for("a/q/d") && !desk.0.asks_for("a/b/e") && !desk.0.asks_for("$SYS/x"));
    }

    #[test]
    fn nothing_is_asked_for_but_what_is_allowed() {
        let mut desk = Desk::new("plant/# site/+/power");
        desk.check("+#", "+plant/# +site/+/power");
        desk.check("+site/1/power", "");
        desk.check("+other/#", "");
        desk.check("+$SYS/#", "");
        desk.check("-#", "");
        desk.check(".", "+site/1/power -plant/# -site/+/power");
    }

    #[test]
    fn what_is_looked_at_stays_for_a_while() {
        let mut desk = Desk::new("#");
        desk.0.look(desk.1, &filter("a"));
        assert_eq!(desk.changes(), "+a");
        desk.check("+a", "");
        desk.0.look(desk.1, &filter("a"));
        desk.check(".", "");
        desk.check("-a", "");
        desk.check(".", "-a");
    }

    /// Whatever comes and goes: what is asked for is what no other wanted filter covers, and covers all that is wanted.
    #[test]
    fn what_is_asked_for_is_the_least_that_covers_all() {
        let pool: Vec<Filter> =
            ["a", "a/#", "a/+", "a/b", "a/b/#", "+/b", "+/b/c", "#", "+", "a/+/c", "b/#", "$x/a", "$x/#"]
                .map(filter)
                .into();
        let mut desk = Desk(Wants::new([filter("#"), filter("$x/#")].into(), Duration::ZERO), Instant::ZERO);
        let (mut held, mut told) = (Vec::<Filter>::new(), BTreeSet::new());
        let mut seed = 7_u64;
        for _ in 0..4000 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 33).unwrap();
            if at & 1 == 0 || held.is_empty() {
                let one = pool[(at >> 1) % pool.len()].clone();
                desk.0.want(&one);
                held.push(one);
            } else {
                let gone = held.swap_remove((at >> 1) % held.len());
                desk.0.release(desk.1, &gone);
                desk.0.handle_timeout(desk.1);
            }
            while let Some(asking) = desk.0.poll_asking() {
                match asking {
                    Asking::Begin(filter) => assert!(told.insert(filter)),
                    Asking::End(filter) => assert!(told.remove(&filter)),
                }
            }
            let least = |one: &&Filter| !held.iter().any(|other| other != *one && other.covers(one));
            let expect: BTreeSet<Filter> = held.iter().filter(least).cloned().collect();
            assert_eq!(told, expect);
        }
    }
}
