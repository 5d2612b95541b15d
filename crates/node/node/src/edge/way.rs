//! How an edge comes to a connection with its upstream: over the network, or by a connection that it is given, as in a simulation.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_net::{Connection, Counters, Target, open};

/// Makes a connection with an address.
pub type MakeConnection = Rc<dyn Fn(&str) -> io::Result<Connection>>;

/// The way to the upstream.
pub enum Way {
    /// The network of the machine.
    Network,
    /// Connections that somebody else makes.
    Given(GivenWay),
}

/// Connections that somebody else makes.
#[derive(Clone)]
pub struct GivenWay {
    /// Makes one.
    pub connect: MakeConnection,
    /// Where random numbers begin: the same number is the same run.
    pub seed: u64,
}

impl fmt::Debug for GivenWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GivenWay").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl Way {
    /// Makes a connection.
    pub async fn open(&self, target: &Target, counters: &Arc<Counters>) -> io::Result<Connection> {
        match self {
            Self::Network => open(target, counters).await,
            Self::Given(given) => (given.connect)(&target.address),
        }
    }

    /// A number that no other node has.
    pub fn number(&self, of: u64) -> u64 {
        match self {
            Self::Network => RandomState::new().hash_one(of),
            Self::Given(given) => given.seed.wrapping_add(of),
        }
    }
}
