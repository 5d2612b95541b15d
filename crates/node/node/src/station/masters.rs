//! One outstation with several masters behind one listening socket.
//!
//! Each connection is a session with a line of the group; which master speaks on it, its frames say.

use super::{Happening, Line};
use crate::config::outstation::MasterFile;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::Measurement;
use tieline_dnp3::outstation::{Group, GroupLine, OutstationEvent};
use tieline_net::{Closed, Limits, ListenConfig, Listener, Owner, Peer, Session, Shard};

/// Connections at most for each master: one, and one that takes its place.
const LINES_A_MASTER: usize = 2;
/// How often deadlines are looked at while nothing is connected.
const TICK: Duration = Duration::from_millis(500);

/// Told of everything that happens, and by which master: its link address, where it is known.
pub type GroupTeller = Rc<RefCell<dyn FnMut(&Masters, Now, Option<u16>, Happening)>>;

/// An outstation with several masters, listening. Copies are handles of the same.
#[derive(Clone, Debug)]
pub struct Masters {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    group: Rc<RefCell<Group>>,
    /// One for each connection, by a number of its own.
    sessions: RefCell<BTreeMap<u64, Session<GroupLine>>>,
    files: Vec<MasterFile>,
    shard: Rc<Shard>,
    address: SocketAddr,
}

impl Masters {
    /// Listens and serves until the shard ends. A master that is heard on another connection goes on there.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        shard: &Rc<Shard>,
        listen: SocketAddr,
        group: Group,
        files: Vec<MasterFile>,
        tell: GroupTeller,
    ) -> std::io::Result<Self> {
        let sessions_max = LINES_A_MASTER * files.len().max(1);
        let listen = ListenConfig { sessions_max, ..ListenConfig::new(listen.to_string()) };
        let listener = Listener::bind(&listen, shard.counters().clone()).await?;
        let address = listener.local_addr()?;
        let (group, sessions) = (Rc::new(RefCell::new(group)), RefCell::default());
        let masters = Self { inner: Rc::new(Inner { group, sessions, files, shard: Rc::clone(shard), address }) };
        let served = masters.clone();
        tokio::task::spawn_local(async move {
            for number in 0.. {
                let accepted = listener.accept().await;
                let line = GroupLine::new(Rc::clone(&served.inner.group));
                let session = Session::new(&served.inner.shard, line, Limits::default());
                served.inner.sessions.borrow_mut().insert(number, session.clone());
                let mut owner = LineOwner { masters: served.clone(), tell: Rc::clone(&tell) };
                tokio::task::spawn_local(async move {
                    let _place = accepted.place;
                    session.run(accepted.stream, &mut owner).await;
                    owner.masters.inner.sessions.borrow_mut().remove(&number);
                });
            }
        });
        let ticked = masters.clone();
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(TICK).await;
                ticked.tick();
            }
        });
        Ok(masters)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Gives a point a value, for every master.
    ///
    /// # Errors
    /// The database does not have the point, or the value is not of its type.
    pub fn update(&self, measurement: &Measurement) -> Result<(), String> {
        let now = self.inner.shard.now();
        let updated = self.inner.group.borrow_mut().update(now, measurement);
        self.nudge();
        updated.map_err(|error| error.to_string())
    }

    /// Starts again, as after a power cycle.
    pub fn restart(&self) {
        let now = self.inner.shard.now();
        self.inner.group.borrow_mut().for_each(|outstation| outstation.restart(now));
        let sessions = self.inner.sessions.borrow();
        sessions.values().filter(|session| session.is_connected()).for_each(Session::close);
    }

    /// Does what a line says; [`Line::Quit`] is the caller's.
    ///
    /// # Errors
    /// The database does not have the point, or the value is not of its type.
    pub fn apply(&self, line: Line) -> Result<(), String> {
        let mut found = false;
        match line {
            Line::Update(measurement) => return self.update(&measurement),
            Line::Restart => self.restart(),
            Line::Local(on) => self.inner.group.borrow_mut().for_each(|outstation| outstation.set_local(on)),
            Line::Remove(point_type, Some(index)) => {
                self.inner.group.borrow_mut().for_each(|outstation| found |= outstation.remove(point_type, index));
                return found.then_some(()).ok_or_else(|| format!("there is no {} {index}", point_type.name()));
            }
            Line::Remove(point_type, None) => {
                let mut group = self.inner.group.borrow_mut();
                group.for_each(|outstation| found |= outstation.database_mut().remove_all(point_type) > 0);
                return found.then_some(()).ok_or_else(|| format!("there is no {}", point_type.name()));
            }
            Line::Quit => {}
        }
        Ok(())
    }

    /// What one line did may give others something to send.
    fn nudge(&self) {
        self.inner.sessions.borrow().values().for_each(Session::nudge);
    }

    /// Lets deadlines pass while no connection does.
    fn tick(&self) {
        let now = self.inner.shard.now();
        let due = self.inner.group.borrow().timeout().is_some_and(|deadline| deadline <= now.mono);
        if due {
            self.inner.group.borrow_mut().handle_timeout(now);
            self.nudge();
        }
    }

    fn master(&self, number: usize) -> Option<u16> {
        self.inner.group.borrow().outstations().nth(number).map(|outstation| outstation.config().master)
    }
}

struct LineOwner {
    masters: Masters,
    tell: GroupTeller,
}

impl Owner<GroupLine> for LineOwner {
    fn event(&mut self, _session: &Session<GroupLine>, now: Now, (number, event): (usize, OutstationEvent)) {
        let master = self.masters.master(number);
        (self.tell.borrow_mut())(&self.masters, now, master, Happening::Event(event));
        self.masters.nudge();
    }

    fn connected(&mut self, session: &Session<GroupLine>, now: Now, peer: &Peer) {
        let address = match peer {
            Peer::Address(address) => Some(address.ip()),
            Peer::Line(_) => None,
        };
        let known = self.masters.inner.files.iter().find(|file| address.is_some() && file.from == address);
        if let (Some(file), Some(line)) = (known, session.look(GroupLine::number)) {
            self.masters.inner.group.borrow_mut().assign(now, line, file.address);
        }
        let master = known.map(|file| file.address);
        (self.tell.borrow_mut())(&self.masters, now, master, Happening::Connected(peer.clone()));
    }

    fn closed(&mut self, _session: &Session<GroupLine>, now: Now, why: Closed) {
        (self.tell.borrow_mut())(&self.masters, now, None, Happening::Disconnected(why));
    }
}
