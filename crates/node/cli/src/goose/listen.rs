//! `tieline goose listen`.

use super::args::ListenArgs;
use crate::signals::Signals;
use crate::{log, terminal};
use anyhow::{Result, anyhow};
use serde_json::{Value as Json, json};
use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc as blocking;
use tieline_core::{Instant, Now};
use tieline_goose::{Data, ETHERTYPE, Members, Message, shown_data, shown_head};
use tieline_net::{Clock, Counters, DatagramMachine, Endpoint, EndpointOwner, PacketSocket, ShardThread};
use tokio::sync::oneshot;

/// Control blocks whose numbers are remembered; of more, every message is shown.
const BLOCKS_MAX: usize = 4096;

/// Shows frames of an interface.
#[derive(Default)]
struct Listener {
    control_block: Option<String>,
    changes: bool,
    json: bool,
    known: HashMap<Box<str>, u32>,
    lines: VecDeque<String>,
}

impl Listener {
    fn show(&mut self, now: Now, frame: &[u8]) -> String {
        match Message::parse(frame) {
            Ok(message) if self.json => object(now, &message).to_string(),
            Ok(message) => {
                let (head, data) = (shown_head(&message), shown_data(message.pdu.all_data));
                format!("{} {} > {} {head}: {data}", now.utc, message.frame.source, message.frame.destination)
            }
            Err(error) if self.json => json!({ "time": now.utc.to_string(), "error": error.to_string() }).to_string(),
            Err(error) => format!("{} {error}", now.utc),
        }
    }

    fn is_wanted(&mut self, frame: &[u8]) -> bool {
        let Ok(message) = Message::parse(frame) else { return self.control_block.is_none() };
        let (block, st_num) = (message.pdu.head.gocb_ref, message.pdu.head.st_num);
        if self.control_block.as_deref().is_some_and(|wanted| wanted != block) {
            return false;
        }
        let is_same = self.known.get(block) == Some(&st_num);
        if !is_same && (self.known.contains_key(block) || self.known.len() < BLOCKS_MAX) {
            self.known.insert(block.into(), st_num);
        }
        !(self.changes && is_same)
    }
}

fn object(now: Now, message: &Message<'_>) -> Json {
    let (frame, head) = (&message.frame, &message.pdu.head);
    json!({
        "time": now.utc.to_string(),
        "source": frame.source.to_string(),
        "destination": frame.destination.to_string(),
        "app_id": frame.app_id,
        "control_block": head.gocb_ref,
        "data_set": head.dat_set,
        "go_id": head.go_id,
        "changed": head.time.timestamp().to_string(),
        "clock_synchronized": head.time.quality.is_trusted(),
        "st_num": head.st_num,
        "sq_num": head.sq_num,
        "conf_rev": head.conf_rev,
        "time_allowed_ms": head.time_allowed_ms,
        "simulated": message.is_simulated(),
        "needs_commissioning": head.needs_commissioning,
        "values": values(message.pdu.all_data),
    })
}

fn values(members: Members<'_>) -> Json {
    Json::Array(members.map(value).collect())
}

fn value(data: Data<'_>) -> Json {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match data {
        Data::Array(members) | Data::Structure(members) => values(members),
        Data::Boolean(on) => json!(on),
        Data::BitString(bits) => {
            let bit = |at| if bits.is_set(at) { '1' } else { '0' };
            json!((0..bits.count()).map(bit).collect::<String>())
        }
        Data::Integer(number) => json!(number),
        Data::Unsigned(number) => json!(number),
        Data::Float32(number) => json!(tieline_core::shortest(number.into())),
        Data::Float64(number) => json!(number),
        Data::Octets(bytes) | Data::BinaryTime(bytes) | Data::Other(_, bytes) => json!(hex(bytes)),
        Data::VisibleString(text) | Data::MmsString(text) => json!(text),
        Data::UtcTime(time) => json!(time.timestamp().to_string()),
    }
}

impl DatagramMachine for Listener {
    type Event = String;
    type Address = ();

    fn handle_datagram(&mut self, now: Now, (): (), frame: &[u8]) {
        if self.is_wanted(frame) {
            let line = self.show(now, frame);
            self.lines.push_back(line);
        }
    }

    fn handle_timeout(&mut self, _now: Now) {}

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn poll_transmit(&mut self, _now: Now, _out: &mut Vec<u8>) -> Option<()> {
        None
    }

    fn poll_event(&mut self, _now: Now) -> Option<String> {
        self.lines.pop_front()
    }
}

/// Prints lines until there were enough, or nobody reads them.
struct Printer {
    left: Option<u64>,
    json: bool,
    done: Option<oneshot::Sender<()>>,
}

impl EndpointOwner<Listener> for Printer {
    fn event(&mut self, _endpoint: &Endpoint<Listener>, _now: Now, line: String) {
        if self.done.is_none() {
            return;
        }
        let line = if self.json { terminal::json(&line) } else { terminal::one_line(&line).into_owned() };
        let mut out = io::stdout().lock();
        let told = writeln!(out, "{line}").and_then(|()| out.flush());
        self.left = self.left.map(|left| left.saturating_sub(1));
        if told.is_err() || self.left == Some(0) {
            let _ = self.done.take().map(|done| done.send(()));
        }
    }
}

/// Prints until SIGINT, SIGTERM, or enough messages.
pub fn listen(args: &ListenArgs) -> Result<ExitCode> {
    log::start("warn", args.json);
    let signals = Signals::listen()?;
    let (done, is_done) = oneshot::channel();
    let (ready, started) = blocking::sync_channel(1);
    let listener = Listener {
        control_block: args.control_block.clone(),
        changes: args.changes,
        json: args.json,
        ..Listener::default()
    };
    let printer = Printer { left: args.count, json: args.json, done: Some(done) };
    let interface = args.interface.clone();
    let _thread =
        ShardThread::spawn("goose", Clock::start(), Arc::new(Counters::default()), move |shard| async move {
            let endpoint = Endpoint::new(&shard, listener);
            let opened = PacketSocket::open(&interface, ETHERTYPE).and_then(|socket| {
                socket.join_all()?;
                endpoint.start_packets(Rc::new(socket), None, printer)
            });
            match opened {
                Ok(task) => {
                    let _ = ready.send(Ok(()));
                    let _ = task.await;
                }
                Err(error) => drop(ready.send(Err(error))),
            }
        })?;
    started.recv().map_err(|_| anyhow!("the listener ended before it began"))??;
    signals.until_done(is_done)?;
    Ok(ExitCode::SUCCESS)
}
