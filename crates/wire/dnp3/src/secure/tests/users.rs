//! Users and update keys changed over the wire.

use super::world::{World, key, long_key, quiet, user};
use crate::master::TaskOutcome;
use crate::secure::{
    AuthError, Authority, Key, KeyChangeMethod, MasterSecurityConfig, OutstationSecurityConfig, Role, SecurityEvent,
    UserChange, UserOperation,
};
use std::boxed::Box;
use std::string::ToString;

fn world() -> World {
    let authority = Authority { key: long_key(7), method: KeyChangeMethod::Aes256Sha256, sequence: 5 };
    let outstation = OutstationSecurityConfig {
        authority: Some(authority),
        name: "feeder 3".to_string(),
        ..OutstationSecurityConfig::default()
    };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    world.words();
    world
}

fn change(operation: UserOperation, sequence: u32) -> UserChange {
    UserChange {
        operation,
        name: "alice".to_string(),
        role: Role::Operator,
        days: 30,
        sequence,
        authority: long_key(7),
        method: KeyChangeMethod::Aes256Sha256,
        outstation: "feeder 3".to_string(),
    }
}

fn ask(world: &mut World, change: UserChange) -> Option<TaskOutcome> {
    world.master.change_user(world.now, change, 3).unwrap();
    world.run();
    world.settle();
    world.outcomes.pop()
}

fn changed(events: &[SecurityEvent]) -> Option<(u16, Key)> {
    events.iter().find_map(|event| match event {
        SecurityEvent::UpdateKeyChanged { user, key, .. } => Some((*user, key.clone())),
        _ => None,
    })
}

#[test]
fn a_user_is_added_and_operates() {
    let mut world = world();
    assert_eq!(ask(&mut world, change(UserOperation::Add, 5)), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "v10 authentication-response v11 V12 v13 V15");
    let (number, update_key) = changed(&world.of_outstation).unwrap();
    assert_eq!(changed(&world.of_master), Some((number, update_key.clone())));
    assert_eq!((number, update_key.bytes().len()), (2, 32));
    assert!(world.of_outstation.contains(&SecurityEvent::StatusSequence(6)));
    // A station that kept the user, and a master that acts for it.
    let users = [user(1, Role::SingleUser, key(1)), user(2, Role::Operator, update_key.clone())].to_vec();
    let master = MasterSecurityConfig { user: 2, ..MasterSecurityConfig::new(update_key) };
    let mut again = World::with_users(quiet(), master, OutstationSecurityConfig::default(), users);
    again.connect();
    assert_eq!(again.operate(), Some(TaskOutcome::Done));
}

#[test]
fn the_key_of_a_user_that_there_is_changes_under_way() {
    let mut world = world();
    let change = UserChange { name: "user1".to_string(), ..change(UserOperation::Change, 9) };
    assert_eq!(ask(&mut world, change), Some(TaskOutcome::Done));
    assert_eq!(changed(&world.of_outstation).unwrap().0, 1);
    // The session keys that the old key wrapped are gone, and the master has changed them.
    assert_eq!(world.words(), "v10 authentication-response v11 V12 v13 V15 v4 V5 v6 V5");
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
}

#[test]
fn a_user_is_removed() {
    let mut world = world();
    ask(&mut world, change(UserOperation::Add, 5));
    assert_eq!(ask(&mut world, change(UserOperation::Delete, 6)), Some(TaskOutcome::Done));
    assert!(world.of_outstation.contains(&SecurityEvent::UserRemoved { user: 2 }));
    assert_eq!(world.outstation.security().unwrap().users().count(), 1);
}

#[test]
fn who_is_not_the_authority_changes_nothing() {
    let check = |change: UserChange, error| {
        let mut world = world();
        assert_eq!(ask(&mut world, change), Some(TaskOutcome::Unauthenticated(error)));
        assert_eq!(world.outstation.security().unwrap().users().count(), 1);
        assert_eq!(changed(&world.of_outstation), None);
        assert!(!world.of_outstation.iter().any(|event| matches!(event, SecurityEvent::StatusSequence(_))));
    };
    let add = || change(UserOperation::Add, 5);
    check(UserChange { authority: long_key(8), ..add() }, AuthError::InvalidCertification);
    check(UserChange { sequence: 4, ..add() }, AuthError::InvalidCertification);
    check(UserChange { operation: UserOperation::Delete, ..add() }, AuthError::UnknownUser);
    check(
        UserChange { method: KeyChangeMethod::Aes128Sha1, authority: key(7), ..add() },
        AuthError::KeyChangeMethodNotPermitted,
    );
}

#[test]
fn a_station_of_another_name_takes_no_key() {
    let mut world = world();
    let change = UserChange { outstation: "feeder 4".to_string(), ..change(UserOperation::Add, 5) };
    assert_eq!(ask(&mut world, change), Some(TaskOutcome::Unauthenticated(AuthError::InvalidSignature)));
    assert_eq!(changed(&world.of_outstation), None);
}

#[test]
fn methods_that_are_not_done_are_not_begun() {
    let mut world = world();
    let change = UserChange { method: KeyChangeMethod::Rsa2048Sha256, ..change(UserOperation::Add, 5) };
    assert!(world.master.change_user(world.now, change, 1).is_err());
}

#[test]
fn no_changed_byte_adds_a_user() {
    let mut clean = world();
    let before = clean.sent.len();
    clean.master.change_user(clean.now, change(UserOperation::Add, 5), 3).unwrap();
    clean.run();
    let sent = clean.sent.clone();
    for (number, one) in sent.iter().enumerate().skip(before).filter(|(_, one)| !one.to_master) {
        for byte in 0..one.bytes.len() {
            let mut world = world();
            let mut seen = before;
            world.forger = Some(Box::new(move |_, sent| {
                let mut bytes = sent.bytes.clone();
                if seen == number {
                    bytes[byte] ^= 0x10;
                }
                seen += 1;
                [bytes].to_vec()
            }));
            ask(&mut world, change(UserOperation::Add, 5));
            let what = std::format!("{} byte {byte}", one.word());
            // The headers of the fragment are not certified, and the challenge of the master only by the confirmation.
            if byte > 0 {
                assert_eq!(changed(&world.of_outstation), None, "{what}");
            } else if let Some((_, key)) = changed(&world.of_outstation) {
                assert_eq!(changed(&world.of_master).map(|(_, key)| key), Some(key), "{what}");
            }
        }
    }
}
