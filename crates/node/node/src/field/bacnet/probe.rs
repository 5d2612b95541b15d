//! Whether a device is there, and is the one it was: datagrams need no connection, so only an answer says it.

use super::device::{BacnetDevice, Task};
use crate::config::ClockSync;
use crate::field::presence::{Presence, Probed, probe_later};
use std::time::Duration;
use tieline_bacnet::client::Failure;
use tieline_bacnet::device::Profile;
use tieline_bacnet::{INSTANCE_ANY, ObjectId, PropertyId, PropertyRef, Value as Wire};
use tieline_core::Now;

/// The shortest time between two looks whether a device that says who it is has restarted.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How often clocks are set.
const CLOCKS_EVERY: Duration = Duration::from_secs(86_400);
/// `time-of-device-restart`.
const TIME_OF_RESTART: PropertyId = PropertyId(203);

impl Probed for BacnetDevice {
    fn presence(&self) -> &Presence {
        &self.presence
    }

    /// Asks the device what it is and what it takes.
    fn probe(&self) {
        if self.is_asked.replace(true) {
            return;
        }
        let asked = self.link.with(|site, now| site.call(self.member, |device, client| device.learn(now, client)));
        if !matches!(asked, Some(Ok(_))) {
            self.is_asked.set(false);
            probe_later(self.this.get(), 0);
        }
    }
}

impl BacnetDevice {
    /// The socket is there.
    pub(super) fn begin(&self) {
        self.presence.begin();
        if let Some(reporter) = self.reporter() {
            reporter.connecting(self.now());
        }
        self.probe();
        self.keep_clock();
    }

    /// Does what the device of another configuration before it would have done.
    pub(super) fn go_on(&self) {
        if self.presence.is_probed() {
            self.probe();
        }
        self.keep_clock();
    }

    pub(super) fn learned(&self, now: Now, profile: &Profile) {
        self.is_asked.set(false);
        self.instance.set(Some(profile.instance));
        self.forget_absent();
        self.plan(now);
        if !self.presence.came() {
            return self.read_all();
        }
        tracing::debug!(device = %self.topic, instance = profile.instance, vendor = %profile.vendor, model = %profile.model,
            max_apdu = profile.limits.max_apdu, "the device says what it is");
        if let Some(reporter) = self.reporter() {
            reporter.online(now);
        }
        self.subscribe_all();
        self.read_marks();
        self.set_clock();
        self.past.heard(now);
        self.begin_past(now);
    }

    pub(super) fn not_learned(&self, now: Now, failure: &Failure) {
        self.is_asked.set(false);
        let Some(failed) = self.presence.probe_failed() else { return };
        // Some know themselves by their own number alone: they say it when they are asked who is there.
        let may_say = self.config.instance.is_none() && !failure.is_silence();
        if may_say {
            let _ = self.link.with(|site, _| site.ask_who(self.member));
        }
        if let Some(reporter) = self.reporter().filter(|_| !may_say || failed > 0) {
            reporter.away(now, &self.words_of(failure));
        }
        probe_later(self.this.get(), failed);
    }

    fn words_of(&self, failure: &Failure) -> String {
        if let Some(trouble) = self.link.trouble().filter(|_| failure.is_silence()) {
            return trouble;
        }
        match self.config.instance {
            Some(instance) if matches!(failure, Failure::Error(_)) => {
                format!("it is not device {instance}: {failure}")
            }
            None if matches!(failure, Failure::Error(_)) => format!("{failure}, and expects bacnet.instance"),
            Some(_) | None => failure.to_string(),
        }
    }

    /// The device leaves requests unanswered.
    pub(super) fn went(&self, now: Now, why: &str) {
        self.end_tasks(now);
        if self.presence.went() {
            self.past.went(&self.topic);
            let instance = self.instance.get();
            self.link.with(|site, now| site.reset(now, self.member, instance));
            if let Some(reporter) = self.reporter() {
                reporter.away(now, why);
            }
            probe_later(self.this.get(), 0);
        }
    }

    /// The device says who it is: it has come, or has restarted, or somebody asked.
    pub(super) fn heard_of(&self, now: Now, instance: u32) {
        if self.config.instance.is_some_and(|known| known != instance) {
            return;
        }
        if !self.presence.is_online() {
            if self.instance.replace(Some(instance)) != Some(instance) {
                self.link.with(|site, now| site.reset(now, self.member, Some(instance)));
                self.is_asked.set(false);
            }
            return self.probe();
        }
        // It may only have answered somebody who looks for devices again and again.
        if self.looked_at.get().is_none_or(|at| now.mono >= at + LOOK_EVERY) {
            self.looked_at.set(Some(now.mono));
            self.read_marks();
        }
    }

    /// Reads what a restart changes. One read at a time is enough.
    fn read_marks(&self) {
        if self.is_asked.get() {
            return;
        }
        let device = ObjectId::device(self.instance.get().unwrap_or(INSTANCE_ANY));
        let marks = [PropertyId::DATABASE_REVISION, TIME_OF_RESTART];
        let references = marks.map(|property| PropertyRef::new(device, property)).to_vec();
        self.is_asked.set(self.read(references, Task::Marks).is_ok());
    }

    pub(super) fn marks_read(&self, now: Now, results: &[(PropertyRef, Result<Wire, Failure>)]) {
        self.is_asked.set(false);
        if results.iter().any(|(_, result)| result.as_ref().is_err_and(|failure| failure.is_silence())) {
            return;
        }
        let marks = results.iter().map(|(_, result)| result.clone().unwrap_or(Wire::Null)).collect();
        let Some(before) = self.marks.borrow_mut().replace(marks) else { return };
        let is_same = self.marks.borrow().as_ref() == Some(&before);
        if is_same && before.iter().any(|mark| *mark != Wire::Null) {
            return;
        }
        // A device without marks may have restarted, too.
        self.link.with(|site, now| {
            site.call(self.member, |device, client| {
                device.resubscribe(now);
                device.handle_timeout(now, client);
            })
        });
        if !is_same {
            tracing::info!(device = %self.topic, "the device has restarted, or has other objects");
            if let Some(reporter) = self.reporter() {
                reporter.restarted(now);
            }
            self.probe();
        }
    }

    // Its clock.

    fn keep_clock(&self) {
        if self.config.time_sync == ClockSync::Off {
            return;
        }
        let Some(this) = self.this.get().cloned() else { return };
        tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(CLOCKS_EVERY).await;
                let Some(device) = this.upgrade() else { return };
                if device.presence.is_online() {
                    device.set_clock();
                }
            }
        });
    }

    fn set_clock(&self) {
        let local_offset_minutes = match self.config.time_sync {
            ClockSync::Off => return,
            ClockSync::Utc => None,
            ClockSync::Local => {
                let seconds = chrono::Local::now().offset().local_minus_utc();
                Some(i16::try_from(seconds / 60).unwrap_or(0))
            }
        };
        let set = self.link.with(|site, now| site.set_time(now, self.member, local_offset_minutes));
        if let Err(error) = set {
            tracing::warn!(device = %self.topic, %error, "the clock of the device was not set");
        }
    }
}
