//! Bays: the text form of a diagram. Busbars lie one below the other, each bay is a column that begins at one.
//!
//! ```text
//!        line (source)
//!            │
//!          breaker            a bay with `up` is above its busbar,
//!            │                one with `to` ends at the next one
//!   ═════════╪══════════════  busbar
//!      │           │
//!    breaker     breaker      the others are below
//!      │           │
//!      ct          ct ─ generator   an item beside the bay
//!      │           │
//!     load        load
//! ```

mod draw;
mod symbols;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use tieline_core::Topic;

/// Busbars of a drawing.
const BUSBARS_MAX: usize = 16;
/// Bays of a drawing.
const BAYS_MAX: usize = 200;
/// Items of a bay.
const ITEMS_MAX: usize = 20;
/// Values beside an item.
const VALUES_MAX: usize = 4;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A circuit breaker.
    Breaker,
    /// A disconnector.
    Disconnector,
    /// An earth switch; it is beside the bay.
    EarthSwitch,
    /// A switch of another kind, as a load-break switch.
    Switch,
    /// A transformer with two windings.
    Transformer,
    /// A current transformer, where measurements are shown.
    Ct,
    /// An overhead line.
    Line,
    /// A cable.
    Cable,
    /// A generator.
    Generator,
    /// A motor.
    Motor,
    /// A load.
    Load,
}

impl Kind {
    /// All kinds and their words.
    pub const WORDS: &[(&str, Self)] = &[
        ("breaker", Self::Breaker),
        ("disconnector", Self::Disconnector),
        ("earth-switch", Self::EarthSwitch),
        ("switch", Self::Switch),
        ("transformer", Self::Transformer),
        ("ct", Self::Ct),
        ("line", Self::Line),
        ("cable", Self::Cable),
        ("generator", Self::Generator),
        ("motor", Self::Motor),
        ("load", Self::Load),
    ];

    /// The kind of a word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind)
    }

    /// As a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Breaker => "breaker",
            Self::Disconnector => "disconnector",
            Self::EarthSwitch => "earth-switch",
            Self::Switch => "switch",
            Self::Transformer => "transformer",
            Self::Ct => "ct",
            Self::Line => "line",
            Self::Cable => "cable",
            Self::Generator => "generator",
            Self::Motor => "motor",
            Self::Load => "load",
        }
    }

    /// Whether it opens and closes.
    #[must_use]
    pub const fn is_switch(self) -> bool {
        matches!(self, Self::Breaker | Self::Disconnector | Self::EarthSwitch | Self::Switch)
    }

    /// Whether nothing comes after it.
    #[must_use]
    pub const fn is_end(self) -> bool {
        matches!(self, Self::Generator | Self::Motor | Self::Load)
    }
}

/// An item of a bay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// What is written beside it; may be empty.
    pub name: String,
    /// The position of a switch.
    pub topic: Option<Topic>,
    /// Values that are shown beside it.
    pub values: Vec<Topic>,
    /// Whether it feeds the bay: the grid behind a line, a generator that can run alone.
    pub is_source: bool,
    /// A topic that says whether the source feeds; without one it always does.
    pub live: Option<Topic>,
    /// Whether it is beside the bay, and the bay goes on.
    pub is_beside: bool,
}

/// A busbar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busbar {
    /// Its name in bays, and the name of its node.
    pub name: String,
    /// What is written on it.
    pub label: String,
    /// Its nominal voltage, as text; may be empty.
    pub voltage: String,
    /// Values that are shown on it.
    pub values: Vec<Topic>,
}

/// A bay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bay {
    /// The name of its nodes.
    pub name: String,
    /// What is written at its end.
    pub label: String,
    /// The diagram that its label leads to.
    pub link: Option<String>,
    /// The busbar where it begins.
    pub from: String,
    /// The next busbar, where it ends; without one it ends with its last item.
    pub to: Option<String>,
    /// Whether it is above its busbar.
    pub is_up: bool,
    /// From the busbar on.
    pub items: Vec<Item>,
}

/// A diagram as busbars and bays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawing {
    /// What is written above it.
    pub title: String,
    /// From top to bottom.
    pub busbars: Vec<Busbar>,
    /// From left to right.
    pub bays: Vec<Bay>,
}

/// Why bays cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawingError {
    /// Which bay or busbar, as in `bay feeder1`.
    pub of: String,
    /// What is there.
    pub found: String,
    /// What should be.
    pub expected: String,
}

impl fmt::Display for DrawingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {}, expected {}", self.of, self.found, self.expected)
    }
}

impl core::error::Error for DrawingError {}
