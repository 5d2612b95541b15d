//! The connections of one device, of which one is started (IEC 60870-5-104 10); the others stand by.
//!
//! ```text
//! away ─ connected ─▶ standby ─ chosen ─▶ starting ─ confirmed ─▶ started
//!   ◀──────────────────── the connection ends ────────────────────┘  the next that stands by is chosen
//! ```

use std::cell::{Cell, RefCell};
use tieline_iec104::Client;
use tieline_net::Session;
use tieline_poll::ConnectionHealth;

/// What a connection is used for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// There is none, and why.
    Away(Box<str>),
    Standby,
    Starting,
    Started,
}

impl State {
    const fn name(&self) -> &'static str {
        match self {
            Self::Away(_) => "away",
            Self::Standby => "standby",
            Self::Starting => "starting",
            Self::Started => "started",
        }
    }
}

/// One of them.
pub(super) struct Member {
    address: Box<str>,
    pub(super) client: Session<Client>,
    state: RefCell<State>,
}

impl Member {
    pub(super) fn new(address: &str, client: Session<Client>) -> Self {
        Self { address: address.into(), client, state: RefCell::new(State::Away("not connected yet".into())) }
    }
}

/// What the end of a connection means for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Another one carries the data.
    OfStandby,
    /// Another one, by its place, is started.
    Switched(usize),
    /// There is no other.
    OfAll,
}

/// The connections of a device, the first to its address.
pub(super) struct Group {
    members: Vec<Member>,
    /// Which of them is started or is being started.
    chosen: Cell<Option<usize>>,
    switches: Cell<u64>,
}

impl Group {
    pub(super) fn new(members: Vec<Member>) -> Self {
        Self { members, chosen: Cell::default(), switches: Cell::default() }
    }

    pub(super) fn clients(&self) -> impl Iterator<Item = &Session<Client>> {
        self.members.iter().map(|member| &member.client)
    }

    /// The one that carries data and commands; the first while none does.
    pub(super) fn chosen(&self) -> Option<&Session<Client>> {
        self.members.get(self.chosen.get().unwrap_or_default()).map(|member| &member.client)
    }

    pub(super) fn address(&self, place: usize) -> &str {
        self.members.get(place).map_or("", |member| &member.address)
    }

    /// How often another connection took the place of the one that was started.
    pub(super) const fn switches(&self) -> u64 {
        self.switches.get()
    }

    /// Connections in each state: started or being started, standing by, away.
    pub(super) fn counts(&self) -> [u64; 3] {
        self.members.iter().fold([0; 3], |[started, standby, away], member| match *member.state.borrow() {
            State::Started | State::Starting => [started + 1, standby, away],
            State::Standby => [started, standby + 1, away],
            State::Away(_) => [started, standby, away + 1],
        })
    }

    /// A connection begins; whether it is the one to be started.
    pub(super) fn connected(&self, place: usize) -> bool {
        self.set(place, State::Standby);
        let is_chosen = self.chosen.get().is_none();
        if is_chosen {
            self.start(place);
        }
        is_chosen
    }

    pub(super) fn started(&self, place: usize) {
        self.set(place, State::Started);
    }

    /// A connection has ended, or could not be made. Where it was the one that was started, the next that stands by is started.
    pub(super) fn lost(&self, place: usize, why: &str) -> Loss {
        self.set(place, State::Away(why.into()));
        match self.chosen.get() {
            Some(chosen) if chosen != place => return Loss::OfStandby,
            None => return Loss::OfAll,
            Some(_) => self.chosen.set(None),
        }
        let count = self.members.len();
        let stands_by =
            |place: &usize| self.members.get(*place).is_some_and(|member| *member.state.borrow() == State::Standby);
        let Some(next) = (1..count).map(|step| (place + step) % count).find(stands_by) else { return Loss::OfAll };
        self.switches.update(|count| count + 1);
        self.start(next);
        Loss::Switched(next)
    }

    /// What is told of each, where there are several.
    pub(super) fn health(&self) -> Option<Box<[ConnectionHealth]>> {
        let health = |member: &Member| {
            let state = member.state.borrow();
            let why = if let State::Away(why) = &*state { why.clone() } else { Box::default() };
            ConnectionHealth { address: member.address.clone(), state: state.name(), why }
        };
        (self.members.len() > 1).then(|| self.members.iter().map(health).collect())
    }

    fn start(&self, place: usize) {
        self.chosen.set(Some(place));
        self.set(place, State::Starting);
        if let Some(member) = self.members.get(place) {
            member.client.with(|client, _| client.start());
        }
    }

    fn set(&self, place: usize, state: State) {
        if let Some(member) = self.members.get(place) {
            *member.state.borrow_mut() = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_iec104::ClientConfig;
    use tieline_net::{Clock, Limits, Shard};

    fn group(addresses: &[&str]) -> Group {
        let shard = Shard::new(Clock::start(), std::sync::Arc::default());
        let client = || Session::new(&shard, Client::new(ClientConfig::new(1)), Limits::default());
        Group::new(addresses.iter().map(|address| Member::new(address, client())).collect())
    }

    fn states(group: &Group) -> Vec<&'static str> {
        group.members.iter().map(|member| member.state.borrow().name()).collect()
    }

    #[test]
    fn one_of_several_connections_is_started_and_the_next_takes_its_place() {
        let group = group(&["a:1", "b:1", "c:1"]);
        assert_eq!(group.lost(2, "refused"), Loss::OfAll);
        assert!(group.connected(1) && !group.connected(2) && !group.connected(0));
        group.started(1);
        assert_eq!((states(&group), group.counts()), (vec!["standby", "started", "standby"], [1, 2, 0]));
        // One that stands by is lost; then the one that is started, and one that does not confirm its start.
        assert_eq!(group.lost(0, "cut"), Loss::OfStandby);
        assert_eq!(group.lost(1, "cut"), Loss::Switched(2));
        assert_eq!((states(&group), group.switches()), (vec!["away", "away", "starting"], 1));
        assert!(!group.connected(1));
        assert_eq!(group.lost(2, "not confirmed"), Loss::Switched(1));
        let health = group.health().unwrap();
        let told = |place: usize| (&*health[place].address, health[place].state, &*health[place].why);
        assert_eq!([told(1), told(2)], [("b:1", "starting", ""), ("c:1", "away", "not confirmed")]);
        assert_eq!(group.lost(1, "cut"), Loss::OfAll);
        // The first that comes back is started.
        assert!(group.connected(2) && group.switches() == 2);
    }

    #[test]
    fn one_connection_is_not_told_of() {
        let group = group(&["a:1"]);
        assert!(group.health().is_none() && group.connected(0));
        assert_eq!((group.lost(0, "cut"), group.switches(), group.connected(0)), (Loss::OfAll, 0, true));
    }
}
