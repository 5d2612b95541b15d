//! A site that owes much, on a slow link: what is urgent does not wait behind what is not, and the link is used.

extern crate std;
use super::agenda::Agenda;
use super::link::Line;
use crate::{Read, Receiver, ReceiverLimits, Stream, Upward, UpwardEvent, UpwardLimits};
use bytes::Bytes;
use core::time::Duration;
use std::println;
use std::vec::Vec;
use tieline_core::{Instant, Now, Random, Timestamp};

enum Thing {
    Live,
    Batch(u64, Vec<u8>),
    Answer(u64, Vec<u8>),
}

/// What half a minute showed.
#[derive(Debug)]
struct Seen {
    /// How long live records took to be acknowledged.
    live_max: Duration,
    live_median: Duration,
    /// Bytes of each stream that the line took, and the line's own.
    bytes: [u64; 3],
    possible: u64,
}

impl Seen {
    fn use_of_link(&self) -> f64 {
        self.bytes.iter().sum::<u64>() as f64 / self.possible as f64
    }
}

/// Random bytes: they cannot be compressed.
fn records(random: &mut Random, read: Read, last: u64, length: usize) -> Vec<Vec<u8>> {
    let count = (read.bytes_max / length).clamp(1, read.records_max) as u64;
    let numbers = read.from..=last.min(read.from + count - 1);
    numbers.map(|_| (0..length / 8).flat_map(|_| random.number().to_le_bytes()).collect()).collect()
}

fn run(bytes_per_second: u64, delay: Duration, disk: Duration, owed: [u64; 2], live_every: Duration) -> Seen {
    const LENGTHS: [usize; 3] = [200, 400, 400];
    let (mut random, mut agenda) = (Random::new(7), Agenda::new());
    let mut upward = Upward::new("north", 1, UpwardLimits::default(), 1);
    let mut receiver = Receiver::new(ReceiverLimits::default());
    receiver.handle_marks([]);
    let (mut up, mut down) = (Line::new(bytes_per_second, delay), Line::new(bytes_per_second, delay));
    let mut now = Instant(1_000_000_000);
    let end = now + Duration::from_secs(30);
    let at = |mono: Instant| Now { mono, utc: Timestamp::from_micros(i64::try_from(mono.0 / 1000).unwrap()) };
    upward.handle_durable(Stream::BackFill, owed[0]);
    upward.handle_durable(Stream::Bulk, owed[1]);
    upward.handle_link(true);
    let mut last = [0, owed[0], owed[1]];
    let (mut made, mut taken, mut bytes): (Vec<Instant>, Vec<Duration>, _) = (Vec::new(), Vec::new(), [0; 3]);
    let mut commit: Option<Instant> = None;
    agenda.add(now, Thing::Live);
    while now < end {
        while let Some(read) = upward.poll_read() {
            let place = read.stream.place();
            upward.handle_records(now, read, read.from, &records(&mut random, read, last[place], LENGTHS[place]));
        }
        while let Some(out) = upward.poll_transmit(at(now)) {
            bytes[out.stream.place()] += out.body.len() as u64;
            let arrival = up.send(now, out.body.len(), &mut random)[0].unwrap();
            agenda.add(arrival, Thing::Batch(out.id, out.body));
        }
        while let Some(event) = upward.poll_event() {
            if let UpwardEvent::Acknowledged { stream: Stream::Live, upto } = event {
                let from = taken.len();
                taken.extend(made[from..usize::try_from(upto).unwrap()].iter().map(|made| now.since(*made)));
            }
        }
        if commit.is_none() && receiver.poll_store().is_some() {
            commit = Some(now + disk);
        }
        let next = agenda.at().into_iter().chain(upward.timeout()).chain(commit).min().unwrap();
        now = now.max(next);
        if commit.is_some_and(|at| at <= now) {
            commit = None;
            for reply in receiver.handle_stored(at(now)) {
                let arrival = down.send(now, reply.body.len(), &mut random)[0].unwrap();
                agenda.add(arrival, Thing::Answer(reply.request, reply.body));
            }
        }
        if agenda.at().is_some_and(|at| at <= now) {
            match agenda.take().unwrap() {
                Thing::Live => {
                    made.push(now);
                    last[0] += 1;
                    upward.handle_durable(Stream::Live, last[0]);
                    agenda.add(now + live_every, Thing::Live);
                }
                Thing::Batch(id, body) => {
                    if let Some(reply) = receiver.handle_batch(at(now), "north", id, &Bytes::from(body)) {
                        let arrival = down.send(now, reply.body.len(), &mut random)[0].unwrap();
                        agenda.add(arrival, Thing::Answer(reply.request, reply.body));
                    }
                }
                Thing::Answer(id, body) => upward.handle_answer(at(now), id, &body),
            }
        }
        upward.handle_timeout(now);
    }
    assert_eq!(upward.stats().silences, 0, "nothing was lost");
    let mut sorted = taken.split_off(taken.len() / 10);
    sorted.sort();
    let (live_median, live_max) = (sorted[sorted.len() / 2], *sorted.last().unwrap());
    Seen { live_max, live_median, bytes, possible: bytes_per_second * 30 }
}

#[test]
fn live_passes_what_is_owed_on_a_slow_link() {
    for (bytes_per_second, delay, disk, live_max, use_min) in [
        (8_000, 20, 2, 500, 0.9),
        (32_000, 20, 2, 500, 0.9),
        (250_000, 20, 2, 500, 0.9),
        (250_000, 300, 2, 1_000, 0.7),
        (125_000, 150, 2, 450, 0.9),
        (250_000, 20, 100, 600, 0.8),
        (1_250_000, 5, 2, 500, 0.9),
    ] {
        let ms = Duration::from_millis;
        let seen = run(bytes_per_second, ms(delay), ms(disk), [1_000_000, 1_000_000], ms(250));
        println!("{bytes_per_second} B/s, {delay} ms, disk {disk} ms: {seen:?}, use {:.2}", seen.use_of_link());
        assert!(seen.live_max <= ms(live_max) && seen.live_median < seen.live_max, "{seen:?}");
        assert!(seen.use_of_link() > use_min, "{seen:?}");
        assert!(seen.bytes[1] * 2 > seen.bytes[2] * 3 && seen.bytes[2] > 0, "back-fill and bulk share: {seen:?}");
    }
}

#[test]
fn what_is_owed_gets_its_share_where_live_alone_fills_the_link() {
    let seen =
        run(8_000, Duration::from_millis(20), Duration::from_millis(2), [100_000, 100_000], Duration::from_millis(20));
    println!("{seen:?}");
    let whole: u64 = seen.bytes.iter().sum();
    assert!(seen.bytes[1] * 10 > whole && seen.bytes[2] * 30 > whole, "{seen:?}");
}
