//! Whether a device is there: a connection says nothing of it, an answer does.

use super::device::{ModbusDevice, Task};
use crate::field::presence::{Presence, Probed, probe_later};
use tieline_core::Now;
use tieline_modbus::Priority;

impl ModbusDevice {
    /// A connection begins.
    pub(super) fn connected(&self, now: Now) {
        self.presence.begin();
        if let Some(reporter) = self.reporter() {
            reporter.connecting(now);
        }
        self.probe();
    }

    /// The connection has ended, or did not come about.
    pub(super) fn disconnected(&self, now: Now, why: &str) {
        self.presence.end();
        if let Some(reporter) = self.reporter() {
            reporter.away(now, why);
        }
    }

    /// The device has answered.
    pub(super) fn came(&self, now: Now) {
        if self.presence.came()
            && let Some(reporter) = self.reporter()
        {
            reporter.online(now);
        }
    }

    /// The device leaves reads unanswered.
    pub(super) fn went(&self, now: Now, why: &str) {
        if self.presence.went() {
            if let Some(reporter) = self.reporter() {
                reporter.away(now, why);
            }
            probe_later(self.this.get(), 0);
        }
    }

    pub(super) fn probe_failed(&self, now: Now, why: &str) {
        let Some(failed) = self.presence.probe_failed() else { return };
        if let Some(reporter) = self.reporter() {
            reporter.away(now, why);
        }
        probe_later(self.this.get(), failed);
    }
}

impl ModbusDevice {
    /// A first read that was out, or would have been, of the device's configuration before.
    pub(super) fn probe_again(&self) {
        if self.presence.is_probed() {
            self.probe();
        }
    }
}

impl Probed for ModbusDevice {
    fn presence(&self) -> &Presence {
        &self.presence
    }

    /// A first read: one that has points, so that it is legal for every device.
    fn probe(&self) {
        let Some(request) = self.first_read() else { return };
        if self.submit(request, Task::Probe, Priority::Normal, None).is_err() {
            probe_later(self.this.get(), 0);
        }
    }
}
