//! SVG files of diagrams.

use tieline_diagram::{Diagram, Position, SVG_BYTES_MAX};

/// What is accepted has a state for each node, and nothing that could run.
pub(super) fn svg(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Diagram::check(text) {
        Ok(diagram) => {
            assert!(text.len() <= SVG_BYTES_MAX && !text.contains("<!DOCTYPE"));
            let states = diagram.network(|topic| match topic.as_str().len() % 3 {
                0 => Position::Closed,
                1 => Position::Open,
                _ => Position::Unknown,
            });
            assert_eq!(states.states().len(), diagram.nodes.len());
        }
        Err(errors) => {
            let lines = text.lines().count().max(1) + 1;
            assert!(!errors.is_empty() && errors.iter().all(|error| (1..=lines).contains(&error.line)), "{errors:?}");
        }
    }
}
