//! Filters with wildcards: a trie of their levels, and the sets of filters that select a topic.

use crate::Selector;
use crate::list::{List, SubscriberId};
use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::BuildHasher;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use slab::Slab;
use tieline_core::Filter;

/// What a filter costs besides its text: its record and, at worst, a node for each level.
pub(crate) const FILTER_BYTES: usize = 160;
const LEVEL_BYTES: usize = 96;
const ROOT: u32 = 0;
/// No node, or no filter.
const NONE: u32 = u32::MAX;

/// One level of some filters.
#[derive(Debug)]
struct Node {
    parent: u32,
    level: Box<str>,
    children: HashMap<Box<str>, u32>,
    plus: u32,
    /// The filter that ends here.
    here: u32,
    /// The filter that goes on with `#` from here.
    below: u32,
}

impl Node {
    fn new(parent: u32, level: &str) -> Self {
        Self { parent, level: level.into(), children: HashMap::new(), plus: NONE, here: NONE, below: NONE }
    }

    fn is_bare(&self) -> bool {
        self.children.is_empty() && self.plus == NONE && self.here == NONE && self.below == NONE
    }
}

/// A filter with its subscribers.
#[derive(Debug)]
pub(crate) struct WildFilter {
    pub(crate) filter: Filter,
    pub(crate) list: List,
    /// Those of the same text that a selector narrows.
    narrow: Vec<u32>,
    /// The selector, and the filter that it narrows.
    narrows: Option<(Selector, u32)>,
}

/// All filters with wildcards.
#[derive(Debug)]
pub(crate) struct Wild {
    nodes: Slab<Node>,
    pub(crate) filters: Slab<WildFilter>,
    sets: Vec<Box<[u32]>>,
    set_index: HashTable<u32>,
    set_bytes: usize,
    hasher: DefaultHashBuilder,
    /// Grows when a filter comes or goes: sets of another epoch are void. Never 0.
    pub(crate) epoch: u32,
    frontier: [Vec<u32>; 2],
    found: Vec<u32>,
    /// How many filters are narrowed ones, by the owner of the selector.
    narrowed: HashMap<u64, usize>,
}

impl Wild {
    pub(crate) fn new() -> Self {
        let mut nodes = Slab::new();
        nodes.insert(Node::new(NONE, ""));
        Self {
            nodes,
            filters: Slab::new(),
            sets: Vec::new(),
            set_index: HashTable::new(),
            set_bytes: 0,
            hasher: DefaultHashBuilder::default(),
            epoch: 1,
            frontier: [Vec::new(), Vec::new()],
            found: Vec::new(),
            narrowed: HashMap::new(),
        }
    }

    pub(crate) fn find(&self, filter: &Filter) -> Option<u32> {
        let mut at = ROOT;
        for level in filter.levels() {
            let node = self.nodes.get(at as usize)?;
            at = match level {
                "#" => return some(node.below),
                "+" => some(node.plus)?,
                literal => *node.children.get(literal)?,
            };
        }
        some(self.nodes.get(at as usize)?.here)
    }

    /// Adds a filter that is not here.
    pub(crate) fn insert(&mut self, filter: &Filter) -> u32 {
        let id = self.add(filter, None);
        let mut at = ROOT;
        for level in filter.levels() {
            if level == "#" {
                self.nodes[at as usize].below = id;
                return id;
            }
            at = self.child(at, level);
        }
        self.nodes[at as usize].here = id;
        id
    }

    fn add(&mut self, filter: &Filter, narrows: Option<(Selector, u32)>) -> u32 {
        let (filter, list, narrow) = (filter.clone(), List::default(), Vec::new());
        number(self.filters.insert(WildFilter { filter, list, narrow, narrows }))
    }

    /// The filter that narrows another by this selector.
    pub(crate) fn find_narrow(&self, id: u32, selector: &Selector) -> Option<u32> {
        let is_same = |narrow: &&u32| {
            let narrows = self.filters.get(**narrow as usize).and_then(|filter| filter.narrows.as_ref());
            narrows.is_some_and(|(known, _)| known == selector)
        };
        self.filters.get(id as usize)?.narrow.iter().find(is_same).copied()
    }

    /// Narrows a filter by a selector that does not narrow it yet.
    pub(crate) fn narrow(&mut self, id: u32, selector: Selector) -> u32 {
        let filter = self.filters[id as usize].filter.clone();
        *self.narrowed.entry(selector.owner()).or_default() += 1;
        let new = self.add(&filter, Some((selector, id)));
        self.filters[id as usize].narrow.push(new);
        new
    }

    /// The filter of this text, narrowed or not, that a subscriber holds.
    pub(crate) fn held(&self, filter: &Filter, subscriber: SubscriberId) -> Option<u32> {
        let whole = self.find(filter)?;
        let narrow = &self.filters.get(whole as usize)?.narrow;
        let holds = |id: &u32| self.filters.get(*id as usize).is_some_and(|filter| filter.list.contains(subscriber));
        core::iter::once(whole).chain(narrow.iter().copied()).find(holds)
    }

    /// Whether nobody needs a filter any more.
    fn is_unused(&self, id: u32) -> bool {
        self.filters.get(id as usize).is_some_and(|filter| filter.list.is_empty() && filter.narrow.is_empty())
    }

    /// Removes a filter that nobody needs, and the one that it narrows where nobody needs that either. Gives what they cost.
    pub(crate) fn remove_unused(&mut self, id: u32) -> usize {
        if !self.is_unused(id) {
            return 0;
        }
        match self.filters.get(id as usize).and_then(|filter| filter.narrows.as_ref()).map(|(_, whole)| *whole) {
            None => self.remove(id).map_or(0, |filter| filter_bytes(&filter)),
            Some(whole) => {
                let gone = self.filters.try_remove(id as usize);
                let mut freed = 0;
                if let Some((gone, (selector, _))) = gone.as_ref().and_then(|gone| Some((gone, gone.narrows.as_ref()?)))
                {
                    self.release(selector.owner());
                    freed = narrow_bytes(&gone.filter, selector);
                }
                if let Some(filter) = self.filters.get_mut(whole as usize) {
                    filter.narrow.retain(|narrow| *narrow != id);
                }
                freed + self.remove_unused(whole)
            }
        }
    }

    fn release(&mut self, owner: u64) {
        if let Some(count) = self.narrowed.get_mut(&owner) {
            *count -= 1;
            if *count == 0 {
                self.narrowed.remove(&owner);
            }
        }
    }

    /// How many filters are narrowed ones.
    pub(crate) fn narrow_count(&self) -> usize {
        self.narrowed.values().sum()
    }

    /// How many of them an owner has made.
    pub(crate) fn narrow_count_of(&self, owner: u64) -> usize {
        self.narrowed.get(&owner).copied().unwrap_or(0)
    }

    /// Removes a filter and the levels that only it used; returns its text.
    fn remove(&mut self, id: u32) -> Option<Filter> {
        let filter = self.filters.try_remove(id as usize)?.filter;
        let mut at = ROOT;
        for level in filter.levels() {
            let node = &mut self.nodes[at as usize];
            at = match level {
                "#" => break,
                "+" => node.plus,
                literal => node.children.get(literal).copied()?,
            };
        }
        let node = &mut self.nodes[at as usize];
        *(if node.below == id { &mut node.below } else { &mut node.here }) = NONE;
        self.prune(at);
        Some(filter)
    }

    fn prune(&mut self, mut at: u32) {
        while at != ROOT && self.nodes[at as usize].is_bare() {
            let gone = self.nodes.remove(at as usize);
            let parent = &mut self.nodes[gone.parent as usize];
            if parent.plus == at {
                parent.plus = NONE;
            } else {
                parent.children.remove(&gone.level);
            }
            at = gone.parent;
        }
    }

    fn child(&mut self, at: u32, level: &str) -> u32 {
        let node = &self.nodes[at as usize];
        let known = if level == "+" { some(node.plus) } else { node.children.get(level).copied() };
        if let Some(known) = known {
            return known;
        }
        let new = number(self.nodes.insert(Node::new(at, level)));
        let node = &mut self.nodes[at as usize];
        if level == "+" {
            node.plus = new;
        } else {
            node.children.insert(level.to_owned().into_boxed_str(), new);
        }
        new
    }

    /// Levels of all filters, the root and `#` not counted.
    pub(crate) fn level_count(&self) -> usize {
        self.nodes.len() - 1
    }

    /// Voids all sets.
    pub(crate) fn void_sets(&mut self) {
        self.sets.clear();
        self.set_index.clear();
        self.set_bytes = 0;
        self.epoch = self.epoch.wrapping_add(1);
    }

    pub(crate) fn set(&self, set: u32) -> &[u32] {
        self.sets.get(set as usize).map_or(&[], |filters| filters)
    }

    pub(crate) const fn set_bytes(&self) -> usize {
        self.set_bytes
    }

    /// The number of the set of filters that select the topic, in this epoch. The work is bounded by the number of
    /// levels of all filters: each is visited once at most.
    pub(crate) fn select(&mut self, topic: &str) -> u32 {
        self.match_levels(topic);
        let Self { found, filters, .. } = self;
        let of = |id: &u32| filters.get(*id as usize);
        let selects = |id: &&u32| {
            let narrows = of(id).and_then(|filter| filter.narrows.as_ref());
            narrows.is_some_and(|(selector, _)| selector.matches(topic))
        };
        let narrowed: Vec<u32> =
            found.iter().filter_map(of).flat_map(|whole| &whole.narrow).filter(selects).copied().collect();
        found.extend(narrowed);
        self.found.sort_unstable();
        let hash = self.hasher.hash_one(&self.found);
        let (sets, found, hasher) = (&self.sets, &self.found, &self.hasher);
        if let Some(known) = self.set_index.find(hash, |set| *sets[*set as usize] == **found) {
            return *known;
        }
        let set = number(sets.len());
        self.set_bytes += 32 + 4 * found.len();
        self.sets.push(found.as_slice().into());
        let sets = &self.sets;
        self.set_index.insert_unique(hash, set, |set| hasher.hash_one(&*sets[*set as usize]));
        set
    }

    fn match_levels(&mut self, topic: &str) {
        let [from, to] = &mut self.frontier;
        self.found.clear();
        from.clear();
        from.push(ROOT);
        // MQTT-4.7.2-1: a wildcard in the first level selects no topic that begins with `$`.
        let mut hidden = topic.starts_with('$');
        for level in topic.split('/') {
            to.clear();
            for at in from.iter() {
                let node = &self.nodes[*at as usize];
                to.extend(node.children.get(level));
                if !hidden {
                    self.found.extend(some(node.below));
                    to.extend(some(node.plus));
                }
            }
            hidden = false;
            core::mem::swap(from, to);
        }
        for at in from.iter() {
            // MQTT 5.0 section 4.7.1.2: `sport/#` also selects `sport`.
            let node = &self.nodes[*at as usize];
            self.found.extend(some(node.below));
            self.found.extend(some(node.here));
        }
    }
}

pub(crate) fn narrow_bytes(filter: &Filter, selector: &Selector) -> usize {
    selector.bytes() + FILTER_BYTES + filter.len()
}

pub(crate) fn filter_bytes(filter: &Filter) -> usize {
    FILTER_BYTES + 2 * filter.len() + LEVEL_BYTES * filter.levels().count()
}

fn some(id: u32) -> Option<u32> {
    (id != NONE).then_some(id)
}

fn number(key: usize) -> u32 {
    u32::try_from(key).ok().filter(|id| *id != NONE).expect("limits keep the number of filters below 2^32 - 1")
}
