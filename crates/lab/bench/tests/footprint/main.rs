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
        // Buffers and maps of the server itself grow by chance, where the machine is busy by 128 KiB at once: over so many
        // sessions they come to 30 bytes each, or to 130. What sessions need is in every measurement, so the least counts.
        let counts = [16, 16 + 256, 16 + 1024];
        let all = [(); 3].map(|()| counts.map(|subscribers| allocated_by(subscribers, delta, stalled)));
        let [few, some, many] = [0, 1, 2].map(|at| {
            let measured = all.map(|measured| measured[at]);
            [0, 1, 2].map(|step| measured.iter().map(|steps| steps[step]).min().unwrap_or_default())
        });
        let steps = [("connected", 1792), ("subscribed to 100 topics", 3136), ("sent them", sent)];
        for (((step, most), few), many) in steps.into_iter().zip(few).zip(many) {
            let what = format!("heap of a subscriber, {step}, deltas {delta}, stalled {stalled}");
            check(&what, many.saturating_sub(few) / 1024, most);
        }
        // Its value is the tree's, and no packet stays.
        let [_, subscribed, sent] = some;
        check(
            &format!("heap of a topic that was sent, deltas {delta}, stalled {stalled}"),
            sent.saturating_sub(subscribed) / fanout::HELD_TOPICS,
            256,
        );
    }
}
