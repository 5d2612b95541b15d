//! A connection whose socket is on a socket shard, as its session uses it.

use super::INPUT_MAX;
use super::batch::{End, Order};
use super::owner::Link;
use super::passage::Passage;
use crate::Peer;
use crate::tls::ShownCertificate;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::ReadBuf;

/// A connection whose socket is on a socket shard. Dropped, it is closed.
#[derive(Debug)]
pub(crate) struct Remote(pub(super) Rc<RemoteState>);

/// What is known of it here.
#[derive(Debug)]
pub(super) struct RemoteState {
    number: u32,
    link: Rc<Link>,
    peer: Peer,
    is_open: Cell<bool>,
    certificate: RefCell<Option<Box<ShownCertificate>>>,
    /// What was read and the session has not taken.
    inbox: RefCell<Vec<u8>>,
    end: RefCell<Option<End>>,
    /// Whether its socket takes no more at the moment.
    pub(super) refuses: Cell<bool>,
    /// Whether somebody has seen that it takes no more, and nobody has since seen that it does.
    is_blocked: Cell<bool>,
    /// Whether its link wakes it once all that it was given is written.
    is_waiting: Cell<bool>,
    /// Whether its session has ended it: the shard does the rest.
    is_ended: Cell<bool>,
    /// Whether its next write is urgent.
    is_urgent: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A peer took nothing for too long while output waited.
#[derive(Debug)]
pub(crate) struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer stopped reading")
    }
}

impl std::error::Error for Stalled {}

impl Remote {
    /// Who is at the other end.
    pub(crate) fn peer(&self) -> Peer {
        self.0.peer.clone()
    }

    /// The certificate that the peer has shown.
    pub(crate) fn certificate(&self) -> Option<ShownCertificate> {
        self.0.certificate.borrow().as_deref().cloned()
    }

    /// Waits until its shard has it, and the handshake is over where there is one.
    pub(crate) async fn established(&mut self) -> io::Result<()> {
        poll_fn(|cx| {
            if self.0.has_failed() {
                return Poll::Ready(Err(self.0.failure()));
            }
            if self.0.is_open.get() {
                return Poll::Ready(Ok(()));
            }
            self.0.watch(cx);
            Poll::Pending
        })
        .await
    }

    /// Whether the handshake is over.
    pub(crate) fn is_established(&self) -> bool {
        self.0.is_open.get()
    }

    /// Reads what is there; nothing read is the end.
    pub(crate) fn poll_read(&self, cx: &Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let state = &*self.0;
        let mut inbox = state.inbox.borrow_mut();
        if inbox.is_empty() {
            if state.has_failed() {
                return Poll::Ready(Err(state.failure()));
            }
            if state.end.borrow().is_some() {
                return Poll::Ready(Ok(()));
            }
            state.watch(cx);
            return Poll::Pending;
        }
        let count = inbox.len().min(buffer.remaining());
        let (taken, rest) = inbox.split_at(count);
        buffer.put_slice(taken);
        *inbox = rest.to_vec();
        let len = u32::try_from(count).unwrap_or(u32::MAX);
        state.link.order(Order::Taken { connection: state.number, len });
        Poll::Ready(Ok(()))
    }

    /// Whether it takes more at the moment.
    /// Where it does not, the task that drives the session is woken when it does.
    #[inline(never)]
    pub(crate) fn is_clear(&self) -> bool {
        let state = &*self.0;
        let is_clear = !state.refuses.get() && state.link.has_room(state.number);
        if !is_clear {
            state.is_blocked.set(true);
            state.wait();
        }
        is_clear
    }

    /// Whether it takes more again since somebody has seen that it does not.
    pub(crate) fn is_clear_again(&self) -> bool {
        self.is_clear() && self.0.is_blocked.take()
    }

    /// Waits until it may take more.
    pub(crate) fn poll_write_ready(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let state = &*self.0;
        if self.is_clear() || state.has_failed() {
            return Poll::Ready(Ok(()));
        }
        state.watch(cx);
        Poll::Pending
    }

    /// Takes all of it, unless it takes nothing at the moment.
    #[inline(never)]
    pub(crate) fn offer(&self, bytes: &[u8]) -> io::Result<usize> {
        let state = &*self.0;
        if state.has_failed() {
            return Err(state.failure());
        }
        if !self.is_clear() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        state.link.write(state.number, bytes, state.is_urgent.take());
        Ok(bytes.len())
    }

    /// Lets frames of so many bytes be written past its session.
    pub(crate) fn open_passage(&self, frame_max: u32) -> Option<Passage> {
        let RemoteState { number, link, end, .. } = &*self.0;
        end.borrow().is_none().then(|| link.open_passage(*number, frame_max))?
    }

    /// Ends that; returns the bytes and frames that were.
    pub(crate) fn close_passage(&self) -> (u64, u64) {
        self.0.link.close_passage(self.0.number)
    }

    /// The bytes and frames that were written past its session up to now.
    pub(crate) fn past(&self) -> (u64, u64) {
        self.0.link.past(self.0.number)
    }

    /// What is written next goes before what waits for other connections.
    pub(crate) fn mark_urgent(&self) {
        self.0.is_urgent.set(true);
    }

    /// Ends our side once all is written, and lets the peer end its own within `patience`.
    pub(crate) fn end(self, patience: Duration) {
        self.0.link.close_passage(self.0.number);
        self.0.link.order(Order::End { connection: self.0.number, patience });
        self.0.is_ended.set(true);
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if !self.0.is_ended.get() {
            self.0.link.close_passage(self.0.number);
            self.0.link.order(Order::Close { connection: self.0.number });
        }
    }
}

impl RemoteState {
    pub(super) fn new(number: u32, link: Rc<Link>, peer: Peer) -> Self {
        Self {
            number,
            link,
            peer,
            is_open: Cell::default(),
            certificate: RefCell::default(),
            inbox: RefCell::default(),
            end: RefCell::default(),
            refuses: Cell::default(),
            is_urgent: Cell::default(),
            is_blocked: Cell::default(),
            is_waiting: Cell::default(),
            is_ended: Cell::default(),
            waker: RefCell::default(),
        }
    }

    pub(super) fn established(&self, certificate: Option<Box<ShownCertificate>>) {
        *self.certificate.borrow_mut() = certificate;
        self.is_open.set(true);
        self.wake();
    }

    pub(super) fn input(&self, bytes: Vec<u8>) {
        let mut inbox = self.inbox.borrow_mut();
        debug_assert!(inbox.len() + bytes.len() <= 2 * INPUT_MAX, "more was read than may wait");
        if inbox.is_empty() {
            *inbox = bytes;
        } else {
            inbox.extend_from_slice(&bytes);
        }
        self.wake();
    }

    pub(super) fn ended(&self, end: End) {
        self.link.stop_passage(self.number);
        self.end.borrow_mut().get_or_insert(end);
        self.wake();
    }

    pub(super) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    fn watch(&self, cx: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
    }

    /// Whether all that it was given is written.
    fn is_done(&self) -> bool {
        self.link.is_done(self.number)
    }

    /// Lets the link wake it once all is written. Where the socket refuses, it is woken when it no longer does.
    fn wait(&self) {
        if !self.refuses.get() && !self.is_waiting.replace(true) {
            self.link.wait(self.number);
        }
    }

    /// Wakes it where all is written; false where it still waits.
    pub(super) fn wake_when_done(&self) -> bool {
        let is_done = self.is_done();
        if is_done {
            self.is_waiting.set(false);
            self.wake();
        }
        is_done
    }

    fn has_failed(&self) -> bool {
        matches!(&*self.end.borrow(), Some(End::Failed(_)))
    }

    /// How it failed. The error itself is given once; those who ask again get its kind.
    fn failure(&self) -> io::Error {
        let mut end = self.end.borrow_mut();
        let Some(End::Failed(error)) = &mut *end else { return io::ErrorKind::ConnectionAborted.into() };
        let kind = error.kind();
        std::mem::replace(error, kind.into())
    }
}
