//! A way to a server that can be cut: bytes pass, or they do not and nothing is told.

use crate::gate::Gate;
use anyhow::Result;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

/// Bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// The way. Dropped, it is closed.
pub struct Bridge {
    /// Where it begins.
    pub address: SocketAddr,
    gate: Arc<Gate>,
}

impl Bridge {
    /// A way to a server.
    pub fn to(server: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, gate) = (listener.local_addr()?, Arc::<Gate>::default());
        let of = Arc::clone(&gate);
        let serve = move || of.serve(&listener, |near| join(&of, near, server));
        std::thread::Builder::new().name("bridge".to_owned()).spawn(serve)?;
        Ok(Self { address, gate })
    }

    /// From here on bytes stay where they are, and new connections end at once.
    pub fn cut(&self) {
        self.gate.set(|state| (state.is_cut, state.is_stalled) = (true, true));
    }

    /// New connections pass again. Those from before end.
    pub fn mend(&self) {
        self.gate.end_all(|state| (state.is_cut, state.is_stalled) = (false, false));
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.gate.close(self.address);
    }
}

fn join(gate: &Arc<Gate>, near: TcpStream, server: SocketAddr) -> Result<()> {
    let far = TcpStream::connect(server)?;
    gate.enter(&near)?;
    gate.enter(&far)?;
    for (source, sink) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        let gate = Arc::clone(gate);
        std::thread::Builder::new().name("bridge".to_owned()).spawn(move || pass(&gate, source, sink))?;
    }
    Ok(())
}

fn pass(gate: &Gate, mut source: TcpStream, mut sink: TcpStream) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        gate.pass();
        if sink.write_all(buffer.get(..read).unwrap_or_default()).is_err() {
            break;
        }
    }
    for end in [source, sink] {
        let _ = end.shutdown(Shutdown::Both);
    }
}
