//! What an idle pair of a master and an outstation takes of the heap, both sessions with their sockets included, what a Modbus
//! client does, and what a subscriber does. No change lets it grow unnoticed: a change that needs more says so here, and why.

use cap::Cap;
use std::alloc::System;
use std::io::Write;
use std::time::Duration;
use tieline_bench::dnp3::hold_pairs;
use tieline_bench::fanout::{self, Held};
use tieline_bench::field::{HeldBy, grown_with};
use tieline_dnp3::master::Master;
use tieline_dnp3::outstation::Outstation;

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Notes what is allocated whenever a line is complete.
#[derive(Default)]
struct Notes(Vec<usize>);

impl Write for Notes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.push(HEAP.allocated());
        Ok(())
    }
}

/// Bytes of heap that are allocated while so many pairs are idle after exchanges of 10 values.
fn allocated_with(pairs: usize) -> usize {
    let mut notes = Notes::default();
    let words = &mut "connect\nmeasure\n".as_bytes();
    hold_pairs(pairs, 10, Duration::from_millis(100), words, &mut notes).expect("pairs over loopback");
    notes.0.last().copied().expect("a line after the load")
}

/// Bytes of heap that are allocated while so many subscribers are connected, have subscribed to 100 topics each, and have
/// got them; `stalled` after the socket of each was full.
fn allocated_by(subscribers: usize, delta: bool, stalled: bool) -> [usize; 3] {
    fanout::hold(Held { subscribers, delta, stalled, shards: 1 }, || HEAP.allocated())
        .expect("subscribers over loopback")
}

/// Bytes of heap of a Modbus client that has read 18 registers and is idle, with its session and its socket, without the
/// other end.
fn modbus_client() -> usize {
    let heap = || Ok(HEAP.allocated() as u64);
    let each = |by, connections| grown_with(by, connections, 18, heap).expect("connections over loopback");
    let [ours, floor] = [HeldBy::Ours, HeldBy::Floor].map(|by| each(by, 16 + 1024).saturating_sub(each(by, 16)) / 1024);
    usize::try_from(ours.saturating_sub(floor)).unwrap_or(usize::MAX)
}

// One test: what another allocates meanwhile would count.
#[test]
fn idle_sessions_are_small() {
    let check = |what: &str, bytes: usize, most: usize| {
        assert!(bytes <= most, "{what}: {bytes} bytes, at most {most}");
        println!("{what}: {bytes} bytes");
    };
    check("master", size_of::<Master>(), 1024);
    check("outstation", size_of::<Outstation>(), 1280);
    let (few, many) = (allocated_with(16), allocated_with(16 + 256));
    check("heap of a Modbus client beyond a bare socket", modbus_client(), 896);
    check("heap of a pair", many.saturating_sub(few) / 256, 6144);
    // What a session needed while its socket was full is given back, but for 60 bytes of counts.
    for (delta, stalled, sent) in [(false, false, 3136), (true, false, 4032), (false, true, 3200), (true, true, 4096)] {
        for (what, bytes, most) in subscribers_need(delta, stalled, sent) {
            check(&format!("heap of {what}, deltas {delta}, stalled {stalled}"), bytes, most);
        }
    }
}

/// What a subscriber needs at each step, and how much it may: `sent` when it got the values.
///
/// Buffers and maps of the server itself grow by chance, where the machine is busy by 128 KiB at once: over so many sessions
/// they come to 30 bytes each, or to 130, with few sessions as with many. What sessions need is in every measurement: the one
/// in the middle counts. It is measured again where chance has most of them.
fn subscribers_need(delta: bool, stalled: bool, sent: usize) -> [(String, usize, usize); 4] {
    const NAMES: [&str; 4] = [
        "a subscriber, connected",
        "a subscriber, subscribed to 100 topics",
        "a subscriber, sent them",
        "a topic that was sent",
    ];
    const MEASUREMENTS_MIN: usize = 3;
    const MEASUREMENTS_MAX: usize = 15;
    let allowed = [1792, 3136, sent, 256];
    let mut measured: [Vec<usize>; 4] = Default::default();
    // What is made once in a process is made here.
    allocated_by(16, delta, stalled);
    loop {
        let [few, some, many] = [16, 16 + 256, 16 + 1024].map(|subscribers| allocated_by(subscribers, delta, stalled));
        let each = |step: usize| many[step].saturating_sub(few[step]) / 1024;
        // The value of a topic is the tree's, and no packet stays.
        let of_topic = some[2].saturating_sub(some[1]) / fanout::HELD_TOPICS;
        for (all, one) in measured.iter_mut().zip([each(0), each(1), each(2), of_topic]) {
            all.insert(all.partition_point(|other| *other < one), one);
        }
        let (count, middle) = (measured[0].len(), measured.each_ref().map(|all| all[all.len() / 2]));
        let is_small = middle.iter().zip(allowed).all(|(bytes, most)| *bytes <= most);
        if count == MEASUREMENTS_MAX || (count >= MEASUREMENTS_MIN && count % 2 == 1 && is_small) {
            return std::array::from_fn(|at| {
                (format!("{}, the middle of {:?}", NAMES[at], measured[at]), middle[at], allowed[at])
            });
        }
    }
}
