use super::echo::Echo;
use super::{Notes, pair, run, session};
use crate::{Closed, Direction, Limits, Peer, Tap};
use std::cell::RefCell;
use std::rc::Rc;
use tieline_core::Now;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A tap that writes down what it is given.
#[derive(Debug, Default)]
struct Heard(RefCell<Vec<(&'static str, Vec<u8>)>>);

impl Heard {
    fn push(&self, what: &'static str, bytes: &[u8]) {
        self.0.borrow_mut().push((what, bytes.to_vec()));
    }
}

impl Tap for Heard {
    fn moved(&self, _: Now, direction: Direction, bytes: &[u8]) {
        let what = match direction {
            Direction::Received => "received",
            Direction::Sent => "sent",
        };
        self.push(what, bytes);
    }

    fn connected(&self, _: Now, _: &Peer) {
        self.push("connected", &[]);
    }

    fn closed(&self, _: Now, why: Closed) {
        self.push(why.name(), &[]);
    }
}

#[test]
fn a_tap_is_given_what_moves_between_begin_and_end() {
    run(async {
        let (near, mut far) = pair().await;
        let session = session(Echo { bite: 2, ..Echo::default() }, Limits::default());
        let tap = Rc::new(Heard::default());
        session.set_tap(Rc::clone(&tap) as Rc<dyn Tap>);
        let peer = async {
            far.write_all(b"abc").await.unwrap();
            far.read_exact(&mut [0; 3]).await.unwrap();
            drop(far);
        };
        let mut notes = Notes::default();
        tokio::join!(peer, session.run(near, &mut notes));
        let heard = tap.0.take();
        let words: Vec<_> = heard.iter().map(|(what, bytes)| (*what, bytes.as_slice())).collect();
        let expect: [(_, &[u8]); 5] =
            [("connected", b""), ("received", b"abc"), ("sent", b"ab"), ("sent", b"c"), ("peer", b"")];
        assert_eq!(words, expect);
    });
}
