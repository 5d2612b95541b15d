//! A connection on which one thing after the other is asked.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Now;
use tieline_modbus::{
    Client, ClientConfig, ClientEvent, ExceptionCode, Framing, Priority, Request, Response, Transaction, Unit,
};
use tieline_net::{Closed, Limits, Owner, Session, Shard, Target, connect};
use tokio::sync::oneshot;

/// What came of a request.
#[derive(Debug)]
pub enum Heard {
    /// It was done.
    Answer(Response),
    /// It was refused.
    Refused(ExceptionCode),
    /// Nothing came.
    Nothing,
}

type Waiting = Rc<RefCell<HashMap<u64, oneshot::Sender<Heard>>>>;

/// A connection to one address.
pub struct Link {
    session: Session<Client>,
    waiting: Waiting,
    next: Cell<u64>,
    patience: Duration,
}

impl Link {
    /// Connects.
    ///
    /// # Errors
    /// Nobody is there in time.
    pub async fn open(shard: &Rc<Shard>, address: &str, patience: Duration) -> io::Result<Self> {
        let target = Target { timeout: patience, ..Target::new(address) };
        let stream = connect(&target).await?;
        let config = ClientConfig { answer_timeout: patience, retries: 0, ..ClientConfig::new(Framing::Tcp) };
        let session = Session::new(shard, Client::new(config), Limits::default());
        let waiting = Waiting::default();
        let (running, mut hears) = (session.clone(), Hears(Rc::clone(&waiting)));
        tokio::task::spawn_local(async move { running.run(stream, &mut hears).await });
        // The session begins with its task's first turn.
        tokio::task::yield_now().await;
        Ok(Self { session, waiting, next: Cell::new(0), patience })
    }

    /// Asks a unit, and waits for its answer.
    pub async fn ask(&self, unit: u8, request: Request) -> Heard {
        let id = self.next.get();
        self.next.set(id + 1);
        let (tell, told) = oneshot::channel();
        self.waiting.borrow_mut().insert(id, tell);
        let taken = self.session.with(|client, now| {
            let deadline = now.mono + self.patience;
            client.submit(Transaction { id, unit: Unit(unit), request, deadline, priority: Priority::Normal })
        });
        if taken.is_err() {
            return Heard::Nothing;
        }
        told.await.unwrap_or(Heard::Nothing)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.session.close();
    }
}

struct Hears(Waiting);

impl Hears {
    fn tell(&self, id: u64, heard: Heard) {
        if let Some(tell) = self.0.borrow_mut().remove(&id) {
            let _ = tell.send(heard);
        }
    }
}

impl Owner<Client> for Hears {
    fn event(&mut self, _session: &Session<Client>, _now: Now, event: ClientEvent) {
        match event {
            ClientEvent::Answer { id, response } => self.tell(id, Heard::Answer(response)),
            ClientEvent::Exception { id, code } => self.tell(id, Heard::Refused(code)),
            ClientEvent::Failed { id, .. } | ClientEvent::Sent { id } => self.tell(id, Heard::Nothing),
            ClientEvent::WindowReduced { .. } | ClientEvent::Closing => {}
        }
    }

    fn closed(&mut self, _session: &Session<Client>, _now: Now, _why: Closed) {
        self.0.borrow_mut().clear();
    }
}
