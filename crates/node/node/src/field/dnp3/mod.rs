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
mod translate;

use self::counters::FreezeCounters;
use self::decoder::Dnp3Decoder;
use self::device::{ChannelOwner, DeviceOwner};
use self::device_session::{Association, Dnp3Session};
use self::link::Link;
use self::masters::{master_of, urgent_master};
use self::scheduled::{ScheduledTasks, keep_freezing};
use self::translate::PointIndex;
use super::counters::Metric;
use super::driver::{Connection, Context, DeviceSession, Driver, Starting, Tabled, transport_of};
use super::lanes::{Lane, Lanes};
use crate::config::{DeviceConfig, Dnp3Config, SharedChannel};
use crate::trace::Decoder;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::DeviceId;
use tieline_dnp3::channel::Channel;
use tieline_dnp3::link::LinkAddress;
use tieline_dnp3::master::Master;
use tieline_net::{Limits, Session};

/// The devices of a shard that speak DNP3.
#[derive(Default)]
pub struct Dnp3 {
    sessions: Vec<Rc<Dnp3Session>>,
    /// Connections that devices share.
    channels: Vec<Session<Channel<Master>>>,
    freezes: Rc<FreezeCounters>,
}

impl Driver for Dnp3 {
    fn start<'a>(&'a mut self, context: &'a Context, devices: Vec<Tabled>) -> Starting<'a> {
        Box::pin(self.start_devices(context, devices))
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }
}

impl Dnp3 {
    async fn start_devices(&mut self, context: &Context, devices: Vec<Tabled>) -> io::Result<()> {
        let mut channels: Vec<(SharedChannel, Vec<Tabled>)> = Vec::new();
        for device in devices {
            match device.0.config.channel.clone() {
                None => self.start_device(context, &device).await?,
                Some(shared) => match channels.iter_mut().find(|(known, _)| *known == shared) {
                    Some((_, devices)) => devices.push(device),
                    None => channels.push((shared, vec![device])),
                },
            }
        }
        for (shared, devices) in channels {
            self.start_channel(context, &shared, &devices).await?;
        }
        Ok(())
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
        context.connect(session, owner.clone(), connection).await?;
        if let Some((session, lane)) = urgent {
            let (transport, priority) = (&lane.transport, Some(lane.priority));
            let connection = Connection { transport, priority, lane: Lane::Urgent, ..connection };
            context.connect(session, owner.on_urgent_lane(), connection).await?;
        }
        Ok(())
    }

    /// Adds devices that share a connection, and keeps it going.
    async fn start_channel(&mut self, context: &Context, shared: &SharedChannel, devices: &[Tabled]) -> io::Result<()> {
        let Some((first, _)) = devices.first() else { return Ok(()) };
        let (transport, seed) = (transport_of(&first.config)?, u64::from(first.id.0));
        let mut channel = Channel::new(shared.one_at_a_time);
        let mut members = Vec::new();
        for (device, _) in devices {
            let dnp3 = dnp3_of(&device.config)?;
            let (local, remote) = (LinkAddress::new(dnp3.master), LinkAddress::new(dnp3.outstation));
            members.push(channel.add(local, Some(remote), master_of(dnp3, transport)).map_err(io::Error::other)?);
        }
        let session = Session::new(context.shard(), channel, Limits::default());
        self.channels.push(session.clone());
        let mut owners = Vec::new();
        for (device, member) in devices.iter().zip(members) {
            owners.push(self.start_session(context, device, (Link::Shared(session.clone(), member), None))?);
        }
        // One connection carries one priority: that of its most urgent device.
        let priority = devices.iter().filter_map(|(device, _)| device.config.priority).min();
        let ids: Vec<DeviceId> = devices.iter().map(|(device, _)| device.id).collect();
        let connection = Connection { name: &shared.name, transport, priority, seed, devices: &ids, lane: Lane::Main };
        context.connect(session, ChannelOwner { owners }, connection).await
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
        let index = PointIndex::new(Arc::clone(&config.points));
        let lanes = urgent.as_ref().map(|_| RefCell::new(Lanes::new(config.points.len(), dnp3.response_timeout)));
        keep_freezing(context.shard(), &self.freezes, &config.topic, &main, &dnp3.freezes);
        let tasks = ScheduledTasks::of(dnp3, &config.points);
        let (main, urgent) = (Association::new(main), urgent.map(Association::new));
        let session = Rc::new(Dnp3Session { topic: config.topic.clone(), index, main, urgent, lanes });
        let priority = config.priority.into_iter().chain(dnp3.lane.as_ref().map(|lane| lane.priority)).min();
        let reporter = context.add_device(device, priority, Rc::clone(&session) as Rc<dyn DeviceSession>)?;
        self.sessions.push(Rc::clone(&session));
        let (association, freezes) = (session.main.clone(), Rc::clone(&self.freezes));
        Ok(DeviceOwner { reporter, lane: Lane::Main, association, device: session, tasks, freezes })
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
