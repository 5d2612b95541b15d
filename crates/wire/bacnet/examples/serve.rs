//! Serves a simulated device over a real socket until the end of its input: `cargo run -p tieline-bacnet --example serve`. It
//! says where, and each write of a client, a line of JSON each; `set VALUE` sets analog-input 1.

#![expect(clippy::print_stdout, reason = "what happens is the output")]

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_bacnet::server::{Object, Server, ServerConfig, ServerEvent};
use tieline_bacnet::{ObjectId, ObjectType, Unit, Value};
use tieline_core::{Instant, Now, Timestamp};

/// How long a turn waits for a datagram.
const TURN: Duration = Duration::from_millis(20);

fn main() -> Result<(), Box<dyn Error>> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(TURN))?;
    let mut server = served();
    println!("{{\"listen\": \"{}\"}}", socket.local_addr()?);
    let (start, commands) = (std::time::Instant::now(), commands());
    let (mut buffer, mut out) = ([0; 2048], Vec::new());
    loop {
        let utc = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mono = Instant(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let now = Now { mono, utc: Timestamp::from_micros(i64::try_from(utc.as_micros()).unwrap_or(0)) };
        match commands.try_recv() {
            Ok(line) => {
                if let Some(value) = line.strip_prefix("set ").and_then(|value| value.parse().ok()) {
                    server.set_value(now, ObjectId::new(ObjectType::ANALOG_INPUT, 1), Value::Real(value));
                }
                println!("{{\"answer\": \"ok\"}}");
            }
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => return Ok(()),
        }
        if let Ok((count, SocketAddr::V4(from))) = socket.recv_from(&mut buffer) {
            server.handle_datagram(now, from, buffer.get(..count).unwrap_or_default());
        }
        server.handle_timeout(now);
        while let Some(event) = server.poll_event() {
            if let ServerEvent::Written { reference, priority, .. } = event {
                println!(
                    "{{\"write\": {{\"object\": \"{}\", \"priority\": {}}}}}",
                    reference.object,
                    priority.unwrap_or(16)
                );
            }
        }
        while let Some(to) = server.poll_transmit(now, &mut out) {
            socket.send_to(&std::mem::take(&mut out), to)?;
        }
    }
}

fn served() -> Server {
    let mut server = Server::new(ServerConfig { instance: 4001, name: "served".into(), ..ServerConfig::default() });
    let input = Object::new(ObjectType::ANALOG_INPUT, 1, "input", Value::Real(21.5));
    server.add(input.with_units(Unit::DEGREES_CELSIUS).with_cov_increment(0.5));
    server.add(Object::new(ObjectType::ANALOG_OUTPUT, 1, "output", Value::Real(5.0)));
    server
}

/// Lines of the input, as they come.
fn commands() -> Receiver<String> {
    let (lines, received) = channel();
    std::thread::spawn(move || {
        let input = std::io::stdin();
        let mut line = String::new();
        while input.read_line(&mut line).is_ok_and(|count| count > 0) {
            if line.trim() == "quit" || lines.send(line.trim().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
    received
}
