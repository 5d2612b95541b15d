//! Locks against a naive model, and their numbers over crashes.

extern crate std;
use super::*;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const LIMITS: LockLimits = LockLimits { name_bytes_max: 8, owner_max: 3, waiting_max: 3, total_max: 12 };
const NAMES: [&str; 4] = ["a", "b", "c", "a/b"];

#[derive(Clone, Debug)]
enum Step {
    Acquire(LockOwner, &'static str, LockScope, Option<u64>),
    Release(LockOwner, &'static str),
    EndSession(u64),
    EndConnection(u64),
    Revoke(&'static str),
    Pass(u64),
    Reserved(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let owner = || {
        let client = prop_oneof![3 => Just(""), 1 => Just("x"), 1 => Just("y")];
        (0..5_u64, client).prop_map(|(session, client)| LockOwner::new(session, client.into()))
    };
    let name = || prop::sample::select(&NAMES);
    let scope = prop_oneof![Just(LockScope::Session), Just(LockScope::Connection)];
    let wait = prop_oneof![Just(None), Just(Some(0)), (1..20_u64).prop_map(Some)];
    prop_oneof![
        8 => (owner(), name(), scope, wait).prop_map(|(owner, name, scope, wait)| Step::Acquire(owner, name, scope, wait)),
        4 => (owner(), name()).prop_map(|(owner, name)| Step::Release(owner, name)),
        1 => (0..5_u64).prop_map(Step::EndSession),
        1 => (0..5_u64).prop_map(Step::EndConnection),
        1 => name().prop_map(Step::Revoke),
        2 => (1..10_u64).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Reserved),
    ]
}

type Answers = Vec<(usize, Result<(), LockRefusal>)>;

/// One that has a lock or waits for it.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    owner: LockOwner,
    scope: LockScope,
    until: Option<u64>,
    token: usize,
    has: bool,
}

/// For each lock its places; only the first may have it.
#[derive(Debug, Default)]
struct Model {
    locks: BTreeMap<&'static str, Vec<Place>>,
    has_numbers: bool,
    ms: u64,
    answers: Answers,
}

impl Model {
    fn acquire(&mut self, (owner, name): (LockOwner, &'static str), scope: LockScope, wait: Option<u64>, token: usize) {
        let own = self.locks.values().flatten().filter(|place| place.owner == owner).count();
        let total: usize = self.locks.values().map(Vec::len).sum();
        let places = self.locks.entry(name).or_default();
        let mine = places.iter().position(|place| place.owner == owner);
        let until = wait.filter(|wait| *wait > 0).map(|wait| self.ms + wait);
        let waiting = places.iter().filter(|place| !place.has).count();
        let refusal = match mine {
            Some(0) => None,
            _ if wait == Some(0) && !places.is_empty() => Some(LockRefusal::Held),
            Some(_) => None,
            None if own >= LIMITS.owner_max => Some(LockRefusal::OwnerFull { max: LIMITS.owner_max }),
            None if waiting >= LIMITS.waiting_max => Some(LockRefusal::WaitingFull { max: LIMITS.waiting_max }),
            None if total >= LIMITS.total_max => Some(LockRefusal::Full { max: LIMITS.total_max }),
            None => None,
        };
        let place = Place { owner, scope, until, token, has: false };
        match (refusal, mine) {
            (Some(refusal), _) => self.answers.push((token, Err(refusal))),
            (None, Some(at)) if places[at].has => {
                places[at].scope = scope;
                self.answers.push((token, Ok(())));
            }
            (None, Some(at)) => {
                let before = core::mem::replace(&mut places[at], place);
                self.answers.push((before.token, Err(LockRefusal::Replaced)));
            }
            (None, None) => places.push(place),
        }
        self.grant();
    }

    fn grant(&mut self) {
        self.locks.retain(|_, places| !places.is_empty());
        for first in self.locks.values_mut().filter_map(|places| places.first_mut()) {
            if !first.has && self.has_numbers {
                first.has = true;
                self.answers.push((first.token, Ok(())));
            }
        }
    }

    fn remove(&mut self, refusal: LockRefusal, goes: impl Fn(&str, &Place) -> bool) {
        for (name, places) in &mut self.locks {
            for gone in places.extract_if(.., |place| goes(name, place)).filter(|gone| !gone.has) {
                self.answers.push((gone.token, Err(refusal)));
            }
        }
        self.grant();
    }

    fn pass(&mut self, ms: u64) {
        self.ms += ms;
        let now = self.ms;
        let is_due = move |place: &Place| place.until.is_some_and(|until| until <= now) && !place.has;
        let has_numbers = self.has_numbers;
        let refusal = if has_numbers { LockRefusal::TimedOut } else { LockRefusal::NoNumber };
        self.remove(refusal, move |_, place| is_due(place));
    }
}

struct World {
    locks: Locks<usize>,
    model: Model,
    tokens: usize,
    last: u64,
    asked: bool,
}

impl World {
    fn now(&self) -> Now {
        let since = Duration::from_millis(self.model.ms);
        Now { mono: Instant::ZERO + since, utc: Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap()) }
    }

    fn step(&mut self, step: Step) {
        let now = self.now();
        match step {
            Step::Acquire(owner, name, scope, wait) => {
                let token = self.tokens;
                self.tokens += 1;
                let asked = Acquire { name, owner: owner.clone(), scope, wait: wait.map(Duration::from_millis) };
                self.locks.acquire(now, &asked, token);
                self.model.acquire((owner, name), scope, wait, token);
            }
            Step::Release(owner, name) => {
                let knows = self.model.locks.get(name).is_some_and(|places| places.iter().any(|p| p.owner == owner));
                assert_eq!(self.locks.release(now, name, &owner, None).is_ok(), knows);
                self.model.remove(LockRefusal::GivenUp, |of, place| of == name && place.owner == owner);
            }
            Step::EndSession(session) => {
                self.locks.end_session(now, session);
                self.model.remove(LockRefusal::GivenUp, |_, place| place.owner.session == session);
            }
            Step::EndConnection(session) => {
                self.locks.end_connection(now, session);
                let ends = |place: &Place| place.owner.session == session && place.scope == LockScope::Connection;
                self.model.remove(LockRefusal::GivenUp, |_, place| ends(place));
            }
            Step::Revoke(name) => {
                self.locks.revoke(now, name);
                self.model.remove(LockRefusal::GivenUp, |of, place| of == name && place.has);
            }
            Step::Pass(ms) => {
                self.model.pass(ms);
                self.locks.handle_timeout(self.now());
            }
            Step::Reserved(is_durable) => {
                if std::mem::take(&mut self.asked) {
                    self.locks.handle_reserved(now, is_durable);
                    self.model.has_numbers |= is_durable;
                    match self.model.has_numbers {
                        true => self.model.grant(),
                        false => self.model.remove(LockRefusal::NoNumber, |_, _| true),
                    }
                }
            }
        }
        self.asked |= self.locks.poll_reservation(self.now()).is_some();
        self.compare();
    }

    fn compare(&mut self) {
        let mut found = Answers::new();
        while let Some((token, answer)) = self.locks.poll_answer() {
            let is_again = !self.model.locks.values().flatten().any(|place| place.token == token && place.has);
            if let (Ok(acquired), false) = (&answer, is_again) {
                assert!(acquired.number > self.last, "{} after {}", acquired.number, self.last);
                self.last = acquired.number;
            }
            found.push((token, answer.map(drop)));
        }
        let mut expect = std::mem::take(&mut self.model.answers);
        found.sort_by_key(|(token, _)| *token);
        expect.sort_by_key(|(token, _)| *token);
        assert_eq!(found, expect);
        let (mut held, mut waiting) = (0, 0);
        for (view, (name, places)) in self.locks.list(None).zip(&self.model.locks) {
            let holder = places.first().filter(|first| first.has);
            assert_eq!((view.name, view.owner), (*name, holder.map(|holder| &holder.owner)));
            assert_eq!(view.scope, holder.map(|holder| holder.scope));
            assert_eq!(view.waiting, places.len() - usize::from(holder.is_some()));
            held += usize::from(holder.is_some());
            waiting += view.waiting;
        }
        assert_eq!(self.locks.list(None).count(), self.model.locks.len());
        let counters = self.locks.counters();
        assert_eq!((counters.held, counters.waiting), (held, waiting));
        for place in self.model.locks.values().flatten() {
            let name = self.model.locks.iter().find(|(_, places)| places.contains(place)).map(|(name, _)| *name);
            assert_eq!(self.locks.check(&place.owner, name.unwrap(), None).is_ok(), place.has);
        }
    }
}

proptest! {
    #[test]
    fn locks_do_what_a_list_of_places_does(steps in prop::collection::vec(step(), 1..80)) {
        let mut world =
            World { locks: Locks::new(LIMITS), model: Model::default(), tokens: 0, last: 0, asked: false };
        steps.into_iter().for_each(|step| world.step(step));
        (0..5).for_each(|session| world.step(Step::EndSession(session)));
        prop_assert!(world.locks.list(None).next().is_none() && world.locks.owners.is_empty());
        prop_assert!(world.locks.timeout().is_none());
    }

    /// Nodes crash at any time, with a reservation on the disk or not, and with any clock: a number is never given out twice, and
    /// each is higher than all before it.
    #[test]
    fn numbers_grow_over_crashes(lives in prop::collection::vec((0..3000_usize, 0..100_000_i64, any::<bool>()), 1..8)) {
        let (mut durable, mut last) = (0, 0);
        for (count, ms, crashes_early) in lives {
            let now = Now { utc: Timestamp::from_micros(ms * 1000), ..Now::default() };
            let mut locks = Locks::default();
            locks.begin_after(durable);
            for _ in 0..count {
                let owner = LockOwner::new(1, "c".into());
                let asked = Acquire { name: "a", owner: owner.clone(), scope: LockScope::Session, wait: None };
                locks.acquire(now, &asked, ());
                if let Some(upto) = locks.poll_reservation(now) {
                    if crashes_early {
                        break;
                    }
                    durable = upto;
                    locks.handle_reserved(now, true);
                }
                let (_, answer) = locks.poll_answer().unwrap();
                let number = answer.unwrap().number;
                prop_assert!(number > last && number <= durable);
                last = number;
                locks.release(now, "a", &owner, Some(number)).unwrap();
            }
        }
    }
}

fn acquire(locks: &mut Locks<u8>, session: u64, name: &str, token: u8) {
    let owner = LockOwner::new(session, "c".into());
    locks.acquire(Now::default(), &Acquire { name, owner, scope: LockScope::Session, wait: None }, token);
    if locks.poll_reservation(Now::default()).is_some() {
        locks.handle_reserved(Now::default(), true);
    }
}

fn answers(locks: &mut Locks<u8>) -> Vec<(u8, LockAnswer)> {
    std::iter::from_fn(|| locks.poll_answer()).collect()
}

#[test]
fn an_old_ledger_leaves_numbers_that_grow_with_the_clock() {
    let mut locks = Locks::default();
    locks.begin_after(5000);
    let owner = LockOwner::new(1, "c".into());
    let now = Now { utc: Timestamp::from_micros(1_800_000_000_000_000), ..Now::default() };
    locks.acquire(now, &Acquire { name: "a", owner, scope: LockScope::Session, wait: None }, 1);
    assert_eq!(locks.poll_reservation(now), Some(1_800_000_001_024));
    locks.handle_reserved(now, true);
    let acquired = Acquired { name: "a".into(), number: 1_800_000_000_001, scope: LockScope::Session };
    assert_eq!(answers(&mut locks), [(1, Ok(acquired))]);
}

#[test]
fn what_is_not_held_is_said() {
    let mut locks = Locks::default();
    let [mine, other] = [1, 2].map(|session| LockOwner::new(session, "c".into()));
    acquire(&mut locks, 1, "a", 1);
    assert_eq!(locks.check(&mine, "a", Some(1)), Ok(()));
    let words = |checked: Result<(), NotHeld>| checked.unwrap_err().to_string();
    assert_eq!(words(locks.check(&other, "a", None)), "this session does not have the lock a");
    assert_eq!(words(locks.check(&mine, "b", None)), "this session does not have the lock b");
    let found = "this session has the lock a with the number 1, expected 7";
    assert_eq!(words(locks.check(&mine, "a", Some(7))), found);
    assert_eq!(words(locks.release(Now::default(), "a", &mine, Some(7))), found);
    assert!(locks.release(Now::default(), "a", &other, None).is_err());
    assert_eq!(locks.list(None).map(|view| view.number).collect::<Vec<_>>(), vec![Some(1)]);
}

#[test]
fn names_have_a_length() {
    let mut locks = Locks::new(LIMITS);
    acquire(&mut locks, 1, "", 1);
    acquire(&mut locks, 1, "123456789", 2);
    let refusal = || Err(LockRefusal::Name { max: 8 });
    assert_eq!(answers(&mut locks), [(1, refusal()), (2, refusal())]);
}
