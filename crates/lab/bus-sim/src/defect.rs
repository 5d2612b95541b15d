//! Defects that a bus might have, as one of its subscribers would hear them: runs with one show that the others would notice it.

use crate::subscriber::Kind;
use bytes::Bytes;
use std::cell::Cell;
use tieline_mqtt::Received;

/// What happens once, to one subscriber and one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A message does not come.
    Loses,
    /// It comes twice.
    Doubles,
    /// It comes after the next.
    Swaps,
    /// One of its bits is another.
    Alters,
    /// It does not come, and none after it.
    GoesStale,
    /// What its user may no longer read still comes.
    Permits,
}

/// A defect.
#[derive(Debug)]
pub struct Defect {
    /// Which subscriber hears it: the first of its kind.
    pub kind: Kind,
    /// What happens.
    pub what: What,
    struck: Cell<bool>,
}

/// The topic that a defect is of: published at QoS 2, so that it is known what is to be heard of it.
const TOPIC: &str = "p/0/2";
/// Live messages of the topic that come well.
const WELL: u32 = 2;

impl Defect {
    /// One that has not happened yet.
    #[must_use]
    pub const fn new(kind: Kind, what: What) -> Self {
        Self { kind, what, struck: Cell::new(false) }
    }

    /// The bus takes no note of a change of rights.
    pub fn permit(&self) {
        self.struck.set(true);
    }

    /// Whether it has happened.
    #[must_use]
    pub const fn has_struck(&self) -> bool {
        self.struck.get()
    }
}

/// What a subscriber hears by.
#[derive(Debug, Default)]
pub struct Ear {
    well: u32,
    held: Option<Received>,
    strikes: bool,
}

impl Ear {
    /// What is heard of a message that is for the topic `topic`.
    pub fn hear(&mut self, defect: Option<&Defect>, topic: &str, mut received: Received) -> Vec<Received> {
        let is_of_message = |defect: &&Defect| topic == TOPIC && defect.what != What::Permits;
        let Some(defect) = defect.filter(is_of_message) else { return vec![received] };
        if self.strikes {
            return match defect.what {
                What::GoesStale => Vec::new(),
                What::Swaps => [received].into_iter().chain(self.held.take()).collect(),
                What::Loses | What::Doubles | What::Alters | What::Permits => vec![received],
            };
        }
        if received.retain || defect.has_struck() || self.well < WELL {
            self.well += u32::from(!received.retain);
            return vec![received];
        }
        self.strikes = true;
        defect.struck.set(true);
        match defect.what {
            What::Loses | What::GoesStale => Vec::new(),
            What::Doubles => vec![received.clone(), received],
            What::Permits => vec![received],
            What::Swaps => {
                self.held = Some(received);
                Vec::new()
            }
            What::Alters => {
                received.message.payload = altered(&received.message.payload);
                vec![received]
            }
        }
    }
}

fn altered(payload: &Bytes) -> Bytes {
    let mut bytes = payload.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes.into()
}
