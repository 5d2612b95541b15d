//! The shard's side: orders are sorted by connection and carried out, the urgent first.

use super::batch::{Batch, End, Item, News, Order};
use super::held::{Ending, Held, Piece, Sheet, hold};
use crate::Shard;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::Instant;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
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
    held: RefCell<Vec<Option<Rc<Held>>>>,
    /// Connections with something to be written: the urgent, and the others.
    due: [RefCell<VecDeque<Rc<Held>>>; 2],
    /// Batches that are not done, in order.
    sheets: RefCell<VecDeque<Rc<Sheet>>>,
    done: Cell<u64>,
    /// Whether the owner waits to hear of it.
    is_awaited: Cell<bool>,
    news: RefCell<News>,
    tell: UnboundedSender<News>,
    /// There is news.
    told: Notify,
    /// Connections whose sockets refuse.
    refusing: Cell<usize>,
}

/// Serves connections until their owner has gone.
pub(super) async fn run(
    shard: Rc<Shard>,
    mut orders: UnboundedReceiver<Batch>,
    tell: UnboundedSender<News>,
    stall: Duration,
) {
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
            while let Ok(batch) = orders.try_recv() {
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
    fn new(shard: Rc<Shard>, tell: UnboundedSender<News>, stall: Duration) -> Self {
        Self {
            shard,
            stall,
            held: RefCell::default(),
            due: Default::default(),
            sheets: RefCell::default(),
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
        let Batch { number, mut orders, bytes } = batch;
        let sheet = Rc::new(Sheet { number, bytes, orders: RefCell::default(), left: Cell::new(0) });
        let mut from = 0;
        for order in orders.drain(..) {
            match order {
                Order::Open(number, detached) => {
                    let held = Rc::new(Held::new(number, self.shard.now().mono));
                    self.put(number, Rc::clone(&held));
                    tokio::task::spawn_local(hold(Rc::clone(self), held, detached));
                }
                Order::Write { connection, len, urgent } => {
                    let to = from + usize::try_from(len).unwrap_or_default();
                    if let Some(held) = self.held(connection) {
                        sheet.left.set(sheet.left.get() + 1);
                        held.pieces.borrow_mut().push_back(Piece { sheet: Rc::clone(&sheet), range: from..to });
                        self.list(held, urgent);
                    }
                    from = to;
                }
                Order::Taken { connection, len } => {
                    if let Some(held) = self.held(connection) {
                        held.taken(usize::try_from(len).unwrap_or_default());
                    }
                }
                Order::End { connection, patience } => self.end(connection, Ending::Parts(patience)),
                Order::Close { connection } => self.end(connection, Ending::Closes),
                Order::Tell => self.is_awaited.set(true),
            }
        }
        *sheet.orders.borrow_mut() = orders;
        self.sheets.borrow_mut().push_back(sheet);
    }

    fn list(&self, held: Rc<Held>, urgent: bool) {
        let [first, others] = &self.due;
        if urgent {
            first.borrow_mut().push_back(held);
        } else if !held.is_listed.replace(true) {
            others.borrow_mut().push_back(held);
        }
    }

    fn end(&self, connection: u32, ending: Ending) {
        if let Some(held) = self.held(connection) {
            // What was to be written before is offered to the socket once more.
            self.write(&held);
            held.end(ending);
        }
    }

    /// Writes to some connections; false where nothing is left.
    fn work(&self) -> bool {
        for _ in 0..SLICE {
            let [first, others] = &self.due;
            let urgent = first.borrow_mut().pop_front();
            let Some(held) = urgent.or_else(|| {
                let held = others.borrow_mut().pop_front()?;
                held.is_listed.set(false);
                Some(held)
            }) else {
                return false;
            };
            self.write(&held);
        }
        true
    }

    fn write(&self, held: &Held) {
        if let Err(error) = held.write(self) {
            self.ended(held, End::Failed(error));
        }
    }

    /// Tells the owner what was done, where something was.
    fn send_news(&self) {
        let mut sheets = self.sheets.borrow_mut();
        let mut news = self.news.borrow_mut();
        while let Some(sheet) = sheets.pop_front_if(|sheet| sheet.left.get() == 0) {
            self.done.set(sheet.number);
            if let Ok(sheet) = Rc::try_unwrap(sheet) {
                news.spare.push(sheet.into_room());
            }
        }
        let done = self.done.get();
        let is_due = self.is_awaited.get() || done >= news.done + TOLD_TOGETHER;
        if news.items.is_empty() && !is_due {
            return;
        }
        if sheets.is_empty() {
            self.is_awaited.set(false);
        }
        let full = std::mem::replace(&mut *news, News { done, ..News::default() });
        // An owner that has gone needs none.
        let _ = self.tell.send(News { done, ..full });
    }

    /// There is something for the owner.
    pub(super) fn tell(&self, item: Item) {
        self.news.borrow_mut().items.push(item);
        self.told.notify_one();
    }

    /// A connection has ended by itself; its owner closes it.
    pub(super) fn ended(&self, held: &Held, end: End) {
        if !held.is_over.replace(true) {
            self.tell(Item::Ended(held.number, end));
        }
        held.wake();
    }

    /// A socket refuses (true), or has taken all.
    pub(super) fn refuses(&self, held: &Held, refuses: bool) {
        if held.refuses.replace(refuses) == refuses {
            return;
        }
        if refuses {
            self.refusing.set(self.refusing.get() + 1);
            self.tell(Item::Refuses(held.number));
            held.wake();
        } else {
            self.refusing.set(self.refusing.get() - 1);
            self.tell(Item::Clear(held.number));
        }
    }

    /// Ends connections whose peers have taken nothing for too long.
    fn end_stalled(&self) {
        let now = self.shard.now().mono;
        let stalled = |held: &&Rc<Held>| held.refuses.get() && held.moved.get() + self.stall <= now;
        let stalled: Vec<_> = self.held.borrow().iter().flatten().filter(stalled).cloned().collect();
        for held in stalled {
            self.ended(&held, End::Failed(io::Error::new(io::ErrorKind::TimedOut, super::Stalled)));
        }
    }

    fn put(&self, number: u32, held: Rc<Held>) {
        let mut all = self.held.borrow_mut();
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        if all.len() <= at {
            all.resize(at + 1, None);
        }
        if let Some(place) = all.get_mut(at) {
            *place = Some(held);
        }
    }

    fn held(&self, number: u32) -> Option<Rc<Held>> {
        self.held.borrow().get(usize::try_from(number).ok()?)?.clone()
    }

    /// A connection is closed: its number is free.
    pub(super) fn gone(&self, held: &Held) {
        self.refusing.set(self.refusing.get() - usize::from(held.refuses.get()));
        held.pieces.borrow_mut().clear();
        if let Some(place) = self.held.borrow_mut().get_mut(usize::try_from(held.number).unwrap_or(usize::MAX)) {
            *place = None;
        }
        self.tell(Item::Gone(held.number));
    }

    /// The time.
    pub(super) fn now(&self) -> Instant {
        self.shard.now().mono
    }
}
