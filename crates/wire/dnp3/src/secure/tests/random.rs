//! Machines and whatever comes: no panic, nothing performed, nothing that grows.

use super::world::{World, latch};
use crate::secure::{Authentication, Challenge, ErrorObject, KeyStatusObject, UserStatusChange};
use crate::{DnpTime, GroupVar};
use alloc::vec::Vec;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::CommandMode;

#[derive(Clone, Debug)]
enum Act {
    Fragment(bool, Vec<u8>),
    Object(bool, u8, u8, Vec<u8>),
    Repeat(prop::sample::Index),
    Command(bool),
    Pass(u64),
    Reconnect,
    Change,
}

fn object() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let numbers = (0_u32..6, 0_u16..3, any::<u8>(), any::<u8>());
    (0_u8..8, numbers, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(which, (sequence, user, a, b), rest)| {
        let object = match which {
            0 => Authentication::Challenge(Challenge { sequence, user, mac: a % 8, reason: 1, data: &rest }),
            1 => Authentication::Reply { sequence, user, mac: &rest },
            2 => Authentication::KeyStatusRequest { user },
            3 => Authentication::KeyStatus(KeyStatusObject {
                sequence,
                user,
                wrap: a % 3,
                status: b % 5,
                algorithm: a % 8,
                challenge: &rest,
                mac: &rest,
            }),
            4 => Authentication::KeyChange { sequence, user, wrapped: &rest },
            5 => Authentication::Error(ErrorObject {
                sequence,
                user,
                association: 0,
                code: a % 14,
                time: DnpTime::from_millis(0),
                text: &rest,
            }),
            6 => Authentication::UserStatusChange(UserStatusChange {
                method: 4,
                operation: a % 5,
                sequence,
                role: 1,
                days: 1,
                name: b"user1",
                public_key: &[],
                certification: &rest,
            }),
            _ => Authentication::AggressiveRequest { sequence, user },
        };
        let mut bytes = Vec::new();
        object.write(&mut bytes);
        assert!(
            Authentication::parse(GroupVar::new(120, object.variation()), bytes.get(6..).unwrap_or(&[])).is_some()
                || object.variation() < 5
        );
        (object.variation(), bytes)
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let bytes = prop::collection::vec(any::<u8>(), 0..60);
    let act = prop_oneof![
        2 => (any::<bool>(), bytes).prop_map(|(to_master, bytes)| Act::Fragment(to_master, bytes)),
        8 => (any::<bool>(), 0_u8..16, prop::sample::select(alloc::vec![32_u8, 33, 131, 5, 2]), object())
            .prop_map(|(to_master, sequence, function, (_, bytes))| Act::Object(to_master, sequence, function, bytes)),
        3 => any::<prop::sample::Index>().prop_map(Act::Repeat),
        3 => any::<bool>().prop_map(Act::Command),
        2 => (0_u64..8000).prop_map(Act::Pass),
        1 => Just(Act::Reconnect),
        1 => Just(Act::Change),
    ];
    prop::collection::vec(act, 0..40)
}

fn play(world: &mut World, act: &Act, number: usize) {
    match act {
        Act::Fragment(to_master, bytes) => world.deliver(*to_master, bytes),
        Act::Object(to_master, sequence, function, objects) => {
            let mut bytes = alloc::vec![0xC0 | sequence, *function];
            if *function > 128 {
                bytes.extend_from_slice(&[0, 0]);
            }
            bytes.extend_from_slice(objects);
            world.deliver(*to_master, &bytes);
        }
        Act::Repeat(at) => {
            if !world.sent.is_empty() {
                let sent = at.get(&world.sent).clone();
                world.deliver(sent.to_master, &sent.bytes);
            }
        }
        Act::Command(select) => {
            let mode = if *select { CommandMode::SelectBeforeOperate } else { CommandMode::DirectOperate };
            let until = world.now.mono + Duration::from_secs(50);
            let _ = world.master.command(world.now, latch(), 2, mode, until, 7);
        }
        Act::Pass(millis) => world.pass(Duration::from_millis(*millis)),
        Act::Reconnect => {
            world.cut();
            world.connect();
        }
        Act::Change => world.change(number.is_multiple_of(2)),
    }
    world.run();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn nothing_is_performed_that_the_master_did_not_ask_for(acts in acts()) {
        let mut world = World::usual();
        world.connect();
        for (number, act) in acts.iter().enumerate() {
            play(&mut world, act, number);
        }
        let commands = acts.iter().filter(|act| matches!(act, Act::Command(_))).count();
        prop_assert!(world.operated.iter().all(|one| *one == (2, latch())));
        prop_assert!(world.operated.len() <= commands, "{} of {commands}", world.operated.len());
        // And all is well once the forger has gone.
        world.settle();
        world.cut();
        world.connect();
        world.settle();
        let before = world.operated.len();
        world.operate();
        prop_assert_eq!(world.operated.len(), before + 1);
    }
}
