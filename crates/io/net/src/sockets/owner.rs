//! The owner's side: where connections are placed, and what is on its way to each shard and back.

use super::batch::{Batch, End, Item, News, Order};
use super::passage::{Passage, Record, SharedFrame};
use super::remote::{Remote, RemoteState};
use super::worker;
use crate::connection::{Detached, Kind};
use crate::mailbox::{Mailbox, MailboxSender, mailbox};
use crate::{Clock, Connection, Counters, Peer, Shard, ShardThread};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::sync::Notify;

/// A batch with so many bytes goes at once; the owner goes on meanwhile.
const BATCH_BYTES: usize = 64 * 1024;
/// A batch with so many orders goes at once.
const BATCH_ORDERS: usize = 1024;
/// Room of batches that is kept to be used again.
const SPARE_MAX: usize = 16;
/// A batch whose room is larger is not kept.
const SPARE_BYTES: usize = 2 * BATCH_BYTES;

/// The socket shards of one thread: places connections on them.
#[derive(Debug, Default)]
pub struct SocketShards {
    links: Vec<Rc<Link>>,
    filled: Rc<Filled>,
}

/// Whether there is something to be given to any shard.
#[derive(Debug, Default)]
struct Filled {
    task: Notify,
    /// Whether the task that gives it knows.
    is_told: Cell<bool>,
}

impl Filled {
    fn tell(&self) {
        if !self.is_told.replace(true) {
            self.task.notify_one();
        }
    }

    async fn wait(&self) {
        self.task.notified().await;
        self.is_told.set(false);
    }
}

/// How a socket shard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketShardStatus {
    /// Its connections.
    pub connections: usize,
    /// Of these: those whose sockets take no more at the moment.
    pub refusing: usize,
    /// Batches of orders that it was given.
    pub batches: u64,
    /// Batches that it has not said to have done; of batches that nobody waits for it says so some at a time.
    pub waiting: u64,
}

impl SocketShards {
    /// Starts `count` threads, called `name-0` and so on. A connection whose peer takes nothing for `stall` while output
    /// waits is ended. To be called on the owner's thread, whose runtime then works for them.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(
        name: &str,
        count: usize,
        (clock, counters, stall): (Clock, &Arc<Counters>, Duration),
    ) -> io::Result<(Self, Vec<ShardThread>)> {
        let mut shards = Self::default();
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (orders, tell) = shards.add();
            let body = move |shard: Rc<Shard>| worker::run(shard, orders, tell, stall);
            threads.push(ShardThread::spawn_serving(&format!("{name}-{number}"), clock, Arc::clone(counters), body)?);
        }
        shards.serve();
        Ok((shards, threads))
    }

    /// The same as tasks of the present thread: for runs in virtual time.
    #[must_use]
    pub fn local(shard: &Rc<Shard>, count: usize, stall: Duration) -> Self {
        let mut shards = Self::default();
        for _ in 0..count {
            let (orders, tell) = shards.add();
            let own = Shard::new(shard.clock(), Arc::clone(shard.counters()));
            tokio::task::spawn_local(worker::run(own, orders, tell, stall));
        }
        shards.serve();
        shards
    }

    /// Gives shards what is there once the owner's tasks have had their turns.
    fn serve(&self) {
        let (filled, links) = (Rc::clone(&self.filled), self.links.clone());
        tokio::task::spawn_local(async move {
            loop {
                filled.wait().await;
                links.iter().for_each(|link| link.flush());
            }
        });
    }

    /// Adds a shard; returns its ends of the mailboxes.
    fn add(&mut self) -> (Mailbox<Batch>, MailboxSender<News>) {
        let (give, orders) = mailbox();
        let (tell, news) = mailbox();
        let link = Rc::new(Link::new(give, Rc::clone(&self.filled)));
        tokio::task::spawn_local(attend(Rc::clone(&link), news));
        self.links.push(link);
        (orders, tell)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.links.len()
    }

    /// Gives a connection to the shard that has the fewest, and returns it as its session uses it. Where there is no shard,
    /// or the connection is of a kind that stays with its thread, it comes back as it is.
    ///
    /// # Errors
    /// The system does not let go of the socket.
    pub fn place(&self, connection: Connection) -> io::Result<Connection> {
        let Some(link) = self.links.iter().min_by_key(|link| link.connections.get()) else { return Ok(connection) };
        let peer = connection.peer();
        match connection.detach()? {
            Ok(detached) => Ok(Connection(Kind::Remote(link.open(detached, peer)))),
            Err(stays) => Ok(stays),
        }
    }

    /// Whether something urgent is to be given.
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        self.links.iter().any(|link| link.batch.borrow().is_urgent)
    }

    /// Gives at once what is urgent, with all that was to go before it.
    pub fn give_urgent(&self) {
        self.links.iter().filter(|link| link.batch.borrow().is_urgent).for_each(|link| link.flush());
    }

    /// Waits until one has ended, which none should before its owner.
    pub async fn ended(&self) {
        poll_fn(|cx| {
            let has_ended = self.links.iter().any(|link| link.has_ended(cx));
            if has_ended { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// How each does.
    pub fn status(&self) -> impl Iterator<Item = SocketShardStatus> + '_ {
        self.links.iter().map(|link| link.status())
    }
}

/// The owner's end of one shard.
#[derive(Debug)]
pub(super) struct Link {
    give: MailboxSender<Batch>,
    states: RefCell<Vec<Option<Rc<RemoteState>>>>,
    /// What writes need to know of each, in its place.
    records: RefCell<Vec<Record>>,
    /// Tells the next connection from others of its number.
    next_serial: Cell<u32>,
    free: RefCell<Vec<u32>>,
    connections: Cell<usize>,
    refusing: Cell<usize>,
    /// The batch that is made.
    batch: RefCell<Batch>,
    /// All batches up to this one are done.
    done: Cell<u64>,
    spare: RefCell<Vec<Batch>>,
    /// Connections that wait until a batch is done.
    waiting: RefCell<Vec<u32>>,
    filled: Rc<Filled>,
    has_ended: Cell<bool>,
    /// Who is told when it ends.
    watcher: RefCell<Option<Waker>>,
}

/// Acts on the news of a shard.
async fn attend(link: Rc<Link>, mut news: Mailbox<News>) {
    while let Some(told) = news.recv().await {
        link.handle(told);
    }
    link.fail_all();
}

impl Link {
    fn new(give: MailboxSender<Batch>, filled: Rc<Filled>) -> Self {
        Self {
            give,
            states: RefCell::default(),
            records: RefCell::default(),
            next_serial: Cell::default(),
            free: RefCell::default(),
            connections: Cell::default(),
            refusing: Cell::default(),
            batch: RefCell::new(Batch { number: 1, ..Batch::default() }),
            done: Cell::default(),
            spare: RefCell::default(),
            waiting: RefCell::default(),
            filled,
            has_ended: Cell::default(),
            watcher: RefCell::default(),
        }
    }

    fn status(&self) -> SocketShardStatus {
        let batches = self.batch.borrow().number - 1;
        let waiting = batches.saturating_sub(self.done.get());
        SocketShardStatus { connections: self.connections.get(), refusing: self.refusing.get(), batches, waiting }
    }

    fn open(self: &Rc<Self>, detached: Detached, peer: Peer) -> Remote {
        let mut states = self.states.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            states.push(None);
            u32::try_from(states.len() - 1).unwrap_or(u32::MAX)
        });
        let state = Rc::new(RemoteState::new(number, Rc::clone(self), peer));
        if let Some(place) = states.get_mut(at(number)) {
            *place = Some(Rc::clone(&state));
        }
        let mut records = self.records.borrow_mut();
        records.resize(states.len(), Record::default());
        drop(states);
        if let Some(record) = records.get_mut(at(number)) {
            *record = Record::new(self.next_serial.replace(self.next_serial.get().wrapping_add(1)));
        }
        drop(records);
        self.connections.set(self.connections.get() + 1);
        self.order(Order::Open(number, Box::new(detached)));
        if self.has_ended.get() {
            state.ended(End::Failed(io::ErrorKind::ConnectionAborted.into()));
        }
        Remote(state)
    }

    /// Whether all that a connection was given is written.
    pub(super) fn is_done(&self, connection: u32) -> bool {
        self.record(connection, |record| record.is_done(self.done.get())).unwrap_or(true)
    }

    /// Whether a connection may be given more.
    pub(super) fn has_room(&self, connection: u32) -> bool {
        self.record(connection, |record| record.has_room(self.done.get())).unwrap_or(true)
    }

    /// Lets frames of so many bytes be written past the session of a connection.
    pub(super) fn open_passage(self: &Rc<Self>, connection: u32, frame_max: u32) -> Option<Passage> {
        let serial = self.record(connection, |record| record.open(frame_max))?;
        Some(Passage::new(Rc::clone(self), connection, serial))
    }

    /// Whether frames may be written past the session of the connection with this serial.
    pub(super) fn is_passage_open(&self, connection: u32, serial: u32) -> bool {
        self.record(connection, |record| record.is_open(serial)).unwrap_or_default()
    }

    /// Ends that, with what is known of what was written; its session counts that.
    pub(super) fn close_passage(&self, connection: u32) -> (u64, u64) {
        let close = |record: &mut Record| {
            record.close();
            record.take_past()
        };
        self.record(connection, close).unwrap_or_default()
    }

    /// Ends that; its session counts later what was written.
    pub(super) fn stop_passage(&self, connection: u32) {
        self.record(connection, Record::close);
    }

    /// Bytes and frames that were written past the session of a connection and not counted there.
    pub(super) fn past(&self, connection: u32) -> (u64, u64) {
        self.record(connection, |record| record.past()).unwrap_or_default()
    }

    fn record<R>(&self, connection: u32, act: impl FnOnce(&mut Record) -> R) -> Option<R> {
        self.records.borrow_mut().get_mut(at(connection)).map(act)
    }

    /// Adds an order without bytes.
    pub(super) fn order(&self, order: Order) {
        self.batch.borrow_mut().orders.push(order);
        self.look_at_size();
    }

    /// Adds a write.
    pub(super) fn write(&self, connection: u32, bytes: &[u8], urgent: bool) {
        {
            let batch = &mut *self.batch.borrow_mut();
            self.record(connection, |record| record.give(bytes.len(), batch.number, self.done.get()));
            batch.write(connection, bytes, urgent);
        }
        self.look_at_size();
    }

    /// Adds a write past the session of the connection with this serial, where that may be.
    pub(super) fn write_past(&self, (connection, serial): (u32, u32), frame: SharedFrame<'_>, urgent: bool) -> bool {
        let done = self.done.get();
        let batch = &mut *self.batch.borrow_mut();
        let passes = self.record(connection, |record| {
            let passes = record.pass(serial, frame.bytes(), done);
            if passes {
                record.give(frame.len(), batch.number, done);
            }
            passes
        });
        if passes != Some(true) {
            return false;
        }
        batch.write_shared(connection, frame, urgent);
        self.look_at_size_of(batch);
        true
    }

    /// Sends a batch that is large enough; for others, wakes the task that sends them later.
    fn look_at_size(&self) {
        self.look_at_size_of(&mut self.batch.borrow_mut());
    }

    fn look_at_size_of(&self, batch: &mut Batch) {
        if batch.weight >= BATCH_BYTES || batch.orders.len() >= BATCH_ORDERS {
            self.flush_batch(batch);
        } else {
            self.filled.tell();
        }
    }

    fn flush(&self) {
        self.flush_batch(&mut self.batch.borrow_mut());
    }

    fn flush_batch(&self, batch: &mut Batch) {
        if batch.orders.is_empty() {
            return;
        }
        let mut next = self.spare.borrow_mut().pop().unwrap_or_default();
        next.number = batch.number + 1;
        let full = std::mem::replace(batch, next);
        let is_urgent = full.is_urgent;
        self.give.send(full, is_urgent);
    }

    /// Wakes the connection once all that it was given is written.
    pub(super) fn wait(&self, connection: u32) {
        self.waiting.borrow_mut().push(connection);
        self.order(Order::Tell);
    }

    fn handle(&self, news: News) {
        for item in news.items {
            self.handle_item(item);
        }
        if news.done > self.done.replace(news.done) {
            let mut waiting = self.waiting.borrow_mut();
            waiting.retain(|number| !self.state(*number).is_none_or(|state| state.wake_when_done()));
        }
        let mut spare = self.spare.borrow_mut();
        for batch in news.spare {
            if spare.len() < SPARE_MAX && batch.bytes.capacity() <= SPARE_BYTES {
                spare.push(batch);
            }
        }
    }

    fn handle_item(&self, item: Item) {
        match item {
            Item::Established(number, certificate) => self.with(number, |state| state.established(certificate)),
            Item::Input(number, bytes) => self.with(number, |state| state.input(bytes)),
            Item::Refuses(number) => self.with(number, |state| {
                self.stop_passage(number);
                self.refusing.set(self.refusing.get() + usize::from(!state.refuses.replace(true)));
            }),
            Item::Clear(number) => self.with(number, |state| {
                self.refusing.set(self.refusing.get() - usize::from(state.refuses.replace(false)));
                state.wake();
            }),
            Item::Ended(number, end) => self.with(number, |state| state.ended(end)),
            Item::Gone(number) => self.free(number),
        }
    }

    fn free(&self, number: u32) {
        let Some(state) = self.states.borrow_mut().get_mut(at(number)).and_then(Option::take) else { return };
        self.refusing.set(self.refusing.get() - usize::from(state.refuses.get()));
        self.connections.set(self.connections.get() - 1);
        self.free.borrow_mut().push(number);
    }

    fn state(&self, number: u32) -> Option<Rc<RemoteState>> {
        self.states.borrow().get(at(number))?.clone()
    }

    fn with(&self, number: u32, act: impl FnOnce(&RemoteState)) {
        if let Some(state) = self.state(number) {
            act(&state);
        }
    }

    /// Whether the shard has ended; wakes who asks when it does.
    fn has_ended(&self, cx: &Context<'_>) -> bool {
        let mut watcher = self.watcher.borrow_mut();
        if !watcher.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *watcher = Some(cx.waker().clone());
        }
        self.has_ended.get()
    }

    /// The shard has ended: so have its connections.
    fn fail_all(&self) {
        self.has_ended.set(true);
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
        let states: Vec<_> = self.states.borrow().iter().flatten().cloned().collect();
        for state in states {
            state.ended(End::Failed(io::ErrorKind::ConnectionAborted.into()));
        }
    }
}

fn at(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
