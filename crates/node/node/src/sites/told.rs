//! What a site tells the centre of itself, each second.

use serde::{Deserialize, Serialize};

/// The word in the subject of it, in the place of a stream.
pub const SUBJECT: &str = "state";

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
}
