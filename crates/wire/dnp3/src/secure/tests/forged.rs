//! Somebody on the wire: changes bytes, repeats, reorders. Nothing but what the master asked for may be performed.

use super::world::{Sent, World, latch};
use crate::app::Fragment;
use crate::secure::{Authentication, Statistic};
use alloc::vec::Vec;
use std::boxed::Box;
use tieline_core::CommandMode;

/// Keys, then a select and an operate under challenges, then both in aggressive mode.
fn play(world: &mut World) {
    world.connect();
    for mode in [CommandMode::SelectBeforeOperate, CommandMode::SelectBeforeOperate] {
        world.ask(mode);
        world.run();
        world.settle();
    }
}

/// Whether a fragment proves something, or is what something proves: with another byte it must be refused.
fn is_secured(sent: &Sent) -> bool {
    matches!(sent.word().as_str(), "V1" | "v2" | "v6" | "select" | "operate" | "select+" | "operate+")
}

#[test]
fn no_changed_byte_is_performed() {
    let mut world = World::usual();
    play(&mut world);
    assert_eq!(world.operated.len(), 2);
    let clean = world.sent.clone();
    for (number, sent) in clean.iter().enumerate() {
        for byte in 0..sent.bytes.len() {
            for mask in [0x01, 0x80, 0xFF] {
                check_flip(&clean, number, byte, mask);
            }
        }
    }
}

fn check_flip(clean: &[Sent], number: usize, byte: usize, mask: u8) {
    let mut world = World::usual();
    world.forger = Some(Box::new(move |now, sent| {
        let mut bytes = sent.bytes.clone();
        if now == number {
            bytes[byte] ^= mask;
        }
        [bytes].to_vec()
    }));
    play(&mut world);
    let what = std::format!("message {number} {} byte {byte} mask {mask:02x}", clean[number].word());
    assert!(world.operated.iter().all(|operated| *operated == (2, latch())), "{what}: {:?}", world.operated);
    assert!(world.operated.len() <= 2, "{what}");
    let sent = &clean[number];
    // The header of a reply is not part of what is proven; its function is, by what may carry a reply.
    let is_header_of_reply = sent.word() == "v2" && byte == 0;
    let operates = sent.word().starts_with("operate")
        || clean[..number].iter().rev().find(|one| one.word() != "V1").is_some_and(|one| one.word() == "operate");
    if is_secured(sent) && operates && !is_header_of_reply && sent.word() != "v6" {
        assert!(world.operated.len() < 2, "{what}: performed");
    }
}

#[test]
fn nothing_is_performed_twice() {
    let mut world = World::usual();
    play(&mut world);
    world.run();
    let (operated, sent) = (world.operated.len(), world.sent.clone());
    let now = world.now;
    for one in sent.iter().filter(|one| !one.to_master) {
        world.deliver(false, &one.bytes);
        world.run();
        world.settle();
        assert_eq!(world.operated.len(), operated, "{}", one.word());
        assert!(world.outstation.secure_mut().unwrap().has_keys(now, 1), "{}", one.word());
    }
    // Backwards, and without a pause.
    for one in sent.iter().rev().filter(|one| !one.to_master) {
        world.deliver(false, &one.bytes);
        world.run();
    }
    assert_eq!(world.operated.len(), operated);
    world.settle();
    // And the master goes on as if nothing had happened.
    world.outcomes.clear();
    world.ask(CommandMode::DirectOperate);
    world.run();
    world.settle();
    world.ask(CommandMode::DirectOperate);
    world.run();
    assert!(world.operated.len() > operated, "{:?}", world.outcomes);
}

#[test]
fn nothing_is_performed_in_another_session() {
    let mut first = World::usual();
    play(&mut first);
    // The same users and update keys, other session keys.
    let mut second = World::usual();
    second.connect();
    second.cut();
    second.connect();
    for one in first.sent.iter().filter(|one| !one.to_master) {
        second.deliver(false, &one.bytes);
        second.run();
    }
    assert!(second.operated.is_empty());
}

#[test]
fn a_repeated_challenge_is_not_answered() {
    let mut world = World::usual();
    world.forger = Some(Box::new(|_, sent| {
        let copies = if sent.word() == "V1" { 3 } else { 1 };
        core::iter::repeat_n(sent.bytes.clone(), copies).collect()
    }));
    world.connect();
    world.words();
    world.operate();
    assert_eq!(world.words(), "direct-operate V1 v2 response");
    assert_eq!(world.operated.len(), 1);
}

#[test]
fn a_forged_challenge_makes_the_master_prove_nothing_else() {
    // The forger answers every operate with a challenge of its own, and later sends the reply to the outstation.
    let mut world = World::usual();
    let mut replies: Vec<Vec<u8>> = Vec::new();
    world.forger = Some(Box::new(move |_, sent| match sent.word().as_str() {
        "V1" => {
            let mut bytes = sent.bytes.clone();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            [bytes].to_vec()
        }
        "v2" => {
            replies.push(sent.bytes.clone());
            replies.clone()
        }
        _ => [sent.bytes.clone()].to_vec(),
    }));
    play(&mut world);
    assert!(world.operated.is_empty());
    assert!(world.outstation.security().unwrap().statistics().count(Statistic::AuthenticationFailures) > 0);
}

#[test]
fn errors_of_a_forger_are_counted_and_believed_no_further_than_the_request() {
    let mut world = World::usual();
    world.connect();
    world.deliver(true, &[0xC9, 131, 0, 0, 120, 7, 0x5B, 1, 15, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    world.run();
    assert_eq!(world.master.counters().unexpected, 1);
    world.words();
    assert_eq!(world.operate(), Some(crate::master::TaskOutcome::Done));
}

#[test]
fn objects_where_they_do_not_belong_are_discarded() {
    let mut world = World::usual();
    world.connect();
    world.operate();
    let objects = [
        Authentication::Mac(&[1; 16]),
        Authentication::Signature(&[1; 16]),
        Authentication::Confirmation(&[1; 16]),
        Authentication::AggressiveRequest { sequence: 3, user: 1 },
        Authentication::UpdateKeyReply { sequence: 1, user: 1, challenge: &[0; 8] },
    ];
    world.sent.clear();
    for object in objects {
        for function in [32, 33] {
            let mut bytes = alloc::vec![0xC1, function];
            object.write(&mut bytes);
            assert!(Fragment::parse(&bytes).is_ok());
            world.deliver(false, &bytes);
            world.run();
        }
    }
    assert_eq!(world.words(), "");
    assert_eq!(world.outstation.security().unwrap().statistics().count(Statistic::UnexpectedMessages), 10);
}
