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
mod decoder;
mod device;
#[cfg(test)]
mod tests;

use self::agenda::Agenda;
use self::counters::Counts;
use self::decoder::NoBytes;
use self::device::SimulatedDevice;
use super::counters::Metric;
use super::driver::{Context, DeviceSession, Driver, Starting, Tabled};
use crate::config::{DeviceConfig, PointConfig, SimulatedConfig, model_of};
use crate::trace::Decoder;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_model::Model;

/// The devices of a shard that are simulated.
#[derive(Default)]
pub struct Simulated {
    devices: Vec<Rc<SimulatedDevice>>,
    counts: Rc<Counts>,
}

impl Driver for Simulated {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(async move { self.start_devices(context, &devices) })
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

impl Simulated {
    fn start_devices(&mut self, context: &Context, devices: &[Tabled]) -> io::Result<()> {
        let agenda = Rc::new(Agenda::default());
        let now = context.shard().now();
        // Devices that name the same list share one model.
        let mut models: HashMap<*const PointConfig, Arc<Model>> = HashMap::new();
        for (tabled, number) in devices.iter().zip(0..) {
            let config = &tabled.0.config;
            let simulated = simulated_of(config)?;
            let model = match models.get(&config.points.as_ptr()) {
                Some(model) => Arc::clone(model),
                None => {
                    let model = Arc::new(model_of(&config.points).map_err(io::Error::other)?);
                    models.insert(config.points.as_ptr(), Arc::clone(&model));
                    model
                }
            };
            let shared = (number, Rc::clone(&agenda), Rc::clone(&self.counts));
            let device = Rc::new(SimulatedDevice::new(now, config, simulated, model, shared));
            let session = Rc::clone(&device) as Rc<dyn DeviceSession>;
            device.set_reporter(context.shard(), context.add_device(tabled, config.priority, session)?);
            self.devices.push(device);
        }
        if !self.devices.is_empty() {
            self.devices.iter().for_each(|device| device.begin(now));
            tokio::task::spawn_local(agenda::run(agenda, self.devices.clone(), Rc::clone(context.shard())));
        }
        Ok(())
    }
}

fn simulated_of(config: &DeviceConfig) -> io::Result<&SimulatedConfig> {
    config.protocol.simulated().ok_or_else(|| io::Error::other(format!("{} is not simulated", config.topic)))
}

/// What a trace of a device says: its states and failures alone.
pub fn decoder() -> Box<dyn Decoder> {
    Box::new(NoBytes)
}
