//! One connection of the binary protocol, as workers and the door see it.

use crate::protocol::Response;
use crate::told::Told;
use crate::work::Output;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Octets of requests that are not answered yet; then nothing more is read.
const IN_FLIGHT_OCTETS_MAX: usize = 64 << 20;
/// Octets of answers that wait for the peer to take them; then nothing more is read.
const OUT_OCTETS_MAX: usize = 16 << 20;
/// A peer that takes no octet for so long is gone.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// Answers on their way out, and requests that wait for one.
#[derive(Debug, Default)]
pub struct Link {
    state: Mutex<State>,
    /// There is something to write, or the end.
    wake: Notify,
    /// There may be room again.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    out: Vec<u8>,
    /// Requests whose answers are in `out`, and their octets.
    answered: (u32, usize),
    in_flight: u32,
    octets: usize,
    /// Nothing more is read.
    ended: bool,
    /// Nothing more can be written.
    broken: bool,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request was read.
    pub fn begin(&self, octets: usize) {
        let mut state = self.lock();
        state.in_flight += 1;
        state.octets += octets;
    }

    /// Answers a request that [`Link::begin`] counted; [`Link::flush`] lets it go out.
    pub fn answer(&self, id: u32, answer: &Result<Output, Told>, octets: usize) {
        let mut state = self.lock();
        state.answered.0 += 1;
        state.answered.1 += octets;
        match answer {
            Ok(Output::Packed(message)) => Response::Packed { message }.emit(id, &mut state.out),
            Ok(Output::Unpacked { header, sender, content }) => {
                let (error, treatment) = (header.error.0, header.treatment.code());
                Response::Unpacked { sender: *sender, error, treatment, content }.emit(id, &mut state.out);
            }
            Err(Told { reason, code, text }) => {
                Response::Refused { reason: *reason, code: code.0, text }.emit(id, &mut state.out);
            }
        }
    }

    /// Lets what was answered go out, in one write.
    pub fn flush(&self) {
        self.wake.notify_one();
    }

    /// Sends what answers no counted request.
    pub fn send(&self, id: u32, response: &Response<'_>) {
        response.emit(id, &mut self.lock().out);
        self.wake.notify_one();
    }

    /// Nothing more is read: the writer ends once all is answered.
    pub fn end(&self) {
        self.lock().ended = true;
        self.wake.notify_one();
    }

    /// Waits until another request may be read; false when the connection is broken.
    pub async fn has_room(&self, in_flight_max: u32) -> bool {
        loop {
            {
                let state = self.lock();
                if state.broken {
                    return false;
                }
                let full = state.in_flight >= in_flight_max
                    || state.octets >= IN_FLIGHT_OCTETS_MAX
                    || state.out.len() >= OUT_OCTETS_MAX;
                if !full {
                    return true;
                }
            }
            self.room.notified().await;
        }
    }

    /// Writes answers until the connection ends. All that gathered goes out in one write.
    pub async fn write_all(&self, mut stream: impl AsyncWrite + Unpin) {
        let mut out = Vec::new();
        loop {
            let (answered, over) = {
                let mut state = self.lock();
                std::mem::swap(&mut state.out, &mut out);
                let over = out.is_empty() && state.ended && state.in_flight == 0;
                (std::mem::take(&mut state.answered), over)
            };
            if over {
                let _ = stream.shutdown().await;
                return;
            }
            if out.is_empty() {
                self.wake.notified().await;
                continue;
            }
            let written = tokio::time::timeout(WRITE_TIMEOUT, stream.write_all(&out)).await;
            out.clear();
            let mut state = self.lock();
            state.in_flight -= answered.0;
            state.octets -= answered.1;
            state.broken = !matches!(written, Ok(Ok(())));
            let broken = state.broken;
            drop(state);
            self.room.notify_one();
            if broken {
                return;
            }
        }
    }
}
