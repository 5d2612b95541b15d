use super::{pair, run};
use crate::{Clock, Counters, Limits, Owner, Session, Shard};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Instant, Machine, Now};
use tokio::io::AsyncReadExt;

/// Messages whose events may wait before no more is sent.
const EVENTS_MAX: usize = 4;

/// Sends messages of one byte and tells of each; the more it has told, the less it sends.
#[derive(Default)]
struct Teller {
    left: usize,
    untold: usize,
}

impl Machine for Teller {
    type Event = ();

    fn handle_connected(&mut self, _: Now) {}

    fn handle_disconnected(&mut self, _: Now) {}

    fn handle_input(&mut self, _: Now, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn handle_timeout(&mut self, _: Now) {}

    fn poll_transmit(&mut self, _: Now, out: &mut Vec<u8>) -> bool {
        let sends = self.left > 0 && self.untold < EVENTS_MAX;
        if sends {
            out.push(0);
            self.left -= 1;
            self.untold += 1;
        }
        sends
    }

    fn poll_event(&mut self) -> Option<()> {
        self.untold = self.untold.checked_sub(1)?;
        Some(())
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn is_closed(&self) -> bool {
        false
    }
}

struct Count(usize);

impl Owner<Teller> for Count {
    fn event(&mut self, _: &Session<Teller>, _: Now, (): ()) {
        self.0 += 1;
    }
}

#[test]
fn events_of_what_was_sent_are_drained_and_more_is_sent() {
    run(async {
        let (near, mut far) = pair().await;
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let session = Session::new(&shard, Teller::default(), Limits::default());
        let peer = async {
            for messages in [3, 10, 1000] {
                session.with(|teller, _| teller.left = messages);
                let mut bytes = vec![1; messages];
                let all = far.read_exact(&mut bytes);
                tokio::time::timeout(Duration::from_secs(60), all).await.unwrap().unwrap();
            }
            session.close();
        };
        let mut count = Count(0);
        tokio::join!(peer, session.run(near, &mut count));
        assert_eq!(count.0, 1013);
    });
}
