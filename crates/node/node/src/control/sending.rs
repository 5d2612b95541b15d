//! What the engine decided goes out: records to the disk, then commands to devices and answers to callers.

use super::audit::{self, AuditLine};
use super::called::{Done, Notice, Open, Undo};
use super::command::CommandDone;
use super::state::{self, Record, StateChange};
use super::{CommandSender, Commands, Tells};
use std::collections::HashMap;
use std::time::Duration;
use tieline_control::{Answer, AuditRecord, BatchDone, BatchEvent, Dispatch, PointOutcome, ScheduleResult};
use tieline_core::{Instant, Now, Refusal};

/// How soon the whole state is written again where a record of it could not be.
const RETRY: Duration = Duration::from_secs(1);
/// Bytes of records beyond which the file is rewritten, where they are several times what it says.
const COMPACT_BYTES: usize = 1 << 20;
/// How many times.
const COMPACT_TIMES: usize = 4;

/// What waits for the disk.
#[derive(Debug)]
pub(super) struct Durability<A> {
    waiting: HashMap<u64, (A, Done, Undo)>,
    next: u64,
    /// When the whole state is to be written.
    rewrite_at: Option<Instant>,
    /// Bytes of the last whole state, and of the records since.
    bytes: (usize, usize),
}

impl<A> Default for Durability<A> {
    fn default() -> Self {
        Self { waiting: HashMap::new(), next: 1, rewrite_at: None, bytes: (0, 0) }
    }
}

impl<A> Durability<A> {
    pub(super) const fn timeout(&self) -> Option<Instant> {
        self.rewrite_at
    }

    pub(super) const fn rewrite(&mut self, at: Instant) {
        self.rewrite_at = Some(at);
    }
}

impl<A> Commands<A> {
    /// Sends what is due, and gives the next answer.
    pub fn poll_done(&mut self, now: Now) -> Option<(A, Done)> {
        let mut was_any = self.send(now, None);
        while let Some(event) = self.coordinator.poll_event() {
            was_any = true;
            match event {
                BatchEvent::Answer(answer) => self.take_answer(answer),
                BatchEvent::Done(done) => self.take_end(done),
            }
        }
        let done = self.done.pop_front();
        if !was_any && done.is_none() {
            self.coordinator.rest(self.timeout());
        }
        done
    }

    /// The next change of a reservation that others are told of.
    pub fn poll_notice(&mut self, now: Now) -> Option<Notice> {
        let engine = self.coordinator.engine_at_rest();
        let changed = engine.poll_schedule_event().map(Notice::Changed);
        changed.or_else(|| engine.poll_announcement(now).map(Notice::Announced))
    }

    /// What has this number is on the disk, or will not be.
    pub fn handle_written(&mut self, now: Now, number: u64, is_durable: bool) {
        self.coordinator.end_rest();
        if !is_durable {
            self.durability.rewrite(now.mono + RETRY);
        }
        if let Some((answer, done, undo)) = self.durability.waiting.remove(&number) {
            let done = if is_durable { done } else { self.take_back(now, done, undo) };
            self.done.push_back((answer, done));
        }
    }

    /// What could not be written down is not granted.
    fn take_back(&mut self, now: Now, done: Done, undo: Undo) -> Done {
        let who = "node".into();
        match undo {
            Undo::Nothing => {}
            Undo::Reservation { requester, task } => {
                self.coordinator.cancel_schedule(now, Some(&requester), Some(&task), &who);
            }
            Undo::Override(pattern) => drop(self.coordinator.set_override_off(now, &pattern, &who)),
            Undo::PlacedTag(id) => drop(self.coordinator.lift_tag(now, id, &who)),
            Undo::LiftedTag(record) => self.coordinator.put_tag_back(now, record, &who),
        }
        match done {
            Done::Reservation(_) => {
                Done::Reservation(ScheduleResult::failure("NOT_STORED: the disk does not take it, see /healthz"))
            }
            Done::Override(_) => Done::Override(Err(no_audit())),
            Done::Tag(_) => Done::Tag(Err(no_audit())),
            Done::Points(_) => Done::Points(Err(no_audit())),
            done @ Done::Command(_) => done,
        }
    }

    fn take_answer(&mut self, Answer { batch, index, outcome, elapsed }: Answer) {
        if !matches!(outcome, PointOutcome::Refused(_)) {
            self.durations.record(elapsed);
        }
        match self.open.remove(&batch) {
            Some(Open::Command(answer, expected)) => {
                let (outcome, expected) = match outcome {
                    PointOutcome::Accepted { .. }
                    | PointOutcome::Confirmed { .. }
                    | PointOutcome::Unconfirmed { .. } => (Ok(()), expected),
                    PointOutcome::Refused(refusal) => (Err(refusal), None),
                    PointOutcome::Unknown(refusal) => (Err(refusal), expected),
                };
                self.done.push_back((answer, Done::Command(CommandDone { outcome, expected, elapsed })));
            }
            Some(Open::Points(answer, mut called)) => {
                let outcome = match (outcome, called.topics.get(index)) {
                    (PointOutcome::Accepted { expected: Some(expected) }, Some(topic)) => {
                        PointOutcome::Accepted { expected: Some(self.as_read(topic, expected)) }
                    }
                    (PointOutcome::Unconfirmed { expected: Some(expected), refusal }, Some(topic)) => {
                        PointOutcome::Unconfirmed { expected: Some(self.as_read(topic, expected)), refusal }
                    }
                    (outcome, _) => outcome,
                };
                if let Some(place) = called.outcomes.get_mut(index) {
                    *place = Some((outcome, elapsed));
                }
                self.open.insert(batch, Open::Points(answer, called));
            }
            None => {}
        }
    }

    fn take_end(&mut self, done: BatchDone) {
        if let Some(Open::Points(answer, called)) = self.open.remove(&done.batch) {
            let called = super::Called { done, ..called };
            self.done.push_back((answer, Done::Points(Ok(Box::new(called)))));
        }
    }

    /// Sends what is due; `told` is answered once it is on the disk. False where nothing was.
    pub(super) fn send(&mut self, now: Now, told: Option<(A, Done, Undo)>) -> bool {
        let dispatches: Vec<Dispatch> = std::iter::from_fn(|| self.coordinator.poll_command(now)).collect();
        let state = self.state_change(now);
        let records: Vec<AuditRecord> = std::iter::from_fn(|| self.coordinator.poll_audit()).collect();
        let lines: Vec<AuditLine> = records.iter().map(|record| self.line(record)).collect();
        if let Some(ended) = &mut self.ended {
            ended.extend(records.iter().filter_map(|record| Some((record.topic.clone(), record.phase.success()?))));
        }
        if dispatches.is_empty() && lines.is_empty() && state.is_none() {
            let was_any = told.is_some();
            self.done.extend(told.map(|(answer, done, _)| (answer, done)));
            return was_any;
        }
        let number = self.durability.next;
        self.durability.next += 1;
        let (is_told, has_state, has_lines) = (told.is_some(), state.is_some(), !lines.is_empty());
        if let Some(told) = told {
            self.durability.waiting.insert(number, told);
        }
        let routed: Vec<(Dispatch, Option<Sent>)> =
            dispatches.iter().map(|dispatch| (dispatch.clone(), self.sender_of(dispatch))).collect();
        let tells = self.tells.clone();
        let afterwards = move |durable: bool| {
            if is_told || (has_state && !durable) {
                (tells.written)(number, durable);
            }
            // A log that has the lines of the audit log says the same as one that has a record of the commands.
            let is_known = routed.is_empty() || !durable || has_lines;
            let is_let = tells.fence.as_ref().is_none_or(|fence| match is_known {
                true => durable || fence.may_lead(),
                false => fence.lets(routed.len()),
            });
            routed.into_iter().for_each(|(dispatch, sender)| forward(dispatch, sender, (durable, is_let), &tells));
        };
        let waits = is_told || has_state || !dispatches.is_empty();
        let afterwards: Option<audit::Afterwards> = waits.then(|| Box::new(afterwards) as _);
        if !self.audit.append(lines, state, afterwards) {
            for Dispatch { device, command_id, .. } in dispatches {
                self.coordinator.handle_outcome(now, device, command_id, Err(no_audit()));
            }
            if is_told || has_state {
                self.handle_written(now, number, false);
            }
        }
        true
    }

    /// What is to be written of the state; all of it where it is time.
    fn state_change(&mut self, now: Now) -> Option<StateChange> {
        let entries = std::iter::from_fn(|| self.coordinator.poll_entry()).map(Record::Engine);
        let records: Vec<Record> = entries.chain(self.holders.take_records()).collect();
        let (whole, since) = self.durability.bytes;
        let is_long = since > COMPACT_BYTES && since > whole.saturating_mul(COMPACT_TIMES);
        let is_due = self.durability.rewrite_at.is_some_and(|at| at <= now.mono || !records.is_empty());
        if is_due || is_long {
            self.durability.rewrite_at = None;
            let engine: Vec<Record> = self.coordinator.snapshot().into_iter().map(Record::Engine).collect();
            let sessions = self.holders.snapshot(&self.coordinator);
            let text = state::lines(engine.iter().chain(&sessions));
            self.durability.bytes = (text.len(), 0);
            return Some(StateChange::Replace(text));
        }
        if records.is_empty() {
            return None;
        }
        let text = state::lines(&records);
        self.durability.bytes.1 += text.len();
        Some(StateChange::Append(text))
    }

    fn sender_of(&self, dispatch: &Dispatch) -> Option<Sent> {
        let place = self.places.get(&dispatch.device)?;
        Some((self.senders.get(place.shard).cloned()?, place.revision))
    }

    fn line(&self, record: &AuditRecord) -> AuditLine {
        let device = record.device.and_then(|device| self.places.get(&device));
        AuditLine {
            id: record.id,
            time: record.time.to_string(),
            who: record.who.to_string(),
            topic: record.topic.to_string(),
            device: device.map(|place| place.topic.to_string()).unwrap_or_default(),
            value: record.value.to_string(),
            mode: record.mode.map(|mode| mode.name().to_owned()).unwrap_or_default(),
            phase: record.phase.name().to_owned(),
            reason: record.reason.to_owned(),
            detail: record.detail.clone(),
            call: record.group,
        }
    }
}

/// What sends a command, and by which revision of a device's configuration it was made.
type Sent = (CommandSender, u32);

/// Sends a command once its records are durable; on the audit log's thread.
fn forward(dispatch: Dispatch, sender: Option<Sent>, (durable, is_let): (bool, bool), tells: &Tells) {
    let (device, command_id) = (dispatch.device, dispatch.command_id.0);
    if !sender.is_some_and(|(sender, revision)| durable && is_let && sender(dispatch, revision)) {
        (tells.unsent)(device, command_id, if is_let { no_audit() } else { not_leader() });
    }
}

fn not_leader() -> Refusal {
    Refusal::new("not_leader", "this node does not lead its core any longer: ask the one that does".to_owned())
}

fn no_audit() -> Refusal {
    let detail = "the audit log cannot be written, and no command goes out without its record".to_owned();
    Refusal::new("no_audit", detail)
}
