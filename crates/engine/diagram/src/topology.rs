//! What is energised: nodes, switches between them, sources and earths.
//!
//! Two passes, each breadth-first: from what certainly feeds over what is certainly closed, and from what may feed over what
//! may be closed. What the first reaches is certain, what the second does not reach is certain, the rest is unknown.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use tieline_core::{Quality, Validity, Value};

/// The position of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// It conducts.
    Closed,
    /// It does not conduct.
    Open,
    /// It is between the two.
    Moving,
    /// Nobody knows.
    Unknown,
}

impl Position {
    /// The position that a value means: of a two-state point `true` is closed; of a double-bit point 0 is moving, 1 open, 2
    /// closed. A value that is not good means nothing.
    #[must_use]
    pub const fn of(value: &Value, quality: Quality) -> Self {
        if !matches!(quality.validity(), Validity::Good) {
            return Self::Unknown;
        }
        match value {
            Value::Bool(true) | Value::Int(2) => Self::Closed,
            Value::Bool(false) | Value::Int(1) => Self::Open,
            Value::Int(0) => Self::Moving,
            Value::Int(_) | Value::Null | Value::Float(_) | Value::Text(_) | Value::Bytes(_) => Self::Unknown,
        }
    }

    const fn is_closed(self) -> bool {
        matches!(self, Self::Closed)
    }

    const fn may_be_closed(self) -> bool {
        !matches!(self, Self::Open)
    }
}

/// The state of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Fed by a source.
    Energised,
    /// Neither fed nor earthed.
    Dead,
    /// Connected to earth.
    Earthed,
    /// It depends on what is not known, or it is both fed and earthed.
    Unknown,
}

impl State {
    /// As a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Energised => "energised",
            Self::Dead => "dead",
            Self::Earthed => "earthed",
            Self::Unknown => "unknown",
        }
    }
}

/// A connection of two nodes, by their indices. It conducts both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// One end.
    pub from: usize,
    /// The other.
    pub to: usize,
    /// Whether it conducts.
    pub position: Position,
}

/// A connection of a node to a source, or to earth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feed {
    /// The node.
    pub node: usize,
    /// Whether it is connected.
    pub position: Position,
}

/// A network at one instant. Indices of nodes that there are not count for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Network {
    /// How many nodes there are.
    pub nodes: usize,
    /// Connections of nodes.
    pub edges: Vec<Edge>,
    /// Sources.
    pub sources: Vec<Feed>,
    /// Earths.
    pub earths: Vec<Feed>,
}

impl Network {
    /// The state of each node.
    #[must_use]
    pub fn states(&self) -> Vec<State> {
        let neighbours = self.neighbours();
        let reach = |feeds: &[Feed], conducts: fn(Position) -> bool| self.reach(&neighbours, feeds, conducts);
        let (is_live, is_earthed) =
            (reach(&self.sources, Position::is_closed), reach(&self.earths, Position::is_closed));
        let (may_live, may_earthed) =
            (reach(&self.sources, Position::may_be_closed), reach(&self.earths, Position::may_be_closed));
        let live = is_live.into_iter().zip(may_live);
        let earthed = is_earthed.into_iter().zip(may_earthed);
        live.zip(earthed).map(|(live, earthed)| state_of(live, earthed)).collect()
    }

    fn neighbours(&self) -> Vec<Vec<(usize, Position)>> {
        let mut all = vec![Vec::new(); self.nodes];
        for &Edge { from, to, position } in &self.edges {
            for (one, other) in [(from, to), (to, from)] {
                if let Some(list) = all.get_mut(one) {
                    list.push((other, position));
                }
            }
        }
        all
    }

    /// Whether each node is reached from some feed.
    fn reach(
        &self,
        neighbours: &[Vec<(usize, Position)>],
        feeds: &[Feed],
        conducts: fn(Position) -> bool,
    ) -> Vec<bool> {
        let mut reached = vec![false; self.nodes];
        let mut next: VecDeque<usize> =
            feeds.iter().filter(|feed| conducts(feed.position)).map(|feed| feed.node).collect();
        while let Some(node) = next.pop_front() {
            match reached.get_mut(node) {
                Some(is_reached) if !*is_reached => *is_reached = true,
                _ => continue,
            }
            let around = neighbours.get(node).into_iter().flatten();
            next.extend(around.filter(|(_, position)| conducts(*position)).map(|(other, _)| *other));
        }
        reached
    }
}

/// The state of a node that is and may be live, and is and may be earthed.
const fn state_of((is_live, may_live): (bool, bool), (is_earthed, may_earthed): (bool, bool)) -> State {
    match (is_live, may_live, is_earthed, may_earthed) {
        (true, _, false, false) => State::Energised,
        (false, false, true, _) => State::Earthed,
        (false, false, false, false) => State::Dead,
        _ => State::Unknown,
    }
}
