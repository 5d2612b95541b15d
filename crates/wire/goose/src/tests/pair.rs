use super::publisher::{config, started};
use super::{at_ms, path};
use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

/// What a network does to a frame.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// After the next one.
    Late,
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![6 => Just(Fate::Arrives), 1 => Just(Fate::Lost), 1 => Just(Fate::Twice), 1 => Just(Fate::Late)]
}

proptest! {
    /// Whatever a network loses, repeats and reorders: the subscriber takes a change once, never an older one after it, and once
    /// the network is well again it has the last one.
    #[test]
    fn a_subscriber_has_the_last_values(
        steps in vec((0..40_u64, any::<bool>(), fates()), 1..80),
        restart_at in 0..80_usize,
    ) {
        let mut subscriber = Subscriber::new(SubscriberConfig {
            gocb_ref: config().gocb_ref,
            app_id: Some(0x1000),
            dat_set: None,
            go_id: None,
            conf_rev: Some(4),
            simulation: Simulation::Ignore,
        });
        let mut publisher = started(&[Value::Integer(0)]);
        let (mut ms, mut number, mut late, mut taken) = (0, 0, Vec::<Vec<u8>>::new(), 0);
        let mut deliver = |bytes: &[u8], ms: u64, taken: &mut i64| {
            let message = Message::parse(bytes).unwrap();
            let received = subscriber.receive(at_ms(ms).mono, &message);
            let Some(Data::Integer(value)) = message.pdu.all_data.find(&path("1")) else { panic!("a number") };
            match received {
                Received::Changed { .. } | Received::First | Received::Restarted => {
                    assert!(value >= *taken || received == Received::First, "{value} after {taken}");
                    *taken = value;
                }
                Received::Repeated => assert_eq!(value, *taken),
                Received::Dropped => assert!(value <= *taken),
                Received::Reconfigured { .. } | Received::Refused(_) => panic!("{received:?}"),
            }
        };
        for ((wait, changes, fate), at) in steps.into_iter().zip(0..) {
            ms += wait;
            if at == restart_at {
                ms += 1;
                publisher = Publisher::new(config(), [Value::Integer(number)].into()).unwrap();
                publisher.start(at_ms(ms));
            } else if changes {
                number += 1;
                ms += 1;
                publisher.set(at_ms(ms), &[(path("1"), Value::Integer(number))]).unwrap();
            }
            let mut out = Vec::new();
            while publisher.poll_transmit(at_ms(ms), &mut out) {
                let frame = core::mem::take(&mut out);
                let waited = core::mem::take(&mut late);
                match fate {
                    Fate::Arrives => deliver(&frame, ms, &mut taken),
                    Fate::Lost => {}
                    Fate::Twice => (0..2).for_each(|_| deliver(&frame, ms, &mut taken)),
                    Fate::Late => late.push(frame),
                }
                waited.iter().for_each(|frame| deliver(frame, ms, &mut taken));
            }
        }
        ms += 1000;
        let mut out = Vec::new();
        while publisher.poll_transmit(at_ms(ms), &mut out) {
            deliver(&core::mem::take(&mut out), ms, &mut taken);
        }
        prop_assert_eq!(taken, number);
    }
}
