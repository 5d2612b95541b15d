//! One connection on its socket shard.

use super::INPUT_MAX;
use super::batch::{Batch, End, Item, Order};
use super::worker::Worker;
use crate::Connection;
use crate::coalescing::arrived;
use crate::connection::Detached;
use crate::linger::part;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tieline_core::Instant;
use tokio::io::ReadBuf;

/// Bytes that go out in one system call, where several writes wait.
const WRITE_BYTES: usize = 64 * 1024;
/// Reads of one turn before other connections have theirs.
const TURN_READS: usize = 8;

/// A batch whose writes are under way.
#[derive(Debug)]
pub(super) struct PendingBatch {
    pub(super) number: u64,
    pub(super) bytes: Vec<u8>,
    /// Room for orders.
    pub(super) orders: RefCell<Vec<Order>>,
    /// Writes that are not done.
    pub(super) left: Cell<usize>,
}

impl PendingBatch {
    /// Its room, empty.
    pub(super) fn into_room(self) -> Batch {
        Batch::emptied(self.orders.into_inner(), self.bytes)
    }
}

/// Some bytes of a batch.
#[derive(Debug)]
pub(super) struct Write {
    batch: Rc<PendingBatch>,
    range: Range<usize>,
}

impl Write {
    /// One of a batch, which is not done before it.
    pub(super) fn of(batch: &Rc<PendingBatch>, range: &Range<usize>) -> Self {
        batch.left.set(batch.left.get() + 1);
        Self { batch: Rc::clone(batch), range: range.clone() }
    }

    fn bytes(&self) -> &[u8] {
        self.batch.bytes.get(self.range.clone()).unwrap_or_default()
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        self.batch.left.set(self.batch.left.get() - 1);
    }
}

/// How its owner ends a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ending {
    /// At once.
    Closes,
    /// When all is written, and the peer has had so long to end its side.
    Lingers(Duration),
}

/// One connection on its socket shard.
#[derive(Debug)]
pub(super) struct ShardConnection {
    pub(super) number: u32,
    /// None before its handshake is over, and after its end.
    connection: RefCell<Option<Connection>>,
    /// What is to be written.
    pub(super) writes: RefCell<VecDeque<Write>>,
    /// What the socket refused.
    unsent: RefCell<Vec<u8>>,
    /// Whether it is on the list of those that are not urgent.
    pub(super) is_listed: Cell<bool>,
    /// Bytes that were read and its session has not taken.
    unread: Cell<usize>,
    pub(super) refuses: Cell<bool>,
    /// When its socket last took a byte, or began to refuse.
    pub(super) moved: Cell<Instant>,
    /// Whether it has taken any.
    has_sent: Cell<bool>,
    /// Whether it has ended by itself.
    pub(super) has_ended: Cell<bool>,
    ending: Cell<Option<Ending>>,
    waker: RefCell<Option<Waker>>,
}

/// Serves one connection until its owner ends it.
pub(super) async fn serve(worker: Rc<Worker>, own: Rc<ShardConnection>, detached: Box<Detached>) {
    match own.open(detached).await {
        Ok(connection) => {
            let certificate = connection.certificate().map(Box::new);
            *own.connection.borrow_mut() = Some(connection);
            worker.tell(Item::Established(own.number, certificate));
        }
        Err(error) => worker.ended(&own, End::Failed(error)),
    }
    let ending = poll_fn(|cx| own.poll(cx, &worker)).await;
    let connection = own.connection.take();
    if let (Some(connection), Ending::Lingers(patience)) = (connection, ending)
        && own.has_sent.get()
    {
        Box::pin(part(connection, Rc::clone(&worker.shard), patience)).await;
    }
    worker.gone(&own);
}

impl ShardConnection {
    pub(super) fn new(number: u32, now: Instant) -> Self {
        Self {
            number,
            connection: RefCell::default(),
            writes: RefCell::default(),
            unsent: RefCell::default(),
            is_listed: Cell::default(),
            unread: Cell::default(),
            refuses: Cell::default(),
            moved: Cell::new(now),
            has_sent: Cell::default(),
            has_ended: Cell::default(),
            ending: Cell::default(),
            waker: RefCell::default(),
        }
    }

    /// Takes the socket, and does the handshake where there is one, unless the owner ends it meanwhile.
    async fn open(&self, detached: Box<Detached>) -> io::Result<Connection> {
        let mut connection = detached.attach()?;
        if let Some(mut handshake) = connection.handshake() {
            poll_fn(|cx| {
                self.watch(cx);
                if self.ending.get().is_some() {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                handshake.as_mut().poll(cx)
            })
            .await?;
        }
        Ok(connection)
    }

    fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Its owner ends it.
    pub(super) fn end(&self, ending: Ending) {
        self.ending.set(Some(ending));
        self.wake();
    }

    /// Its session has taken so many bytes of what was read.
    pub(super) fn taken(&self, len: usize) {
        let was_full = self.unread.get() >= INPUT_MAX;
        self.unread.set(self.unread.get().saturating_sub(len));
        if was_full && self.unread.get() < INPUT_MAX {
            self.wake();
        }
    }

    /// Reads, and writes what the socket refused before, until the owner ends it.
    fn poll(&self, cx: &mut Context<'_>, worker: &Worker) -> Poll<Ending> {
        self.watch(cx);
        if let Some(Ending::Closes) = self.ending.get() {
            return Poll::Ready(Ending::Closes);
        }
        if !self.has_ended.get()
            && let Err(error) = self.poll_unsent(cx, worker)
        {
            worker.ended(self, End::Failed(error));
        }
        if let Some(ending) = self.ending.get()
            && (self.has_ended.get() || !self.refuses.get())
        {
            return Poll::Ready(ending);
        }
        if !self.has_ended.get() {
            match self.poll_input(cx, worker) {
                Poll::Pending => {}
                Poll::Ready(Ok(())) => worker.ended(self, End::Peer),
                Poll::Ready(Err(error)) => worker.ended(self, End::Failed(error)),
            }
        }
        Poll::Pending
    }

    /// Reads until the socket has nothing, or its session is to take what it has first; ready at the end.
    fn poll_input(&self, cx: &mut Context<'_>, worker: &Worker) -> Poll<io::Result<()>> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = &mut *connection else { return Poll::Pending };
        let mut shared = worker.shard.input.borrow_mut();
        for _ in 0..TURN_READS {
            let room = INPUT_MAX.saturating_sub(self.unread.get()).min(shared.len());
            let Some(room) = shared.get_mut(..room).filter(|room| !room.is_empty()) else { return Poll::Pending };
            let mut buffer = ReadBuf::new(room);
            match connection.poll_read(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(read) => read?,
            }
            let bytes = buffer.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(()));
            }
            self.unread.set(self.unread.get() + bytes.len());
            // Of few sizes: what one thread takes of the heap and another gives back is then used again.
            let mut input = Vec::with_capacity(bytes.len().next_power_of_two());
            input.extend_from_slice(bytes);
            arrived();
            worker.tell(Item::Input(self.number, input));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Writes what waits; the socket keeps what it takes, and the rest stays here.
    pub(super) fn write(&self, worker: &Worker) -> io::Result<()> {
        let mut writes = self.writes.borrow_mut();
        if writes.is_empty() {
            return Ok(());
        }
        if self.has_ended.get() {
            writes.clear();
            return Ok(());
        }
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut().filter(|_| !self.refuses.get()) else {
            let mut unsent = self.unsent.borrow_mut();
            writes.drain(..).for_each(|write| unsent.extend_from_slice(write.bytes()));
            drop((unsent, connection));
            worker.refuses(self, true);
            return Ok(());
        };
        while let Some(write) = writes.pop_front() {
            if writes.is_empty() {
                self.offer(connection, write.bytes(), worker)?;
                continue;
            }
            // The shard is behind: what waits goes together.
            let mut together = worker.shard.output.borrow_mut();
            together.clear();
            together.extend_from_slice(write.bytes());
            while let Some(next) = writes.pop_front_if(|next| together.len() + next.range.len() <= WRITE_BYTES) {
                together.extend_from_slice(next.bytes());
            }
            self.offer(connection, &together, worker)?;
        }
        Ok(())
    }

    fn offer(&self, connection: &mut Connection, bytes: &[u8], worker: &Worker) -> io::Result<()> {
        let taken = if self.refuses.get() { 0 } else { connection.offer(bytes)?.unwrap_or(0) };
        self.has_sent.set(self.has_sent.get() || taken > 0);
        let rest = bytes.get(taken..).unwrap_or_default();
        if !rest.is_empty() || !connection.is_flushed() {
            self.unsent.borrow_mut().extend_from_slice(rest);
            self.moved.set(worker.now());
            worker.refuses(self, true);
        }
        Ok(())
    }

    /// Writes what the socket refused before.
    fn poll_unsent(&self, cx: &mut Context<'_>, worker: &Worker) -> io::Result<()> {
        let mut connection = self.connection.borrow_mut();
        let Some(connection) = connection.as_mut().filter(|_| self.refuses.get()) else { return Ok(()) };
        let mut unsent = self.unsent.borrow_mut();
        while !unsent.is_empty() || !connection.is_flushed() {
            match connection.poll_write_ready(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            if let Some(taken) = connection.offer(&unsent)? {
                unsent.drain(..taken);
                self.has_sent.set(self.has_sent.get() || taken > 0);
                self.moved.set(worker.now());
            }
        }
        *unsent = Vec::new();
        drop(unsent);
        worker.refuses(self, false);
        Ok(())
    }
}
