//! One outstation behind one listening socket.

use super::{Folder, FolderThread, Line};
use crate::config::{OutstationFile, OutstationPoint};
use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::Now;
use tieline_dnp3::app::CommandStatus;
use tieline_dnp3::outstation::{
    Arrival, BoxedControlHandler, ControlHandler, Database, FileConfig, Operate, Outstation, OutstationConfig,
    OutstationEvent, Rivals,
};
use tieline_dnp3::secure::OutstationSecurity;
use tieline_dnp3::{AnalogCommand, Control, Crob, Flags, Measured, Measurement, PointType};
use tieline_net::{Closed, Limits, ListenConfig, Owner, Peer, Session, Shard};
use tieline_transport::Route;
use tieline_transport::secure::{StationSecurity, SystemRandom};
use tokio::sync::Notify;

/// Connections of masters: one that counts, and those that take its place.
pub const SESSIONS_MAX: usize = 8;

/// What happened at an outstation, for its owner.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A master connected.
    Connected(Peer),
    /// The master's connection ended.
    Disconnected(Closed),
    /// A connection was closed because another master of the same address keeps its own: see
    /// [`Rivals`].
    Refused(Peer),
    /// The outstation's machine says so.
    Event(OutstationEvent),
}

/// Told of everything that happens.
pub type Teller = Rc<RefCell<dyn FnMut(&Session<Outstation>, Now, Happening)>>;

/// An outstation that listens.
#[derive(Debug)]
pub struct OutstationServer {
    session: Session<Outstation>,
    address: SocketAddr,
}

/// A database with first values.
#[must_use]
pub fn database_of(points: &[OutstationPoint]) -> Database {
    let mut database = Database::new();
    // In the database's own order: anywhere else, a new point moves all that stand behind its place.
    let mut points: Vec<&OutstationPoint> = points.iter().collect();
    points.sort_by_key(|point| (point.start.point_type, point.start.index));
    for point in points {
        let Measurement { point_type, index, .. } = point.start;
        // Duplicates and wrong variations were refused with the file.
        let _ = database.add(point_type, index, point.config);
        let _ = database.set(point.start.clone());
    }
    database.shrink();
    database
}

/// The outstation of a file, or its association with one of several masters.
#[must_use]
pub fn outstation_of(file: &OutstationFile, master: u16, controls: BoxedControlHandler) -> Outstation {
    let config = OutstationConfig { master, ..file.config };
    let mut outstation = Outstation::new(config, database_of(&file.points), controls);
    outstation.set_attributes(file.attributes.clone());
    if let Some(StationSecurity { config, users, .. }) = &file.secure {
        outstation.set_security(OutstationSecurity::new(config.clone(), users.clone(), Box::new(SystemRandom)));
    }
    outstation
}

impl OutstationServer {
    /// Listens and serves until the shard ends. A new connection takes the place of an old one.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(
        shard: &Rc<Shard>,
        listen: SocketAddr,
        config: OutstationConfig,
        database: Database,
        controls: BoxedControlHandler,
        tell: Teller,
    ) -> std::io::Result<Self> {
        let listen = ListenConfig { sessions_max: SESSIONS_MAX, ..ListenConfig::new(listen.to_string()) };
        Self::serve(shard, Route::Listen(listen), Outstation::new(config, database, controls), tell).await
    }

    /// Serves an outstation over any transport until the shard ends.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn serve(shard: &Rc<Shard>, route: Route, outstation: Outstation, tell: Teller) -> std::io::Result<Self> {
        let session = Session::new(shard, outstation, Limits::default());
        let seed = shard.now().utc.micros().unsigned_abs();
        let kept = route.start(session.clone(), seed, OutstationOwner { tell, place: Rc::default() }).await?;
        Ok(Self { session, address: kept.address().unwrap_or(SocketAddr::from(([0; 4], 0))) })
    }

    /// Serves files from a folder, which gets a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn serve_files(&self, limits: FileConfig, folder: Folder) -> std::io::Result<()> {
        let notify = Arc::new(Notify::new());
        let handler = FolderThread::start(folder, Arc::clone(&notify))?;
        self.session.with(|outstation, _| outstation.serve_files(limits, Box::new(handler)));
        let session = self.session.clone();
        tokio::task::spawn_local(async move {
            loop {
                notify.notified().await;
                session.with(|outstation, now| outstation.poll_files(now));
            }
        });
        Ok(())
    }

    /// Where it listens; 0.0.0.0:0 where it does not.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its session.
    #[must_use]
    pub const fn session(&self) -> &Session<Outstation> {
        &self.session
    }

    /// Does what a line says; [`Line::Quit`] is the caller's.
    ///
    /// # Errors
    /// The database does not have the point, or the value is not of its type.
    pub fn apply(&self, line: Line) -> Result<(), String> {
        match line {
            Line::Update(measurement) => {
                self.session.with(|outstation, now| outstation.update(now, measurement)).map_err(|e| e.to_string())
            }
            Line::Remove(point_type, Some(index)) => {
                let removed = self.session.with(|outstation, _| outstation.remove(point_type, index));
                removed.then_some(()).ok_or_else(|| format!("there is no {} {index}", point_type.name()))
            }
            Line::Remove(point_type, None) => {
                let removed = self.session.with(|outstation, _| outstation.database_mut().remove_all(point_type));
                if removed > 0 { Ok(()) } else { Err(format!("there is no {}", point_type.name())) }
            }
            Line::Local(on) => {
                self.session.with(|outstation, _| outstation.set_local(on));
                Ok(())
            }
            Line::Restart => {
                self.session.with(Outstation::restart);
                if self.session.is_connected() {
                    self.session.close();
                }
                Ok(())
            }
            Line::Quit => Ok(()),
        }
    }
}

/// One owner for all connections.
#[derive(Clone)]
struct OutstationOwner {
    tell: Teller,
    place: Rc<RefCell<MasterPlace>>,
}

/// The place of the one master.
#[derive(Debug, Default)]
struct MasterPlace {
    rivals: Rivals,
    /// What had been read when the connection that has it began.
    bytes_in_before: u64,
}

impl Owner<Outstation> for OutstationOwner {
    fn may_replace(&mut self, session: &Session<Outstation>, now: Now, peer: &Peer) -> bool {
        let mut place = self.place.borrow_mut();
        let spoke = session.traffic().bytes_in > place.bytes_in_before;
        let happening = match place.rivals.arrive(now.mono, spoke) {
            Arrival::Takes => return true,
            Arrival::Keeps(kept) => Happening::Event(OutstationEvent::TwoMasters { kept }),
            Arrival::Refused => Happening::Refused(peer.clone()),
        };
        drop(place);
        let enters = matches!(happening, Happening::Event(_));
        (self.tell.borrow_mut())(session, now, happening);
        enters
    }

    fn event(&mut self, session: &Session<Outstation>, now: Now, event: OutstationEvent) {
        (self.tell.borrow_mut())(session, now, Happening::Event(event));
    }

    fn connected(&mut self, session: &Session<Outstation>, now: Now, peer: &Peer) {
        self.place.borrow_mut().bytes_in_before = session.traffic().bytes_in;
        (self.tell.borrow_mut())(session, now, Happening::Connected(peer.clone()));
    }

    fn closed(&mut self, session: &Session<Outstation>, now: Now, why: Closed) {
        if why != Closed::Replaced {
            self.place.borrow_mut().rivals.leave();
        }
        (self.tell.borrow_mut())(session, now, Happening::Disconnected(why));
    }
}

/// Answers controls as the outstation's file says.
#[derive(Debug)]
pub struct TableControls {
    answers: HashMap<(bool, u16), CommandStatus>,
}

impl TableControls {
    /// The answers of a file's outputs.
    #[must_use]
    pub fn of(points: &[OutstationPoint]) -> Self {
        let outputs = points.iter().filter_map(|point| {
            let analog = match point.start.point_type {
                PointType::BinaryOutput => false,
                PointType::AnalogOutput => true,
                _ => return None,
            };
            Some(((analog, point.start.index), point.operate))
        });
        Self { answers: outputs.collect() }
    }

    fn answer(&self, index: u16, control: &Control) -> CommandStatus {
        let key = (matches!(control, Control::Analog(_)), index);
        self.answers.get(&key).copied().unwrap_or(CommandStatus::NotSupported)
    }
}

impl ControlHandler for TableControls {
    fn select(&mut self, index: u16, control: &Control) -> CommandStatus {
        self.answer(index, control)
    }

    fn operate(&mut self, index: u16, control: &Control, _how: Operate) -> CommandStatus {
        self.answer(index, control)
    }
}

/// What an output shows after a control of it: the state that a latch, a pulse or a trip-close leaves behind; none for
/// a control that moves nothing.
#[must_use]
pub fn state_after(index: u16, control: &Control) -> Option<Measurement> {
    let (point_type, value) = match control {
        Control::Crob(crob) => (PointType::BinaryOutput, Measured::Bit(closes(*crob)?)),
        Control::Analog(command) => (PointType::AnalogOutput, Measured::Analog(number(*command))),
    };
    Some(Measurement { point_type, index, value, flags: Flags::ONLINE, stamp: None })
}

/// Whether a control relay output block closes (true) or opens; none for codes that do neither (IEEE 1815 A.8.1).
#[must_use]
pub const fn closes(crob: Crob) -> Option<bool> {
    match (crob.code >> 6, crob.code & 0x0f) {
        (1, _) => Some(true),
        (2, _) => Some(false),
        (_, 1 | 3) => Some(true),
        (_, 2 | 4) => Some(false),
        _ => None,
    }
}

/// The number of an analog command.
#[must_use]
pub fn number(command: AnalogCommand) -> f64 {
    match command {
        AnalogCommand::Int32(x) => x.into(),
        AnalogCommand::Int16(x) => x.into(),
        AnalogCommand::Float32(x) => x.into(),
        AnalogCommand::Float64(x) => x,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_text;
    use std::time::{Duration, Instant};
    use tieline_dnp3::outstation::AcceptAll;

    /// Many points cost what they are: with work that grows by the square of them this takes minutes.
    #[test]
    fn two_hundred_thousand_points_are_served_at_once() {
        let types = ["analog", "counter", "double-bit", "binary"];
        let text: String = types.iter().map(|name| format!("[[point]]\ntype='{name}'\nrange='0-49999'\n")).collect();
        let file = from_text("o.toml", &text).unwrap();
        let began = Instant::now();
        let outstation = outstation_of(&file, 1, Box::new(AcceptAll));
        assert_eq!(outstation.database().len(), 200_000);
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
