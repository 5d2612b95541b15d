use crate::{Bay, Busbar, Diagram, Drawing, Item, Kind, Position, State};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use proptest::prelude::*;
use tieline_core::Topic;

fn item(kind: Kind, topic: Option<&str>) -> Item {
    let topic = topic.map(|text| Topic::new(text).unwrap());
    Item { kind, name: String::new(), topic, values: Vec::new(), is_source: false, live: None, is_beside: false }
}

fn bay(name: &str, from: &str, items: Vec<Item>) -> Bay {
    Bay {
        name: name.to_string(),
        label: name.to_string(),
        link: None,
        from: from.to_string(),
        to: None,
        is_up: false,
        items,
    }
}

fn busbar(name: &str) -> Busbar {
    Busbar { name: name.to_string(), label: name.to_string(), voltage: "11 kV".to_string(), values: Vec::new() }
}

/// A line feeds the upper busbar, a transformer the lower one, which has two feeders.
fn station() -> Drawing {
    let source = Item { is_source: true, ..item(Kind::Line, None) };
    let incomer = Bay { is_up: true, ..bay("incomer", "hv", vec![item(Kind::Breaker, Some("q0")), source]) };
    let transformer =
        vec![item(Kind::Breaker, Some("q1")), item(Kind::Transformer, None), item(Kind::Breaker, Some("q2"))];
    let transformer = Bay { to: Some("mv".to_string()), ..bay("t1", "hv", transformer) };
    let feeder = |name: &str, q: &str, e: &str| {
        let value = Item { values: vec![Topic::new("a<b").unwrap()], ..item(Kind::Ct, None) };
        let items = vec![item(Kind::Breaker, Some(q)), value, item(Kind::EarthSwitch, Some(e)), item(Kind::Load, None)];
        bay(name, "mv", items)
    };
    let bays = vec![incomer, transformer, feeder("f1", "q3", "e3"), feeder("f2", "q4", "e4")];
    Drawing { title: "A & b".to_string(), busbars: vec![busbar("hv"), busbar("mv")], bays }
}

fn states(diagram: &Diagram, open: &[&str]) -> Vec<(String, State)> {
    let is_earth = |topic: &Topic| topic.as_str().starts_with('e');
    let position = |topic: &Topic| match open.contains(&topic.as_str()) != is_earth(topic) {
        true => Position::Open,
        false => Position::Closed,
    };
    diagram.nodes.iter().cloned().zip(diagram.network(position).states()).collect()
}

#[test]
fn bays_are_drawn_as_a_network_that_the_check_accepts() {
    let svg = station().to_svg().unwrap();
    let diagram = Diagram::check(&svg).unwrap_or_else(|errors| panic!("{errors:?}\n{svg}"));
    assert_eq!((diagram.title.as_deref(), diagram.switches(), diagram.sources()), (Some("A & b"), 7, 1));
    assert!(diagram.topics.contains(&Topic::new("a<b").unwrap()));
    let of = |open: &[&str], node: &str| states(&diagram, open).into_iter().find(|(name, _)| name == node).unwrap().1;
    assert_eq!(states(&diagram, &[]).into_iter().filter(|(_, state)| *state != State::Energised).count(), 0);
    assert_eq!([of(&["q1"], "mv"), of(&["q1"], "hv"), of(&["q0"], "hv")], [State::Dead, State::Energised, State::Dead]);
    assert_eq!([of(&["q3"], "f1.1"), of(&["q3"], "f2.1")], [State::Dead, State::Energised]);
    // Its earth switch is closed where the list names it.
    assert_eq!([of(&["q3", "e3"], "f1.1"), of(&["q3", "e3"], "mv")], [State::Earthed, State::Energised]);
}

#[test]
fn what_cannot_be_drawn_is_said() {
    type Change = fn(&mut Drawing);
    let change = |with: Change| {
        let mut drawing = station();
        with(&mut drawing);
        drawing.to_svg().unwrap_err().into_iter().map(|error| error.to_string()).collect::<Vec<_>>().join("\n")
    };
    let cases: [(Change, &str); 9] = [
        (|d| d.bays.clear(), "the diagram: found 0 bays, expected 1 to 200"),
        (|d| d.bays[2].from = "x".to_string(), "bay \"f1\": found from = \"x\", expected the name of a busbar"),
        (|d| d.bays[1].to = Some("hv".to_string()), "found to = \"hv\", expected the busbar after that of from"),
        (|d| d.bays[2].name = "f2".to_string(), "found the name twice"),
        (|d| d.bays[2].name = "F 1".to_string(), "found its name"),
        (|d| d.bays[2].items[0].topic = None, "item 1: breaker without topic, expected the topic of its position"),
        (|d| d.bays[2].items[1].topic = Some(Topic::new("x").unwrap()), "item 2: ct with topic"),
        (|d| d.bays[2].items.swap(1, 3), "that the bay goes on after"),
        (|d| d.bays[2].items[3].is_source = true, "load as source, expected a line"),
    ];
    for (with, words) in cases {
        let said = change(with);
        assert!(said.contains(words), "{words} is not in {said}");
    }
}

fn any_item() -> impl Strategy<Value = Item> {
    let topic = proptest::option::of("[a-z<&\"]{1,5}");
    let values = proptest::collection::vec("[a-z<&\"]{1,5}", 0..3);
    (proptest::sample::select(Kind::WORDS), ".{0,5}", topic, values, any::<bool>(), any::<bool>()).prop_map(
        |((_, kind), name, topic, values, is_source, is_beside)| {
            let topics = values.iter().filter_map(|text| Topic::new(text).ok()).collect();
            let topic = topic.filter(|_| kind.is_switch()).and_then(|text| Topic::new(&text).ok());
            let is_source = is_source && matches!(kind, Kind::Line | Kind::Generator);
            Item { kind, name, topic, values: topics, is_source, live: None, is_beside: is_beside && kind.is_end() }
        },
    )
}

fn any_drawing() -> impl Strategy<Value = Drawing> {
    let bay = (proptest::collection::vec(any_item(), 1..5), 0_usize..2, any::<bool>(), any::<bool>());
    (proptest::collection::vec(bay, 1..5), ".{0,8}").prop_map(|(bays, title)| {
        let bays = bays.into_iter().enumerate().map(|(index, (items, from, is_up, is_through))| {
            let to = (is_through && !is_up && from == 0).then(|| "b1".to_string());
            Bay { is_up, to, ..self::bay(&format!("bay{index}"), &format!("b{from}"), items) }
        });
        Drawing { title, busbars: vec![busbar("b0"), busbar("b1")], bays: bays.collect() }
    })
}

proptest! {
    #[test]
    fn what_is_drawn_is_accepted_with_all_its_switches(drawing in any_drawing()) {
        let Ok(svg) = drawing.to_svg() else { return Ok(()) };
        let diagram = Diagram::check(&svg).map_err(|errors| TestCaseError::fail(format!("{errors:?}\n{svg}")))?;
        let switches = drawing.bays.iter().flat_map(|bay| &bay.items).filter(|item| item.kind.is_switch()).count();
        prop_assert_eq!(diagram.switches(), switches);
    }
}
