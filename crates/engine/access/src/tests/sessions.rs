use crate::{EndReason, Identity, Limits, OverRate, Policy, Reach, Refused, Role, Sessions, Stats, User, Verb};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Filter, Instant};

fn at(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn who(user: &str) -> Identity {
    Identity { user: user.into(), roles: None, expires: None, credential: 0 }
}

fn policy(rules: &[&str], users: &[&str]) -> Arc<Policy> {
    let role = Role::parse("r", rules.iter().copied()).unwrap();
    Arc::new(Policy::new([role], users.iter().map(|name| User::new(name, ["r"]))).unwrap())
}

fn ends(sessions: &mut Sessions) -> Vec<EndReason> {
    core::iter::from_fn(|| sessions.poll_end()).map(|(_, why)| why).collect()
}

#[test]
fn only_known_users_with_roles_come_in_and_no_more_than_may() {
    let limits = Limits { user_sessions_max: 2, ..Limits::default() };
    let mut sessions = Sessions::new(policy(&["allow read #"], &["anna"]), limits);
    let first = sessions.admit(at(0), who("anna"), "c1").unwrap();
    sessions.admit(at(0), who("anna"), "c2").unwrap();
    assert_eq!(sessions.admit(at(0), who("anna"), "c3"), Err(Refused::TooMany));
    sessions.leave(first);
    sessions.leave(first);
    assert!(sessions.admit(at(0), who("anna"), "c3").is_ok());
    assert_eq!(sessions.admit(at(0), who("bob"), "c"), Err(Refused::User));
    // A token may bring roles for users that are in no file.
    let token = |roles: &[&str]| Identity { roles: Some(roles.iter().map(|r| (*r).into()).collect()), ..who("eve") };
    assert!(sessions.admit(at(0), token(&["VIEWER"]), "c").is_ok());
    assert_eq!(sessions.admit(at(0), token(&["NOBODY"]), "c"), Err(Refused::NoRole));
    let over = Identity { expires: Some(at(5)), ..token(&["VIEWER"]) };
    assert_eq!(sessions.admit(at(5), over, "c"), Err(Refused::Expired));
    let expect = Stats { sessions: 3, admitted: 4, refused_sessions: 4, over_rate: 0, ended: 0 };
    assert_eq!(sessions.stats(), expect);
}

#[test]
fn changes_reach_sessions_that_are_here() {
    let mut sessions = Sessions::new(policy(&["allow read #"], &["anna", "bob"]), Limits::default());
    let anna = sessions.admit(at(0), who("anna"), "c").unwrap();
    let bob = sessions.admit(at(0), who("bob"), "c").unwrap();
    let all = Filter::new("#").unwrap();
    assert_eq!(sessions.reach(anna, &all), Reach::All);
    sessions.replace(policy(&["allow read a/#"], &["anna"]));
    assert_eq!((sessions.reach(anna, &all), sessions.reach(bob, &all)), (Reach::Some, Reach::Nothing));
    assert!(sessions.decide(anna, Verb::Read, "a/b") && !sessions.decide(bob, Verb::Read, "a/b"));
    assert_eq!(sessions.poll_end(), Some((bob, EndReason::User)));
    assert_eq!(sessions.poll_end(), None);
    // Each session ends once, however often the policy changes, and not at all when it has left.
    sessions.replace(policy(&["allow read a/#"], &[]));
    sessions.replace(policy(&["allow read a/#"], &[]));
    assert_eq!(ends(&mut sessions), [EndReason::User]);
    sessions.leave(bob);
    sessions.replace(policy(&[], &["anna"]));
    sessions.leave(anna);
    assert_eq!(ends(&mut sessions), []);
}

#[test]
fn another_credential_ends_sessions_of_the_one_before() {
    let mut sessions = Sessions::new(policy(&["allow read #"], &["anna"]), Limits::default());
    sessions.admit(at(0), who("anna"), "c").unwrap();
    let renewed = User { credential: 7, ..User::new("anna", ["VIEWER"]) };
    sessions.replace(Arc::new(Policy::new([], [renewed]).unwrap()));
    assert_eq!(ends(&mut sessions), [EndReason::Credential]);
    let disabled = User { disabled: true, credential: 7, ..User::new("anna", ["VIEWER"]) };
    let of_now = Identity { credential: 7, ..who("anna") };
    sessions.admit(at(0), of_now.clone(), "c").unwrap();
    sessions.replace(Arc::new(Policy::new([], [disabled]).unwrap()));
    assert_eq!(ends(&mut sessions), [EndReason::User]);
    assert_eq!(sessions.admit(at(0), of_now, "c"), Err(Refused::User));
}

#[test]
fn a_session_ends_with_what_it_has_shown() {
    let mut sessions = Sessions::new(policy(&["allow read #"], &["anna"]), Limits::default());
    let until = |s| Identity { expires: Some(at(s)), ..who("anna") };
    let left = sessions.admit(at(0), until(5), "c").unwrap();
    let stays = sessions.admit(at(0), until(9), "c").unwrap();
    sessions.leave(left);
    assert_eq!(sessions.timeout(), Some(at(9)));
    sessions.handle_timeout(at(8));
    assert_eq!(sessions.poll_end(), None);
    sessions.handle_timeout(at(9));
    assert_eq!(sessions.poll_end(), Some((stays, EndReason::Expired)));
    assert_eq!(sessions.timeout(), None);
    assert!(!sessions.decide(stays, Verb::Read, "a"));
}

#[test]
fn messages_and_bytes_have_rates() {
    let limits = Limits { messages_per_s: 3, bytes_per_s: 100, ..Limits::default() };
    let mut sessions = Sessions::new(policy(&["allow publish #"], &["anna"]), limits);
    let key = sessions.admit(at(0), who("anna"), "c").unwrap();
    let spent = |sessions: &mut Sessions, s, bytes| sessions.spend(at(s), key, bytes).is_ok();
    assert!(spent(&mut sessions, 0, 1) && spent(&mut sessions, 0, 1) && spent(&mut sessions, 0, 1));
    assert!(!spent(&mut sessions, 0, 1) && spent(&mut sessions, 2, 100) && !spent(&mut sessions, 2, 1));
    assert_eq!(sessions.stats().over_rate, 2);
    sessions.leave(key);
    assert_eq!(sessions.spend(at(9), key, 1), Err(OverRate));
}
