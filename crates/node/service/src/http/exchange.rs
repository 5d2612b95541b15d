//! Requests under way on one connection, and how long their peer keeps us waiting.
//!
//! A peer sends a body, and takes an answer, [`PIECE_BYTES`] in [`PIECE_TIMEOUT`] at least; otherwise its connection
//! ends. Answers are given to a connection in such pieces, so that what is written ahead of a peer is small, and all that
//! is pending is counted.

use super::places::{Pending, Places};
use super::problem::Problem;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Bytes that a peer has to send or take within [`PIECE_TIMEOUT`].
pub const PIECE_BYTES: usize = 32 * 1024;
/// How long they may take.
pub const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// An extension of answers that all peers share: they take no memory of their own.
#[derive(Clone, Copy, Debug)]
pub struct SharedAnswer;

/// What is under way on one connection.
#[derive(Clone, Debug)]
pub struct Traffic(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    next: u64,
    /// Requests, and since when a peer is to take the next piece of an answer.
    requests: HashMap<u64, Option<Instant>>,
    idle_since: Instant,
}

/// Why a connection has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// No request is under way.
    Idle,
    /// An answer is not taken.
    Unread,
}

impl Default for Traffic {
    fn default() -> Self {
        let (requests, idle_since) = (HashMap::new(), Instant::now());
        Self(Arc::new(Mutex::new(State { next: 0, requests, idle_since })))
    }
}

impl Traffic {
    /// Why the connection has to end, if it has to.
    #[must_use]
    pub fn stuck(&self, now: Instant) -> Option<Stuck> {
        let state = self.state();
        let over = |since: &Instant| now.saturating_duration_since(*since) >= PIECE_TIMEOUT;
        if state.requests.values().flatten().any(over) {
            return Some(Stuck::Unread);
        }
        (state.requests.is_empty() && over(&state.idle_since)).then_some(Stuck::Idle)
    }

    fn begin(&self) -> Under {
        let mut state = self.state();
        let id = state.next;
        state.next += 1;
        state.requests.insert(id, None);
        Under { traffic: self.clone(), id }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is under way, until this is dropped.
#[derive(Debug)]
struct Under {
    traffic: Traffic,
    id: u64,
}

impl Under {
    fn waits_for_peer(&self, waits: bool) {
        if let Some(since) = self.traffic.state().requests.get_mut(&self.id) {
            *since = waits.then(Instant::now);
        }
    }
}

impl Drop for Under {
    fn drop(&mut self) {
        let mut state = self.traffic.state();
        state.requests.remove(&self.id);
        if state.requests.is_empty() {
            state.idle_since = Instant::now();
        }
    }
}

/// A request and its answer.
#[derive(Debug)]
pub struct Exchange {
    under: Under,
    places: Places,
    body: Arc<BodyState>,
}

/// What is known of a request's body when its answer is made.
#[derive(Debug)]
struct BodyState {
    fault: AtomicU8,
    held: Mutex<Option<Pending>>,
}

const FAULT_LATE: u8 = 1;
const FAULT_FULL: u8 = 2;

impl Exchange {
    /// A request has come.
    #[must_use]
    pub fn begin(traffic: &Traffic, places: &Places) -> Self {
        let body = Arc::new(BodyState { fault: AtomicU8::new(0), held: Mutex::default() });
        Self { under: traffic.begin(), places: places.clone(), body }
    }

    /// Its body.
    pub fn incoming(&self, body: Incoming) -> Body {
        let (state, places) = (Arc::clone(&self.body), self.places.clone());
        Body::new(TimedBody { inner: body, timer: None, room: PIECE_BYTES, state, places })
    }

    /// Whether the body did not come in time.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.body.fault.load(Ordering::Relaxed) == FAULT_LATE
    }

    /// The answer as it is given to the connection.
    #[must_use]
    pub fn answer(self, response: Response) -> Response {
        let response = match self.body.fault.load(Ordering::Relaxed) {
            FAULT_LATE => {
                let seconds = PIECE_TIMEOUT.as_secs();
                let words = format!("the body did not come in time, expected {PIECE_BYTES} bytes each {seconds} s");
                Problem::new(StatusCode::REQUEST_TIMEOUT, words).into_response()
            }
            FAULT_FULL => too_much(),
            _ => response,
        };
        let bytes = match response.extensions().get::<SharedAnswer>() {
            Some(SharedAnswer) => 0,
            None => response.body().size_hint().exact().map_or(0, |size| usize::try_from(size).unwrap_or(usize::MAX)),
        };
        let (response, held) = match self.places.hold(bytes) {
            Some(held) => (response, Some(held)),
            None => (too_much(), None),
        };
        self.under.waits_for_peer(true);
        let (under, body) = (self.under, self.body);
        response.map(|inner| Body::new(Answer { inner, rest: Bytes::new(), under, _held: (held, body) }))
    }
}

fn too_much() -> Response {
    Problem::unavailable("too much is pending for other peers; ask again later, or for less").into_response()
}

/// The body of a request, which has to come in time.
struct TimedBody {
    inner: Incoming,
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that have to come before the timer ends.
    room: usize,
    state: Arc<BodyState>,
    places: Places,
}

/// A body did not come in time, or there is no room for it.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the body was cut")
    }
}

impl std::error::Error for Cut {}

impl TimedBody {
    fn cut(&self, fault: u8) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.state.fault.store(fault, Ordering::Relaxed);
        Poll::Ready(Some(Err(axum::Error::new(Cut))))
    }
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let frame = match Pin::new(&mut this.inner).poll_frame(cx) {
            Poll::Ready(frame) => frame,
            Poll::Pending => {
                let timer = this.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(PIECE_TIMEOUT)));
                ready!(timer.as_mut().poll(cx));
                return this.cut(FAULT_LATE);
            }
        };
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame.map(|frame| frame.map_err(axum::Error::new))) };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        match this.room.checked_sub(bytes).filter(|room| *room > 0) {
            Some(room) => this.room = room,
            None => (this.room, this.timer) = (PIECE_BYTES, None),
        }
        let mut held = this.state.held.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = match &mut *held {
            Some(held) => held.grow(bytes),
            none => this.places.hold(bytes).map(|held| *none = Some(held)).is_some(),
        };
        drop(held);
        if !has_room {
            return this.cut(FAULT_FULL);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// The body of an answer, in pieces.
struct Answer {
    inner: Body,
    rest: Bytes,
    under: Under,
    /// What it takes, and what its request has taken, until it is given.
    _held: (Option<Pending>, Arc<BodyState>),
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        this.under.waits_for_peer(false);
        if this.rest.is_empty() {
            let frame = ready!(Pin::new(&mut this.inner).poll_frame(cx));
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => this.rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
        let piece = this.rest.split_to(this.rest.len().min(PIECE_BYTES));
        this.under.waits_for_peer(true);
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, rest) = (self.inner.size_hint(), self.rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}
