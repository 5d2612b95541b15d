//! What an idle pair of a master and an outstation takes of the heap, both sessions with their sockets included. No
//! change lets it grow unnoticed: whoever needs more says so here, and why.

use cap::Cap;
use std::alloc::System;
use std::io::Write;
use std::time::Duration;
use tieline_bench::dnp3::hold_pairs;
use tieline_dnp3::master::Master;
use tieline_dnp3::outstation::Outstation;

#[global_allocator]
static HEAP: Cap<System> = Cap::new(System, usize::MAX);

/// Notes what is allocated whenever a line is complete.
#[derive(Default)]
struct Notes(Vec<usize>);

impl Write for Notes {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.push(HEAP.allocated());
        Ok(())
    }
}

/// Octets of heap that are allocated while so many pairs are idle after exchanges of 10 values.
fn allocated_with(pairs: usize) -> usize {
    let mut notes = Notes::default();
    let words = &mut "connect\nmeasure\n".as_bytes();
    hold_pairs(pairs, 10, Duration::from_millis(100), words, &mut notes).expect("pairs over loopback");
    notes.0.last().copied().expect("a line after the load")
}

#[test]
fn an_idle_pair_is_small() {
    let check = |what: &str, octets: usize, most: usize| {
        assert!(octets <= most, "{what}: {octets} octets, at most {most}");
        println!("{what}: {octets} octets");
    };
    check("master", size_of::<Master>(), 1024);
    check("outstation", size_of::<Outstation>(), 1280);
    let (few, many) = (allocated_with(16), allocated_with(16 + 256));
    check("heap of a pair", many.saturating_sub(few) / 256, 6144);
}
