//! Which nodes an edge has its values from: itself, its upstream, the upstream of that, and so on. A node that finds itself above
//! itself is part of a circle, in which values and messages would go round.
//!
//! Each edge publishes its chain to [`NODES_TOPIC`] and reads that of its upstream. All nodes of a circle see the same nodes, so one
//! of them opens it: the one with the least name. Its chain is then itself alone, and the others go on. It sees what it would
//! have if it took part, so it stays out as long as the others would make a circle with it.

use std::collections::BTreeSet;

/// Where an edge says its chain, as a JSON array.
pub const NODES_TOPIC: &str = "$SYS/edge/nodes";
/// Nodes of a chain, and bytes of a name: a longer one is not read.
const NODES_MAX: usize = 64;
const NAME_BYTES_MAX: usize = 300;

/// What an edge knows of its chain.
#[derive(Debug)]
pub struct Chain {
    own: String,
    /// The upstream's chain, up to where this node is in it.
    above: Vec<String>,
    /// Whether it is in it.
    is_circle: bool,
}

impl Chain {
    /// A node that knows of none above it. The `number` tells nodes apart that have the same name.
    #[must_use]
    pub fn new(name: &str, number: u64) -> Self {
        Self { own: format!("{name} {number:016x}"), above: Vec::new(), is_circle: false }
    }

    /// Takes what the upstream says; whether that changes anything.
    pub fn set_above(&mut self, payload: &[u8]) -> bool {
        let nodes: Vec<String> = serde_json::from_slice(payload).unwrap_or_default();
        let is_sane = nodes.len() <= NODES_MAX && nodes.iter().all(|name| name.len() <= NAME_BYTES_MAX);
        let mut above = if is_sane { nodes } else { Vec::new() };
        let own = above.iter().position(|name| *name == self.own);
        above.truncate(own.unwrap_or(above.len()));
        let is_circle = own.is_some();
        let has_changed = self.above != above || self.is_circle != is_circle;
        (self.above, self.is_circle) = (above, is_circle);
        has_changed
    }

    /// The upstream is away.
    pub fn clear(&mut self) -> bool {
        self.set_above(b"[]")
    }

    /// The nodes of the circle that this node has to open, itself first.
    #[must_use]
    pub fn circle(&self) -> Option<Vec<String>> {
        let others: BTreeSet<&String> = self.above.iter().collect();
        let is_least = others.first().is_none_or(|least| self.own < **least);
        (self.is_circle && is_least).then(|| self.all())
    }

    /// What this node says to those below it.
    #[must_use]
    pub fn said(&self) -> Vec<String> {
        if self.circle().is_some() { vec![self.own.clone()] } else { self.all() }
    }

    fn all(&self) -> Vec<String> {
        std::iter::once(&self.own).chain(&self.above).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes, each the edge of the one that `upstreams` says, tell each other their chains in any order until nothing changes; the
    /// nodes that have opened a circle then.
    fn check(upstreams: &[usize], expect: &[usize]) {
        for seed in 0..50_u64 {
            let name = |at: usize| (at + 7 * usize::try_from(seed).unwrap()) % 11;
            let mut chains: Vec<Chain> =
                (0..upstreams.len()).map(|at| Chain::new(&format!("n{}", name(at)), 1)).collect();
            let (mut dice, mut calm) = (seed, 0);
            while calm < 20 * chains.len() {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(dice >> 33).unwrap() % chains.len();
                let Some(said) = upstreams.get(at).and_then(|up| chains.get(*up)).map(Chain::said) else { continue };
                let has_changed = chains[at].set_above(serde_json::to_string(&said).unwrap().as_bytes());
                calm = if has_changed { 0 } else { calm + 1 };
            }
            let open: Vec<usize> = (0..chains.len()).filter(|at| chains[*at].circle().is_some()).collect();
            assert_eq!(open.len(), expect.len(), "{upstreams:?} {seed}: {chains:?}");
            // Each circle is opened once, by one of its nodes.
            for circle in expect {
                let (mut nodes, mut at) = (Vec::new(), *circle);
                while !nodes.contains(&at) {
                    nodes.push(at);
                    at = upstreams[at];
                }
                assert_eq!(open.iter().filter(|at| nodes.contains(at)).count(), 1, "{upstreams:?} {seed}: {chains:?}");
            }
        }
    }

    #[test]
    fn one_node_of_each_circle_opens_it() {
        check(&[0], &[0]);
        check(&[1, 0], &[0]);
        check(&[1, 2, 0], &[0]);
        check(&[1, 2, 3, 4, 0, 0, 5], &[0]);
        check(&[1, 0, 3, 2, 1], &[0, 2]);
    }

    #[test]
    fn what_is_no_chain_is_none() {
        let mut chain = Chain::new("a", 1);
        for payload in ["", "7", "{\"a\":1}", "[7]", "not json"] {
            assert!(!chain.set_above(payload.as_bytes()) && chain.circle().is_none(), "{payload}");
        }
        let long = serde_json::to_string(&vec!["b"; NODES_MAX + 1]).unwrap();
        assert!(!chain.set_above(long.as_bytes()));
        assert!(chain.set_above(b"[\"b 2\",\"c 3\"]"));
        assert_eq!(chain.said(), ["a 0000000000000001", "b 2", "c 3"]);
        assert!(chain.clear() && !chain.clear());
    }
}
