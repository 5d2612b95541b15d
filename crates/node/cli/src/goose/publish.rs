//! `tieline goose publish`.

use super::args::PublishArgs;
use crate::lines::{Asked, obey_set, obey_until_quit};
use crate::log;
use anyhow::{Context as _, Result, anyhow};
use serde_json::json;
use std::io::{self, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use tieline_core::{Instant, Now};
use tieline_goose::{
    Curve, ETHERTYPE, FrameHead, MacAddress, Publisher, PublisherConfig, TimeQuality, UtcTime, Value, VlanTag,
};
use tieline_net::{Clock, Counters, DatagramMachine, Endpoint, EndpointOwner, Marks, PacketSocket, ShardThread};
use tieline_node::config::{ConfigError, Findings, PointConfig, ProtocolName, read_points, values_of};
use tokio::sync::mpsc;

/// Lines that may wait.
const LINES_MAX: usize = 1;

/// The published control block.
struct Published(Publisher);

impl DatagramMachine for Published {
    type Event = ();
    type Address = ();

    /// Of other publishers.
    fn handle_datagram(&mut self, _now: Now, (): (), _frame: &[u8]) {}

    /// What is due is sent.
    fn handle_timeout(&mut self, _now: Now) {}

    fn timeout(&self) -> Option<Instant> {
        self.0.timeout()
    }

    fn poll_transmit(&mut self, now: Now, out: &mut Vec<u8>) -> Option<()> {
        self.0.poll_transmit(now, out).then_some(())
    }

    fn poll_event(&mut self, _now: Now) -> Option<()> {
        None
    }
}

struct Nobody;

impl EndpointOwner<Published> for Nobody {
    fn event(&mut self, _endpoint: &Endpoint<Published>, _now: Now, (): ()) {}
}

/// Publishes until SIGINT, SIGTERM or the line `quit`.
pub fn publish(args: &PublishArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let text = std::fs::read_to_string(&args.file).with_context(|| args.file.display().to_string())?;
    let mut findings = Findings::default();
    let file = args.file.display().to_string();
    let points = read_points(&mut findings, &file, &text, ProtocolName::Goose);
    let points = points.ok_or_else(|| ConfigError(findings.sorted()))?;
    let values = values_of(&points).map_err(|found| anyhow!("{file}: {found}, expected a whole data set"))?;
    let config = config_of(args);
    let (lines, asked) = mpsc::channel(LINES_MAX);
    let (ready, started) = blocking::sync_channel(1);
    let interface = args.interface.clone();
    let _thread =
        ShardThread::spawn("goose", Clock::start(), Arc::new(Counters::default()), move |shard| async move {
            let opened = PacketSocket::open(&interface, ETHERTYPE).and_then(|socket| {
                let source = MacAddress(socket.card());
                let frame = FrameHead { source, ..config.frame };
                let mut publisher =
                    Publisher::new(PublisherConfig { frame, ..config }, values).map_err(io::Error::other)?;
                publisher.start(shard.now());
                let endpoint = Endpoint::new(&shard, Published(publisher));
                endpoint.start_packets(Rc::new(socket), Some(Marks::PROTECTION), Nobody)?;
                Ok(endpoint)
            });
            match opened {
                Ok(endpoint) => {
                    let _ = ready.send(Ok(()));
                    serve(&endpoint, &points, asked).await;
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
    started.recv().map_err(|_| anyhow!("the publisher ended before it began"))??;
    let mut out = io::stdout().lock();
    match args.json {
        true => writeln!(out, "{}", json!({ "publish": args.control_block, "interface": args.interface }))?,
        false => writeln!(out, "publishing {} on {}", args.control_block, args.interface)?,
    }
    out.flush()?;
    drop(out);
    obey_until_quit(move |text| obey_set(text, "publisher", &lines))?;
    Ok(ExitCode::SUCCESS)
}

fn config_of(args: &PublishArgs) -> PublisherConfig {
    let tag = VlanTag { priority: args.vlan_priority, is_drop_eligible: false, id: args.vlan_id };
    PublisherConfig {
        frame: FrameHead {
            destination: args.destination,
            source: MacAddress::default(),
            tag: Some(tag),
            app_id: args.app_id,
            reserved1: 0,
            reserved2: 0,
            is_simulated: args.simulated,
        },
        gocb_ref: args.control_block.as_str().into(),
        dat_set: args.data_set.as_str().into(),
        go_id: Some(args.go_id.as_deref().unwrap_or(&args.control_block).into()),
        conf_rev: args.conf_rev,
        needs_commissioning: false,
        time_quality: TimeQuality::UNSYNCHRONIZED,
        curve: Curve { min: args.repeat_min, max: args.repeat_max.max(args.repeat_min) },
    }
}

async fn serve(endpoint: &Endpoint<Published>, points: &[PointConfig], mut asked: mpsc::Receiver<Asked>) {
    while let Some(Asked { point, value, answer }) = asked.recv().await {
        let _ = answer.send(set(endpoint, points, &point, &value));
    }
    // Without an operator it goes on.
    std::future::pending().await
}

fn set(endpoint: &Endpoint<Published>, points: &[PointConfig], name: &str, text: &str) -> Result<(), String> {
    let point = points.iter().find(|point| point.name == name);
    let place = point.and_then(|point| point.address.goose());
    let place = place.ok_or_else(|| format!("there is no point {name:?}"))?;
    let value = place.value_of(text);
    let value = value.ok_or_else(|| format!("{text:?} is no value of the type {}", place.kind.name()))?;
    let set = endpoint.with(|published, now| {
        let time = Value::UtcTime(UtcTime::new(now.utc, TimeQuality::UNSYNCHRONIZED));
        let time = place.time.iter().map(|path| (path.clone(), time.clone()));
        let changes: Vec<_> = std::iter::once((place.path.clone(), value)).chain(time).collect();
        published.0.set(now, &changes)
    });
    set.map_err(|error| error.to_string())
}
