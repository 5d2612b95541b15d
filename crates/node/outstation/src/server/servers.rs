//! Outstations behind one port, each with one master or several.
//!
//! ```text
//!                  ┌─ channel ─┬─ line of station 10 ─┐
//! connection 0 ────┤           └─ line of station 11 ─┼─┬─ Group 10: an association for each of its masters
//!                  ┌─ channel ─┬─ line of station 10 ─┘ │
//! connection 1 ────┤           └─ line of station 11 ───┴─ Group 11
//! ```
//!
//! Each connection is a session with a channel of its own. A frame names the station by its destination and the master by
//! its source; an association goes on where its master was heard last.

use super::{Folder, FolderThread, Happening, Line, TableControls, outstation_of};
use crate::config::{MasterFile, OutstationFile};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Now;
use tieline_dnp3::Measurement;
use tieline_dnp3::channel::{Channel, ChannelEvent, MemberId};
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::outstation::{FileConfig, Group, GroupLine, OutstationEvent};
use tieline_net::{Closed, Limits, Owner, Peer, Session, Shard};
use tieline_transport::Route;
use tokio::sync::Notify;

/// Connections at most for each master of each outstation: one, and one that takes its place.
const CONNECTIONS_A_MASTER: usize = 2;
/// Connections at most, however many masters there are.
const CONNECTIONS_MAX: usize = 1024;
/// How often deadlines are looked at while nothing is connected.
const TICK: Duration = Duration::from_millis(500);

type Lines = Channel<GroupLine>;

/// An outstation to be served.
#[derive(Debug)]
pub struct Served {
    /// What it is.
    pub file: OutstationFile,
    /// The files that it serves, where it has one master.
    pub folder: Option<Folder>,
}

/// Whom something concerns, by link addresses; none for the connection as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Concerned {
    /// Which outstation.
    pub outstation: Option<u16>,
    /// Which of its masters.
    pub master: Option<u16>,
}

/// Told of everything that happens.
pub type OutstationServersTeller = Rc<RefCell<dyn FnMut(&OutstationServers, Now, Concerned, Happening)>>;

/// Outstations that are served. Copies are handles of the same.
#[derive(Clone, Debug)]
pub struct OutstationServers {
    inner: Rc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// In the order of the channels' members.
    outstations: Vec<OneOutstation>,
    /// One for each connection, by a number of its own.
    sessions: RefCell<BTreeMap<u64, Session<Lines>>>,
    shard: Rc<Shard>,
    /// It is this side that connects: the peer is the master of every outstation.
    connects: bool,
}

#[derive(Debug)]
struct OneOutstation {
    address: u16,
    group: Rc<RefCell<Group>>,
    masters: Vec<MasterFile>,
    /// Associations that went from one connection to another, as far as that was acted on.
    moved: Cell<u64>,
}

impl OneOutstation {
    fn new(file: &OutstationFile) -> Self {
        let masters = file.all_masters();
        let association =
            |master: &MasterFile| outstation_of(file, master.address, Box::new(TableControls::of(&file.points)));
        let group = Group::new(masters.iter().map(association));
        Self { address: file.config.address, group: Rc::new(RefCell::new(group)), masters, moved: Cell::new(0) }
    }
}

/// Connections that outstations with so many masters in all may have.
#[must_use]
pub fn connections_max(files: &[OutstationFile]) -> usize {
    let masters: usize = files.iter().map(|file| file.all_masters().len()).sum();
    (CONNECTIONS_A_MASTER * masters.max(1)).min(CONNECTIONS_MAX)
}

impl OutstationServers {
    /// Serves until the shard ends. Returns where it listens, if it does.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        shard: &Rc<Shard>,
        route: Route,
        served: Vec<Served>,
        tell: OutstationServersTeller,
    ) -> std::io::Result<(Self, Option<SocketAddr>)> {
        let (mut outstations, mut folders) = (Vec::new(), Vec::new());
        for (Served { file, folder }, member) in served.into_iter().zip((0..).map(MemberId)) {
            outstations.push(OneOutstation::new(&file));
            folders.extend(folder.zip(file.files).map(|(folder, files)| (member, files.limits, folder)));
        }
        let connects = matches!(route, Route::Connect(_));
        let inner = Inner { outstations, sessions: RefCell::default(), shard: Rc::clone(shard), connects };
        let outstations = Self { inner: Rc::new(inner) };
        let (owner_of_all, mut numbers) = (outstations.clone(), 0..);
        let start_session = move || {
            let session = Session::new(&owner_of_all.inner.shard, owner_of_all.channel(), Limits::default());
            let number = numbers.next().unwrap_or(u64::MAX);
            (session, LinesOwner { outstations: owner_of_all.clone(), number, tell: Rc::clone(&tell) })
        };
        let seed = shard.now().utc.micros().unsigned_abs();
        let address = route.start_each(shard, seed, start_session).await?;
        for (member, limits, folder) in folders {
            outstations.serve_files(member, limits, folder)?;
        }
        let ticked = outstations.clone();
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(TICK).await;
                ticked.tick();
            }
        });
        Ok((outstations, address))
    }

    /// Serves the files of a station that has one master, by a thread of their own.
    fn serve_files(&self, member: MemberId, limits: FileConfig, folder: Folder) -> std::io::Result<()> {
        let notify = Arc::new(Notify::new());
        let handler = FolderThread::start(folder, Arc::clone(&notify))?;
        let Some(outstation) = self.by_number(member) else { return Ok(()) };
        if let Some(outstation) = outstation.group.borrow_mut().outstation_mut(0) {
            outstation.serve_files(limits, Box::new(handler));
        }
        let outstations = self.clone();
        tokio::task::spawn_local(async move {
            loop {
                notify.notified().await;
                let now = outstations.inner.shard.now();
                if let Some(outstation) = outstations.by_number(member) {
                    outstation.group.borrow_mut().for_each(|outstation| outstation.poll_files(now));
                }
                outstations.nudge(member);
            }
        });
        Ok(())
    }

    /// What one connection may reach: every station.
    fn channel(&self) -> Lines {
        let mut channel = Channel::new(false);
        for outstation in &self.inner.outstations {
            // The file's addresses differ, and there are no more of them than a channel has room for.
            let line = GroupLine::new(Rc::clone(&outstation.group));
            let _ = channel.add(LinkAddress::new(outstation.address), None, line);
        }
        channel
    }

    fn by_number(&self, member: MemberId) -> Option<&OneOutstation> {
        self.inner.outstations.get(usize::from(member.0))
    }

    fn by_address(&self, address: Option<u16>) -> Result<(MemberId, &OneOutstation), String> {
        let mut numbered = (0..).map(MemberId).zip(&self.inner.outstations);
        match address {
            Some(address) => numbered
                .find(|(_, outstation)| outstation.address == address)
                .ok_or_else(|| format!("there is no outstation {address}")),
            None if self.inner.outstations.len() > 1 => {
                Err("there are several outstations, expected outstation ADDRESS before the line".to_owned())
            }
            None => numbered.next().ok_or_else(|| "there is no outstation".to_owned()),
        }
    }

    /// Gives a point of an outstation a value, for every master of it. No address stands for the only outstation.
    ///
    /// # Errors
    /// There is no such outstation or point, or the value is not of its type.
    pub fn update(&self, outstation: Option<u16>, measurement: &Measurement) -> Result<(), String> {
        let (member, outstation) = self.by_address(outstation)?;
        let updated = outstation.group.borrow_mut().update(self.inner.shard.now(), measurement);
        self.nudge(member);
        updated.map_err(|error| error.to_string())
    }

    /// Starts an outstation again, as after a power cycle. Its connections end, unless others share them.
    ///
    /// # Errors
    /// There is no such outstation.
    pub fn restart(&self, outstation: Option<u16>) -> Result<(), String> {
        let (member, outstation) = self.by_address(outstation)?;
        let now = self.inner.shard.now();
        outstation.group.borrow_mut().for_each(|outstation| outstation.restart(now));
        self.nudge(member);
        if self.inner.outstations.len() == 1 {
            let sessions = self.inner.sessions.borrow();
            sessions.values().filter(|session| session.is_connected()).for_each(Session::close);
        }
        Ok(())
    }

    /// Does what a line says to an outstation; [`Line::Quit`] is the caller's.
    ///
    /// # Errors
    /// There is no such outstation or point, or the value is not of its type.
    pub fn apply(&self, outstation: Option<u16>, line: Line) -> Result<(), String> {
        if line == Line::Quit {
            return Ok(());
        }
        let (_, served) = self.by_address(outstation)?;
        let mut found = false;
        match line {
            Line::Update(measurement) => return self.update(outstation, &measurement),
            Line::Restart => return self.restart(outstation),
            Line::Local(on) => served.group.borrow_mut().for_each(|outstation| outstation.set_local(on)),
            Line::Remove(point_type, Some(index)) => {
                served.group.borrow_mut().for_each(|outstation| found |= outstation.remove(point_type, index));
                return found.then_some(()).ok_or_else(|| format!("there is no {} {index}", point_type.name()));
            }
            Line::Remove(point_type, None) => {
                let mut group = served.group.borrow_mut();
                group.for_each(|outstation| found |= outstation.database_mut().remove_all(point_type) > 0);
                return found.then_some(()).ok_or_else(|| format!("there is no {}", point_type.name()));
            }
            Line::Quit => {}
        }
        Ok(())
    }

    /// What one connection did to an outstation may give others something to send, or to end.
    fn nudge(&self, member: MemberId) {
        for session in self.inner.sessions.borrow().values() {
            session.with(|channel, _| {
                channel.member_mut(member);
            });
        }
    }

    /// Lets deadlines pass while no connection does, and connections end that nobody speaks on any more.
    fn tick(&self) {
        let now = self.inner.shard.now();
        for (member, outstation) in (0..).map(MemberId).zip(&self.inner.outstations) {
            let due = outstation.group.borrow().timeout().is_some_and(|deadline| deadline <= now.mono);
            if due {
                outstation.group.borrow_mut().handle_timeout(now);
            }
            let moved = outstation.group.borrow().counters().moved;
            if outstation.moved.replace(moved) != moved || due {
                self.nudge(member);
            }
        }
    }

    /// Connects the associations whose master is at the other end before it was heard; says which master that is,
    /// where it is one and known by its address.
    fn assign(&self, session: &Session<Lines>, peer: Option<IpAddr>) -> Option<u16> {
        let mut known = None;
        for (member, outstation) in (0..).map(MemberId).zip(&self.inner.outstations) {
            let is_there = |file: &&MasterFile| self.inner.connects || (peer.is_some() && file.from == peer);
            for file in outstation.masters.iter().filter(is_there) {
                known = file.from.filter(|from| Some(*from) == peer).map(|_| file.address).or(known);
                session.with(|channel, now| {
                    if let Some(line) = channel.member_mut(member).and_then(|line| line.number()) {
                        outstation.group.borrow_mut().assign(now, line, file.address);
                    }
                });
            }
        }
        known
    }
}

struct LinesOwner {
    outstations: OutstationServers,
    number: u64,
    tell: OutstationServersTeller,
}

impl LinesOwner {
    fn tell(&self, now: Now, concerned: Concerned, happening: Happening) {
        (self.tell.borrow_mut())(&self.outstations, now, concerned, happening);
    }
}

impl Owner<Lines> for LinesOwner {
    fn event(&mut self, _session: &Session<Lines>, now: Now, event: ChannelEvent<(usize, OutstationEvent)>) {
        let ChannelEvent { member, event: (association, event) } = event;
        let Some(outstation) = self.outstations.by_number(member) else { return };
        let master = {
            let group = outstation.group.borrow();
            group.outstations().nth(association).map(|outstation| outstation.config().master)
        };
        self.tell(now, Concerned { outstation: Some(outstation.address), master }, Happening::Event(event));
        self.outstations.nudge(member);
    }

    fn connected(&mut self, session: &Session<Lines>, now: Now, peer: &Peer) {
        self.outstations.inner.sessions.borrow_mut().insert(self.number, session.clone());
        let address = match peer {
            Peer::Address(address) => Some(address.ip()),
            Peer::Line(_) => None,
        };
        let master = self.outstations.assign(session, address);
        self.tell(now, Concerned { outstation: None, master }, Happening::Connected(peer.clone()));
    }

    fn closed(&mut self, _session: &Session<Lines>, now: Now, why: Closed) {
        self.outstations.inner.sessions.borrow_mut().remove(&self.number);
        self.tell(now, Concerned::default(), Happening::Disconnected(why));
    }
}
