//! The floor: the same bytes over bare sockets of the same runtime, which nobody looks at.

use super::load::{Ask, Reading, Tally};
use super::wire::{answer_bytes, request};
use anyhow::Result;
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use tieline_net::{Shard, Target, connect as dial};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// A connection of the floor.
pub struct Floor(Rc<Sender>);

struct Sender {
    out: OwnedWriteHalf,
    next: Cell<u64>,
    ask: Ask,
    tally: Rc<Tally>,
}

impl Sender {
    fn begin(&self) {
        let read = self.next.get();
        self.next.set(read + 1);
        self.tally.count_begun();
        let message = request(read, self.ask.registers);
        if self.out.try_write(&message).ok() != Some(message.len()) {
            self.tally.count_broken();
        }
    }
}

impl Reading for Floor {
    type Shared = ();

    fn shared(_ask: Ask) {}

    async fn connect(_shard: &Rc<Shard>, to: SocketAddr, ask: Ask, _shared: &(), tally: &Rc<Tally>) -> Result<Self> {
        let (input, out) = dial(&Target::new(to.to_string())).await?.into_split();
        let sender = Rc::new(Sender { out, next: Cell::new(0), ask, tally: Rc::clone(tally) });
        tally.count_ready();
        let reader = Rc::clone(&sender);
        tokio::task::spawn_local(async move {
            read(input, &reader).await;
            reader.tally.count_broken();
        });
        Ok(Self(sender))
    }

    fn begin(&self) {
        self.0.begin();
    }
}

async fn read(mut input: OwnedReadHalf, sender: &Sender) {
    let Sender { ask, tally, .. } = sender;
    let whole = answer_bytes(ask.registers);
    // A little longer than what can come: a read that fills its buffer makes the runtime ask the socket once more.
    let mut buffer = vec![0; whole * usize::from(ask.window) + 64].into_boxed_slice();
    let mut got = 0;
    while let Ok(count @ 1..) = input.read(&mut buffer).await {
        got += count;
        while got >= whole {
            got -= whole;
            tally.count_done(true);
            if ask.every.is_none() && tally.is_going() {
                sender.begin();
            }
        }
    }
}
