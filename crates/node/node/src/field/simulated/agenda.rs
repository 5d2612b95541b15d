//! What comes when: the ends of requests, of all devices of a shard.

use super::Devices;
use super::device::Task;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use tieline_core::{DeviceId, Instant};
use tieline_net::Shard;
use tokio::sync::Notify;

/// Tasks by their time. Each device has a limited number of them.
#[derive(Default)]
pub(super) struct Agenda {
    /// By time, and then in the order in which they were added.
    entries: RefCell<BTreeMap<(Instant, u64), (DeviceId, Task)>>,
    added: Cell<u64>,
    /// The first one is another.
    changed: Notify,
}

impl Agenda {
    /// Adds a task of a device, which is named by its number.
    pub(super) fn add(&self, at: Instant, device: DeviceId, task: Task) {
        let added = self.added.get();
        self.added.set(added.wrapping_add(1));
        let is_first = self.first().is_none_or(|first| at < first);
        self.entries.borrow_mut().insert((at, added), (device, task));
        if is_first {
            self.changed.notify_one();
        }
    }

    /// Forgets the tasks of devices that are no more.
    pub(super) fn remove(&self, devices: &HashSet<DeviceId>) {
        self.entries.borrow_mut().retain(|_, (device, _)| !devices.contains(device));
    }

    fn first(&self) -> Option<Instant> {
        self.entries.borrow().first_key_value().map(|((at, _), _)| *at)
    }

    fn take(&self, now: Instant) -> Option<(DeviceId, Task)> {
        let mut entries = self.entries.borrow_mut();
        let first = entries.first_entry()?;
        let (at, _) = first.key();
        (*at <= now).then(|| first.remove())
    }
}

/// Lets each device do its tasks at their time, until the shard ends.
pub(super) async fn run(agenda: Rc<Agenda>, devices: Devices, shard: Rc<Shard>) {
    loop {
        while let Some((device, task)) = agenda.take(shard.now().mono) {
            let device = devices.borrow().get(&device).cloned();
            if let Some(device) = device {
                device.handle_task(shard.now(), task);
            }
        }
        let until = shard.clock().at(agenda.first().unwrap_or(Instant(u64::MAX)));
        tokio::select! {
            () = agenda.changed.notified() => {}
            () = tokio::time::sleep_until(until) => {}
        }
    }
}
