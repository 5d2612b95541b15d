//! Alarms over restarts: what the ledger had, and what a compaction writes again.

use super::super::state::Bus;
use super::changes::record_of;
use crate::control::alarms::AlarmShown;
use bytes::Bytes;
use tieline_alarms::{AlarmId, Saved, Target};
use tieline_core::{Body, Now};
use tieline_ledger::{Image, Record};

impl Bus {
    /// Takes in the alarms of before, ahead of the first value. Where no alarms are configured any more, they are forgotten:
    /// what the ledger is told then.
    pub(in crate::bus) fn restore_alarms(&mut self, now: Now, image: &mut Image) -> Vec<Record> {
        let kept = std::mem::take(&mut image.alarms);
        let gone = |name: String| Record::Alarm { name, occurrence: image.alarm_occurrence, state: Bytes::new() };
        let Some(alarming) = &mut self.alarming else { return kept.into_keys().map(gone).collect() };
        let (mut saved, mut lost) = (Saved::default(), Vec::new());
        saved.advance(image.alarm_occurrence);
        for (name, (_, state)) in kept {
            match tieline_alarms::Record::parse(&state) {
                Ok(record) => saved.apply(record),
                Err(error) => {
                    tracing::warn!(name, %error, "an alarm of before cannot be read, and begins as normal");
                    lost.push(gone(name));
                }
            }
        }
        alarming.engine.restore(now, &saved);
        let shown: Vec<_> = alarming.engine.alarms().collect();
        for alarm in shown {
            let body = Body::Opaque(Bytes::from(AlarmShown::of(&alarm).payload()));
            self.show_alarm(now, &alarm.record.id, body);
        }
        lost
    }

    /// The alarms that a compaction writes again.
    pub(in crate::bus) fn alarm_ids(&self) -> Vec<AlarmId> {
        self.alarms().map(|alarm| alarm.record.id).collect()
    }

    /// Writes the number of the last occurrence again.
    pub(in crate::bus) fn write_alarm_occurrence(&mut self, now: Now) {
        let occurrence = self.alarming.as_ref().map_or(0, |alarming| alarming.engine.occurrence());
        if occurrence > 0 {
            self.ledger.batches.write(now, &Record::Alarm { name: String::new(), occurrence, state: Bytes::new() });
        }
    }

    /// Writes an alarm again, as it is now.
    pub(in crate::bus) fn write_alarm(&mut self, now: Now, id: &AlarmId) {
        let Some(alarming) = &self.alarming else { return };
        let alarm = alarming.engine.alarm(Target { topic: &id.topic, kind: id.kind });
        if let Some(alarm) = alarm.filter(|alarm| !alarm.record.flags.is_normal()) {
            self.ledger.batches.write(now, &record_of(&alarm.record));
        }
    }
}
