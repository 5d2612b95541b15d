//! A way to a server that can be cut: bytes pass, or they do not and nothing is told.

use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// The way. Dropped, it is closed.
pub struct Bridge {
    /// Where it begins.
    pub address: SocketAddr,
    way: Arc<Way>,
}

#[derive(Default)]
struct Way {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_cut: bool,
    is_closed: bool,
    /// Both ends of the connections.
    ends: Vec<TcpStream>,
}

impl Bridge {
    /// A way to a server.
    pub fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, way) = (listener.local_addr()?, Arc::<Way>::default());
        let of = Arc::clone(&way);
        std::thread::Builder::new().name("bridge".to_owned()).spawn(move || of.serve(&listener, server))?;
        Ok(Self { address, way })
    }

    /// From here on bytes stay where they are, and new connections end at once.
    pub fn cut(&self) {
        self.way.state().is_cut = true;
    }

    /// New connections pass again. Those from before end.
    pub fn mend(&self) {
        self.way.end_all(|state| state.is_cut = false);
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.way.end_all(|state| state.is_closed = true);
        // Wakes who waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Way {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end_all(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        for end in state.ends.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
        change(&mut state);
        self.changed.notify_all();
    }

    fn serve(self: Arc<Self>, listener: &TcpListener, server: SocketAddr) {
        for near in listener.incoming().map_while(Result::ok) {
            let state = self.state();
            match (state.is_closed, state.is_cut) {
                (true, _) => return,
                (false, true) => {}
                (false, false) => {
                    drop(state);
                    let _ = self.join(near, server);
                }
            }
        }
    }

    fn join(self: &Arc<Self>, near: TcpStream, server: SocketAddr) -> Result<()> {
        let far = TcpStream::connect(server)?;
        for end in [&near, &far] {
            end.set_nodelay(true)?;
            self.state().ends.push(end.try_clone()?);
        }
        for (source, sink) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
            let way = Arc::clone(self);
            std::thread::Builder::new().name("bridge".to_owned()).spawn(move || way.pass(source, sink))?;
        }
        Ok(())
    }

    fn pass(&self, mut source: TcpStream, mut sink: TcpStream) {
        let mut buffer = vec![0; READ_BYTES];
        while let Ok(read @ 1..) = source.read(&mut buffer) {
            let state = self.changed.wait_while(self.state(), |state| state.is_cut);
            drop(state);
            if sink.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
                break;
            }
        }
        for end in [source, sink] {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}
