use crate::{Diagram, Position, SVG_BYTES_MAX, State, is_diagram_name};
use alloc::string::String;
use alloc::{format, vec::Vec};
use proptest::prelude::*;
use serde_json::Value as Json;

const CASES: &str = include_str!("../../../../../vectors/diagrams/svg.json");

fn cases(of: &str) -> Vec<Json> {
    let mut cases: Json = serde_json::from_str(CASES).unwrap();
    let Json::Array(cases) = cases[of].take() else { panic!("no {of}") };
    cases
}

#[test]
fn files_that_only_draw_get_in() {
    for case in cases("good") {
        let diagram =
            Diagram::check(case["svg"].as_str().unwrap()).unwrap_or_else(|errors| panic!("{case}: {errors:?}"));
        assert_eq!(Json::from(diagram.topics.len()), case["topics"], "{}", case["name"]);
    }
}

#[test]
fn whatever_could_do_more_is_refused_with_what_was_expected() {
    for case in cases("bad") {
        let errors = Diagram::check(case["svg"].as_str().unwrap()).expect_err(case["name"].as_str().unwrap());
        let (found, expected) = (case["found"].as_str().unwrap(), case["expected"].as_str().unwrap());
        let is_said = errors.iter().any(|error| error.found.contains(found) && error.expected.contains(expected));
        assert!(is_said, "{}: {errors:?}", case["name"]);
    }
}

#[test]
fn errors_have_their_lines() {
    let text = "<svg xmlns=\"http://www.w3.org/2000/svg\">\n\n <g\n  onclick=\"x\"/>\n<script/>\n</svg>";
    let errors = Diagram::check(text).unwrap_err();
    assert_eq!(errors.iter().map(|error| error.line).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(format!("{}", errors[1]), "line 5: found <script>, expected no script");
}

#[test]
fn what_is_too_much_is_refused() {
    let svg = |inner: &str| format!("<svg xmlns=\"http://www.w3.org/2000/svg\">{inner}</svg>");
    let deep = format!("{}{}", "<g>".repeat(70), "</g>".repeat(70));
    let topics: String = (0..2_001).map(|n| format!("<g data-topic=\"t/{n}\"/>")).collect();
    let attributes: String = (0..65).map(|n| format!(" a{n}=\"\"")).collect();
    let wrong = "<script/>".repeat(1_000);
    for (inner, expected) in [
        (" ".repeat(SVG_BYTES_MAX), "at most 1048576"),
        ("<g/>".repeat(20_001), "at most 20000"),
        (deep, "at most 64 levels"),
        (topics, "at most 2000"),
        (format!("<g{attributes}/>"), "at most 64 of one element"),
        (wrong, "no script"),
    ] {
        let errors = Diagram::check(&svg(&inner)).unwrap_err();
        assert!(
            errors.len() <= 20 && errors.iter().any(|error| error.expected.contains(expected)),
            "{expected}: {errors:?}"
        );
    }
}

#[test]
fn a_file_is_a_network() {
    let text = "<svg xmlns=\"http://www.w3.org/2000/svg\"><g data-node=\"a\" data-source=\"s\"/><g data-node=\"b\"/>\
        <g data-symbol=\"breaker\" data-topic=\"q\" data-from=\"a\" data-to=\"b\"/>\
        <g data-symbol=\"earth-switch\" data-topic=\"e\" data-from=\"b\" data-to=\"earth\"/></svg>";
    let diagram = Diagram::check(text).unwrap();
    assert_eq!((diagram.switches(), diagram.sources(), diagram.nodes.len()), (2, 1, 2));
    let states = |s, q, e| {
        let network = diagram.network(|topic| match topic.as_str() {
            "s" => s,
            "q" => q,
            _ => e,
        });
        network.states()
    };
    use Position::{Closed, Open, Unknown};
    assert_eq!(states(Closed, Closed, Open), [State::Energised; 2]);
    assert_eq!(states(Closed, Open, Closed), [State::Energised, State::Earthed]);
    assert_eq!(states(Unknown, Closed, Open), [State::Unknown; 2]);
}

#[test]
fn names_of_diagrams_are_names_of_files() {
    for (name, is_one) in [("a-1_b", true), ("", false), ("A", false), ("..", false), ("a/b", false), ("ä", false)] {
        assert_eq!(is_diagram_name(name), is_one, "{name}");
    }
}

/// Pieces that are worth joining.
const PIECES: &[&str] = &[
    "<svg xmlns=\"http://www.w3.org/2000/svg\">",
    "</svg>",
    "<g",
    "<g>",
    "</g>",
    "/>",
    ">",
    " ",
    "\n",
    "<!--",
    "-->",
    "<?xml",
    "?>",
    "&",
    "&#0;",
    "&amp;",
    "\"",
    "'",
    "=",
    " data-topic=\"a\"",
    " data-node=\"n\"",
    " data-from=\"n\" data-to=\"earth\"",
    " data-symbol=\"breaker\"",
    "<script>",
    " onload=\"x\"",
    " href=\"#a\"",
    " style=\"url(",
    "é",
    "\u{feff}",
    "<",
    "<!",
    "xmlns:x=\"http://www.w3.org/2000/svg\"",
    "<x:script/>",
];

proptest! {
    #[test]
    fn any_text_is_survived(text in ".{0,200}") {
        let _ = Diagram::check(&text);
    }

    #[test]
    fn pieces_in_any_order_are_survived_and_never_run(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60)) {
        let text = pieces.concat();
        if Diagram::check(&text).is_ok() {
            let plain = text.split("<!--").map(|part| part.rsplit("-->").next().unwrap_or_default()).collect::<String>();
            prop_assert!(!plain.contains("<script>") && !plain.contains("<x:script/>"), "{}", text);
        }
    }
}
