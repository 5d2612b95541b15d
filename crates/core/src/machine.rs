//! The one shape of every byte protocol.

use crate::{Instant, Now};
use alloc::vec::Vec;

/// A byte protocol as a state machine without a socket, a clock or a thread.
///
/// A driver (`io/net` over real sockets, `lab/sim` in virtual time) repeats, in this order:
///
/// 1. `handle_input` with what arrived, or `handle_timeout` when `timeout` has passed;
/// 2. `poll_event` until none, acting on each;
/// 3. `poll_transmit` until false, writing what it gave;
/// 4. wait for input, for the socket to take the rest of the output, or for `timeout`.
///
/// Queues inside a machine are bounded: a machine that is full takes fewer bytes than it is given, and goes on
/// when its events have been drained. Nothing is lost by draining late.
pub trait Machine {
    /// What the owner of the session learns.
    type Event;

    /// The transport is up: a session begins. Called once before any input, and again after each
    /// [`Machine::handle_disconnected`].
    fn handle_connected(&mut self, now: Now);

    /// The transport is gone: partial input and unsent output are dropped, state that outlives a connection stays.
    fn handle_disconnected(&mut self, now: Now);

    /// Takes bytes from the peer and returns how many were used. The rest must be given again, first, after the
    /// events have been drained. Uses at least one byte of a non-empty slice when no event waits, unless the machine
    /// [is waiting](Machine::is_waiting).
    fn handle_input(&mut self, now: Now, bytes: &[u8]) -> usize;

    /// Lets deadlines that have passed take effect. Harmless when none has.
    fn handle_timeout(&mut self, now: Now);

    /// Appends the next message for the peer to `out` (whole messages: one call, one write) and says whether there
    /// was one.
    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> bool;

    /// The next thing that the owner must know.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// When `handle_timeout` must be called at the latest.
    fn timeout(&self) -> Option<Instant>;

    /// Whether the machine may take no input until its owner has done something for it, such as made something durable: the
    /// driver then keeps what it has read, and reads no more.
    fn is_waiting(&self) -> bool {
        false
    }

    /// True once the session must be closed by the driver, after what `poll_transmit` still gives was written.
    fn is_closed(&self) -> bool;
}
