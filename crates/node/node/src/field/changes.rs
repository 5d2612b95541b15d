//! Devices that come to a shard, change, and go while it runs.
//!
//! One change at a time has the drivers; the shard goes on meanwhile, and what is not part of the change is not touched. What
//! leaves goes first ([`Leaving`]): all that its devices have told is read before others take their topics.

use super::counters::Counted;
use super::driver::{Context, NotStarted, Tabled};
use super::spec::table_of;
use super::{Changing, Drivers, Leaving};
use crate::config::{Numbered, PointConfig};
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::DeviceId;
use tieline_poll::{PointTable, SpecError};
use tokio::sync::{Mutex, oneshot};

/// Devices that are started or changed before others of the shard have their turn.
const BATCH: usize = 256;

/// Carries changes out, one after the other.
pub(super) struct Changes {
    drivers: Rc<Mutex<Drivers>>,
    context: Context,
}

impl Changes {
    pub(super) fn new(drivers: Drivers, context: Context) -> Self {
        Self { drivers: Rc::new(Mutex::new(drivers)), context }
    }

    /// Tells what all devices have counted.
    pub(super) fn count(&self, answer: oneshot::Sender<Counted>) {
        let (drivers, responses) = (Rc::clone(&self.drivers), *self.context.field().borrow().poller.responses());
        // The caller may have gone.
        tokio::task::spawn_local(async move { drop(answer.send(Counted::of(&*drivers.lock().await, responses))) });
    }

    /// Ends devices.
    pub(super) fn leave(&self, leaving: Leaving) {
        let (drivers, context) = (Rc::clone(&self.drivers), self.context.clone());
        tokio::task::spawn_local(async move {
            let mut drivers = drivers.lock().await;
            leave(&mut drivers, &context, leaving).await;
        });
    }

    /// Changes devices, and starts others.
    pub(super) fn change(&self, changing: Changing) {
        let (drivers, context) = (Rc::clone(&self.drivers), self.context.clone());
        tokio::task::spawn_local(async move {
            let mut drivers = drivers.lock().await;
            let Changing { replace: changed, start: coming, done, barrier } = changing;
            let mut not_started = replace(&mut drivers, &context, changed).await;
            not_started.extend(start(&mut drivers, &context, coming).await);
            // Who asked may have gone.
            let _ = done.send(give_up(&mut drivers, &context, not_started).await);
            context.field().borrow_mut().tell_barrier(&barrier);
        });
    }
}

/// Devices that could not be started, or changed, are away; each with the reason.
async fn give_up(drivers: &mut Drivers, context: &Context, failed: Vec<NotStarted>) -> Vec<(DeviceId, String)> {
    let ids: HashSet<DeviceId> = failed.iter().map(|failed| failed.device).collect();
    stop(drivers, &ids).await;
    let (now, mut field) = (context.shard().now(), context.field().borrow_mut());
    let reasons = failed.into_iter().map(|NotStarted { device, why }| (device, why.to_string()));
    reasons.inspect(|(device, why)| field.not_started(now, *device, why)).collect()
}

async fn stop(drivers: &mut Drivers, devices: &HashSet<DeviceId>) {
    if devices.is_empty() {
        return;
    }
    for (_, driver) in drivers {
        driver.stop(devices).await;
    }
}

async fn leave(drivers: &mut Drivers, context: &Context, Leaving { devices, barrier }: Leaving) {
    let ids: HashSet<DeviceId> = devices.iter().map(|(device, _)| *device).collect();
    context.field().borrow_mut().close_devices(&ids);
    stop(drivers, &ids).await;
    let now = context.shard().now();
    let mut field = context.field().borrow_mut();
    devices.into_iter().for_each(|(device, is_forgotten)| field.leave(now, device, is_forgotten));
    field.tell_barrier(&barrier);
}

/// Gives devices that keep their connections other configurations; those that could not have them.
async fn replace(drivers: &mut Drivers, context: &Context, devices: Vec<Numbered>) -> Vec<NotStarted> {
    let (mut tables, mut failed) = (Tables::default(), Vec::new());
    context.set_networks(&devices);
    for (device, number) in devices.into_iter().zip(1_usize..) {
        let id = device.id;
        if let Err(why) = replace_one(drivers, context, (device, &mut tables)) {
            failed.push(NotStarted { device: id, why });
        }
        if number.is_multiple_of(BATCH) {
            tokio::task::yield_now().await;
        }
    }
    failed
}

fn replace_one(drivers: &mut Drivers, context: &Context, (device, tables): (Numbered, &mut Tables)) -> io::Result<()> {
    let table = tables.of(&device).map_err(io::Error::other)?;
    let replaced = context.field().borrow_mut().replace_device(context.shard().now(), (&device, &table));
    replaced.map_err(io::Error::other)?;
    let protocol = device.config.protocol.name();
    let tabled = (device, table);
    if let Some((_, driver)) = drivers.iter_mut().find(|(known, _)| *known == protocol) {
        driver.replace(context, &tabled)?;
    }
    context.field().borrow_mut().tell_link_again(tabled.0.id);
    Ok(())
}

/// Starts devices, each by the driver of its protocol; those that could not be started.
pub(super) async fn start(drivers: &mut Drivers, context: &Context, mut devices: Vec<Numbered>) -> Vec<NotStarted> {
    let (mut tables, mut failed) = (Tables::default(), Vec::new());
    context.set_networks(&devices);
    // Those that share a connection are started together: it has the priority of its most urgent device.
    devices.sort_by(|a, b| channel_of(a).cmp(&channel_of(b)));
    while !devices.is_empty() {
        let batch: Vec<Numbered> = devices.drain(..batch_of(&devices)).collect();
        let mut tabled: Vec<Tabled> = Vec::new();
        for device in batch {
            match tables.of(&device) {
                Ok(table) => tabled.push((device, table)),
                Err(why) => failed.push(NotStarted { device: device.id, why: io::Error::other(why) }),
            }
        }
        for (protocol, driver) in &mut *drivers {
            let here: Vec<Tabled> =
                tabled.extract_if(.., |(device, _)| device.config.protocol.name() == *protocol).collect();
            failed.extend(driver.start(context, here).await);
        }
        tokio::task::yield_now().await;
    }
    failed
}

fn channel_of(device: &Numbered) -> Option<&str> {
    device.config.channel.as_ref().map(|channel| channel.name.as_str())
}

/// How many devices are started before others have their turn; a connection's are not parted.
fn batch_of(devices: &[Numbered]) -> usize {
    let last = devices.get(BATCH.saturating_sub(1)).and_then(channel_of);
    let together = |device: &&Numbered| last.is_some() && channel_of(device) == last;
    let more = devices.get(BATCH..).unwrap_or_default().iter().take_while(together).count();
    BATCH.saturating_add(more).min(devices.len())
}

/// What devices with one table have in common: their list, their intervals, and those of their points.
type TableKey = (*const PointConfig, Vec<Duration>, Vec<Duration>);

/// Tables of points. Devices that name the same list, and are polled as often, share one.
#[derive(Default)]
struct Tables(HashMap<TableKey, Arc<PointTable>>);

impl Tables {
    fn of(&mut self, Numbered { config, .. }: &Numbered) -> Result<Arc<PointTable>, SpecError> {
        let rates = config.points.iter().map(|point| config.every_of(point)).collect();
        let key = (config.points.as_ptr(), config.polls.clone(), rates);
        if let Some(table) = self.0.get(&key) {
            return Ok(Arc::clone(table));
        }
        let table = table_of(config)?;
        self.0.insert(key, Arc::clone(&table));
        Ok(table)
    }
}
