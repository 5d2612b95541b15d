//! The same disk when it says nothing at all, and sessions by a clock that cannot be believed.

use super::{SHORT_BYTES, START, TOPICS, World, message};
use crate::access::denial;
use crate::bus::ledger::WAITING_BYTES_MAX;
use crate::bus::line_of;
use std::time::Duration;
use tieline_core::{Body, Now, Timestamp, Update};
use tieline_mqtt::Qos;

impl World {
    /// Whether a message would be refused before anything is done with it.
    fn refuses(&mut self, topic: &str, qos: Qos, retain: bool) -> bool {
        let message = message(self.now, topic, bytes::Bytes::from_static(b"x"));
        let update = Update { topic: message.topic.clone(), body: Body::read(message.payload.clone()) };
        self.bus.cannot_store(&message, &update, qos, retain, None).is_some()
    }

    fn state(&self) -> &'static str {
        self.bus.ledger_status(self.now).state.name()
    }
}

/// What would have to be kept is refused before it is taken, and what need not be is not.
#[test]
fn a_disk_that_hangs_is_a_failing_disk() {
    const WANTED: [(&str, Qos, bool, bool); 6] = [
        ("a/1", Qos::AtLeastOnce, true, true),
        ("b", Qos::ExactlyOnce, false, true),
        ("a/new", Qos::AtLeastOnce, false, true),
        ("c", Qos::AtLeastOnce, true, true),
        ("c", Qos::AtLeastOnce, false, false),
        ("a/1", Qos::AtMostOnce, true, false),
    ];
    let mut world = World::new();
    for topic in TOPICS {
        world.publish(topic, Qos::AtMostOnce, true, SHORT_BYTES);
    }
    world.turn();
    world.hangs = true;
    world.publish("a/1", Qos::AtLeastOnce, true, SHORT_BYTES);
    world.turn();
    for (passed, state) in [(0, "ok"), (4_900, "ok"), (200, "hung"), (60_000, "hung")] {
        world.pass(Duration::from_millis(passed));
        world.turn();
        assert_eq!(world.state(), state, "{passed}");
        for (topic, qos, retain, needs_disk) in WANTED {
            assert_eq!(world.refuses(topic, qos, retain), needs_disk && state == "hung", "{topic} {qos:?} {retain}");
        }
    }
    let status = world.bus.ledger_status(world.now);
    assert_eq!((status.under_way.as_secs(), status.hung), (65, 1));
    assert_eq!(world.published.last().unwrap().acknowledged, None, "it may be on the disk");
    // It goes on where it stopped: nothing was given up.
    let compactions = status.compactions;
    world.hangs = false;
    world.turn();
    assert_eq!((world.state(), world.published.last().unwrap().acknowledged), ("ok", Some(true)));
    assert_eq!(
        (world.bus.ledger_status(world.now).compactions, world.refuses("a/1", Qos::AtLeastOnce, true)),
        (compactions, false)
    );
    world.recover();
}

/// Whatever is written while the disk hangs, what waits for it is bounded; in the end the disk holds what the bus knows.
#[test]
fn what_waits_for_a_disk_that_hangs_is_bounded() {
    const LONG: usize = 1 << 20;
    let mut world = World::new();
    world.hangs = true;
    let mut longest = 0;
    for number in 0..240 {
        world.publish("c", Qos::AtLeastOnce, true, LONG);
        world.publish("c", Qos::AtMostOnce, true, SHORT_BYTES);
        if number % 40 == 0 {
            world.pass(Duration::from_secs(1));
            world.turn();
        }
        world.take_news();
        longest = longest.max(world.bus.ledger_status(world.now).waiting_bytes);
    }
    world.turn();
    assert!(longest > WAITING_BYTES_MAX, "{longest}");
    assert!(longest <= WAITING_BYTES_MAX + (32 << 20) + 2 * LONG, "{longest}");
    let refused = world.published.iter().filter(|message| message.acknowledged == Some(false)).count();
    assert!(refused > 120, "{refused} were told that the disk does not have them");
    world.hangs = false;
    world.recover();
}

/// By a clock in doubt no time has passed while the node was not there; once it is confirmed, it has.
#[test]
fn sessions_end_by_a_clock_that_is_believed() {
    const DAYS: Duration = Duration::from_hours(100 * 24);
    let ahead = Now { utc: START.utc.later(DAYS), ..START };
    let back = Now { utc: Timestamp::from_micros(0), ..START };
    assert_eq!(World::restored(ahead).bus.away().0, 0);
    assert_eq!(World::restored(back).bus.away().0, 2);
    let mut world = World::restored(START);
    world.bus.end_due_sessions(ahead);
    assert_eq!(world.bus.away().0, 2, "the clock that counts decides");
    world.bus.confirm_clock(ahead, line_of(denial(ahead, "test", "clock", "", "", "", String::new())));
    world.bus.end_due_sessions(ahead);
    assert_eq!(world.bus.away().0, 0);
    // What is to come gives no more time than there is.
    let mut world = World::restored(back);
    world.bus.end_due_sessions(back.later(Duration::from_secs(3601)));
    assert_eq!(world.bus.away().0, 0);
}
