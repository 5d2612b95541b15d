//! Who has a place: connections in all, from one address, and of peers that have not shown who they are.
//!
//! | place | for | at most |
//! |---|---|---|
//! | open | a peer that has not shown who it is | half of `connections_max` |
//! | admitted | one whose request was let in | `connections_max` with the open ones |
//! | reserve | a connection that comes when there is no other, or whose address has too many already | [`RESERVE_MAX`], [`RESERVE_TIMEOUT`] long |
//!
//! Nobody waits for a place: when the reserve is full, too, the oldest connection in it ends of the address that has the
//! most there. Health and metrics are answered in the reserve; for the rest a user is admitted from there, where there is
//! a place, so that unauthenticated peers keep no user out.

use super::settings::{HTTP_ADDRESS_CONNECTIONS_MAX, HTTP_CONNECTIONS_MAX, HTTP_PENDING_BYTES_MAX};
use crate::exposition::Exposition;
use crate::reader::{Document, Section};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Connections in the reserve.
pub const RESERVE_MAX: usize = 32;
/// How long a connection may stay there.
pub const RESERVE_TIMEOUT: Duration = Duration::from_secs(10);
/// An answer of so many bytes is given whatever else is pending: health, metrics, and what went wrong.
pub const SMALL_BYTES: usize = 64 * 1024;

/// How many connections, and how much they may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once, the reserve not counted.
    pub connections_max: usize,
    /// Those of one address.
    pub address_connections_max: usize,
    /// Bytes of bodies and answers that are pending, of all connections.
    pub pending_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: HTTP_CONNECTIONS_MAX.default_size(),
            address_connections_max: HTTP_ADDRESS_CONNECTIONS_MAX.default_size(),
            pending_bytes_max: HTTP_PENDING_BYTES_MAX.default_size(),
        }
    }
}

/// Reads what `[http]` says of them.
pub fn read_limits(s: &mut Section<'_>, doc: &mut Document<'_>) -> Limits {
    Limits {
        connections_max: HTTP_CONNECTIONS_MAX.read_size(s, doc),
        address_connections_max: HTTP_ADDRESS_CONNECTIONS_MAX.read_size(s, doc),
        pending_bytes_max: HTTP_PENDING_BYTES_MAX.read_size(s, doc),
    }
}

/// Why a connection was ended, or something refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// No request was under way for too long.
    Idle,
    /// A request's body did not come in time.
    Body,
    /// An answer was not taken in time.
    Unread,
    /// It was in the reserve for too long, or had to give way there.
    Reserve,
}

impl End {
    /// All of them, with their words in metrics.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Idle, "idle"), (Self::Body, "body"), (Self::Unread, "unread"), (Self::Reserve, "reserve")];
}

/// What is seen of all places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections, the reserve counted.
    pub connections: usize,
    /// Those whose peers have not shown who they are.
    pub unauthenticated: usize,
    /// Those in the reserve.
    pub reserve: usize,
    /// Bytes of bodies and answers that are pending.
    pub pending_bytes: usize,
    /// Connections that were ended, by [`End::ALL`].
    pub ended: [u64; 4],
    /// Requests that were refused: no place.
    pub refused_places: u64,
    /// Bodies and answers that were refused: too many bytes were pending.
    pub refused_bytes: u64,
}

/// The places for connections.
#[derive(Clone, Debug)]
pub struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limits: Limits,
    table: Mutex<Table>,
    pending: AtomicUsize,
    ended: [AtomicU64; 4],
    refused_places: AtomicU64,
    refused_bytes: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    slots: BTreeMap<u64, Entry>,
    /// Those of one address that are not in the reserve.
    by_address: HashMap<IpAddr, usize>,
    open: usize,
    admitted: usize,
    /// Those in the reserve, the oldest first.
    reserve: BTreeSet<u64>,
}

#[derive(Debug)]
struct Entry {
    address: IpAddr,
    stage: Stage,
    closing: Arc<Notify>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    Admitted,
    Reserve,
}

impl Default for Places {
    fn default() -> Self {
        Self::new(Limits::default())
    }
}

impl Places {
    /// All free.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self(Arc::new(Shared {
            limits,
            table: Mutex::default(),
            pending: AtomicUsize::new(0),
            ended: Default::default(),
            refused_places: AtomicU64::new(0),
            refused_bytes: AtomicU64::new(0),
        }))
    }

    /// What is seen of them.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let table = self.0.table();
        Seen {
            connections: table.slots.len(),
            unauthenticated: table.open,
            reserve: table.reserve.len(),
            pending_bytes: self.0.pending.load(Ordering::Relaxed),
            ended: self.0.ended.each_ref().map(|count| count.load(Ordering::Relaxed)),
            refused_places: self.0.refused_places.load(Ordering::Relaxed),
            refused_bytes: self.0.refused_bytes.load(Ordering::Relaxed),
        }
    }

    /// What is seen of them, as metrics whose names begin with `prefix`.
    pub fn expose(&self, prefix: &str, e: &mut Exposition) {
        let seen = self.seen();
        let name = |rest: &str| format!("{prefix}_{rest}");
        e.gauge(&name("connections"), "HTTP connections, including the reserve.", seen.connections);
        let help = "Unauthenticated HTTP connections.";
        e.gauge(&name("unauthenticated_connections"), help, seen.unauthenticated);
        e.gauge(&name("reserve_connections"), "HTTP connections in the reserve.", seen.reserve);
        e.gauge(&name("pending_bytes"), "Bytes of HTTP request and response bodies in progress.", seen.pending_bytes);
        let ended = End::ALL.iter().map(|(_, word)| *word).zip(seen.ended);
        e.labelled(
            (&name("ended_total"), "HTTP connections closed by the server, by reason.", "counter"),
            "reason",
            ended,
        );
        let refused = [("connections", seen.refused_places), ("pending", seen.refused_bytes)];
        e.labelled(
            (&name("refused_total"), "HTTP requests refused, by the limit reached.", "counter"),
            "reason",
            refused,
        );
    }

    /// Gives a new connection its place.
    #[must_use]
    pub fn take(&self, address: IpAddr) -> Slot {
        // One machine has many addresses of IPv6.
        let address = network_of(address);
        let mut table = self.0.table();
        let is_open = self.0.has_room(&table, address) && table.open < (self.0.limits.connections_max / 2).max(1);
        let stage = if is_open { Stage::Open } else { Stage::Reserve };
        if stage == Stage::Reserve
            && table.reserve.len() >= RESERVE_MAX
            && let Some(id) = table.in_the_way()
        {
            if let Some(entry) = table.remove(id) {
                entry.closing.notify_one();
            }
            self.0.count(End::Reserve);
        }
        let (id, closing) = (table.next, Arc::new(Notify::new()));
        table.next += 1;
        table.enter(id, address, stage);
        table.slots.insert(id, Entry { address, stage, closing: Arc::clone(&closing) });
        drop(table);
        Slot(Arc::new(Held { places: self.clone(), id, closing }))
    }

    /// Takes note that a connection was ended.
    pub fn count(&self, end: End) {
        self.0.count(end);
    }

    /// Room for bytes that are pending; none where there are too many already, which is counted.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> Option<Pending> {
        let mut held = Pending { places: self.clone(), bytes: 0 };
        held.grow(bytes).then_some(held)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_room(&self, table: &Table, address: IpAddr) -> bool {
        let here = table.by_address.get(&address).copied().unwrap_or(0);
        table.open + table.admitted < self.limits.connections_max && here < self.limits.address_connections_max
    }

    fn count(&self, end: End) {
        for ((known, _), count) in End::ALL.iter().zip(&self.ended) {
            if *known == end {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Table {
    /// The oldest of the address that has the most in the reserve.
    fn in_the_way(&self) -> Option<u64> {
        let address = |id: &u64| self.slots.get(id).map(|entry| entry.address);
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        self.reserve.iter().filter_map(address).for_each(|address| *counts.entry(address).or_default() += 1);
        let most = counts.values().copied().max()?;
        self.reserve.iter().copied().find(|id| address(id).and_then(|address| counts.get(&address)) == Some(&most))
    }

    fn enter(&mut self, id: u64, address: IpAddr, stage: Stage) {
        match stage {
            Stage::Open => self.open += 1,
            Stage::Admitted => self.admitted += 1,
            Stage::Reserve => {
                self.reserve.insert(id);
                return;
            }
        }
        *self.by_address.entry(address).or_default() += 1;
    }

    fn leave(&mut self, id: u64, address: IpAddr, stage: Stage) {
        match stage {
            Stage::Open => self.open -= 1,
            Stage::Admitted => self.admitted -= 1,
            Stage::Reserve => {
                self.reserve.remove(&id);
                return;
            }
        }
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.slots.remove(&id)?;
        self.leave(id, entry.address, entry.stage);
        Some(entry)
    }
}

/// What one peer may have at will: its address, of IPv6 the network of 64 bits.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

/// The place of a connection; handlers find it among the extensions of a request.
#[derive(Clone, Debug)]
pub struct Slot(Arc<Held>);

#[derive(Debug)]
struct Held {
    places: Places,
    id: u64,
    closing: Arc<Notify>,
}

impl Slot {
    /// Whether its peer may stay no longer than it takes to answer one request.
    #[must_use]
    pub fn is_in_reserve(&self) -> bool {
        self.0.places.0.table().slots.get(&self.0.id).is_none_or(|entry| entry.stage == Stage::Reserve)
    }

    /// Its peer has shown who it is, or need not: false where there is no place for it besides the reserve.
    #[must_use]
    pub fn admit(&self) -> bool {
        let shared = &self.0.places.0;
        let mut table = shared.table();
        let Some((address, stage)) = table.slots.get(&self.0.id).map(|entry| (entry.address, entry.stage)) else {
            return false;
        };
        match stage {
            Stage::Admitted => return true,
            Stage::Open => {}
            Stage::Reserve if shared.has_room(&table, address) => {}
            Stage::Reserve => return false,
        }
        table.leave(self.0.id, address, stage);
        table.enter(self.0.id, address, Stage::Admitted);
        if let Some(entry) = table.slots.get_mut(&self.0.id) {
            entry.stage = Stage::Admitted;
        }
        true
    }

    /// The same for a request, which may need a place; the words are for the peer.
    ///
    /// # Errors
    /// It needs one and there is none, which is counted.
    pub fn claim(&self, is_needed: bool) -> Result<(), &'static str> {
        if self.admit() || !is_needed {
            return Ok(());
        }
        self.0.places.0.refused_places.fetch_add(1, Ordering::Relaxed);
        Err("too many connections are open, of this address or in all: only /healthz and /metrics are answered")
    }

    /// All places.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.0.places
    }

    /// Waits until it has to give way.
    pub async fn closing(&self) {
        self.0.closing.notified().await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.places.0.table().remove(self.id));
    }
}

/// Bytes that are pending, until this is dropped.
#[derive(Debug)]
pub struct Pending {
    places: Places,
    bytes: usize,
}

impl Pending {
    /// Room for more; false where there is none.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let shared = &self.places.0;
        let before = shared.pending.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        let fits = self.bytes <= SMALL_BYTES || before.saturating_add(bytes) <= shared.limits.pending_bytes_max;
        if !fits {
            shared.refused_bytes.fetch_add(1, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.places.0.pending.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn places(connections_max: usize, address_connections_max: usize) -> Places {
        Places::new(Limits { connections_max, address_connections_max, ..Limits::default() })
    }

    #[test]
    fn one_address_leaves_places_to_others() {
        let places = places(100, 3);
        let held: Vec<Slot> = (0..5).map(|_| places.take(address(1))).collect();
        let stages: Vec<bool> = held.iter().map(Slot::is_in_reserve).collect();
        assert_eq!(stages, [false, false, false, true, true]);
        assert!(!places.take(address(2)).is_in_reserve());
        assert!(!held[3].admit(), "it has as many as it may");
        assert_eq!(held[3].claim(true).map_err(|words| words.contains("/healthz")), Err(true));
        assert_eq!((places.seen().reserve, places.seen().refused_places), (2, 1));
        drop(held);
        assert_eq!(places.seen(), Seen { refused_places: 1, ..Seen::default() });
    }

    #[test]
    fn who_has_not_shown_who_it_is_keeps_no_user_out() {
        let places = places(4, 4);
        let open = [places.take(address(1)), places.take(address(2))];
        let user = places.take(address(3));
        assert!(user.is_in_reserve() && user.admit() && !user.is_in_reserve());
        assert!(open[0].admit());
        assert_eq!((places.seen().unauthenticated, places.seen().connections), (1, 3));
        let (third, fourth) = (places.take(address(4)), places.take(address(5)));
        assert!(!third.is_in_reserve() && fourth.is_in_reserve());
        assert!(!fourth.admit(), "all places are taken");
    }

    #[test]
    fn the_reserve_is_always_open_to_others() {
        let places = places(1, 1);
        let first = places.take(address(1));
        let one = places.take(address(2));
        let flood: Vec<Slot> = (0..3 * RESERVE_MAX).map(|_| places.take(address(9))).collect();
        assert!(one.is_in_reserve() && places.0.table().slots.contains_key(&one.0.id));
        let here = |slot: &&Slot| places.0.table().slots.contains_key(&slot.0.id);
        assert_eq!(flood.iter().filter(here).count(), RESERVE_MAX - 1);
        assert!(here(&&flood[3 * RESERVE_MAX - 1]) && !here(&&flood[0]), "the oldest go first");
        assert_eq!(places.seen().ended, [0, 0, 0, 2 * RESERVE_MAX as u64 + 1]);
        assert!(!first.is_in_reserve());
    }

    #[test]
    fn pending_bytes_are_bounded_but_for_small_answers() {
        let places = Places::new(Limits { pending_bytes_max: 100_000, ..Limits::default() });
        let first = places.hold(90_000).unwrap();
        assert!(places.hold(70_000).is_none());
        let small = places.hold(SMALL_BYTES).unwrap();
        assert_eq!(places.seen().pending_bytes, 90_000 + SMALL_BYTES);
        drop((first, small));
        assert!(places.hold(70_000).is_some());
        assert_eq!((places.seen().pending_bytes, places.seen().refused_bytes), (0, 1));
    }

    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let parse = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(network_of(parse("2001:db8::1:2")), network_of(parse("2001:db8::ffff:3:4")));
        assert_ne!(network_of(parse("2001:db8::1")), network_of(parse("2001:db8:0:1::1")));
        assert_eq!(network_of(parse("::ffff:10.0.0.1")), parse("10.0.0.1"));
    }
}
