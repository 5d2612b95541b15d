//! The shard's side: orders are sorted by connection and carried out, the urgent first.

use super::batch::{Batch, End, Item, News, Order};
use super::shard_connection::{Ending, PendingBatch, ShardConnection, Write, serve};
use crate::Shard;
use crate::mailbox::{Mailbox, MailboxSender};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Instant;
use tokio::sync::Notify;
use tokio::time::MissedTickBehavior;

/// Connections that are written to before newer orders are looked at: one of those may be urgent.
const SLICE: usize = 16;
/// Slices after which connections are read, and the owner is told what was done.
const SLICES_A_TURN: usize = 8;
/// Batches whose end is told together, where nobody waits for it: each time, the owner is woken.
const TOLD_TOGETHER: u64 = 8;
/// How often connections are looked at whose sockets refuse.
const STALLS_EVERY: Duration = Duration::from_secs(1);

/// A socket shard.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) shard: Rc<Shard>,
    stall: Duration,
    connections: RefCell<Vec<Option<Rc<ShardConnection>>>>,
    /// Connections with something to be written: the urgent, and the others.
    due: [RefCell<VecDeque<Rc<ShardConnection>>>; 2],
    /// Batches that are not done, in order.
    pending: RefCell<VecDeque<Rc<PendingBatch>>>,
    done: Cell<u64>,
    /// Whether the owner waits to hear of it.
    is_awaited: Cell<bool>,
    news: RefCell<News>,
    tell: MailboxSender<News>,
    /// There is news.
    told: Notify,
    /// Connections whose sockets refuse.
    refusing: Cell<usize>,
}

/// Serves connections until their owner has gone.
pub(super) async fn run(shard: Rc<Shard>, mut orders: Mailbox<Batch>, tell: MailboxSender<News>, stall: Duration) {
    let worker = Rc::new(Worker::new(shard, tell, stall));
    let mut stalls = tokio::time::interval(STALLS_EVERY);
    stalls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            batch = orders.recv() => match batch {
                Some(batch) => worker.take(batch),
                None => return,
            },
            () = worker.told.notified() => {}
            _ = stalls.tick(), if worker.refusing.get() > 0 => worker.end_stalled(),
        }
        let mut slices = 0;
        loop {
            while let Some(batch) = orders.try_recv() {
                worker.take(batch);
            }
            if !worker.work() {
                break;
            }
            slices += 1;
            if slices == SLICES_A_TURN {
                slices = 0;
                worker.send_news();
                tokio::task::yield_now().await;
            }
        }
        worker.send_news();
    }
}

impl Worker {
    fn new(shard: Rc<Shard>, tell: MailboxSender<News>, stall: Duration) -> Self {
        Self {
            shard,
            stall,
            connections: RefCell::default(),
            due: Default::default(),
            pending: RefCell::default(),
            done: Cell::default(),
            is_awaited: Cell::default(),
            news: RefCell::default(),
            tell,
            told: Notify::new(),
            refusing: Cell::default(),
        }
    }

    /// Sorts a batch's orders by connection.
    fn take(self: &Rc<Self>, batch: Batch) {
        let Batch { number, mut orders, bytes, .. } = batch;
        let batch = Rc::new(PendingBatch { number, bytes, orders: RefCell::default(), left: Cell::new(0) });
        let mut range = 0..0;
        for order in orders.drain(..) {
            match order {
                Order::Open(number, detached) => {
                    let connection = Rc::new(ShardConnection::new(number, self.shard.now().mono));
                    self.put(number, Rc::clone(&connection));
                    tokio::task::spawn_local(serve(Rc::clone(self), connection, detached));
                }
                Order::Write { connection: number, len, urgent } => {
                    range = range.end..range.end + usize::try_from(len).unwrap_or_default();
                    self.add(number, Write::of(&batch, &range), urgent);
                }
                Order::Repeat { connection: number, urgent } => {
                    self.add(number, Write::of(&batch, &range), urgent);
                }
                Order::Taken { connection: number, len } => {
                    if let Some(connection) = self.find(number) {
                        connection.taken(usize::try_from(len).unwrap_or_default());
                    }
                }
                Order::End { connection, patience } => self.end(connection, Ending::Lingers(patience)),
                Order::Close { connection } => self.end(connection, Ending::Closes),
                Order::Tell => self.is_awaited.set(true),
            }
        }
        *batch.orders.borrow_mut() = orders;
        self.pending.borrow_mut().push_back(batch);
    }

    /// Adds a write to a connection that is still here.
    fn add(&self, number: u32, write: Write, urgent: bool) {
        if let Some(connection) = self.find(number) {
            connection.writes.borrow_mut().push_back(write);
            self.list(connection, urgent);
        }
    }

    fn list(&self, connection: Rc<ShardConnection>, urgent: bool) {
        let [first, others] = &self.due;
        if urgent {
            first.borrow_mut().push_back(connection);
        } else if !connection.is_listed.replace(true) {
            others.borrow_mut().push_back(connection);
        }
    }

    fn end(&self, number: u32, ending: Ending) {
        if let Some(connection) = self.find(number) {
            // What was to be written before is offered to the socket once more.
            self.write(&connection);
            connection.end(ending);
        }
    }

    /// Writes to some connections; false where nothing is left.
    fn work(&self) -> bool {
        for _ in 0..SLICE {
            let [first, others] = &self.due;
            let urgent = first.borrow_mut().pop_front();
            let Some(connection) = urgent.or_else(|| {
                let connection = others.borrow_mut().pop_front()?;
                connection.is_listed.set(false);
                Some(connection)
            }) else {
                return false;
            };
            self.write(&connection);
        }
        true
    }

    fn write(&self, connection: &ShardConnection) {
        if let Err(error) = connection.write(self) {
            self.ended(connection, End::Failed(error));
        }
    }

    /// Tells the owner what was done, where something was.
    fn send_news(&self) {
        let mut pending = self.pending.borrow_mut();
        let mut news = self.news.borrow_mut();
        while let Some(batch) = pending.pop_front_if(|batch| batch.left.get() == 0) {
            self.done.set(batch.number);
            if let Ok(batch) = Rc::try_unwrap(batch) {
                news.spare.push(batch.into_room());
            }
        }
        let done = self.done.get();
        let is_due = self.is_awaited.get() || done >= news.done + TOLD_TOGETHER;
        if news.items.is_empty() && !is_due {
            return;
        }
        if pending.is_empty() {
            self.is_awaited.set(false);
        }
        let full = std::mem::replace(&mut *news, News { done, ..News::default() });
        self.tell.send(News { done, ..full }, false);
    }

    /// There is something for the owner.
    pub(super) fn tell(&self, item: Item) {
        self.news.borrow_mut().items.push(item);
        self.told.notify_one();
    }

    /// A connection has ended by itself; its owner closes it.
    pub(super) fn ended(&self, connection: &ShardConnection, end: End) {
        if !connection.has_ended.replace(true) {
            self.tell(Item::Ended(connection.number, end));
        }
        connection.wake();
    }

    /// A socket refuses (true), or has taken all.
    pub(super) fn refuses(&self, connection: &ShardConnection, refuses: bool) {
        if connection.refuses.replace(refuses) == refuses {
            return;
        }
        if refuses {
            self.refusing.set(self.refusing.get() + 1);
            self.tell(Item::Refuses(connection.number));
            connection.wake();
        } else {
            self.refusing.set(self.refusing.get() - 1);
            self.tell(Item::Clear(connection.number));
        }
    }

    /// Ends connections whose peers have taken nothing for too long.
    fn end_stalled(&self) {
        let now = self.shard.now().mono;
        let stalled =
            |connection: &&Rc<ShardConnection>| connection.refuses.get() && connection.moved.get() + self.stall <= now;
        let stalled: Vec<_> = self.connections.borrow().iter().flatten().filter(stalled).cloned().collect();
        for connection in stalled {
            self.ended(&connection, End::Failed(io::Error::new(io::ErrorKind::TimedOut, super::Stalled)));
        }
    }

    fn put(&self, number: u32, connection: Rc<ShardConnection>) {
        let mut all = self.connections.borrow_mut();
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        if all.len() <= at {
            all.resize(at + 1, None);
        }
        if let Some(place) = all.get_mut(at) {
            *place = Some(connection);
        }
    }

    fn find(&self, number: u32) -> Option<Rc<ShardConnection>> {
        self.connections.borrow().get(usize::try_from(number).ok()?)?.clone()
    }

    /// A connection is closed: its number is free.
    pub(super) fn gone(&self, connection: &ShardConnection) {
        self.refusing.set(self.refusing.get() - usize::from(connection.refuses.get()));
        connection.writes.borrow_mut().clear();
        if let Some(place) =
            self.connections.borrow_mut().get_mut(usize::try_from(connection.number).unwrap_or(usize::MAX))
        {
            *place = None;
        }
        self.tell(Item::Gone(connection.number));
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.shard.now().mono
    }
}
