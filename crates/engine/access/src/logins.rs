//! How often a peer may fail to show who it is.
//!
//! Whether a guess is looked at is decided before anything is compared, however cheap the comparison is. Each failure
//! counts against the narrowest of these that is known:
//!
//! 1. the client of a user at an address, that has shown who it is before,
//! 2. the user at an address, that has,
//! 3. the address; of IPv6 the network of 64 bits, of which one machine has all addresses, and that of 48 bits.
//!
//! So guessing at an address, also behind a proxy or a router, uses up the attempts of unknown clients of that
//! address, and those in
//! good standing go on.

use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tieline_core::Instant;

/// Addresses whose failures are remembered.
pub const LOGIN_PEERS_MAX: usize = 16_384;
/// Users and clients in good standing that are remembered.
pub const STANDING_MAX: usize = 65_536;
/// The same of one user; with one more, its own that was here least lately is forgotten.
pub const STANDING_OF_USER_MAX: usize = STANDING_MAX / 4;

/// Failures that are looked at at once, and how many more for each second that passes.
#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    per_s: u32,
}

const OF_ADDRESS: Rate = Rate { burst: 10, per_s: 1 };
/// Of a network of 48 bits of IPv6, which holds 65,536 of those that count as one address.
const OF_SITE: Rate = Rate { burst: 100, per_s: 10 };

/// What counts as one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    bits: u128,
    len: u8,
}

impl Network {
    /// The network that an address is counted with.
    #[must_use]
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self { bits: u128::from(v4.to_bits()), len: 32 },
            IpAddr::V6(v6) => Self { bits: v6.to_bits() >> 64, len: 64 },
        }
    }

    /// The larger network of IPv6 that it is in.
    const fn site(self) -> Option<Self> {
        match self.len {
            64 => Some(Self { bits: self.bits >> 16, len: 48 }),
            _ => None,
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.len {
            32 => Ipv4Addr::from_bits(u32::try_from(self.bits).unwrap_or_default()).fmt(f),
            len => write!(f, "{}/{len}", Ipv6Addr::from_bits(self.bits << (128 - u32::from(len)))),
        }
    }
}

/// Who tries: where from, as which user, and as which client. Names are fingerprints, which the caller makes with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Where from.
    pub network: Network,
    /// The user that it says it is.
    pub user: u64,
    /// The client that it says it is, where it does.
    pub client: Option<u64>,
}

/// One that has shown who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    user: u64,
    client: Option<u64>,
    network: Network,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    at: Instant,
    count: u32,
}

impl Failures {
    /// Those that time has not forgiven yet.
    fn left(self, now: Instant, rate: Rate) -> u32 {
        let passed = u32::try_from(now.since(self.at).as_secs()).unwrap_or(u32::MAX);
        self.count.saturating_sub(passed.saturating_mul(rate.per_s))
    }

    fn one_more(self, now: Instant, rate: Rate) -> Self {
        Self { at: now, count: self.left(now, rate).saturating_add(1) }
    }
}

#[derive(Clone, Copy, Debug)]
struct Standing {
    seen: Instant,
    failures: Failures,
}

/// The failures of each, and who is in good standing.
#[derive(Debug, Default)]
pub struct Logins {
    failed: BTreeMap<Network, Failures>,
    /// Those of `failed`, by when.
    failed_at: BTreeSet<(Instant, Network)>,
    standing: BTreeMap<Known, Standing>,
    /// Those of `standing`, by when they were seen.
    seen: BTreeSet<(Instant, Known)>,
    of_user: BTreeMap<u64, BTreeSet<(Instant, Known)>>,
    /// Refused without a look.
    pub refused: u64,
}

impl Logins {
    /// Whether what the peer shows is to be looked at.
    pub fn may_try(&mut self, now: Instant, origin: &Origin) -> bool {
        let within = match self.standing_of(origin).and_then(|known| self.standing.get(&known)) {
            Some(standing) => standing.failures.left(now, OF_ADDRESS) < OF_ADDRESS.burst,
            None => self.may_strangers_try(now, origin.network),
        };
        self.refused += u64::from(!within);
        within
    }

    /// Whether one that has not shown who it is yet may try from there.
    fn may_strangers_try(&self, now: Instant, network: Network) -> bool {
        let within = |network: Network, rate: Rate| {
            self.failed.get(&network).is_none_or(|failures| failures.left(now, rate) < rate.burst)
        };
        within(network, OF_ADDRESS) && network.site().is_none_or(|site| within(site, OF_SITE))
    }

    /// Whether it has shown who it is before, from there.
    #[must_use]
    pub fn is_known(&self, origin: &Origin) -> bool {
        self.standing_of(origin).is_some()
    }

    /// How many are known.
    #[must_use]
    pub fn known(&self) -> usize {
        self.standing.len()
    }

    /// What the peer showed was wrong.
    pub fn failed(&mut self, now: Instant, origin: &Origin) {
        if let Some(standing) = self.standing_of(origin).and_then(|known| self.standing.get_mut(&known)) {
            standing.failures = standing.failures.one_more(now, OF_ADDRESS);
            return;
        }
        self.fail(now, origin.network, OF_ADDRESS);
        if let Some(site) = origin.network.site() {
            self.fail(now, site, OF_SITE);
        }
    }

    fn fail(&mut self, now: Instant, network: Network, rate: Rate) {
        let before = self.failed.get(&network).copied();
        let failures = before.unwrap_or(Failures { at: now, count: 0 }).one_more(now, rate);
        if let Some(before) = before {
            self.failed_at.remove(&(before.at, network));
        } else if self.failed.len() >= LOGIN_PEERS_MAX
            && let Some((_, least)) = self.failed_at.pop_first()
        {
            self.failed.remove(&least);
        }
        self.failed.insert(network, failures);
        self.failed_at.insert((now, network));
    }

    /// What the peer showed was right.
    pub fn succeeded(&mut self, now: Instant, origin: &Origin) {
        let Origin { network, user, client } = *origin;
        self.see(now, Known { user, client: None, network });
        if client.is_some() {
            self.see(now, Known { user, client, network });
        }
    }

    fn see(&mut self, now: Instant, known: Known) {
        let failures = Failures { at: now, count: 0 };
        let before = self.standing.get(&known).copied();
        if let Some(before) = before {
            self.seen.remove(&(before.seen, known));
            self.of_user.entry(known.user).or_default().remove(&(before.seen, known));
        } else {
            self.make_room(known.user);
        }
        // What was right once does not forgive what was wrong.
        let failures = before.map_or(failures, |before| before.failures);
        self.standing.insert(known, Standing { seen: now, failures });
        self.seen.insert((now, known));
        self.of_user.entry(known.user).or_default().insert((now, known));
    }

    fn make_room(&mut self, user: u64) {
        let own = self.of_user.get(&user).filter(|own| own.len() >= STANDING_OF_USER_MAX);
        let least = match own.and_then(|own| own.first().copied()) {
            None if self.standing.len() >= STANDING_MAX => self.seen.first().copied(),
            least => least,
        };
        let Some((at, least)) = least else { return };
        self.standing.remove(&least);
        self.seen.remove(&(at, least));
        if let Some(own) = self.of_user.get_mut(&least.user) {
            own.remove(&(at, least));
            if own.is_empty() {
                self.of_user.remove(&least.user);
            }
        }
    }

    /// The narrowest that is known.
    fn standing_of(&self, origin: &Origin) -> Option<Known> {
        let Origin { network, user, client } = *origin;
        let known = |client| Some(Known { user, client, network }).filter(|known| self.standing.contains_key(known));
        client.and_then(|client| known(Some(client))).or_else(|| known(None))
    }
}
