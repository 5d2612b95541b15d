use super::*;
use crate::app::Found;
use crate::link::{Function, Header};
use crate::master::{Master, MasterConfig, MasterEvent};
use crate::outstation::{AcceptAll, Database, Group, GroupLine, Outstation, OutstationConfig, PointConfig};
use crate::{Flags, Measured, Measurement, PointType};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use core::cell::RefCell;
use proptest::prelude::*;

const MASTER: LinkAddress = LinkAddress::new(1);

/// A master with a drop for each address.
fn masters(addresses: &[u16], one_at_a_time: bool) -> Channel<Master> {
    let mut channel = Channel::new(one_at_a_time);
    for address in addresses {
        let config = MasterConfig { outstation: *address, keep_alive: None, ..MasterConfig::default() };
        channel.add(MASTER, Some(LinkAddress::new(*address)), Master::new(config)).unwrap();
    }
    channel
}

/// Outstations with one point whose value is their address.
fn stations(addresses: &[u16]) -> Channel<Outstation> {
    let mut channel = Channel::new(false);
    for address in addresses {
        let mut database = Database::new();
        database.add(PointType::Analog, 0, PointConfig::of(PointType::Analog)).unwrap();
        database.set(value(f64::from(*address))).unwrap();
        let config = OutstationConfig { address: *address, ..OutstationConfig::default() };
        let outstation = Outstation::new(config, database, Box::new(AcceptAll));
        channel.add(LinkAddress::new(*address), None, outstation).unwrap();
    }
    channel
}

fn value(number: f64) -> Measurement {
    let value = Measured::Analog(number);
    Measurement { point_type: PointType::Analog, index: 0, value, flags: Flags::ONLINE, stamp: None }
}

/// Two channels, joined in virtual time.
struct World {
    now: Now,
    near: Channel<Master>,
    far: Channel<Outstation>,
    /// What each master's drop said: the number of times it was ready, and the values it gave.
    ready: Vec<usize>,
    values: Vec<Vec<f64>>,
    /// Bytes that one delivery brings.
    chunk: usize,
    /// Requests whose answer was not complete when the next one went out.
    overlaps: usize,
}

impl World {
    fn new(near: Channel<Master>, far: Channel<Outstation>) -> Self {
        let count = near.members.len();
        let (ready, values) = (vec![0; count], vec![Vec::new(); count]);
        let mut world = Self { now: Now::default(), near, far, ready, values, chunk: usize::MAX, overlaps: 0 };
        world.near.handle_connected(world.now);
        world.far.handle_connected(world.now);
        world
    }

    fn hear(&mut self) {
        while let Some(ChannelEvent { member, event }) = self.near.poll_event() {
            let number = usize::from(member.0);
            match event {
                MasterEvent::Ready => self.ready[number] += 1,
                MasterEvent::Values { values, .. } => self.values[number].extend(values.iter().map(|found| {
                    let Found::Measurement { measurement, .. } = found else { panic!("{found:?}") };
                    let Measured::Analog(value) = measurement.value else { panic!("{measurement:?}") };
                    value
                })),
                _ => {}
            }
        }
        while self.far.poll_event().is_some() {}
    }

    /// All that happens at this time.
    fn work(&mut self) {
        loop {
            self.hear();
            let (mut down, mut up) = (Vec::new(), Vec::new());
            while self.near.poll_transmit(self.now, &mut down) {}
            let waiting = self.near.members().filter(|(_, master)| master.awaits_answer()).count();
            self.overlaps = self.overlaps.max(waiting);
            while self.far.poll_transmit(self.now, &mut up) {}
            if down.is_empty() && up.is_empty() {
                return;
            }
            self.give(&down, true);
            self.give(&up, false);
        }
    }

    fn give(&mut self, bytes: &[u8], down: bool) {
        for chunk in bytes.chunks(self.chunk.min(bytes.len().max(1))) {
            let mut rest = chunk;
            while !rest.is_empty() {
                let used = match down {
                    true => self.far.handle_input(self.now, rest),
                    false => self.near.handle_input(self.now, rest),
                };
                rest = &rest[used..];
                self.hear();
            }
        }
    }

    /// Goes on for a time.
    fn pass(&mut self, time: Duration) {
        let end = self.now.mono + time;
        self.work();
        while self.now.mono < end {
            let next = [self.near.timeout(), self.far.timeout()].into_iter().flatten().min().unwrap_or(end);
            let next = next.clamp(self.now.mono + Duration::from_millis(1), end);
            self.now.utc = self.now.utc.later(next.since(self.now.mono));
            self.now.mono = next;
            self.near.handle_timeout(self.now);
            self.far.handle_timeout(self.now);
            self.work();
        }
    }
}

#[test]
fn each_drop_talks_with_its_outstation() {
    for one_at_a_time in [false, true] {
        let addresses = [10, 11, 12];
        let mut world = World::new(masters(&addresses, one_at_a_time), stations(&addresses));
        world.pass(Duration::from_secs(1));
        assert_eq!(world.ready, [1, 1, 1]);
        assert_eq!(world.values, [[10.0], [11.0], [12.0]]);
        assert_eq!(world.overlaps == 1, one_at_a_time);
        assert_eq!((world.near.counters().unknown_addresses, world.far.counters().unknown_addresses), (0, 0));
        // What an outstation reports by itself reaches its drop.
        let now = world.now;
        world.far.member_mut(MemberId(1)).unwrap().update(now, value(7.0)).unwrap();
        world.pass(Duration::from_secs(1));
        assert_eq!(world.values, [vec![10.0], vec![11.0, 7.0], vec![12.0]]);
    }
}

/// A drop joins and another leaves while its request is out: the others notice nothing.
#[test]
fn drops_come_and_go_on_a_connection() {
    for one_at_a_time in [false, true] {
        let mut world = World::new(masters(&[10, 11], one_at_a_time), stations(&[10, 12]));
        world.pass(Duration::from_secs(30));
        assert_eq!(world.ready, [1, 0]);
        // The line is lent to the drop that does not answer.
        while !world.near.member(MemberId(1)).unwrap().awaits_answer() {
            world.pass(Duration::from_millis(100));
        }
        let gone = world.near.remove(MemberId(1)).unwrap();
        assert!(gone.awaits_answer());
        assert!(world.near.remove(MemberId(1)).is_none() && world.near.member(MemberId(1)).is_none());
        let config = MasterConfig { outstation: 12, keep_alive: None, ..MasterConfig::default() };
        let added = world.near.add(MASTER, Some(LinkAddress::new(12)), Master::new(config));
        assert_eq!((added, world.near.len()), (Ok(MemberId(1)), 2));
        // The outstation has reported to nobody before, and does so again after a time.
        world.pass(Duration::from_secs(30));
        assert_eq!(world.ready, [1, 1]);
        assert_eq!(world.values, [[10.0], [12.0]]);
        world.near.remove(MemberId(0)).unwrap();
        world.near.remove(MemberId(1)).unwrap();
        world.pass(Duration::from_secs(1));
        assert!(world.near.is_empty() && world.near.timeout().is_none() && !world.near.is_closed());
    }
}

#[test]
fn drops_that_are_dead_leave_the_line_to_the_others() {
    let mut world = World::new(masters(&[10, 11, 12, 13], true), stations(&[11, 13]));
    world.pass(Duration::from_secs(60));
    assert_eq!(world.ready, [0, 1, 0, 1]);
    // A read at every second, over ten minutes.
    let mut asked = 0;
    for _ in 0..600 {
        let now = world.now;
        let master = world.near.member_mut(MemberId(1)).unwrap();
        asked += usize::from(master.poll(now, crate::Classes::ALL, 1).is_ok());
        world.pass(Duration::from_secs(1));
    }
    let given = world.values[1].len();
    assert!(asked > 500 && given > 500, "{asked} asked, {given} given");
    assert_eq!(world.overlaps, 1);
    let unanswered = world.near.counters().unanswered;
    assert!((10..=40).contains(&unanswered), "{unanswered} unanswered");
}

#[test]
fn a_drop_that_comes_back_is_served() {
    let mut world = World::new(masters(&[10, 11], true), stations(&[10]));
    world.pass(Duration::from_secs(300));
    assert_eq!(world.ready, [1, 0]);
    let mut both = stations(&[10, 11]);
    both.handle_connected(world.now);
    world.far = both;
    world.pass(Duration::from_secs(130));
    assert_eq!(world.ready[1], 1);
}

#[test]
fn frames_of_strangers_are_counted_and_broadcasts_reach_all() {
    let mut far = stations(&[10, 11]);
    far.handle_connected(Now::default());
    while far.poll_event().is_some() {}
    let mut frame = Vec::new();
    let mut ask = |destination: u16| {
        frame.clear();
        Header::new(true, Function::RequestStatus, LinkAddress::new(destination), MASTER).emit(&[], &mut frame);
        assert_eq!(far.handle_input(Now::default(), &frame), frame.len());
        let (mut out, mut answers) = (Vec::new(), 0);
        while far.poll_transmit(Now::default(), &mut out) {
            answers += usize::from(out.get(3) == Some(&0x0B));
            out.clear();
        }
        answers
    };
    assert_eq!((ask(10), ask(11), ask(12), ask(0xFFFF)), (1, 1, 0, 0));
    let counters = far.counters();
    assert_eq!((counters.frames, counters.unknown_addresses, counters.broadcasts), (2, 1, 1));
    let malformed = |id| far.member(MemberId(id)).unwrap().stats().endpoint.service.malformed;
    assert_eq!((malformed(0), malformed(1)), (1, 1));
}

/// A connection of several that reach the same outstations.
fn connection(groups: &[(u16, Rc<RefCell<Group>>)]) -> Channel<GroupLine> {
    let mut channel = Channel::new(false);
    for (address, group) in groups {
        channel.add(LinkAddress::new(*address), None, GroupLine::new(Rc::clone(group))).unwrap();
    }
    channel.handle_connected(Now::default());
    channel
}

/// Asks an outstation for its link status over a connection; whether it answered there.
fn answers(channel: &mut Channel<GroupLine>, destination: u16, source: u16) -> bool {
    let (mut frame, mut out) = (Vec::new(), Vec::new());
    let (destination, source) = (LinkAddress::new(destination), LinkAddress::new(source));
    Header::new(true, Function::RequestStatus, destination, source).emit(&[], &mut frame);
    assert_eq!(channel.handle_input(Now::default(), &frame), frame.len());
    while channel.poll_event().is_some() {}
    while channel.poll_transmit(Now::default(), &mut out) {}
    !out.is_empty()
}

#[test]
fn a_channel_of_group_lines_follows_its_masters() {
    let association = |address, master| {
        let config = OutstationConfig { address, master, ..OutstationConfig::default() };
        Outstation::new(config, Database::new(), Box::new(AcceptAll))
    };
    let group = |address, masters: &[u16]| {
        let group = Group::new(masters.iter().map(|master| association(address, *master)));
        (address, Rc::new(RefCell::new(group)))
    };
    let groups = [group(10, &[1, 2]), group(11, &[1])];
    let (mut one, mut other) = (connection(&groups), connection(&groups));
    // Each master has the outstations on its own connection, or both on one.
    assert!(answers(&mut one, 10, 1) && answers(&mut other, 10, 2) && answers(&mut other, 11, 1));
    let moved = |at: usize| groups[at].1.borrow().counters().moved;
    assert_eq!((moved(0), moved(1)), (0, 0));
    // An association goes on where its master is heard, and its own alone.
    assert!(answers(&mut one, 11, 1) && answers(&mut other, 10, 2));
    assert_eq!((moved(0), moved(1)), (0, 1));
    // Strangers, and outstations that are not there, get nothing.
    assert!(!answers(&mut one, 11, 2) && !answers(&mut one, 12, 1));
    assert_eq!((one.counters().unknown_addresses, groups[1].1.borrow().counters().unknown_source), (1, 1));
    // A connection on which nobody speaks any more ends; the one that they speak on stays.
    assert!(answers(&mut one, 10, 2));
    for member in [MemberId(0), MemberId(1)] {
        other.member_mut(member);
    }
    while other.poll_event().is_some() {}
    assert!(other.is_closed() && !one.is_closed());
}

#[test]
fn addresses_are_taken_once() {
    let mut channel = stations(&[10, 11]);
    let again = |local, remote: Option<u16>| {
        let outstation = Outstation::new(OutstationConfig::default(), Database::new(), Box::new(AcceptAll));
        (LinkAddress::new(local), remote.map(LinkAddress::new), outstation)
    };
    let (local, remote, outstation) = again(11, None);
    assert_eq!(channel.add(local, remote, outstation), Err(AddError::Taken(MemberId(1))));
    let (local, remote, outstation) = again(11, Some(2));
    assert_eq!(channel.add(local, remote, outstation), Ok(MemberId(2)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_chunking_gives_the_same(chunk in 1..300_usize, one_at_a_time in any::<bool>()) {
        let addresses = [10, 11, 12, 500];
        let mut world = World::new(masters(&addresses, one_at_a_time), stations(&addresses));
        world.chunk = chunk;
        world.pass(Duration::from_secs(5));
        prop_assert_eq!(world.values, [[10.0], [11.0], [12.0], [500.0]]);
    }

    #[test]
    fn a_lost_byte_costs_its_frame_alone(lost in 10..34_usize, sizes in prop::collection::vec(1..60_usize, 1..4)) {
        // A frame to 10 that lacks a byte of its body, and then a request to 11 in the same piece.
        let mut bytes = Vec::new();
        let to = |address| Header::new(true, Function::UnconfirmedUserData, LinkAddress::new(address), MASTER);
        to(10).emit(&[0xC0; 20], &mut bytes);
        bytes.remove(lost);
        Header::new(true, Function::RequestStatus, LinkAddress::new(11), MASTER).emit(&[], &mut bytes);
        let mut far = stations(&[10, 11]);
        far.handle_connected(Now::default());
        while far.poll_event().is_some() {}
        let mut rest = bytes.as_slice();
        for size in sizes.into_iter().chain([usize::MAX]) {
            let (chunk, more) = rest.split_at(size.min(rest.len()));
            prop_assert_eq!(far.handle_input(Now::default(), chunk), chunk.len());
            while far.poll_event().is_some() {}
            rest = more;
        }
        let status = far.counters().frames;
        prop_assert_eq!(far.member(MemberId(1)).unwrap().stats().endpoint.link.frames, 1, "{} frames", status);
    }

    #[test]
    fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut far = stations(&[10, 11]);
        far.handle_connected(Now::default());
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            while far.poll_event().is_some() {}
            let used = far.handle_input(Now::default(), rest);
            prop_assert!(used > 0);
            rest = &rest[used..];
        }
    }
}
