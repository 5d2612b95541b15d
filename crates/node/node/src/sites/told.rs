//! What a site tells the centre of itself, each second; the answer says who is above: a node that finds itself there is in a circle.

use super::behind::Behind;
use serde::{Deserialize, Serialize};

/// The word in the subject of it, in the place of a stream.
pub const SUBJECT: &str = "state";
/// Centres above a site, at most.
const LEVELS_MAX: usize = 8;

/// It, as JSON. Members that are not known are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// Records of the journal that wait.
    #[serde(default)]
    pub waiting: u64,
    /// How old the first live one of them is.
    #[serde(default)]
    pub lag_ms: u64,
    /// The clock of the centre minus that of the site.
    #[serde(default)]
    pub clock_offset_us: Option<i64>,
    /// The time on the link, both ways.
    #[serde(default)]
    pub round_trip_us: Option<u64>,
    /// A number that this run of the node has drawn: two nodes that say one name are told apart by it. 0: it says none.
    #[serde(default)]
    pub run: u64,
    /// Sites behind it, where it is a centre.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<Behind>,
    /// Whether it sends nothing, because of what is above it.
    #[serde(default)]
    pub is_closed: bool,
}

/// What a centre answers to a site that says how it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Above {
    /// The numbers of the runs of the centre and of the centres above it, the nearest first.
    #[serde(default)]
    pub runs: Vec<u64>,
    /// When the centre heard the site, by its clock, in microseconds since 1970: the site compares the clocks by it, also while it
    /// has no records for the centre. Earlier releases do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_us: Option<i64>,
}

impl Above {
    /// Why the node of this run must not send to the centre that says it.
    #[must_use]
    pub fn refusal(&self, run: u64) -> Option<String> {
        if self.runs.contains(&run) {
            return Some("the centre is a site below this node, a circle: nothing is sent".to_owned());
        }
        let is_deep = self.runs.len() > LEVELS_MAX;
        is_deep.then(|| format!("more than {LEVELS_MAX} centres are above this node: nothing is sent"))
    }

    /// What a centre of this run says, below what is above it.
    #[must_use]
    pub fn below(run: u64, above: &[u64]) -> Self {
        let runs = std::iter::once(run).chain(above.iter().copied()).take(LEVELS_MAX + 1).collect();
        Self { runs, heard_us: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_by_all_nodes_of_it_and_levels_end() {
        // Each is a site of the next one, and the last one of the first.
        let mut above: [Vec<u64>; 3] = Default::default();
        for _ in 0..4 {
            for node in 0..3 {
                let centre = (node + 1) % 3;
                above[node] = Above::below(centre as u64 + 1, &above[centre]).runs;
            }
        }
        for (node, above) in above.into_iter().enumerate() {
            assert!(above.len() <= LEVELS_MAX + 1);
            let refusal = Above { runs: above, heard_us: None }.refusal(node as u64 + 1).unwrap();
            assert!(refusal.contains("a circle"), "{refusal}");
        }
        let mut chain = Vec::new();
        for level in 1..=8 {
            chain = Above::below(level, &chain).runs;
            assert_eq!(Above { runs: chain.clone(), heard_us: None }.refusal(99), None);
        }
        let refusal = Above::below(9, &chain).refusal(99).unwrap();
        assert!(refusal.contains("more than 8 centres"), "{refusal}");
    }
}
