//! Locks of an upstream that clients of this edge have or wait for (docs/locks.md).
//!
//! The upstream decides who has a lock, and knows nothing of the sessions here: all that this node asks for ends with its own session
//! there. So this node gives back what its clients' sessions and connections leave behind, and tells clients of the locks that are
//! lost with the link. It never says that a client has a lock: only the upstream does.
//!
//! ```text
//!  acquire ──▶ asked ──acquired──▶ held ──release, end of the session──▶ owed ──answer──▶ (none)
//!                └──refused, link lost──▶ (none)   └──link lost: "lost"──▶ (none)
//! ```

use super::control::Callback;
use super::locks::{LockRequest, LockSeen, REQUEST_PREFIX, refusal, word_of};
use super::questions::{QuestionAnswer, Unanswered, answered_as};
use super::reasons;
use super::state::Bus;
use super::upward::{Ticket, UpwardRefusal, speak_for_session};
use crate::config::TopicPrefix;
use crate::edge::RELEASE_TOPIC;
use bytes::Bytes;
use serde_json::{Value as Json, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tieline_core::{Instant, Now, Timestamp, Topic};
use tieline_mqtt::{Message, Qos, ReasonCode};
use tieline_topics::{LockOwner, LockScope};

/// Requests that wait and locks that are held, of one upstream.
const REQUESTS_MAX: usize = 16_384;
/// Bytes of the name of a session of an edge of an edge: some ten edges.
pub const SESSION_BYTES_MAX: usize = 256;
/// How soon a lock is given back again, where there was no room for that, and where the upstream refused it.
const NO_ROOM: Duration = Duration::from_millis(5);
const REFUSED: Duration = Duration::from_secs(1);

/// Who asks for a lock.
#[derive(Clone, Debug)]
pub struct LockAsker {
    /// Its session here.
    pub owner: LockOwner,
    /// Its user; none where nobody has to show who it is.
    pub user: Option<String>,
}

impl LockAsker {
    /// What tells its session from all others of this node, at the upstream.
    fn session(&self) -> String {
        let LockOwner { session, within, client, via } = &self.owner;
        match via {
            None => session.to_string(),
            Some(_) if within.is_empty() => format!("{session}/{client}"),
            Some(_) => format!("{session}/{within}"),
        }
    }

    /// A message of it, as the upstream has to know it.
    pub fn speak(&self, message: &mut Message) {
        speak_for_session(message, self.user.as_deref(), &self.owner.client, &self.session());
    }
}

/// A request on its way, or the lock that it has got.
struct Asked {
    asker: LockAsker,
    name: Topic,
    scope: LockScope,
    /// What is done with the answer; none once it is there.
    answer: Option<Callback<String>>,
    /// What is done when the lock is lost with the link.
    lost: Callback<String>,
    /// The number of the acquisition, and when it was made.
    held: Option<(u64, Timestamp)>,
}

/// A session, or a connection, and the lock that it asks for.
type LockKey = (LockOwner, Topic);

/// A lock that is to be given back.
#[derive(Debug)]
struct Owed {
    asker: LockAsker,
    name: Topic,
    due: Instant,
    /// The request that does it, where it is on its way.
    request: Option<u64>,
}

/// Locks of one upstream.
#[derive(Default)]
pub(super) struct LocksAbove {
    /// By the number of the request.
    asked: BTreeMap<u64, Asked>,
    /// The requests of each session for each lock, in their order. One of them at most has it, the others wait for their answers.
    requests: BTreeMap<LockKey, Vec<u64>>,
    owed: Vec<Owed>,
    lost: u64,
}

impl std::fmt::Debug for LocksAbove {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocksAbove").field("asked", &self.asked.len()).field("owed", &self.owed).finish_non_exhaustive()
    }
}

impl LocksAbove {
    /// Locks that are held, requests that wait, and locks that were lost with the link.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        let held = self.asked.values().filter(|asked| asked.held.is_some()).count();
        (held, self.asked.len() - held, self.lost)
    }

    /// When a lock is to be given back.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.owed.iter().filter(|owed| owed.request.is_none()).map(|owed| owed.due).min()
    }

    fn add(&mut self, number: u64, asked: Asked) {
        let key = key_of(&asked);
        // Asked for again, it is not left behind by the end before.
        self.owed.retain(|owed| owed.request.is_some() || (&owed.asker.owner, &owed.name) != (&key.0, &key.1));
        self.requests.entry(key).or_default().push(number);
        self.asked.insert(number, asked);
    }

    /// A session has a lock by this request, and by none before; what is done with the answer.
    fn acquired(&mut self, number: u64, acquisition: Option<(u64, Timestamp)>) -> Option<Callback<String>> {
        let asked = self.asked.get_mut(&number)?;
        asked.held = acquisition;
        let (answer, key) = (asked.answer.take(), key_of(asked));
        self.forget_held(&key, number);
        answer
    }

    fn remove(&mut self, number: u64) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        let key = key_of(&asked);
        if let Some(requests) = self.requests.get_mut(&key) {
            requests.retain(|other| *other != number);
            if requests.is_empty() {
                self.requests.remove(&key);
            }
        }
        Some(asked)
    }

    /// A session does not have a lock by any request before this one.
    fn forget_held(&mut self, key: &LockKey, request: u64) {
        let all = self.requests.get(key).into_iter().flatten().copied().filter(|number| *number < request);
        let held = all.filter(|number| self.asked.get(number).is_some_and(|asked| asked.held.is_some()));
        for number in held.collect::<Vec<_>>() {
            self.remove(number);
        }
    }

    /// The locks of a session that its last request wants for a scope.
    fn of_session(&self, session: u64, ends: impl Fn(LockScope) -> bool) -> Vec<LockKey> {
        let first = Topic::new("0").ok().map(|least| (LockOwner::first_of(session), least));
        let own = first.map(|first| self.requests.range(first..)).into_iter().flatten();
        let own = own.take_while(|((owner, _), _)| owner.session == session);
        let last = |requests: &[u64]| requests.last().and_then(|number| self.asked.get(number));
        own.filter(|(_, requests)| last(requests).is_some_and(|asked| ends(asked.scope)))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Ends all requests for these locks, which are to be given back; in the order of the requests.
    fn end(&mut self, now: Now, keys: impl IntoIterator<Item = LockKey>) -> Vec<Asked> {
        let mut all = BTreeMap::new();
        for key in keys {
            let numbers = self.requests.remove(&key).unwrap_or_default();
            let ended = numbers.into_iter().filter_map(|number| Some((number, self.asked.remove(&number)?)));
            let ended: Vec<(u64, Asked)> = ended.collect();
            if let Some((_, asked)) = ended.first() {
                let asker = asked.asker.clone();
                self.owed.push(Owed { asker, name: key.1, due: now.mono, request: None });
            }
            all.extend(ended);
        }
        all.into_values().collect()
    }
}

fn key_of(asked: &Asked) -> LockKey {
    (asked.asker.owner.clone(), asked.name.clone())
}

/// The message of a request.
fn message_of(now: Now, verb: &str, body: &Json, (asker, number): (&LockAsker, u64)) -> Option<Message> {
    let topic = Topic::new(&format!("{REQUEST_PREFIX}{verb}")).ok()?;
    let payload = body.to_string().into();
    let mut message = Message { topic, payload, properties: answered_as(number), received: now.mono };
    asker.speak(&mut message);
    Some(message)
}

fn wait_text(wait: Duration) -> String {
    if wait.is_zero() { "0s".to_owned() } else { format!("{}ms", wait.as_millis()) }
}

/// The word for a request that the upstream did not take.
const fn word_for(reason: ReasonCode) -> &'static str {
    if matches!(reason, ReasonCode::NotAuthorized) { "denied" } else { "away" }
}

/// An answer with the name that the lock has here.
fn shown_here(prefix: &TopicPrefix, payload: &Bytes) -> (Json, String) {
    let mut answer: Json = serde_json::from_slice(payload).unwrap_or_default();
    if let (Some(Json::String(name)), false) = (answer.get_mut("lock"), prefix.is_empty()) {
        *name = format!("{}{name}", prefix.as_str());
    }
    let text = answer.to_string();
    (answer, text)
}

impl Bus {
    /// Sends a request for a lock to its upstream. `lost` hears when the lock is lost with the link.
    pub fn lock_above(
        &mut self,
        now: Now,
        up: usize,
        (request, asker): (&LockRequest, LockAsker),
        (answer, lost): (Callback<String>, Callback<String>),
    ) {
        let Some(mirror) = self.mirrors.get(up) else { return };
        let Some(there) = mirror.prefix.there(request.name()).map(str::to_owned) else { return };
        if asker.session().len() > SESSION_BYTES_MAX {
            return answer(self, refusal("limit", reasons::LOCK_FAR));
        }
        match request {
            LockRequest::Acquire { name, scope, wait } => {
                if mirror.locks.asked.len() >= REQUESTS_MAX {
                    return answer(self, refusal("limit", reasons::LOCKS_ABOVE));
                }
                let mut body = json!({ "lock": there, "scope": word_of(*scope) });
                if let Some(wait) = wait {
                    body["wait"] = wait_text(*wait).into();
                }
                let sent = self.send_lock(now, up, ("acquire", &body), (&asker, Ticket::Lock));
                match (sent, self.mirrors.get_mut(up)) {
                    (Ok(number), Some(mirror)) => {
                        let answer = Some(answer);
                        let asked = Asked { asker, name: name.clone(), scope: *scope, answer, lost, held: None };
                        mirror.locks.add(number, asked);
                    }
                    (Ok(_), None) => {}
                    (Err((reason, words)), _) => answer(self, refusal(word_for(reason), &words)),
                }
            }
            LockRequest::Release { name, number } => {
                let mut body = json!({ "lock": there });
                if let Some(number) = number {
                    body["number"] = (*number).into();
                }
                let key = (asker.owner.clone(), name.clone());
                match self.send_lock(now, up, ("release", &body), (&asker, Ticket::Question)) {
                    Ok(request) => self.await_release(now, (up, request), (key, *number), answer),
                    Err((reason, words)) => answer(self, refusal(word_for(reason), &words)),
                }
            }
        }
    }

    fn send_lock(
        &mut self,
        now: Now,
        up: usize,
        (verb, body): (&str, &Json),
        (asker, ticket): (&LockAsker, Ticket),
    ) -> Result<u64, UpwardRefusal> {
        let away = || (ReasonCode::ImplementationSpecificError, reasons::LOCK_AWAY.to_owned());
        // What is to be given back goes first.
        self.give_back_locks(now, up);
        let mirror = self.mirrors.get(up).filter(|mirror| mirror.is_up()).ok_or_else(away)?;
        let number = mirror.tickets.last + 1;
        let message = message_of(now, verb, body, (asker, number)).ok_or_else(away)?;
        self.work.notify_one();
        self.hand_up(up, (message, Qos::AtLeastOnce, false), ticket)
    }

    /// The answer to a client's release: what it had before is no longer its.
    fn await_release(
        &mut self,
        now: Now,
        (up, request): (usize, u64),
        (key, number): (LockKey, Option<u64>),
        answer: Callback<String>,
    ) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let prefix = mirror.prefix.clone();
        let answered: QuestionAnswer = Box::new(move |bus, answered: Result<Bytes, Unanswered>| {
            let text = match answered {
                Ok(payload) => {
                    let (said, text) = shown_here(&prefix, &payload);
                    let is_over = said["status"] == "released" || (said["reason"] == "not_held" && number.is_none());
                    if let Some(mirror) = bus.mirrors.get_mut(up).filter(|_| is_over) {
                        mirror.locks.forget_held(&key, request);
                    }
                    text
                }
                Err(Unanswered { refusal: (reason, words), .. }) => refusal(word_for(reason), &words),
            };
            answer(bus, text);
        });
        mirror.questions.wait(now, request, answered);
    }

    /// The upstream has answered a request, or says that a lock is lost; false where it is no request for a lock.
    pub(super) fn lock_answered(&mut self, now: Now, (up, number): (usize, u64), payload: &Bytes) -> bool {
        let Some(mirror) = self.mirrors.get_mut(up) else { return false };
        if let Some(at) = mirror.locks.owed.iter().position(|owed| owed.request == Some(number)) {
            mirror.locks.owed.swap_remove(at);
            return true;
        }
        let (said, text) = match mirror.locks.asked.contains_key(&number) {
            true => shown_here(&mirror.prefix, payload),
            false => return false,
        };
        if said["status"] == "acquired" {
            let acquisition = said["number"].as_u64().map(|number| (number, now.utc));
            if let Some(answer) = mirror.locks.acquired(number, acquisition) {
                answer(self, text);
            }
            return true;
        }
        let Some(Asked { answer, lost, held, .. }) = mirror.locks.remove(number) else { return true };
        mirror.locks.lost += u64::from(held.is_some());
        match answer {
            Some(answer) => answer(self, text),
            // The way from the upstream to its upstream was lost.
            None => lost(self, text),
        }
        true
    }

    /// The upstream has not taken a request, or it did not get there.
    pub(super) fn lock_not_asked(&mut self, (up, number): (usize, u64), reason: ReasonCode, words: String) {
        let now = self.now();
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let locks = &mut mirror.locks;
        if let Some(at) = locks.owed.iter().position(|owed| owed.request == Some(number)) {
            let owed = locks.owed.swap_remove(at);
            // One that has asked again since keeps it.
            if !locks.requests.contains_key(&(owed.asker.owner.clone(), owed.name.clone())) {
                locks.owed.push(Owed { due: now.mono + REFUSED, request: None, ..owed });
            }
            return;
        }
        if let Some(Asked { answer: Some(answer), .. }) = locks.remove(number) {
            answer(self, refusal(word_for(reason), &words));
        }
    }

    /// A session here has ended, or its connection: what it had or waited for is given back.
    pub(super) fn end_locks_above(&mut self, session: u64, ends: impl Fn(LockScope) -> bool) {
        let now = self.now();
        for up in self.upstreams() {
            let Some(mirror) = self.mirrors.get_mut(up) else { return };
            let ended = mirror.locks.of_session(session, &ends);
            if ended.is_empty() {
                continue;
            }
            let ended = mirror.locks.end(now, ended);
            for answer in ended.into_iter().filter_map(|asked| asked.answer) {
                let given_up = tieline_topics::LockRefusal::GivenUp;
                answer(self, refusal(given_up.word(), &given_up.to_string()));
            }
            self.work.notify_one();
        }
    }

    /// An operator takes a lock away from a client of this node; false where none has it.
    pub(super) fn revoke_lock_above(&mut self, now: Now, up: usize, name: &str) -> bool {
        let Some(mirror) = self.mirrors.get_mut(up) else { return false };
        let held = mirror.locks.asked.values().filter(|asked| *asked.name == *name && asked.held.is_some());
        let holders: BTreeSet<LockKey> = held.map(key_of).collect();
        let is_held = !holders.is_empty();
        // A holder that has asked again would keep the lock by that request: all end.
        let revoked = mirror.locks.end(now, holders);
        for answer in revoked.into_iter().filter_map(|asked| asked.answer) {
            answer(self, refusal(tieline_topics::LockRefusal::GivenUp.word(), reasons::LOCK_REVOKED));
        }
        self.work.notify_one();
        is_held
    }

    /// The link is lost, and the session at the upstream with it; or the upstreams form a circle: then all is given back.
    pub(super) fn lose_locks(&mut self, now: Now, up: usize, is_connected: bool) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let all: Vec<LockKey> = mirror.locks.requests.keys().cloned().collect();
        let ended = mirror.locks.end(now, all);
        mirror.locks.lost += ended.iter().filter(|asked| asked.held.is_some()).count() as u64;
        if !is_connected {
            mirror.locks.owed.clear();
        }
        for Asked { name, answer, lost, held, .. } in ended {
            match answer {
                Some(answer) => answer(self, refusal("away", reasons::LOCK_AWAY)),
                None => {
                    let number = held.map(|(number, _)| number);
                    let (status, reason, detail) = ("lost", "away", reasons::LOCK_LOST);
                    let text = json!({
                        "status": status, "lock": &*name, "number": number, "reason": reason, "detail": detail
                    });
                    lost(self, text.to_string());
                }
            }
        }
    }

    /// Gives back what is owed and due.
    pub(super) fn give_back_locks(&mut self, now: Now, up: usize) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        let mut owed = std::mem::take(&mut mirror.locks.owed);
        for owed in owed.iter_mut().filter(|owed| owed.request.is_none() && owed.due <= now.mono) {
            owed.due = now.mono + NO_ROOM;
            let Some(mirror) = self.mirrors.get(up) else { break };
            let number = mirror.tickets.last + 1;
            let body = mirror.prefix.there(&owed.name).map(|there| json!({ "lock": there }));
            let verb = RELEASE_TOPIC.strip_prefix(REQUEST_PREFIX).unwrap_or_default();
            let message = body.and_then(|body| message_of(now, verb, &body, (&owed.asker, number)));
            let Some(message) = message else { continue };
            owed.request = self.hand_up(up, (message, Qos::AtLeastOnce, false), Ticket::Lock).ok();
        }
        if let Some(mirror) = self.mirrors.get_mut(up) {
            mirror.locks.owed = owed;
        }
    }

    /// The locks of upstreams that clients of this node have or wait for, behind a name.
    pub(super) fn list_locks_above(&self, after: Option<&str>) -> impl Iterator<Item = LockSeen> {
        let mut seen = BTreeMap::<&str, LockSeen>::new();
        let all = self.mirrors.iter().flat_map(|mirror| mirror.locks.asked.values().map(move |asked| (mirror, asked)));
        for (mirror, asked) in all.filter(|(_, asked)| after.is_none_or(|after| *asked.name > *after)) {
            let lock = seen.entry(&asked.name).or_insert_with(|| LockSeen {
                name: asked.name.to_string(),
                upstream: Some(mirror.name().to_owned()),
                ..LockSeen::default()
            });
            match asked.held {
                Some((number, since)) => lock.hold(&asked.asker.owner, asked.scope, number, since),
                None => lock.waiting += 1,
            }
        }
        seen.into_values()
    }
}
