//! Where connections to a server pass: they can be stalled, when nothing moves and nothing is told, and be cut.

use anyhow::Result;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The gate.
#[derive(Default)]
pub struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// What passes.
#[derive(Default)]
pub struct State {
    /// Nothing moves.
    pub is_stalled: bool,
    /// New connections end at once.
    pub is_cut: bool,
    is_closed: bool,
    /// Both ends of the connections.
    ends: Vec<TcpStream>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on something else passes.
    pub fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// The same, and all connections end.
    pub fn end_all(&self, change: impl FnOnce(&mut State)) {
        self.set(|state| {
            for end in state.ends.drain(..) {
                let _ = end.shutdown(Shutdown::Both);
            }
            change(state);
        });
    }

    /// All connections end, and [`Gate::serve`] at `address` does.
    pub fn close(&self, address: SocketAddr) {
        self.end_all(|state| (state.is_closed, state.is_stalled) = (true, false));
        // Wakes who waits for a connection.
        let _ = TcpStream::connect(address);
    }

    /// Gives connections to `join` until the gate is closed.
    pub fn serve(&self, listener: &TcpListener, join: impl Fn(TcpStream) -> Result<()>) {
        for near in listener.incoming().map_while(Result::ok) {
            let State { is_closed, is_cut, .. } = *self.state();
            match (is_closed, is_cut) {
                (true, _) => return,
                (false, true) => {}
                // One that cannot be joined ends.
                (false, false) => drop(join(near)),
            }
        }
    }

    /// An end of a connection, which ends with the others.
    pub fn enter(&self, end: &TcpStream) -> Result<()> {
        end.set_nodelay(true)?;
        self.state().ends.push(end.try_clone()?);
        Ok(())
    }

    /// Waits while nothing moves.
    pub fn pass(&self) {
        drop(self.changed.wait_while(self.state(), |state| state.is_stalled));
    }
}
