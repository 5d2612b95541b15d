//! Devices that share gateways and networks.

use super::collection::World;
use super::*;

fn group(kind: GroupKind, in_flight_max: u16, gap_ms: u64) -> GroupSpec {
    GroupSpec { kind, in_flight_max, gap_min: Duration::from_millis(gap_ms) }
}

/// How often each device was asked.
fn shares(world: &World) -> BTreeMap<u32, u32> {
    let mut shares = BTreeMap::new();
    for asked in &world.asked {
        *shares.entry(asked.1.0).or_default() += 1;
    }
    shares
}

#[test]
fn an_overloaded_gateway_serves_all_its_devices() {
    let mut world = World::new(Limits::default());
    world.poller.set_group(at(0), GroupId(1), group(GroupKind::Gateway, 1, 0)).unwrap();
    world.answer_ms = 100;
    for id in 0..50 {
        let collection = Collection { gateway: Some(GroupId(1)), ..Collection::POLLED };
        // One has very much to ask for, and one is slow.
        let every = if id == 49 { 600_000 } else { 1_000 };
        world.add(id, DeviceSpec { collection, ..spec(&format!("d/{id}"), &[every]) });
        world.poller.set_parts(at(0), DeviceId(id), CLASS, if id == 0 { 500 } else { 3 });
        world.link(id, LinkState::Online);
    }
    world.run(500_000);
    // 5,000 polls of 50 devices, of which one needs 6.
    assert_eq!(world.asked.len(), 5_001);
    let shares = shares(&world);
    assert!((4..=7).contains(&shares[&49]), "{shares:?}");
    assert!((0..49).all(|id| (95..=108).contains(&shares[&id])), "{shares:?}");
    // Within a device, each of its parts.
    let parts: std::collections::BTreeSet<_> =
        world.asked.iter().filter(|asked| asked.1.0 == 7).map(|asked| asked.3).collect();
    assert_eq!(parts.len(), 3);
}

#[test]
fn the_more_urgent_device_is_asked_first() {
    let mut world = World::new(Limits::default());
    world.poller.set_group(at(0), GroupId(1), group(GroupKind::Network, 1, 0)).unwrap();
    world.answer_ms = 100;
    for id in 0..30 {
        let urgency = if id == 0 { Urgency::Protection } else { Urgency::Bulk };
        let collection = Collection { network: Some(GroupId(1)), ..Collection::REPORTED };
        world.add(id, DeviceSpec { collection, urgency, ..spec(&format!("d/{id}"), &[1_000]) });
        world.link(id, LinkState::Online);
    }
    world.run(60_000);
    let shares = shares(&world);
    assert_eq!(shares[&0], 60, "{shares:?}");
    assert!((1..30).all(|id| (15..=22).contains(&shares[&id])), "{shares:?}");
}

#[test]
fn a_slow_gateway_holds_no_room_of_its_network() {
    let mut world = World::new(Limits::default());
    for id in 1..=2 {
        world.poller.set_group(at(0), GroupId(id), group(GroupKind::Gateway, 1, 0)).unwrap();
    }
    world.poller.set_group(at(0), GroupId(9), group(GroupKind::Network, 2, 0)).unwrap();
    for id in 0..20 {
        let gateway = Some(GroupId(if id < 19 { 1 } else { 2 }));
        let collection = Collection { gateway, network: Some(GroupId(9)), ..Collection::REPORTED };
        world.add(id, DeviceSpec { collection, ..spec(&format!("d/{id}"), &[1_000]) });
        world.link(id, LinkState::Online);
    }
    // The first gateway is full all the time; the device behind the second is asked each second.
    world.answer_ms = 500;
    world.run(100_000);
    let shares = shares(&world);
    assert_eq!(shares[&19], 100, "{shares:?}");
    assert!((0..19).all(|id| (9..=12).contains(&shares[&id])), "{shares:?}");
}

#[test]
fn a_pace_holds_while_all_come_back() {
    let mut world = World::new(Limits::default());
    world.poller.set_group(at(0), GroupId(1), group(GroupKind::Network, 100, 100)).unwrap();
    for id in 0..300 {
        let collection = Collection { network: Some(GroupId(1)), ..Collection::POLLED };
        world.add(id, DeviceSpec { collection, ..spec(&format!("d/{id}"), &[60_000]) });
        world.link(id, LinkState::Online);
    }
    world.run(10_000);
    (0..300).for_each(|id| world.link(id, LinkState::Away { why: "cut".into() }));
    world.run(20_000);
    (0..300).for_each(|id| world.link(id, LinkState::Online));
    world.run(120_000);
    assert!(world.times().windows(2).all(|pair| pair[1] - pair[0] >= 100));
    let back: Vec<_> = world.asked.iter().filter(|asked| (20_000..51_000).contains(&asked.0)).collect();
    assert!(back.len() >= 300, "{}", back.len());
    assert_eq!(back.iter().map(|asked| asked.1).collect::<std::collections::BTreeSet<_>>().len(), 300);
}

#[derive(Clone, Debug)]
enum Step {
    Link(u32, u8),
    Parts(u32, u8, u16),
    End(usize, u8),
    Group(u32, u16, u64),
    Replace(u32, u8, Option<u32>, Option<u32>),
    Remove(u32),
    Wait(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let id = 0u32..6;
    let gateway = proptest::option::of(0u32..2);
    let network = proptest::option::of(2u32..4);
    prop_oneof![
        3 => (id.clone(), 0u8..4).prop_map(|(id, link)| Step::Link(id, link)),
        2 => (id.clone(), 0u8..2, 0u16..100).prop_map(|(id, class, parts)| Step::Parts(id, class, parts)),
        12 => (any::<usize>(), 0u8..6).prop_map(|(which, result)| Step::End(which, result)),
        1 => (0u32..4, 1u16..4, 0u64..300).prop_map(|(id, max, gap)| Step::Group(id, max, gap)),
        2 => (id.clone(), 1u8..4, gateway, network).prop_map(|(id, max, g, n)| Step::Replace(id, max, g, n)),
        1 => id.prop_map(Step::Remove),
        8 => (0u64..2_000).prop_map(Step::Wait),
    ]
}

/// The paces of the groups at first.
const GAPS: [u64; 4] = [0, 70, 150, 0];

/// A request that is out: its device, what it is, and the groups it takes room in.
type Out = (DeviceId, PollClass, u16, [Option<u32>; 2]);

struct Shared {
    poller: Poller,
    ms: u64,
    out: Vec<Out>,
    specs: BTreeMap<u32, (u8, [Option<u32>; 2])>,
    groups: [(u16, u64); 4],
    last: [Option<u64>; 4],
    online: [bool; 6],
    /// Requests of turns that were given before a device's groups changed count against the old ones.
    changed: [bool; 6],
}

impl Shared {
    fn new() -> Self {
        let limits = Limits { poll_lost_after: Duration::from_secs(1_000_000), ..Limits::default() };
        let mut poller = Poller::new(limits);
        for id in 0..4 {
            let kind = if id < 2 { GroupKind::Gateway } else { GroupKind::Network };
            poller.set_group(at(0), GroupId(id), group(kind, 2, GAPS[id as usize])).unwrap();
        }
        let (out, specs) = (Vec::new(), BTreeMap::new());
        let (groups, last) = (GAPS.map(|gap| (2, gap)), [None; 4]);
        Self { poller, ms: 0, out, specs, groups, last, online: [false; 6], changed: [false; 6] }
    }

    fn spec(id: u32, in_flight_max: u8, groups: [Option<u32>; 2]) -> DeviceSpec {
        let [gateway, network] = groups.map(|id| id.map(GroupId));
        let base = if id.is_multiple_of(2) { Collection::POLLED } else { Collection::REPORTED };
        let missed = if id < 3 { Missed::Once } else { Missed::Skip };
        let collection = Collection { in_flight_max, gateway, network, missed, ..base };
        DeviceSpec { collection, ..spec(&format!("d{id}"), &[500, 1_700]) }
    }

    fn step(&mut self, step: Step) {
        let now = at(self.ms);
        match step {
            Step::Link(id, link) => {
                let is_online = link > 0;
                self.online[id as usize] = is_online && self.specs.contains_key(&id);
                if !is_online {
                    self.out.retain(|out| out.0.0 != id);
                }
                let link = if is_online { LinkState::Online } else { LinkState::Away { why: "cut".into() } };
                self.poller.handle_link(now, DeviceId(id), link);
            }
            Step::Parts(id, class, parts) => self.poller.set_parts(now, DeviceId(id), PollClass(class), parts),
            Step::End(which, result) => {
                if let Some(at) = which.checked_rem(self.out.len()) {
                    let (device, class, part, _) = self.out.swap_remove(at);
                    let result = match result {
                        0 | 1 => PollResult::Timeout,
                        2 => PollResult::Error,
                        _ => PollResult::Ok,
                    };
                    self.poller.handle_poll_done(now, device, class, part, result);
                }
            }
            Step::Group(id, max, gap) => {
                let kind = if id < 2 { GroupKind::Gateway } else { GroupKind::Network };
                self.poller.set_group(now, GroupId(id), group(kind, max, gap)).unwrap();
                // What is out already may be more than the new limit, and was asked for at the old pace.
                let (was_max, was_gap) = self.groups[id as usize];
                self.groups[id as usize] = (max.max(was_max), gap.min(was_gap));
            }
            Step::Replace(id, max, gateway, network) => {
                let groups = [gateway, network];
                let spec = Self::spec(id, max, groups);
                if let Some((was_max, was)) = self.specs.insert(id, (max, groups)) {
                    self.poller.replace_device(now, DeviceId(id), spec).unwrap();
                    self.changed[id as usize] |= was != groups;
                    self.specs.insert(id, (max.max(was_max), groups));
                } else {
                    self.poller.add_device(now, DeviceId(id), spec).unwrap();
                    self.changed[id as usize] = true;
                }
            }
            Step::Remove(id) => {
                let was_here = self.specs.remove(&id).is_some();
                assert_eq!(self.poller.remove_device(now, DeviceId(id)).is_some(), was_here);
                self.out.retain(|out| out.0.0 != id);
                self.online[id as usize] = false;
            }
            Step::Wait(ms) => {
                self.ms += ms;
                self.poller.handle_timeout(at(self.ms));
                assert!(self.poller.timeout().is_none_or(|next| next > at(self.ms).mono), "a deadline did not move");
            }
        }
        self.requests();
    }

    fn requests(&mut self) {
        while let Some((device, class, part)) = self.poller.poll_request(at(self.ms)) {
            let id = device.0 as usize;
            assert!(self.online[id], "asked while away");
            let (max, groups) = self.specs[&device.0];
            let is_same = |out: &&Out| (out.0, out.1, out.2) == (device, class, part);
            assert!(!self.out.iter().any(|out| is_same(&out)), "asked twice");
            let of_device = self.out.iter().filter(|out| out.0 == device).count();
            assert!(of_device < usize::from(max), "device {device:?} has {of_device} out of {max}");
            let groups = if self.changed[id] { [None; 2] } else { groups };
            for group in groups.into_iter().flatten() {
                let (max, gap) = self.groups[group as usize];
                let here = self.out.iter().filter(|out| out.3.contains(&Some(group))).count();
                assert!(here < usize::from(max), "group {group} has {here} out of {max}");
                let last = self.last[group as usize].replace(self.ms);
                assert!(last.is_none_or(|last| self.ms - last >= gap));
            }
            self.out.push((device, class, part, groups));
        }
    }
}

proptest! {
    /// Whatever happens: limits and paces hold, no part is out twice, and once all answer, every device is read.
    #[test]
    fn limits_hold_and_nothing_is_stuck(steps in proptest::collection::vec(any_step(), 0..150)) {
        let mut shared = Shared::new();
        for id in 0..6 {
            shared.step(Step::Replace(id, 1, Some(id % 2), Some(2 + id % 2)));
            shared.changed[id as usize] = false;
        }
        for step in steps {
            shared.step(step);
        }
        // All are here and online, and answer at once.
        shared.groups = [(4, 0); 4];
        shared.step(Step::Group(0, 2, 0));
        shared.step(Step::Group(3, 2, 10));
        for id in 0..6 {
            shared.step(Step::Replace(id, 2, Some(0), Some(3)));
            shared.changed[id as usize] = true;
            shared.step(Step::Link(id, 1));
        }
        let polls = |shared: &Shared, id| shared.poller.health(DeviceId(id)).unwrap().counts.polls;
        let before: Vec<_> = (0..6).map(|id| polls(&shared, id)).collect();
        for _ in 0..9_000 {
            while !shared.out.is_empty() {
                shared.step(Step::End(0, 5));
            }
            shared.step(Step::Wait(100));
        }
        for id in 0..6 {
            let more = polls(&shared, id) - before[id as usize];
            prop_assert!(more > 100, "device {} was polled {} times", id, more);
        }
    }
}
