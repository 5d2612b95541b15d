//! What happens when all goes well, and when somebody may not.

use super::world::{World, key, long_key, quiet, user};
use crate::master::{MasterConfig, TaskOutcome};
use crate::secure::{
    AuthError, FunctionSet, KeyLimits, MacAlgorithm, MasterSecurityConfig, OutstationSecurityConfig, Role,
    SecurityEvent, Statistic,
};
use core::time::Duration;
use tieline_core::CommandMode;

const START: &str = "v4 V5 v6 V5";

#[test]
fn keys_then_a_challenge_then_aggressive_mode() {
    let mut world = World::usual();
    world.connect();
    assert_eq!(world.words(), START);
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "direct-operate V1 v2 response");
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "direct-operate+ response");
    assert_eq!(world.command(CommandMode::SelectBeforeOperate), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "select+ response operate+ response");
    assert_eq!(world.operated.len(), 3);
    let statistics = world.outstation.security().unwrap().statistics();
    assert_eq!(statistics.count(Statistic::Successes), 1 + 1 + 3);
    assert_eq!(statistics.count(Statistic::CriticalReceived), 4);
    assert_eq!(statistics.count(Statistic::UnexpectedMessages), 0);
    assert_eq!(statistics.count(Statistic::Discarded), 0);
}

#[test]
fn every_algorithm_and_both_key_lengths() {
    for algorithm in MacAlgorithm::ALL {
        for update_key in [key(1), long_key(1)] {
            let mut master = MasterSecurityConfig::new(update_key.clone());
            master.macs = MacAlgorithm::ALL.to_vec();
            let outstation = OutstationSecurityConfig { mac: *algorithm, ..OutstationSecurityConfig::default() };
            let users = [user(1, Role::SingleUser, update_key)].to_vec();
            let mut world = World::with_users(quiet(), master, outstation, users);
            world.connect();
            assert_eq!(world.operate(), Some(TaskOutcome::Done), "{algorithm:?}");
            assert_eq!(world.operate(), Some(TaskOutcome::Done), "{algorithm:?}");
            assert_eq!(world.words(), std::format!("{START} direct-operate V1 v2 response direct-operate+ response"));
        }
    }
}

#[test]
fn start_up_passes_with_challenges() {
    let master = MasterSecurityConfig { aggressive: false, ..MasterSecurityConfig::new(key(1)) };
    let users = [user(1, Role::Viewer, key(1))].to_vec();
    let mut world = World::with_users(MasterConfig::default(), master, OutstationSecurityConfig::default(), users);
    world.outstation.restart(world.now);
    world.connect();
    let words = world.words();
    assert!(words.contains("disable-unsolicited V1 v2 response read response"), "{words}");
    assert!(words.contains("write V1 v2 response") && words.contains("enable-unsolicited V1 v2 response"), "{words}");
    // A viewer may read, and no more.
    assert_eq!(world.operate(), Some(TaskOutcome::Unauthenticated(AuthError::NotAuthorized)));
    assert_eq!(world.words(), "direct-operate V1 v2 V7");
    assert!(world.operated.is_empty());
    let statistics = world.outstation.security().unwrap().statistics();
    assert_eq!(statistics.count(Statistic::AuthorizationFailures), 1);
    assert_eq!(statistics.count(Statistic::AuthenticationFailures), 0);
    // The keys are still good.
    assert_eq!(
        world.command(CommandMode::SelectBeforeOperate),
        Some(TaskOutcome::Unauthenticated(AuthError::NotAuthorized))
    );
}

#[test]
fn aggressive_mode_that_is_not_permitted_is_given_up() {
    let outstation = OutstationSecurityConfig { aggressive: false, ..OutstationSecurityConfig::default() };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    world.operate();
    world.words();
    // An operate is never sent twice: the first one fails, and the next ones are challenged again.
    assert_eq!(world.operate(), Some(TaskOutcome::Unauthenticated(AuthError::AggressiveNotPermitted)));
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.words(), "direct-operate+ V7 direct-operate V1 v2 response");
    assert_eq!(world.operated.len(), 2);
}

#[test]
fn an_algorithm_that_is_too_weak_is_refused_by_the_master() {
    let outstation = OutstationSecurityConfig { mac: MacAlgorithm::HmacSha1x4, ..OutstationSecurityConfig::default() };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    // The confirmation of the keys is not believed either.
    assert!(!world.of_master.contains(&SecurityEvent::KeysChanged { user: 1 }));
    world.pass(Duration::from_secs(5));
    assert!(world.of_master.contains(&SecurityEvent::KeyChangeFailed { user: 1 }));
    world.ask(CommandMode::DirectOperate);
    world.settle();
    assert!(world.operated.is_empty());
    assert_eq!(world.outcomes.pop(), Some(TaskOutcome::Unauthenticated(AuthError::MacNotSupported)));
}

#[test]
fn reads_may_be_critical_too() {
    let outstation = OutstationSecurityConfig { critical: FunctionSet::ALL, ..OutstationSecurityConfig::default() };
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    world.words();
    world.master.poll(world.now, crate::Classes::CLASS_0, 1).unwrap();
    world.run();
    assert_eq!(world.words(), "read V1 v2 response");
    assert_eq!(world.outcomes.pop(), Some(TaskOutcome::Done));
}

#[test]
fn a_request_that_is_not_answered_is_challenged_too() {
    let mut world = World::usual();
    world.connect();
    world.words();
    let bytes = [0xC5, 6, 12, 1, 0x17, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    world.deliver(false, &bytes);
    world.run();
    assert_eq!(world.words(), "V1");
    world.pass(Duration::from_secs(3));
    assert!(world.operated.is_empty());
    assert_eq!(world.outstation.security().unwrap().statistics().count(Statistic::ReplyTimeouts), 1);
}

#[test]
fn a_challenge_never_stalls_unsolicited_reporting() {
    let mut world = World::usual();
    world.connect();
    world.forger = Some(std::boxed::Box::new(|_, sent| {
        // The reply never arrives.
        if sent.word() == "v2" { [].to_vec() } else { [sent.bytes.clone()].to_vec() }
    }));
    world.ask(CommandMode::DirectOperate);
    world.run();
    assert!(world.outstation.security().unwrap().is_waiting());
    for state in [true, false, true] {
        world.change(state);
        world.run();
    }
    assert_eq!(world.unsolicited, 3);
    assert!(world.outstation.security().unwrap().is_waiting());
    world.settle();
    assert!(world.operated.is_empty());
}

#[test]
fn another_critical_request_waits_for_no_one() {
    let mut world = World::usual();
    world.connect();
    world.words();
    let operate = [0xC5, 5, 12, 1, 0x17, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    world.deliver(false, &operate);
    world.run();
    world.deliver(false, &operate);
    world.run();
    assert_eq!(world.words(), "V1");
    // What is not critical passes.
    world.deliver(false, &[0xC6, 1, 60, 2, 6]);
    world.run();
    assert_eq!(world.words(), "response");
    world.pass(Duration::from_secs(2));
    assert_eq!(world.operate(), Some(TaskOutcome::Done));
    assert_eq!(world.operated.len(), 1);
}

#[test]
fn a_broadcast_is_never_performed_without_proof() {
    let mut world = World::usual();
    world.connect();
    world.operate();
    world.operated.clear();
    let mut pen = crate::endpoint::Endpoint::new(crate::endpoint::EndpointConfig::new(
        crate::endpoint::Role::Master,
        crate::link::LinkAddress::new(1),
    ));
    let mut bytes = alloc::vec::Vec::new();
    let operate = [0xC5, 6, 12, 1, 0x17, 1, 2, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    pen.write_fragment(crate::link::LinkAddress::new(0xFFFF), &operate, &mut bytes);
    world.deliver_bytes(false, &bytes);
    world.run();
    assert!(world.operated.is_empty());
    assert!(!world.outstation.security().unwrap().is_waiting());
    assert_eq!(world.outstation.security().unwrap().statistics().count(Statistic::Discarded), 1);
}

#[test]
fn statistics_are_points() {
    let mut world = World::usual();
    world.connect();
    world.operate();
    world.words();
    world.sent.clear();
    world.deliver(false, &[0xC7, 1, 121, 0, 6]);
    world.run();
    let answer = world.sent.last().unwrap().bytes.clone();
    assert_eq!(answer.get(4..9), Some(&[121, 1, 0, 0, 17][..]));
    assert_eq!(answer.len(), 9 + 18 * 7);
    // Index 12, successes: the keys and the operate.
    assert_eq!(answer.get(9 + 12 * 7..9 + 13 * 7), Some(&[1, 0, 0, 2, 0, 0, 0][..]));
    world.deliver(false, &[0xC8, 1, 121, 1, 0, 13, 13]);
    world.run();
    assert_eq!(world.sent.last().unwrap().bytes.get(4..), Some(&[121, 1, 0, 13, 13, 1, 0, 0, 1, 0, 0, 0][..]));
}

#[test]
fn statistics_that_reach_their_threshold_are_events() {
    let mut outstation = OutstationSecurityConfig { association: 3, ..OutstationSecurityConfig::default() };
    outstation.thresholds.set(Statistic::SessionKeyChanges, 1);
    let mut world = World::new(MasterSecurityConfig::new(key(1)), outstation, Role::SingleUser);
    world.connect();
    let event = SecurityEvent::Statistic { statistic: Statistic::SessionKeyChanges, count: 1 };
    assert!(world.of_outstation.contains(&event));
    world.sent.clear();
    world.deliver(false, &[0xC7, 1, 122, 0, 6]);
    world.run();
    let answer = world.sent.last().unwrap().bytes.clone();
    // Asks for a confirm; index 13, online, association 3, count 1, time.
    assert_eq!(answer.first(), Some(&0xE7));
    assert_eq!(answer.get(4..16), Some(&[122, 2, 0x17, 1, 13, 1, 3, 0, 1, 0, 0, 0][..]));
    world.deliver(false, &[0xC7, 0]);
    world.deliver(false, &[0xC8, 1, 122, 0, 6]);
    world.run();
    assert_eq!(world.sent.last().unwrap().bytes.len(), 4);
}

#[test]
fn a_master_of_many_words_is_within_its_limits() {
    let limits = KeyLimits { interval: Duration::from_secs(3600), count: 3 };
    let master = MasterSecurityConfig { keys: limits, ..MasterSecurityConfig::new(key(1)) };
    let mut world = World::new(master, OutstationSecurityConfig::default(), Role::SingleUser);
    world.connect();
    for _ in 0..6 {
        assert_eq!(world.operate(), Some(TaskOutcome::Done));
    }
    assert_eq!(
        world.words(),
        std::format!(
            "{START} direct-operate V1 v2 response direct-operate+ response direct-operate+ response \
             {START} direct-operate V1 v2 response direct-operate+ response direct-operate+ response {START}"
        )
    );
}
