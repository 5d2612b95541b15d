//! What persons ask of alarms.

use super::super::control::Callback;
use super::super::state::Bus;
use super::Alarming;
use super::changes::Waiting;
use crate::access::denial;
use crate::control::alarms::{AlarmAction, AlarmRequest, AlarmResult, AlarmTarget};
use tieline_alarms::{By, Refusal, Target};
use tieline_core::{Now, Words as _};

impl Alarming {
    fn act(&mut self, now: Now, request: &AlarmRequest, target: &AlarmTarget, who: &str) -> Result<(), Refusal> {
        let alarm = Target { topic: &target.topic, kind: target.kind };
        let by = By { who, why: &request.why };
        match request.action {
            AlarmAction::Acknowledge => self.engine.acknowledge(now, alarm, target.seq.unwrap_or_default(), by),
            AlarmAction::Shelve => self.engine.shelve(now, alarm, request.time.unwrap_or_default(), request.once, by),
            AlarmAction::Unshelve => self.engine.unshelve(now, alarm, by),
            AlarmAction::Reset => self.engine.reset(now, alarm, by),
            AlarmAction::TakeOutOfService => self.engine.take_out_of_service(now, alarm, request.time, by),
            AlarmAction::PutInService => self.engine.put_in_service(now, alarm, by),
            AlarmAction::Note => self.engine.note(now, alarm, by),
        }
    }
}

impl Bus {
    /// Does what a person asks, with each alarm of the request where `allowed` says that they have the right. The answer comes when all
    /// that has changed is on the disk; the audit log says who did what.
    pub fn request_alarms(
        &mut self,
        now: Now,
        request: &AlarmRequest,
        who: &str,
        allowed: &[bool],
        answer: Callback<Vec<AlarmResult>>,
    ) {
        let mut results = Vec::with_capacity(request.targets.len());
        for (target, allowed) in request.targets.iter().zip(allowed) {
            let Some(alarming) = &mut self.alarming else {
                results.push(AlarmResult::of(target, Err(Refusal::Unknown)));
                continue;
            };
            if !allowed {
                results.push(AlarmResult::denied(target));
                continue;
            }
            let result = alarming.act(now, request, target, who);
            if result.is_ok() {
                let (word, kind) = (request.action.word(), target.kind.word());
                let detail =
                    format!("{kind} {} {}", target.seq.map_or_else(String::new, |seq| seq.to_string()), request.why);
                self.note_access(denial(now, who, "alarm", word, &target.topic, "", detail));
            }
            results.push(AlarmResult::of(target, result));
        }
        if self.alarming.is_none() {
            return answer(self, results);
        }
        self.wait_for_alarms(now, Some(Waiting::Answer(answer, results)));
        self.work.notify_one();
    }
}
