//! What an SVG file may have: its elements, and the attributes that bind it.

/// Elements that draw, and nothing else. What is not here does not get in.
pub const ELEMENTS: &[&str] = &[
    "svg",
    "g",
    "defs",
    "symbol",
    "use",
    "title",
    "desc",
    "metadata",
    "path",
    "rect",
    "circle",
    "ellipse",
    "line",
    "polyline",
    "polygon",
    "text",
    "tspan",
    "linearGradient",
    "radialGradient",
    "stop",
    "clipPath",
    "marker",
];

/// Attributes of ours. `data-name` is what drawing programs write, and is not looked at.
pub const BINDINGS: &[&str] = &[
    "data-topic",
    "data-symbol",
    "data-node",
    "data-from",
    "data-to",
    "data-source",
    "data-when",
    "data-link",
    "data-name",
];

/// Symbols that open and close.
pub const SWITCHES: &[&str] = &["breaker", "disconnector", "earth-switch", "switch"];

/// Symbols that do not.
pub const PARTS: &[&str] = &["busbar", "transformer", "ct", "line", "cable", "generator", "motor", "load"];

/// What a part of a switch's symbol is shown for.
pub const POSITIONS: &[&str] = &["closed", "open", "moving", "unknown"];

/// The node that is earth.
pub const EARTH: &str = "earth";
