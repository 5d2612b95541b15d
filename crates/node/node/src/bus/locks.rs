//! Locks of sessions on the bus: requests of clients, their answers, and the numbers that the ledger keeps (docs/locks.md).
//!
//! The bus orders all messages of a node, so it owns the locks, too: whether a session has a lock is checked in the same step in
//! which its message is applied.

use super::conditions::LockCondition;
use super::control::Callback;
use super::ledger::PendingAck;
use super::state::Bus;
use crate::control::audit::AuditLine;
use crate::control::command::CommandResult;
use serde::Deserialize;
use serde_json::json;
use std::fmt;
use std::time::Duration;
use tieline_core::{Now, Timestamp, Topic};
use tieline_ledger::Record;
use tieline_service::parse::parse_duration;
use tieline_topics::{Acquire, Acquired, LockAnswer, LockCounters, LockOwner, LockScope, Locks, NotHeld};

/// Requests are published to topics that begin so. With the name of a lock behind it, it is what a client has the right to
/// publish to that may use the lock.
pub const REQUEST_PREFIX: &str = "$locks/";

/// What is said of a request that is none.
pub const NO_REQUEST: &str = "no such request: expected acquire or release";

/// What is done with the answer to a request.
pub struct LockAnswerer(Callback<String>);

impl fmt::Debug for LockAnswerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockAnswerer")
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AcquireBody {
    lock: String,
    #[serde(default)]
    scope: Scope,
    wait: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Scope {
    #[default]
    Session,
    Connection,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReleaseBody {
    lock: String,
    number: Option<u64>,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockRequest {
    /// To have a lock.
    Acquire {
        /// Its name.
        name: Topic,
        /// What ends it.
        scope: LockScope,
        /// How long the client waits; none: as long as its scope lasts.
        wait: Option<Duration>,
    },
    /// To have it no longer, or not to wait for it.
    Release {
        /// Its name.
        name: Topic,
        /// The acquisition that ends; none where any does.
        number: Option<u64>,
    },
}

impl LockRequest {
    /// Reads a request; none where there is none of that name.
    #[must_use]
    pub fn read(verb: &str, payload: &[u8]) -> Option<Result<Self, String>> {
        match verb {
            "acquire" => Some(read_acquire(payload)),
            "release" => Some(read_release(payload)),
            _ => None,
        }
    }

    /// The name of the lock.
    #[must_use]
    pub const fn name(&self) -> &Topic {
        match self {
            Self::Acquire { name, .. } | Self::Release { name, .. } => name,
        }
    }

    /// Where the client must have the right to publish: what it has, it may always release.
    #[must_use]
    pub fn right(&self) -> Option<String> {
        matches!(self, Self::Acquire { .. }).then(|| right(self.name()))
    }
}

/// Where a client that may use a lock has the right to publish.
#[must_use]
pub fn right(name: &str) -> String {
    format!("{REQUEST_PREFIX}{name}")
}

fn read_acquire(payload: &[u8]) -> Result<LockRequest, String> {
    let AcquireBody { lock, scope, wait } = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    let wrong = |text: &str| format!("wait is {text:?}, expected a duration as in \"30s\", or \"0s\" not to wait");
    let wait = wait.map(|text| parse_duration(&text).ok_or_else(|| wrong(&text))).transpose()?;
    let scope = match scope {
        Scope::Session => LockScope::Session,
        Scope::Connection => LockScope::Connection,
    };
    Ok(LockRequest::Acquire { name: name_of(&lock)?, scope, wait })
}

fn read_release(payload: &[u8]) -> Result<LockRequest, String> {
    let ReleaseBody { lock, number } = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
    Ok(LockRequest::Release { name: name_of(&lock)?, number })
}

/// Locks are named as topics, so that rules of access select them as topics.
fn name_of(text: &str) -> Result<Topic, String> {
    let name = Topic::new(text).ok().filter(|name| !name.starts_with('$'));
    name.ok_or_else(|| format!("lock is {text:?}, expected a name like a topic, without +, # and a $ at its beginning"))
}

pub(super) const fn word_of(scope: LockScope) -> &'static str {
    match scope {
        LockScope::Session => "session",
        LockScope::Connection => "connection",
    }
}

fn answer_of(answer: LockAnswer) -> String {
    match answer {
        Ok(Acquired { name, number, scope }) => {
            json!({ "status": "acquired", "lock": &*name, "number": number, "scope": word_of(scope) }).to_string()
        }
        Err(refusal) => refused(refusal.word(), refusal.to_string()),
    }
}

fn refused(reason: &'static str, detail: String) -> String {
    CommandResult::refused(None, &tieline_core::Refusal::new(reason, detail)).to_string()
}

/// A lock as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockSeen {
    /// Its name.
    pub name: String,
    /// The client that has it; none while the number of the acquisition is written to the disk.
    pub client: Option<String>,
    /// The session of the edge by which it has it, where it is no client of this node.
    pub via: Option<String>,
    /// The upstream whose lock it is; none where it is this node's own.
    pub upstream: Option<String>,
    /// What ends it.
    pub scope: Option<&'static str>,
    /// The number of the acquisition.
    pub number: Option<u64>,
    /// When it was acquired.
    pub since: Option<Timestamp>,
    /// How many wait for it.
    pub waiting: usize,
}

impl LockSeen {
    /// One has it.
    pub(super) fn hold(&mut self, owner: &LockOwner, scope: LockScope, number: u64, since: Timestamp) {
        (self.client, self.via) = (Some(owner.client.to_string()), owner.via.as_deref().map(str::to_owned));
        (self.scope, self.number, self.since) = (Some(word_of(scope)), Some(number), Some(since));
    }
}

impl Bus {
    /// Carries out a request for a lock. The answer to one that waits comes when it has the lock.
    pub fn lock(&mut self, now: Now, request: &LockRequest, owner: LockOwner, answer: Callback<String>) {
        match request {
            LockRequest::Acquire { name, scope, wait } => {
                let asked = Acquire { name, owner, scope: *scope, wait: *wait };
                self.locks.acquire(now, &asked, LockAnswerer(answer));
            }
            LockRequest::Release { name, number } => {
                let text = match self.locks.release(now, name, &owner, *number) {
                    Ok(()) => json!({ "status": "released", "lock": &**name }).to_string(),
                    Err(not_held) => refused("not_held", not_held.to_string()),
                };
                answer(self, text);
            }
        }
        self.work.notify_one();
    }

    /// Whether a session has all locks that a message names.
    ///
    /// # Errors
    /// It lacks one, which was counted.
    pub fn check_locks(&mut self, owner: &LockOwner, conditions: &[LockCondition]) -> Result<(), NotHeld> {
        let mut checked = conditions.iter().map(|lock| self.locks.check(owner, &lock.name, lock.number));
        let unmet = checked.find(Result::is_err).unwrap_or(Ok(()));
        unmet.inspect_err(|_| self.counters.unmet += 1)
    }

    /// A session has ended: its locks go to the sessions that wait.
    pub(super) fn end_locks_of_session(&mut self, number: u64) {
        // Few sessions have any: nothing is woken for the others.
        if !self.locks.is_empty() && self.locks.end_session(self.shard.now(), number) {
            self.work.notify_one();
        }
        self.end_locks_above(number, |_| true);
    }

    /// A session has lost its connection, or has another one: the same of the locks of the connection.
    pub(super) fn end_locks_of_connection(&mut self, number: u64) {
        if !self.locks.is_empty() && self.locks.end_connection(self.shard.now(), number) {
            self.work.notify_one();
        }
        self.end_locks_above(number, |scope| scope == LockScope::Connection);
    }

    /// Takes a lock away from the session that has it; false where none has. `line` says who does.
    pub fn revoke_lock(&mut self, now: Now, name: &str, line: AuditLine) -> bool {
        let is_held = match self.upstream_of_lock(name) {
            Some(up) => self.revoke_lock_above(now, up, name),
            None => self.locks.revoke(now, name),
        };
        if is_held {
            self.commands.note(line);
            self.work.notify_one();
        }
        is_held
    }

    /// Refuses what has waited for its time, asks for numbers, and gives answers.
    pub(super) fn finish_locks(&mut self, now: Now) {
        self.locks.handle_timeout(now);
        while self.reserve_lock_numbers(now) {}
        while let Some((LockAnswerer(answer), result)) = self.locks.poll_answer() {
            answer(self, answer_of(result));
        }
    }

    /// Writes which numbers will be given out next, where some are wanted; true where there is more to do.
    fn reserve_lock_numbers(&mut self, now: Now) -> bool {
        let Some(upto) = self.locks.poll_reservation(now) else { return false };
        if !self.ledger.batches.is_on() {
            self.locks.handle_reserved(now, true);
            return true;
        }
        self.ledger.batches.write(now, &Record::LockNumbers(upto));
        let number = self.ledger.batches.batch_number();
        self.ack(now, number, PendingAck::LockNumbers);
        false
    }

    /// Numbers of locks are reserved on the disk, or cannot be.
    pub(super) fn handle_lock_numbers(&mut self, now: Now, is_durable: bool) {
        self.locks.handle_reserved(now, is_durable);
        self.work.notify_one();
    }

    /// Writes again which numbers may have been given out.
    pub(super) fn write_lock_numbers(&mut self, now: Now) {
        let reserved = self.locks.reserved();
        if reserved > 0 {
            self.ledger.batches.write(now, &Record::LockNumbers(reserved));
        }
    }

    /// What became of requests for locks.
    #[must_use]
    pub const fn lock_counters(&self) -> LockCounters {
        Locks::counters(&self.locks)
    }

    /// Locks by name, those behind a name, at most so many: of this node, and those of upstreams that clients of this node have.
    #[must_use]
    pub fn list_locks(&self, after: Option<&str>, limit: usize) -> Vec<LockSeen> {
        let own = self.locks.list(after).take(limit).map(|view| LockSeen {
            name: view.name.to_owned(),
            client: view.owner.map(|owner| owner.client.to_string()),
            via: view.owner.and_then(|owner| owner.via.as_deref()).map(str::to_owned),
            upstream: None,
            scope: view.scope.map(word_of),
            number: view.number,
            since: view.since,
            waiting: view.waiting,
        });
        let mut seen: Vec<LockSeen> = own.chain(self.list_locks_above(after).take(limit)).collect();
        seen.sort_by(|one, other| one.name.cmp(&other.name));
        seen.truncate(limit);
        seen
    }
}

/// The answer to a request that the node refuses before it looks at its locks.
#[must_use]
pub fn refusal(reason: &'static str, detail: &str) -> String {
    refused(reason, detail.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_topics::LockRefusal;

    #[test]
    fn requests_are_read_and_wrong_ones_refused() {
        let read = |verb, text: &str| LockRequest::read(verb, text.as_bytes()).unwrap();
        let name = || Topic::new("plant/writer").unwrap();
        let acquire = |scope, wait| Ok(LockRequest::Acquire { name: name(), scope, wait });
        assert_eq!(read("acquire", r#"{"lock":"plant/writer"}"#), acquire(LockScope::Session, None));
        let text = r#"{"lock":"plant/writer","scope":"connection","wait":"30s"}"#;
        assert_eq!(read("acquire", text), acquire(LockScope::Connection, Some(Duration::from_secs(30))));
        let text = r#"{"lock":"plant/writer","number":7}"#;
        assert_eq!(read("release", text), Ok(LockRequest::Release { name: name(), number: Some(7) }));
        for (text, words) in [
            (r#"{"lock":"a/+"}"#, "lock is \"a/+\", expected a name like a topic"),
            (r#"{"lock":"$a"}"#, "lock is \"$a\", expected a name like a topic"),
            (r#"{"lock":"a","wait":"soon"}"#, "wait is \"soon\", expected a duration"),
            (r#"{"lock":"a","scope":"ever"}"#, "unknown variant `ever`"),
            (r#"{"lock":"a","for":"1s"}"#, "unknown field `for`"),
            ("{}", "missing field `lock`"),
        ] {
            let error = read("acquire", text).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
        assert!(LockRequest::read("take", b"{}").is_none());
    }

    #[test]
    fn answers_say_what_became_of_a_request() {
        let acquired = Acquired { name: "a".into(), number: 7, scope: LockScope::Connection };
        let answer = r#"{"lock":"a","number":7,"scope":"connection","status":"acquired"}"#;
        assert_eq!(answer_of(Ok(acquired)), answer);
        let answer = r#"{"status":"refused","reason":"held","detail":"another session has the lock"}"#;
        assert_eq!(answer_of(Err(LockRefusal::Held)), answer);
    }
}
