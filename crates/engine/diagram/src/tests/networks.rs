use crate::{Edge, Feed, Network, Position, State};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;
use serde_json::Value as Json;
use tieline_core::{Quality, Value};

const CASES: &str = include_str!("../../../../../vectors/diagrams/topology.json");

fn position(word: &str) -> Position {
    match word {
        "closed" => Position::Closed,
        "open" => Position::Open,
        "moving" => Position::Moving,
        "unknown" => Position::Unknown,
        _ => panic!("{word}"),
    }
}

fn number(value: &Json) -> usize {
    value.as_u64().unwrap().try_into().unwrap()
}

fn feeds(value: &Json) -> Vec<Feed> {
    let feed = |row: &Json| Feed { node: number(&row[0]), position: position(row[1].as_str().unwrap()) };
    value.as_array().unwrap().iter().map(feed).collect()
}

#[test]
fn networks_have_the_states_of_the_cases() {
    let cases: Json = serde_json::from_str(CASES).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    assert!(cases.len() > 10);
    for case in cases {
        let edge = |row: &Json| Edge {
            from: number(&row[0]),
            to: number(&row[1]),
            position: position(row[2].as_str().unwrap()),
        };
        let network = Network {
            nodes: number(&case["nodes"]),
            edges: case["edges"].as_array().unwrap().iter().map(edge).collect(),
            sources: feeds(&case["sources"]),
            earths: feeds(&case["earths"]),
        };
        let words: Vec<&str> = network.states().into_iter().map(State::word).collect();
        let expect: Vec<&str> = case["expect"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
        assert_eq!(words, expect, "{}", case["name"]);
    }
}

#[test]
fn only_good_values_of_states_are_positions() {
    let of = |value: Value| Position::of(&value, Quality::GOOD);
    assert_eq!([of(Value::Bool(true)), of(Value::Bool(false))], [Position::Closed, Position::Open]);
    let codes: Vec<Position> = (0..5).map(|code| of(Value::Int(code))).collect();
    use Position::{Closed, Moving, Open, Unknown};
    assert_eq!(codes, [Moving, Open, Closed, Unknown, Unknown]);
    assert_eq!([of(Value::Null), of(Value::Float(1.0)), of(Value::Text("open".into()))], [Unknown; 3]);
    for quality in [Quality::COMM_LOST, Quality::LOCAL_FORCED] {
        assert_eq!(Position::of(&Value::Bool(false), quality), Unknown);
    }
}

/// The states where every position is known: walked until nothing changes.
fn known(network: &Network) -> Vec<State> {
    let spread = |feeds: &[Feed]| {
        let mut reached = vec![false; network.nodes];
        for feed in feeds.iter().filter(|feed| feed.position == Position::Closed) {
            reached[feed.node] = true;
        }
        for _ in 0..network.nodes {
            for edge in network.edges.iter().filter(|edge| edge.position == Position::Closed) {
                let either = reached[edge.from] || reached[edge.to];
                (reached[edge.from], reached[edge.to]) = (either, either);
            }
        }
        reached
    };
    let pairs = spread(&network.sources).into_iter().zip(spread(&network.earths));
    pairs
        .map(|pair| match pair {
            (true, false) => State::Energised,
            (false, true) => State::Earthed,
            (false, false) => State::Dead,
            (true, true) => State::Unknown,
        })
        .collect()
}

/// The states by trying each way in which what is unknown can be.
fn tried(network: &Network) -> Vec<State> {
    let positions = |network: &mut Network, set: &mut dyn FnMut(&mut Position)| {
        network.edges.iter_mut().for_each(|edge| set(&mut edge.position));
        network.sources.iter_mut().chain(&mut network.earths).for_each(|feed| set(&mut feed.position));
    };
    let is_unknown = |position: &Position| matches!(position, Position::Moving | Position::Unknown);
    let mut unknown = 0;
    positions(&mut network.clone(), &mut |position| unknown += u32::from(is_unknown(position)));
    let mut states: Option<Vec<State>> = None;
    for ways in 0..1_u32 << unknown {
        let (mut one, mut bit) = (network.clone(), 0);
        positions(&mut one, &mut |position| {
            if is_unknown(position) {
                *position = if ways >> bit & 1 == 1 { Position::Closed } else { Position::Open };
                bit += 1;
            }
        });
        let now = known(&one);
        states = Some(match states {
            None => now,
            Some(before) => before.into_iter().zip(now).map(|(a, b)| if a == b { a } else { State::Unknown }).collect(),
        });
    }
    states.unwrap()
}

fn any_position() -> impl Strategy<Value = Position> {
    prop_oneof![
        4 => Just(Position::Closed),
        3 => Just(Position::Open),
        1 => Just(Position::Moving),
        1 => Just(Position::Unknown),
    ]
}

fn any_network() -> impl Strategy<Value = Network> {
    (1_usize..8).prop_flat_map(|nodes| {
        let edge = (0..nodes, 0..nodes, any_position()).prop_map(|(from, to, position)| Edge { from, to, position });
        let feed = || (0..nodes, any_position()).prop_map(|(node, position)| Feed { node, position });
        let feeds = || proptest::collection::vec(feed(), 0..3);
        (proptest::collection::vec(edge, 0..9), feeds(), feeds()).prop_map(move |(edges, sources, earths)| Network {
            nodes,
            edges,
            sources,
            earths,
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_node_is_what_it_is_however_the_unknown_switches_are(network in any_network()) {
        prop_assert_eq!(network.states(), tried(&network));
    }

    #[test]
    fn nodes_that_there_are_not_are_ignored(mut network in any_network(), node in 8_usize..usize::MAX) {
        let before = network.states();
        network.edges.push(Edge { from: 0, to: node, position: Position::Closed });
        network.sources.push(Feed { node, position: Position::Closed });
        prop_assert_eq!(network.states(), before);
    }
}
