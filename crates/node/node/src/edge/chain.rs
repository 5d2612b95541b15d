//! Which nodes an edge has its values from: itself, its upstreams, the upstreams of these, and so on. A node that finds itself above
//! itself is part of a circle, in which values and messages would go round.
//!
//! Each edge publishes these nodes to [`NODES_TOPIC`], and reads them of each of its upstreams. Of the nodes of a circle, the one with
//! the least name opens it: it takes nothing of the upstream through which it finds itself behind nodes with greater names only, and
//! the others go on. What a node opens depends on nodes with greater names alone, so all nodes agree, no circle is left, and no link
//! is open for nothing. It sees what it would have if it took part, so it stays out as long as the others would make a circle with it.
//!
//! The topic has a JSON array. Where each node has one upstream, these are names: `["north","core"]`. Where a node has several, each
//! entry is a node with its upstreams behind it: `[["north","west","core"],["west","core"],["core"]]`.

use serde_json::Value as Json;
use std::collections::{BTreeMap, VecDeque};

/// Where an edge says which nodes these are.
pub const NODES_TOPIC: &str = "$SYS/edge/nodes";
/// Nodes that are read, upstreams of one, and bytes of a name: what has more is not read.
const NODES_MAX: usize = 64;
const UPSTREAMS_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 300;

/// Nodes, each with its upstreams; the first one is that which says them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nodes(Vec<(String, Vec<String>)>);

impl Nodes {
    /// Reads what a node says; nothing of what cannot be read.
    #[must_use]
    pub fn read(payload: &[u8]) -> Self {
        let entries: Vec<Json> = serde_json::from_slice(payload).unwrap_or_default();
        Self::of_entries(&entries).filter(Self::is_sane).unwrap_or_default()
    }

    fn of_entries(entries: &[Json]) -> Option<Self> {
        let name = |entry: &Json| entry.as_str().map(str::to_owned);
        let mut nodes = Vec::with_capacity(entries.len().min(NODES_MAX));
        let mut rest = entries;
        while let Some((entry, behind)) = rest.split_first() {
            let node = match entry {
                Json::String(node) => {
                    let above = behind.first().map(name);
                    (node.clone(), above.map_or(Some(Vec::new()), |above| above.map(|above| vec![above]))?)
                }
                Json::Array(names) => {
                    let mut names = names.iter().map(name).collect::<Option<Vec<_>>>()?.into_iter();
                    (names.next()?, names.collect())
                }
                _ => return None,
            };
            nodes.push(node);
            rest = behind;
        }
        Some(Self(nodes))
    }

    fn is_sane(&self) -> bool {
        let is_short = |name: &String| name.len() <= NAME_BYTES_MAX;
        let is_node =
            |(node, above): &(_, Vec<_>)| is_short(node) && above.len() <= UPSTREAMS_MAX && above.iter().all(is_short);
        self.0.len() <= NODES_MAX && self.0.iter().all(is_node)
    }

    /// What a node says whose upstreams say these.
    #[must_use]
    pub fn said<'a>(own: &str, above: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut upstreams: Vec<String> = Vec::new();
        for first in above.clone().filter_map(|nodes| nodes.0.first()) {
            if !upstreams.contains(&first.0) {
                upstreams.push(first.0.clone());
            }
        }
        let mut nodes = vec![(own.to_owned(), upstreams)];
        for (node, above) in above.flat_map(|nodes| &nodes.0) {
            match nodes.iter_mut().find(|(known, _)| known == node) {
                // What others say of this node it knows better.
                Some((known, _)) if known == own => {}
                Some((_, known)) => {
                    let more: Vec<&String> = above.iter().filter(|above| !known.contains(above)).collect();
                    known.extend(more.into_iter().cloned());
                }
                None => nodes.push((node.clone(), above.clone())),
            }
        }
        Self(nodes)
    }

    /// As the topic has it.
    #[must_use]
    pub fn to_json(&self) -> Json {
        let above = |at: usize| self.0.get(at + 1).map(|(above, _)| above);
        let is_line = self.0.iter().enumerate().all(|(at, (_, upstreams))| upstreams.iter().eq(above(at)));
        let entry = |(node, above): &(String, Vec<String>)| match is_line {
            true => Json::from(node.as_str()),
            false => std::iter::once(node).chain(above).map(String::as_str).collect(),
        };
        self.0.iter().map(entry).collect()
    }

    /// The nodes on the shortest way from the first one to `end`, without it, through nodes with greater names; none where there is
    /// no such way.
    fn way_to(&self, end: &str) -> Option<Vec<String>> {
        let above = self.upstreams();
        let first = Some(self.0.first()?.0.as_str()).filter(|first| *first >= end)?;
        let mut from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([first]);
        while let Some(node) = open.pop_front() {
            if node == end {
                let mut way = Vec::new();
                let mut at = from.get(end).copied();
                while let Some(node) = at {
                    way.push(node.to_owned());
                    at = from.get(node).copied().filter(|_| node != first);
                }
                way.reverse();
                return Some(way);
            }
            for next in above.get(node).into_iter().flatten().copied() {
                if next >= end && next != first && !from.contains_key(next) {
                    from.insert(next, node);
                    open.push_back(next);
                }
            }
        }
        None
    }

    fn upstreams(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (node, above) in &self.0 {
            all.entry(node).or_default().extend(above.iter().map(String::as_str));
        }
        all
    }
}

/// What an edge knows of the nodes above one of its upstreams.
#[derive(Debug)]
pub struct Chain {
    own: String,
    /// The upstream's nodes.
    above: Nodes,
    /// The nodes of the circle that this node has to open, itself first.
    circle: Option<Vec<String>>,
}

/// The name of a node in chains. The `number` tells nodes apart that have the same name.
#[must_use]
pub fn node_of(name: &str, number: u64) -> String {
    format!("{name} {number:016x}")
}

impl Chain {
    /// A node that knows of none above it, by its name of [`node_of`].
    #[must_use]
    pub const fn new(own: String) -> Self {
        Self { own, above: Nodes(Vec::new()), circle: None }
    }

    /// Takes what the upstream says; whether that changes anything.
    pub fn set_above(&mut self, payload: &[u8]) -> bool {
        let above = Nodes::read(payload);
        if self.above == above {
            return false;
        }
        let way = above.way_to(&self.own);
        self.circle = way.map(|way| std::iter::once(self.own.clone()).chain(way).collect());
        self.above = above;
        true
    }

    /// The upstream is away.
    pub fn clear(&mut self) -> bool {
        self.set_above(b"[]")
    }

    /// The nodes of the circle that this node has to open, itself first.
    #[must_use]
    pub fn circle(&self) -> Option<Vec<String>> {
        self.circle.clone()
    }

    /// The nodes that this node has values from by this upstream.
    #[must_use]
    pub fn taken(&self) -> Nodes {
        if self.circle.is_some() { Nodes::default() } else { self.above.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % sides
        }
    }

    /// Nodes with the upstreams that `upstreams` says tell each other their nodes in any order until nothing changes; the links of
    /// which nothing is taken then.
    fn settle(upstreams: &[Vec<usize>], dice: &mut Dice) -> Vec<(usize, usize)> {
        let turn = dice.roll(11);
        let own = |at: usize| node_of(&format!("n{}", (at + 7 * turn) % 11), 1);
        let mut chains: Vec<Vec<Chain>> = (0..upstreams.len())
            .map(|at| upstreams[at].iter().map(|_| Chain::new(own(at))).collect::<Vec<_>>())
            .collect();
        let links: Vec<(usize, usize)> =
            (0..upstreams.len()).flat_map(|at| (0..upstreams[at].len()).map(move |link| (at, link))).collect();
        let (mut calm, mut told) = (0, 0);
        while calm < 30 * links.len() {
            let (at, link) = links[dice.roll(links.len())];
            let up = upstreams[at][link];
            let taken: Vec<Nodes> = chains[up].iter().map(Chain::taken).collect();
            let said = Nodes::said(&own(up), taken.iter());
            assert_eq!(Nodes::read(said.to_json().to_string().as_bytes()), said);
            let has_changed = chains[at][link].set_above(said.to_json().to_string().as_bytes());
            calm = if has_changed { 0 } else { calm + 1 };
            told += 1;
            assert!(told < 100_000, "{upstreams:?}: it does not settle: {chains:?}");
        }
        links.into_iter().filter(|(at, link)| chains[*at][*link].circle().is_some()).collect()
    }

    /// Whether a node finds itself above itself by links that are not among `open`.
    fn has_circle(upstreams: &[Vec<usize>], open: &[(usize, usize)]) -> bool {
        (0..upstreams.len()).any(|begin| {
            let (mut seen, mut nodes) = (BTreeSet::new(), vec![begin]);
            while let Some(node) = nodes.pop() {
                for (link, up) in upstreams[node].iter().enumerate().filter(|(link, _)| !open.contains(&(node, *link)))
                {
                    if *up == begin {
                        return true;
                    }
                    if seen.insert((node, link)) {
                        nodes.push(*up);
                    }
                }
            }
            false
        })
    }

    #[test]
    fn one_node_of_each_circle_opens_it() {
        for (upstreams, circles) in
            [(&[0][..], 1), (&[1, 0], 1), (&[1, 2, 0], 1), (&[1, 2, 3, 4, 0, 0, 5], 1), (&[1, 0, 3, 2, 1], 2)]
        {
            let upstreams: Vec<Vec<usize>> = upstreams.iter().map(|up| vec![*up]).collect();
            for seed in 0..50 {
                let open = settle(&upstreams, &mut Dice(seed));
                assert_eq!((open.len(), has_circle(&upstreams, &open)), (circles, false), "{upstreams:?} {seed}");
            }
        }
    }

    #[test]
    fn circles_among_nodes_with_several_upstreams_are_opened_and_no_other_link_is() {
        for seed in 0..300 {
            let mut dice = Dice(seed);
            let count = 2 + dice.roll(4);
            let upstreams: Vec<Vec<usize>> = (0..count)
                .map(|_| {
                    let up: BTreeSet<usize> = (0..dice.roll(3)).map(|_| dice.roll(count)).collect();
                    up.into_iter().collect()
                })
                .collect();
            if upstreams.iter().all(Vec::is_empty) {
                continue;
            }
            let open = settle(&upstreams, &mut dice);
            assert!(!has_circle(&upstreams, &open), "seed {seed}: {upstreams:?}, open: {open:?}");
            for closed in &open {
                let others: Vec<_> = open.iter().filter(|link| *link != closed).copied().collect();
                assert!(
                    has_circle(&upstreams, &others),
                    "seed {seed}: {closed:?} of {upstreams:?} is open for nothing"
                );
            }
        }
    }

    #[test]
    fn a_circle_is_told_as_a_way_through_its_nodes() {
        let mut chain = Chain::new("a 1".to_owned());
        assert!(chain.set_above(br#"[["b 1","c 1","d 1"],["d 1","e 1"],["c 1"],["e 1","a 1"]]"#));
        assert_eq!(chain.circle().unwrap(), ["a 1", "b 1", "d 1", "e 1"]);
        assert_eq!(chain.taken(), Nodes::default());
        let mut chain = Chain::new("f 1".to_owned());
        assert!(chain.set_above(br#"[["b 1","c 1"],["c 1","f 1"]]"#));
        assert_eq!(chain.circle(), None, "b opens it");
    }

    #[test]
    fn what_is_no_chain_is_none() {
        let mut chain = Chain::new(node_of("a", 1));
        for payload in ["", "7", "{\"a\":1}", "[7]", "not json", "[[]]", "[\"a\",[\"b\"]]", "[[\"a\",7]]"] {
            assert!(!chain.set_above(payload.as_bytes()) && chain.circle().is_none(), "{payload}");
        }
        let long = serde_json::to_string(&vec!["b"; NODES_MAX + 1]).unwrap();
        assert!(!chain.set_above(long.as_bytes()));
        assert!(chain.set_above(b"[\"b 2\",\"c 3\"]"));
        let said =
            |chain: &Chain| Nodes::said("a 0000000000000001", std::iter::once(&chain.taken())).to_json().to_string();
        assert_eq!(said(&chain), r#"["a 0000000000000001","b 2","c 3"]"#);
        assert!(chain.clear() && !chain.clear());
        let two = [Nodes::read(b"[\"b 2\",\"c 3\"]"), Nodes::read(b"[\"d 4\",\"c 3\"]")];
        let said = Nodes::said("a", two.iter()).to_json().to_string();
        assert_eq!(said, r#"[["a","b 2","d 4"],["b 2","c 3"],["c 3"],["d 4","c 3"]]"#);
    }
}
