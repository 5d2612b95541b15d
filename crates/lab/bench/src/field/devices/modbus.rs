//! Modbus devices: servers of ours behind one listener.

use super::{Board, POINTS, REGISTERS, Steps, listen};
use std::io;
use std::rc::Rc;
use tieline_core::Now;
use tieline_modbus::{Bank, Framing, Server, ServerConfig, ServerEvent, Unit};
use tieline_net::{Limits, Owner, Session, Shard};

/// Serves all devices. Gives their port.
pub fn start(shard: Rc<Shard>, board: Board) -> io::Result<u16> {
    let listener = listen()?;
    let port = listener.local_addr()?.port();
    tokio::task::spawn_local(async move {
        while let Ok((stream, peer)) = listener.accept().await {
            if !peer.ip().is_loopback() || stream.set_nodelay(true).is_err() {
                continue;
            }
            let server = Server::new(ServerConfig::new(Framing::Tcp, Unit(1)));
            let session = Session::new(&shard, server, Limits::default());
            let mut owner = Device { bank: Bank::new(REGISTERS), steps: Steps::new(&board) };
            tokio::task::spawn_local(async move { session.run(stream, &mut owner).await });
        }
    });
    Ok(port)
}

/// One device of one connection.
struct Device {
    bank: Bank,
    steps: Steps,
}

impl Device {
    /// Every value is another one.
    fn step(&mut self) {
        let (now, reads) = self.steps.next();
        let [a, b, c, d, e, f, g, h] = now.to_be_bytes();
        let stamp = [[a, b], [c, d], [e, f], [g, h]].map(u16::from_be_bytes);
        let others = (2..POINTS).map(|point| reads.wrapping_add(point));
        let values = stamp.into_iter().chain([reads]).chain(others);
        self.bank.holding_registers.iter_mut().zip(values).for_each(|(register, value)| *register = value);
    }
}

impl Owner<Server> for Device {
    fn event(&mut self, session: &Session<Server>, _now: Now, event: ServerEvent) {
        match event {
            ServerEvent::Request { id, request, .. } => {
                self.step();
                let answer = self.bank.handle(&request);
                session.with(|server, _| server.answer(id, answer));
            }
            ServerEvent::Broadcast { .. } => {}
        }
    }
}
