//! The driver of simulated devices: each is a model, which answers after a delay or does what its faults say.
//!
//! ```text
//! DeviceSession::poll, command ─▶ what the model does with it ─▶ agenda ─ after the delay ─▶ Reporter
//! ```
//!
//! There is no connection. A device that leaves three requests in a row unanswered is away, and is asked again from time to
//! time, as one at the end of a line would be.
//!
//! Read first: this file, then `device.rs`.

mod agenda;
mod counters;
mod device;
#[cfg(test)]
mod tests;

use self::agenda::Agenda;
use self::counters::Counts;
use self::device::SimulatedDevice;
use super::counters::Metric;
use super::driver::{Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled};
use crate::config::{DeviceConfig, PointConfig, SimulatedConfig, model_of};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{DeviceId, Now};
use tieline_model::Model;

/// The devices of a shard that are simulated.
#[derive(Default)]
pub struct Simulated {
    devices: Devices,
    /// From the first devices on.
    agenda: Option<Rc<Agenda>>,
    counts: Rc<Counts>,
}

/// The devices by their numbers.
type Devices = Rc<RefCell<HashMap<DeviceId, Rc<SimulatedDevice>>>>;

impl Driver for Simulated {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(async move { self.start_devices(context, &devices) })
    }

    fn replace(&mut self, _context: &Context, (device, _): &Tabled) -> io::Result<()> {
        if let Some(known) = self.devices.borrow().get(&device.id) {
            known.set_classes(&device.config);
        }
        Ok(())
    }

    fn stop<'a>(&'a mut self, devices: &'a HashSet<DeviceId>) -> Stopping<'a> {
        Box::pin(async move {
            let left = self.devices.borrow_mut().extract_if(|id, _| devices.contains(id)).collect::<Vec<_>>();
            left.iter().for_each(|(_, device)| device.end());
            if let Some(agenda) = &self.agenda {
                agenda.remove(devices);
            }
        })
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

/// Whether a device whose configuration changes from one to the other is the same simulated device.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let is_same = |(old, new): (&PointConfig, &PointConfig)| {
        let meaning = |point: &PointConfig| (point.name.clone(), point.control.is_some());
        meaning(old) == meaning(new) && old.address == new.address
    };
    let is_one = old.protocol.simulated() == new.protocol.simulated() && old.points.len() == new.points.len();
    is_one && old.points.iter().zip(&*new.points).all(is_same)
}

impl Simulated {
    fn start_devices(&mut self, context: &Context, devices: &[Tabled]) -> Vec<NotStarted> {
        let agenda = Rc::clone(self.agenda.get_or_insert_with(|| {
            let agenda = Rc::<Agenda>::default();
            let (devices, shard) = (Rc::clone(&self.devices), Rc::clone(context.shard()));
            tokio::task::spawn_local(agenda::run(Rc::clone(&agenda), devices, shard));
            agenda
        }));
        let now = context.shard().now();
        // Devices that name the same list share one model.
        let mut models: HashMap<*const PointConfig, Arc<Model>> = HashMap::new();
        let (mut failed, mut begin) = (Vec::new(), Vec::new());
        for tabled in devices {
            match self.add(context, now, tabled, (&mut models, &agenda)) {
                Ok(device) => begin.push(device),
                Err(why) => failed.push(NotStarted { device: tabled.0.id, why }),
            }
        }
        begin.iter().for_each(|device| device.begin(now));
        failed
    }

    fn add(
        &self,
        context: &Context,
        now: Now,
        tabled: &Tabled,
        (models, agenda): (&mut HashMap<*const PointConfig, Arc<Model>>, &Rc<Agenda>),
    ) -> io::Result<Rc<SimulatedDevice>> {
        let (id, config) = (tabled.0.id, &tabled.0.config);
        let simulated = simulated_of(config)?;
        let model = match models.get(&config.points.as_ptr()) {
            Some(model) => Arc::clone(model),
            None => {
                let model = Arc::new(model_of(&config.points).map_err(io::Error::other)?);
                models.insert(config.points.as_ptr(), Arc::clone(&model));
                model
            }
        };
        let shared = (id, Rc::clone(agenda), Rc::clone(&self.counts));
        let device = Rc::new(SimulatedDevice::new(now, config, simulated, model, shared));
        let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
        device.set_reporter(context.shard(), context.add_device(tabled, config.priority, session)?);
        self.devices.borrow_mut().insert(id, Rc::clone(&device));
        Ok(device)
    }
}

fn simulated_of(config: &DeviceConfig) -> io::Result<&SimulatedConfig> {
    config.protocol.simulated().ok_or_else(|| io::Error::other(format!("{} is not simulated", config.topic)))
}
