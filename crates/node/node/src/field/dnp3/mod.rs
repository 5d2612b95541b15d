//! The driver of DNP3 (IEEE 1815): a master for each device, or for each of its two connections.
//!
//! Read first: this file, then `device.rs`.

mod counters;
mod decoder;
mod device;
mod device_session;
mod link;
mod masters;
mod scheduled;
mod together;
mod translate;

use self::counters::{FreezeCounters, Past};
use self::decoder::Dnp3Decoder;
use self::device::DeviceOwner;
use self::device_session::{Association, Dnp3Session};
use self::link::Link;
use self::masters::{master_of, urgent_master};
use self::scheduled::{ScheduledTasks, keep_freezing};
use self::together::{ChannelOwner, Owners, Together};
use self::translate::PointIndex;
use super::counters::Metric;
use super::driver::{Connection, Context, DeviceSession, Driver, NotStarted, Starting, Stopping, Tabled, transport_of};
use super::lanes::{Lane, Lanes};
use crate::config::{DeviceConfig, Dnp3Config, SharedChannel};
use crate::trace::Decoder;
use futures_util::future::join_all;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::DeviceId;
use tieline_dnp3::channel::Channel;
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::master::Master;
use tieline_net::{Limits, Session};
use tieline_transport::KeptSession;
use tokio::task::AbortHandle;

/// The devices of a shard that speak DNP3.
#[derive(Default)]
pub struct Dnp3 {
    devices: HashMap<DeviceId, Running>,
    /// Connections that devices share.
    channels: Vec<Together>,
    freezes: Rc<FreezeCounters>,
    /// What devices and connections counted that are no more.
    past: Past,
}

/// A device with what keeps it going.
struct Running {
    session: Rc<Dnp3Session>,
    owner: DeviceOwner,
    freezing: Vec<AbortHandle>,
    /// Connections of its own.
    kept: Vec<KeptSession>,
}

impl Driver for Dnp3 {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn replace(&mut self, context: &Context, (device, _): &Tabled) -> io::Result<()> {
        let dnp3 = dnp3_of(&device.config)?;
        let Some(running) = self.devices.get_mut(&device.id) else { return Ok(()) };
        running.freezing.drain(..).for_each(|task| task.abort());
        let (session, config) = (&running.session, &device.config);
        running.freezing =
            keep_freezing(context.shard(), &self.freezes, &config.topic, &session.main.link, &dnp3.freezes);
        let tasks = ScheduledTasks::of(dnp3, &config.points);
        session.set_points(&config.points);
        if session.set_tasks(tasks) {
            running.owner.run_tasks(context.shard().now());
        }
        Ok(())
    }

    fn stop<'a>(&'a mut self, devices: &'a HashSet<DeviceId>) -> Stopping<'a> {
        Box::pin(self.stop_devices(devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

/// Whether a device whose configuration changes from one to the other keeps its associations.
pub(super) fn keeps(old: &DeviceConfig, new: &DeviceConfig) -> bool {
    let (Some(old), Some(new)) = (old.protocol.dnp3(), new.protocol.dnp3()) else { return false };
    Dnp3Config { freezes: new.freezes.clone(), ..old.clone() } == *new
}

impl Dnp3 {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> Vec<NotStarted> {
        let (mut channels, mut failed) = (Vec::<(SharedChannel, Vec<Tabled>)>::new(), Vec::new());
        for device in devices {
            match device.0.config.channel.clone() {
                None => {
                    if let Err(why) = self.start_device(context, &device).await {
                        failed.push(NotStarted { device: device.0.id, why });
                    }
                }
                Some(shared) => match channels.iter_mut().find(|(known, _)| *known == shared) {
                    Some((_, devices)) => devices.push(device),
                    None => channels.push((shared, vec![device])),
                },
            }
        }
        for (shared, devices) in channels {
            failed.extend(self.start_channel(context, &shared, &devices).await);
        }
        failed
    }

    /// Adds a device with connections of its own and keeps them going.
    async fn start_device(&mut self, context: &Context, device: &Tabled) -> io::Result<()> {
        let (id, config) = (device.0.id, &device.0.config);
        let dnp3 = dnp3_of(config)?;
        let session = Session::new(context.shard(), master_of(dnp3, transport_of(config)?), Limits::default());
        let lane = dnp3.lane.as_deref();
        let urgent =
            lane.map(|lane| (Session::new(context.shard(), urgent_master(dnp3, lane), Limits::default()), lane));
        let links = (Link::Alone(session.clone()), urgent.as_ref().map(|(session, _)| Link::Alone(session.clone())));
        let owner = self.start_session(context, device, links)?;
        let (transport, priority) = (transport_of(config)?, config.priority);
        let (seed, devices) = (u64::from(id.0), [id]);
        let connection =
            Connection { name: &config.topic, transport, priority, seed, devices: &devices, lane: Lane::Main };
        let kept = context.connect(session, owner.clone(), connection).await?;
        self.keep(id, kept);
        if let Some((session, lane)) = urgent {
            let (transport, priority) = (&lane.transport, Some(lane.priority));
            let connection = Connection { transport, priority, lane: Lane::Urgent, ..connection };
            let kept = context.connect(session, owner.on_urgent_lane(), connection).await?;
            self.keep(id, kept);
        }
        Ok(())
    }

    fn keep(&mut self, device: DeviceId, kept: KeptSession) {
        if let Some(running) = self.devices.get_mut(&device) {
            running.kept.push(kept);
        }
    }

    /// Adds devices that share a connection; it is kept going, where it is not there.
    async fn start_channel(
        &mut self,
        context: &Context,
        shared: &SharedChannel,
        devices: &[Tabled],
    ) -> Vec<NotStarted> {
        let known = self.channels.iter().find(|channel| channel.shared == *shared);
        let (session, owners) = known.map_or_else(
            || {
                (
                    Session::new(context.shard(), Channel::new(shared.one_at_a_time), Limits::default()),
                    Owners::default(),
                )
            },
            |channel| (channel.session.clone(), Rc::clone(&channel.owners)),
        );
        let is_known = known.is_some();
        let mut failed = Vec::new();
        for device in devices {
            if let Err(why) = self.join(context, device, (&session, &owners)) {
                failed.push(NotStarted { device: device.0.id, why });
            }
        }
        let ids: Vec<DeviceId> = devices.iter().map(|(device, _)| device.id).collect();
        if is_known {
            context.trace(&session, &ids, Lane::Main);
            return failed;
        }
        let Some((first, _)) = devices.first() else { return failed };
        let transport = match transport_of(&first.config) {
            Ok(transport) => transport,
            Err(error) => return NotStarted::all(devices, &error),
        };
        // One connection carries one priority: that of its most urgent device.
        let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
        let seed = u64::from(first.id.0);
        let connection = Connection { name: &shared.name, transport, priority, seed, devices: &ids, lane: Lane::Main };
        let owner = ChannelOwner { owners: Rc::clone(&owners) };
        let kept = context.connect(session.clone(), owner, connection).await;
        let (kept, failed) = match kept {
            Ok(kept) => (Some(kept), failed),
            Err(error) => (None, NotStarted::all(devices, &error)),
        };
        self.channels.push(Together { shared: shared.clone(), session, owners, kept });
        failed
    }

    /// Adds a device to a connection that devices share; where that is there, the device is asked at once.
    fn join(
        &mut self,
        context: &Context,
        device: &Tabled,
        (session, owners): (&Session<Channel<Master>>, &Owners),
    ) -> io::Result<()> {
        let config = &device.0.config;
        let (dnp3, transport) = (dnp3_of(config)?, transport_of(config)?);
        let (local, remote) = (LinkAddress::new(dnp3.master), LinkAddress::new(dnp3.outstation));
        let master = master_of(dnp3, transport);
        let member = session.with(|channel, _| channel.add(local, Some(remote), master)).map_err(io::Error::other)?;
        let owner = self.start_session(context, device, (Link::Shared(session.clone(), member), None));
        match owner {
            Ok(owner) => drop(owners.borrow_mut().insert(member, owner)),
            Err(error) => {
                session.with(|channel, _| channel.remove(member));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Starts a device's session on the shard, with its main link and, where it has one, its link for what is urgent.
    fn start_session(
        &mut self,
        context: &Context,
        device: &Tabled,
        (main, urgent): (Link, Option<Link>),
    ) -> io::Result<DeviceOwner> {
        let config = &device.0.config;
        let dnp3 = dnp3_of(config)?;
        let lanes = urgent.as_ref().map(|_| RefCell::new(Lanes::new(config.points.len(), dnp3.response_timeout)));
        let tasks = RefCell::new(ScheduledTasks::of(dnp3, &config.points));
        let index = RefCell::new(PointIndex::new(Arc::clone(&config.points)));
        let (main, urgent) = (Association::new(main), urgent.map(Association::new));
        let session = Rc::new(Dnp3Session { topic: config.topic.clone(), index, main, urgent, lanes, tasks });
        let priority = config.priority.into_iter().chain(dnp3.lane.as_ref().map(|lane| lane.priority)).min();
        let reporter = context.add_device(device, priority, Rc::clone(&session) as Rc<dyn DeviceSession>)?;
        let freezing = keep_freezing(context.shard(), &self.freezes, &config.topic, &session.main.link, &dnp3.freezes);
        let (association, freezes) = (session.main.clone(), Rc::clone(&self.freezes));
        let owner = DeviceOwner { reporter, lane: Lane::Main, association, device: Rc::clone(&session), freezes };
        let running = Running { session, owner: owner.clone(), freezing, kept: Vec::new() };
        self.devices.insert(device.0.id, running);
        Ok(owner)
    }

    async fn stop_devices(&mut self, devices: &HashSet<DeviceId>) {
        let mut leaving: Vec<Running> =
            self.devices.extract_if(|id, _| devices.contains(id)).map(|(_, running)| running).collect();
        for running in &mut leaving {
            running.freezing.drain(..).for_each(|task| task.abort());
        }
        // What is under way ends with the connection, or with the device's place on it.
        join_all(leaving.iter_mut().flat_map(|running| running.kept.drain(..)).map(KeptSession::close)).await;
        let over = |channel: &Together| {
            channel.owners.borrow().values().all(|owner| devices.contains(&owner.reporter.device()))
        };
        let mut ended: Vec<Together> = self.channels.extract_if(.., |channel| over(channel)).collect();
        join_all(ended.iter_mut().filter_map(|channel| channel.kept.take()).map(KeptSession::close)).await;
        leaving.iter().for_each(|running| self.past.add_device(&running.session));
        for channel in self.channels.iter().chain(&ended) {
            channel.remove(devices);
        }
        ended.iter().for_each(|channel| self.past.add_channel(channel));
    }
}

fn dnp3_of(config: &DeviceConfig) -> io::Result<&Dnp3Config> {
    config.protocol.dnp3().ok_or_else(|| io::Error::other(format!("{} does not speak DNP3", config.topic)))
}

/// What a trace of a device says, and which of its points is looked for.
///
/// # Errors
/// The device does not speak DNP3.
pub fn decoder_of(config: &DeviceConfig, wanted: Option<usize>) -> io::Result<Box<dyn Decoder>> {
    Ok(Box::new(Dnp3Decoder::new(config, wanted)?))
}
