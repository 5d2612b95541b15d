//! Session keys: when they change, when they end, and what happens to requests in between.

use super::world::{World, key};
use crate::master::TaskOutcome;
use crate::secure::{
    AuthError, KeyLimits, MasterSecurityConfig, OutstationSecurityConfig, Role, SecurityEvent, Statistic,
};
use core::time::Duration;
use tieline_core::CommandMode;

fn count(world: &World, statistic: Statistic) -> u32 {
    world.outstation.security().unwrap().statistics().count(statistic)
}

#[test]
fn keys_change_by_time() {
    let limits = KeyLimits { interval: Duration::from_secs(10), count: 1000 };
    let master = MasterSecurityConfig { keys: limits, ..MasterSecurityConfig::new(key(1)) };
    let mut world = World::new(master, OutstationSecurityConfig::default(), Role::SingleUser);
    world.connect();
    assert_eq!(count(&world, Statistic::SessionKeyChanges), 1);
    world.pass(Duration::from_secs(9));
    assert_eq!(count(&world, Statistic::SessionKeyChanges), 1);
    world.pass(Duration::from_secs(1));
    assert_eq!(count(&world, Statistic::SessionKeyChanges), 2);
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
}

#[test]
fn a_key_change_in_the_middle_of_a_command() {
    // The select uses the keys up. The operate must follow it under the next sequence number: the change waits.
    let limits = KeyLimits { interval: Duration::from_secs(3600), count: 1 };
    let master = MasterSecurityConfig { keys: limits, ..MasterSecurityConfig::new(key(1)) };
    let mut world = World::new(master, OutstationSecurityConfig::default(), Role::SingleUser);
    world.connect();
    world.words();
    assert_eq!(world.command(CommandMode::SelectBeforeOperate), Some(TaskOutcome::Done));
    let words = world.words();
    assert_eq!(words, "select V1 v2 response operate+ response v4 V5 v6 V5");
    assert_eq!(world.operated.len(), 1);
}

#[test]
fn keys_that_ended_in_the_outstation_are_changed_and_nothing_is_performed() {
    let limits = KeyLimits { interval: Duration::from_secs(10), count: 1000 };
    let outstation = OutstationSecurityConfig { keys: limits, ..OutstationSecurityConfig::default() };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    world.pass(Duration::from_secs(11));
    world.words();
    assert_eq!(world.operate(), Some(TaskOutcome::Unauthenticated(AuthError::AuthenticationFailed)));
    assert!(world.operated.is_empty());
    assert_eq!(world.words(), "direct-operate V1 v2 V7 v4 V5 v6 V5");
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.operated.len(), 1);
    assert_eq!(world.master.security().unwrap().statistics().count(Statistic::RekeysAfterFailure), 1);
}

#[test]
fn a_wrong_update_key_never_operates() {
    let mut world =
        World::new(MasterSecurityConfig::new(key(9)), OutstationSecurityConfig::default(), Role::SingleUser);
    world.connect();
    assert_eq!(world.words(), "v4 V5 v6 V7");
    assert_eq!(world.operate(), Some(TaskOutcome::Unauthenticated(AuthError::AuthenticationFailed)));
    world.settle();
    assert!(world.operated.is_empty());
    assert!(count(&world, Statistic::SessionKeyFailures) > 1);
    assert!(count(&world, Statistic::ErrorsSent) <= 2, "errors are few");
    assert!(world.of_master.contains(&SecurityEvent::KeyChangeFailed { user: 1 }));
    assert!(!world.of_outstation.contains(&SecurityEvent::KeysChanged { user: 1 }));
}

#[test]
fn an_unknown_user_never_operates() {
    let master = MasterSecurityConfig { user: 5, ..MasterSecurityConfig::new(key(1)) };
    let mut world = World::new(master, OutstationSecurityConfig::default(), Role::SingleUser);
    world.connect();
    assert_eq!(world.words(), "v4 V7");
    world.ask(CommandMode::DirectOperate);
    world.settle();
    assert!(world.operated.is_empty());
}

#[test]
fn a_connection_that_ends_takes_the_keys_along() {
    let mut world = World::usual();
    world.connect();
    world.operate();
    world.cut();
    let now = world.now;
    assert!(!world.master.secure_mut().unwrap().has_keys(now));
    world.words();
    world.connect();
    assert_eq!(world.words(), "v4 V5 v6 V5");
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "direct-operate V1 v2 response");
}

#[test]
fn a_restart_of_the_outstation_takes_the_keys_along() {
    let mut world = World::usual();
    world.connect();
    // The first time it is the start of the master: its indications are its first.
    world.deliver(false, &[0xC2, 1, 60, 2, 6]);
    world.run();
    world.operate();
    world.outstation.restart(world.now);
    world.words();
    // It announces itself, and the master changes keys before anything else.
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    let words = world.words();
    assert!(words.contains("v4 V5 v6 V5") && words.contains("direct-operate V1 v2 response"), "{words}");
    assert_eq!(world.master.security().unwrap().statistics().count(Statistic::RekeysAfterRestart), 1);
}

#[test]
fn too_many_failures_end_the_keys() {
    let outstation = OutstationSecurityConfig { failures_max: 3, ..OutstationSecurityConfig::default() };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    for round in 0..3 {
        world.sent.clear();
        world.deliver(false, &[0xC5, 13]);
        world.run();
        let challenge = world.sent.last().unwrap().bytes.clone();
        let mut reply = [0xC5, 32, 120, 2, 0x5B, 1, 22, 0].to_vec();
        reply.extend_from_slice(&challenge[10..14]);
        reply.extend_from_slice(&[1, 0]);
        reply.extend_from_slice(&[round; 16]);
        world.deliver(false, &reply);
        world.run();
    }
    assert_eq!(count(&world, Statistic::AuthenticationFailures), 3);
    assert_eq!(count(&world, Statistic::ErrorsSent), 2);
    assert!(world.of_outstation.contains(&SecurityEvent::KeysLost { user: 1 }));
    // Nobody tells the master any more: it learns it the hard way, once.
    world.ask(CommandMode::DirectOperate);
    world.settle();
    assert_eq!(world.outcomes.pop(), Some(TaskOutcome::Timeout { maybe_operated: true }));
    assert!(world.operated.is_empty());
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
}

#[test]
fn key_status_requests_in_a_flood_are_few_answered() {
    let mut world = World::usual();
    world.connect();
    world.words();
    for _ in 0..50 {
        world.deliver(false, &[0xC5, 32, 120, 4, 7, 1, 1, 0]);
        world.run();
    }
    let words = world.words();
    assert_eq!(words.matches("V5").count(), 5);
    assert_eq!(words.matches("V7").count(), 2);
    // A master that comes later is served.
    world.pass(Duration::from_secs(2));
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
}

#[test]
fn a_lost_message_of_a_key_change_is_made_good() {
    for lost in 0..4 {
        let mut world = World::usual();
        let mut number = 0;
        world.forger = Some(std::boxed::Box::new(move |_, sent| {
            let is_security = sent.word().to_lowercase().starts_with('v');
            number += usize::from(is_security);
            if is_security && number == lost + 1 { [].to_vec() } else { [sent.bytes.clone()].to_vec() }
        }));
        world.connect();
        world.settle();
        assert_eq!(world.operate(), Some(TaskOutcome::Done), "message {lost} lost");
    }
}
