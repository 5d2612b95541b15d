//! Whether a device is there: a connection says nothing of it, an answer does.

use super::device::{ModbusDevice, Task};
use crate::field::driver::probe_wait;
use tieline_core::Now;
use tieline_modbus::Priority;

/// What is known of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    /// There is no connection.
    #[default]
    Unconnected,
    /// A first read is out, or will be; so many have found nobody.
    Probed(u32),
    /// It answers.
    Online,
}

impl ModbusDevice {
    /// A connection begins.
    pub(super) fn connected(&self, now: Now) {
        self.presence.set(Presence::Probed(0));
        if let Some(reporter) = self.reporter() {
            reporter.connecting(now);
        }
        self.probe();
    }

    /// The connection has ended, or did not come about.
    pub(super) fn disconnected(&self, now: Now, why: &str) {
        self.presence.set(Presence::Unconnected);
        if let Some(reporter) = self.reporter() {
            reporter.away(now, why);
        }
    }

    /// The device has answered.
    pub(super) fn came(&self, now: Now) {
        if self.presence.replace(Presence::Online) == Presence::Online {
            return;
        }
        if let Some(reporter) = self.reporter() {
            reporter.online(now);
        }
    }

    /// The device leaves reads unanswered.
    pub(super) fn went(&self, now: Now, why: &str) {
        if self.presence.get() == Presence::Online {
            self.presence.set(Presence::Probed(0));
            if let Some(reporter) = self.reporter() {
                reporter.away(now, why);
            }
            self.probe_later(0);
        }
    }

    pub(super) fn probe_failed(&self, now: Now, why: &str) {
        let Presence::Probed(failed) = self.presence.get() else { return };
        self.presence.set(Presence::Probed(failed.saturating_add(1)));
        if let Some(reporter) = self.reporter() {
            reporter.away(now, why);
        }
        self.probe_later(failed);
    }

    /// A first read: one that has points, so that it is legal for every device.
    fn probe(&self) {
        let Some(request) = self.first_read() else { return };
        if self.submit(request, Task::Probe, Priority::Normal, None).is_err() {
            self.probe_later(0);
        }
    }

    /// A first read that was out, or would have been, of the device's configuration before.
    pub(super) fn probe_again(&self) {
        if matches!(self.presence.get(), Presence::Probed(_)) {
            self.probe();
        }
    }

    fn probe_later(&self, failed: u32) {
        let Some(this) = self.this.get().cloned() else { return };
        tokio::task::spawn_local(async move {
            tokio::time::sleep(probe_wait(failed)).await;
            if let Some(device) = this.upgrade()
                && matches!(device.presence.get(), Presence::Probed(_))
            {
                device.probe();
            }
        });
    }
}
