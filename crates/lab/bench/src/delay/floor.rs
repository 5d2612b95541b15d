//! The floor of a run: as many bytes between the same hosts, with the same marks and beside the same flood, and no DNP3.
//!
//! Half an interval after each fault a second relay, controller and centre say the same to each other, 36 bytes a
//! message, from sockets of the same kind. What their slowest took is the system's.

use super::link::{Door, Socket};
use super::roles::{Part, Role, Signals, Timer, Told};
use super::stamps::{Kind, now_ns, room};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use tieline_net::Marks;

/// Bytes of a message: what a command or a report has in a link frame.
const BYTES: usize = 36;
/// What a connection begins with, so that a listener of datagrams knows its peer.
const HELLO: u32 = u32::MAX;

/// A message that came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bare {
    /// Who said it to whom.
    pub kind: Kind,
    /// From when it was due until it was read.
    pub nanos: u64,
}

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    fault: u32,
    due: u64,
    echo: bool,
}

impl Word {
    fn emit(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let fields = self.fault.to_le_bytes().into_iter().chain(self.due.to_le_bytes()).chain([u8::from(self.echo)]);
        bytes.iter_mut().zip(fields).for_each(|(to, from)| *to = from);
        bytes
    }

    fn parse(bytes: &[u8; BYTES]) -> Option<Self> {
        let (fault, rest) = bytes.split_first_chunk()?;
        let (due, rest) = rest.split_first_chunk()?;
        let echo = rest.first().is_some_and(|flag| *flag != 0);
        Some(Self { fault: u32::from_le_bytes(*fault), due: u64::from_le_bytes(*due), echo })
    }
}

/// A socket that words travel on.
struct Wire(Socket);

impl Wire {
    /// A connection, and the word that makes it known.
    async fn connect(to: std::net::SocketAddr, datagrams: bool, marks: Option<Marks>) -> Result<Rc<Self>> {
        let wire = Self(Socket::connect(to, datagrams, marks).await?);
        wire.0.writable().await?;
        wire.send(Word { fault: HELLO, due: 0, echo: true });
        Ok(Rc::new(wire))
    }

    /// One write; what the system has no room for is lost, and the receiver's count says so.
    fn send(&self, word: Word) {
        let _ = self.0.write(&word.emit());
    }

    /// Reads words until the connection ends, and sends each back once `learn` has it.
    async fn receive(&self, mut learn: impl FnMut(Word)) -> io::Result<()> {
        let (mut buffer, mut held) = ([0; 16 * BYTES], Vec::with_capacity(BYTES));
        loop {
            self.0.readable().await?;
            let count = match self.0.read(&mut buffer) {
                Ok(count) => count,
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::ConnectionRefused) => continue,
                Err(error) => return Err(error),
            };
            held.extend_from_slice(buffer.get(..count).unwrap_or_default());
            while let Some((bytes, _)) = held.split_first_chunk::<BYTES>() {
                if let Some(word) = Word::parse(bytes).filter(|word| !word.echo) {
                    learn(word);
                    self.send(Word { echo: true, ..word });
                }
                held.drain(..BYTES);
            }
        }
    }

    /// Notes what arrives.
    fn listen(self: &Rc<Self>, kind: Kind, told: &Rc<RefCell<Vec<Bare>>>, mut then: impl FnMut(Word) + 'static) {
        let (wire, told) = (Rc::clone(self), Rc::clone(told));
        tokio::task::spawn_local(async move {
            let learn = |word: Word| {
                told.borrow_mut().push(Bare { kind, nanos: now_ns().saturating_sub(word.due) });
                then(word);
            };
            // How it ended shows in what is missing.
            let _ = wire.receive(learn).await;
        });
    }
}

/// Plays a part without DNP3 to its end.
pub async fn play_bare(role: &Role, signals: &mut impl Signals) -> Result<Told> {
    let datagrams = role.way.has_datagrams();
    let room = room(Bare { kind: Kind::Command, nanos: 1 }, role.faults.saturating_mul(2));
    let told = Rc::new(RefCell::new(room));
    let (protection, monitoring) = (role.marks(Marks::PROTECTION), role.marks(Marks::MONITORING));
    match &role.part {
        Part::Relay { listen, breaker } => {
            let door = Door::open(*listen, datagrams, protection).await?;
            let to_breaker = Wire::connect(*breaker, datagrams, protection).await?;
            signals.listening()?;
            let to_centre = Rc::new(Wire(door.enter(protection).await?));
            // Only what comes back.
            to_breaker.listen(Kind::Command, &told, |_| ());
            to_centre.listen(Kind::RelayReport, &told, |_| ());
            signals.ready()?;
            let (start, timer) = (signals.await_start().await?, Timer::new()?);
            for fault in 0..role.faults {
                let due = role.due(start, fault) + role.interval_us * 500;
                timer.wait(due).await?;
                let word = Word { fault, due, echo: false };
                to_breaker.send(word);
                to_centre.send(word);
            }
            timer.wait(role.end(start)).await?;
        }
        Part::Breaker { listen, relay } => {
            let for_centre = Door::open(*listen, datagrams, monitoring).await?;
            let for_relay = Door::open(*relay, datagrams, protection).await?;
            signals.listening()?;
            let from_relay = Rc::new(Wire(for_relay.enter(protection).await?));
            let to_centre = Rc::new(Wire(for_centre.enter(monitoring).await?));
            let reports = Rc::clone(&to_centre);
            from_relay.listen(Kind::Command, &told, move |word| reports.send(Word { due: now_ns(), ..word }));
            to_centre.listen(Kind::BreakerReport, &told, |_| ());
            signals.ready()?;
            let start = signals.await_start().await?;
            Timer::new()?.wait(role.end(start)).await?;
        }
        Part::Centre { relay: Some(relay), breaker: Some(breaker), .. } => {
            signals.listening()?;
            let from_relay = Wire::connect(*relay, datagrams, protection).await?;
            let from_breaker = Wire::connect(*breaker, datagrams, monitoring).await?;
            from_relay.listen(Kind::RelayReport, &told, |_| ());
            from_breaker.listen(Kind::BreakerReport, &told, |_| ());
            signals.ready()?;
            let start = signals.await_start().await?;
            Timer::new()?.wait(role.end(start)).await?;
        }
        Part::Centre { .. } | Part::Ieds { .. } => bail!("the floor has relay, controller and centre only"),
    }
    Ok(Told { bare: told.take(), lean: true, ..Told::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_what_it_was() {
        for word in [Word { fault: 7, due: u64::MAX - 1, echo: false }, Word { fault: HELLO, due: 0, echo: true }] {
            assert_eq!(Word::parse(&word.emit()), Some(word));
        }
    }
}
