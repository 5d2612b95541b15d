//! Tries a device over a real socket and says what each step came to and cost: `cargo run --release -p tieline-bacnet
//! --example probe 127.0.0.1:47808`. It learns the device, reads the object list (beside the same datagrams from a bare socket, which
//! is what the device itself takes) and 800 present values (in one request, and in chunks), writes and relinquishes analog-value 0 at priority 8, and subscribes to it with and without confirmation.

#![expect(clippy::print_stdout, reason = "what was found is the output")]

use std::error::Error;
use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_bacnet::client::{Client, ClientConfig, Event, Request, Target};
use tieline_bacnet::device::{Device, DeviceConfig, DeviceEvent};
use tieline_bacnet::service::{ReadMultipleAck, Write};
use tieline_bacnet::{ObjectId, ObjectType, Peer, PropertyId, PropertyRef, Value};
use tieline_core::{Instant, Now, Timestamp};

type Done<T> = Result<T, Box<dyn Error>>;

struct Probe {
    socket: UdpSocket,
    client: Client,
    device: Device,
    instance: Option<u32>,
    start: std::time::Instant,
    /// What goes out, and none where something comes in.
    moved: Vec<Option<Vec<u8>>>,
}

/// How often what is short is timed.
const TIMES: usize = 21;

fn main() -> Done<()> {
    let address: SocketAddrV4 =
        std::env::args().nth(1).ok_or("expected an address such as 127.0.0.1:47808")?.parse()?;
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let client = Client::new(ClientConfig::default());
    let device = Device::new(Peer::direct(address), None, DeviceConfig::default());
    let mut probe = Probe { socket, client, device, instance: None, start: std::time::Instant::now(), moved: vec![] };
    probe.who_is()?;
    probe.learn()?;
    let objects = probe.objects()?;
    let values: Vec<_> = objects.iter().filter(|object| object.object_type() == ObjectType::ANALOG_VALUE).collect();
    let references: Vec<_> =
        (0..800).filter_map(|i| values.get(i % values.len().max(1))).map(|o| present(**o)).collect();
    probe.read_at_once(&references)?;
    probe.read_chunks(&references)?;
    let object = ObjectId::new(ObjectType::ANALOG_VALUE, 0);
    probe.command(object)?;
    for confirmed in [false, true] {
        probe.changes(object, confirmed)?;
    }
    println!("{:?}", probe.client.counters());
    Ok(())
}

const fn present(object: ObjectId) -> PropertyRef {
    PropertyRef::new(object, PropertyId::PRESENT_VALUE)
}

/// Processor time of this process, user and system, from `/proc`: in steps of 10 ms.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = |place: usize| stat.split(' ').nth(place).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(13) + ticks(14)) * 10)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

impl Probe {
    fn now(&self) -> Now {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mono = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        Now { mono: Instant(mono), utc: Timestamp::from_micros(i64::try_from(utc.as_micros()).unwrap_or(0)) }
    }

    /// One turn: what waits goes out, what comes is taken.
    fn turn(&mut self) -> Done<Vec<Event>> {
        let mut out = Vec::new();
        while let Some(to) = self.client.poll_transmit(self.now(), &mut out) {
            self.socket.send_to(&out, SocketAddr::V4(to))?;
            self.moved.push(Some(std::mem::take(&mut out)));
        }
        let now = self.now();
        let deadlines = [self.client.timeout(), self.device.timeout()];
        let wait = deadlines.into_iter().flatten().min().map_or(Duration::from_millis(50), |at| at.since(now.mono));
        self.socket.set_read_timeout(Some(wait.clamp(Duration::from_millis(1), Duration::from_millis(50))))?;
        let mut buffer = [0; 2048];
        if let Ok((count, SocketAddr::V4(from))) = self.socket.recv_from(&mut buffer) {
            let now = self.now();
            self.moved.push(None);
            self.client.handle_datagram(now, from, buffer.get(..count).unwrap_or_default());
        }
        let now = self.now();
        self.client.handle_timeout(now);
        self.device.handle_timeout(now, &mut self.client);
        let mut events = Vec::new();
        while let Some(event) = self.client.poll_event() {
            events.extend(self.device.handle_event(now, &mut self.client, event));
        }
        Ok(events)
    }

    fn event(&mut self) -> Done<DeviceEvent> {
        loop {
            if let Some(event) = self.device.poll_event() {
                return Ok(event);
            }
            self.turn()?;
        }
    }

    fn who_is(&mut self) -> Done<()> {
        self.client.discover(Target::Peer(self.device.peer()), 0, 4_194_303, 4_194_304)?;
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if let Some(Event::IAm(_, i_am)) = self.turn()?.into_iter().find(|event| matches!(event, Event::IAm(..))) {
                println!("I-Am: {i_am:?}");
                self.device = Device::new(self.device.peer(), Some(i_am.device.instance()), DeviceConfig::default());
                self.instance = Some(i_am.device.instance());
                return Ok(());
            }
        }
        println!("no I-Am");
        Ok(())
    }

    fn learn(&mut self) -> Done<()> {
        let mut times = Vec::new();
        let before = self.client.counters().requests;
        for _ in 0..TIMES {
            let start = std::time::Instant::now();
            self.device.learn(self.now(), &mut self.client)?;
            let event = self.event()?;
            times.push(start.elapsed());
            if times.len() == TIMES {
                println!("{event:?}");
            }
        }
        let requests = (self.client.counters().requests - before) / times.len() as u64;
        println!("what it is: {requests} requests in {:?}", median(&mut times));
        Ok(())
    }

    fn objects(&mut self) -> Done<Vec<ObjectId>> {
        let (mut ours, mut floor, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..TIMES {
            self.moved.clear();
            let start = std::time::Instant::now();
            self.device.read_object_list(self.now(), &mut self.client)?;
            let DeviceEvent::ObjectList { objects, .. } = self.event()? else { return Err("no object list".into()) };
            ours.push(start.elapsed());
            found = objects?;
            // The last acknowledgement.
            self.turn()?;
            floor.push(self.replay()?);
        }
        let (ours, floor) = (median(&mut ours), median(&mut floor));
        println!(
            "object list: {} objects in {ours:?}, the same datagrams from a bare socket in {floor:?}",
            found.len()
        );
        Ok(found)
    }

    /// What the device takes for the same datagrams.
    fn replay(&self) -> Done<Duration> {
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        let (start, mut last, mut buffer) = (std::time::Instant::now(), Duration::ZERO, [0; 2048]);
        for datagram in &self.moved {
            match datagram {
                Some(datagram) => drop(socket.send_to(datagram, SocketAddr::V4(self.device.peer().address))?),
                None => {
                    socket.recv_from(&mut buffer)?;
                    last = start.elapsed();
                }
            }
        }
        Ok(last)
    }

    fn read_at_once(&mut self, references: &[PropertyRef]) -> Done<()> {
        let start = std::time::Instant::now();
        let sent = self.client.request(self.now(), self.device.peer(), Request::ReadMultiple(references));
        if let Err(error) = sent {
            println!("{} values at once: {error}", references.len());
            return Ok(());
        }
        loop {
            for event in self.turn()? {
                if let Event::Answer { result, .. } = event {
                    let Ok(answer) = result.inspect_err(|failure| println!("at once: {failure}")) else {
                        return Ok(());
                    };
                    let mut results = ReadMultipleAck::new(&answer);
                    let values = std::iter::from_fn(|| results.next_value()).filter(|r| matches!(r, Ok((_, Ok(_)))));
                    println!("{} values at once, {} bytes, in {:?}", values.count(), answer.len(), start.elapsed());
                    return Ok(());
                }
            }
        }
    }

    fn read_chunks(&mut self, references: &[PropertyRef]) -> Done<()> {
        for chunk_max in [20, 100] {
            let config = DeviceConfig { chunk_max, ..DeviceConfig::default() };
            self.device = Device::new(self.device.peer(), self.instance, config);
            self.learn()?;
            let (start, processor, rounds) = (std::time::Instant::now(), processor_time(), 60);
            let mut count = 0_u32;
            for _ in 0..rounds {
                self.device.read(self.now(), &mut self.client, references.to_vec())?;
                let DeviceEvent::Read { results, .. } = self.event()? else { return Err("no values".into()) };
                count += u32::try_from(results.iter().filter(|(_, value)| value.is_ok()).count())?;
            }
            let processor = processor_time().saturating_sub(processor);
            println!(
                "{count} values by {chunk_max} in {:?}, {:.2} µs of processor time a value",
                start.elapsed(),
                processor.as_secs_f64() * 1e6 / f64::from(count.max(1))
            );
        }
        Ok(())
    }

    fn command(&mut self, object: ObjectId) -> Done<()> {
        for value in [Value::Real(42.5), Value::Null] {
            let write = Write { reference: present(object), value, priority: Some(8) };
            self.device.write(self.now(), &mut self.client, write, None)?;
            println!("{:?}", self.event()?);
            let array = PropertyRef::new(object, PropertyId::PRIORITY_ARRAY);
            let unknown = PropertyRef::new(object, PropertyId::LOG_BUFFER);
            self.device.read(self.now(), &mut self.client, vec![present(object), array, unknown])?;
            println!("{:?}", self.event()?);
        }
        Ok(())
    }

    fn changes(&mut self, object: ObjectId, confirmed: bool) -> Done<()> {
        let config = DeviceConfig { confirmed, lifetime_s: 60, ..DeviceConfig::default() };
        self.device = Device::new(self.device.peer(), self.instance, config);
        self.device.subscribe(self.now(), object)?;
        let (start, mut next) = (std::time::Instant::now(), 1.0_f32);
        while start.elapsed() < Duration::from_secs(3) {
            self.turn()?;
            while let Some(event) = self.device.poll_event() {
                println!("{event:?}");
            }
            if start.elapsed().as_secs_f32() > next * 0.6 {
                next += 1.0;
                let write = Write { reference: present(object), value: Value::Real(next * 10.0), priority: Some(8) };
                self.device.write(self.now(), &mut self.client, write, None)?;
            }
        }
        self.device.unsubscribe(object);
        while !self.device.is_idle() {
            self.turn()?;
        }
        Ok(())
    }
}
