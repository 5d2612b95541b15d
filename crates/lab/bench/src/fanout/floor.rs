//! The floor: writes of the same sizes at the same times to as many sockets, and no logic but who is due.

use super::plan::Plan;
use super::publish::now_us;
use super::speech::Speech;
use super::values::Writer;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// How long the writer rests between two looks at what is due.
const REST: Duration = Duration::from_micros(200);
/// How long a full socket is left alone.
const RETRY: Duration = Duration::from_micros(50);

/// The writer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct FloorRole {
    /// The run.
    pub plan: Plan,
    /// Sockets that come.
    pub sockets: usize,
}

/// Plays the role: says its address, takes the sockets and says `ready`, is told when the first update and the end are
/// due, writes, and says `written`.
pub fn play_floor(role: &FloorRole, input: &mut dyn BufRead, output: &mut dyn Write) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    writeln!(output, "{}", listener.local_addr()?)?;
    let mut sockets: Vec<Option<TcpStream>> = Vec::new();
    sockets.resize_with(role.sockets, || None);
    for _ in 0..role.sockets {
        let (mut socket, _) = listener.accept()?;
        let mut number = [0; 4];
        socket.read_exact(&mut number)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let place = usize::try_from(u32::from_be_bytes(number))?;
        *sockets.get_mut(place).context("the number of a subscriber")? = Some(socket);
    }
    writeln!(output, "ready")?;
    let audience = audience(&role.plan);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let (start_us, end_us): (u64, u64) = serde_json::from_str(&line).context("start and end")?;
    let (mut values, mut frame, mut sent) = (Writer::new(&role.plan), Vec::new(), 0);
    let all = role.plan.due_by(end_us.saturating_sub(start_us));
    while sent < all {
        let due = role.plan.due_by(now_us().saturating_sub(start_us)).min(all);
        for update in sent..due {
            let topic = role.plan.topic_at(update);
            let value = values.write(topic, role.plan.round_of(update), start_us + role.plan.due_us(update));
            frame.clear();
            Speech::Raw.publish(topic, value, false, &mut frame);
            for subscriber in audience.get(topic).into_iter().flatten() {
                if let Some(Some(socket)) = sockets.get_mut(*subscriber as usize) {
                    write_whole(socket, &frame)?;
                }
            }
        }
        sent = due;
        std::thread::sleep(REST);
    }
    writeln!(output, "written")?;
    // The sockets stay until the run is over.
    input.read_line(&mut line)?;
    Ok(())
}

fn audience(plan: &Plan) -> Vec<Vec<u32>> {
    let mut audience = vec![Vec::new(); plan.topics];
    for subscriber in 0..plan.subscribers {
        for subscription in 0..plan.subscriptions_each {
            if let Some(of_topic) = audience.get_mut(plan.topic_of(subscriber, subscription)) {
                of_topic.push(u32::try_from(subscriber).unwrap_or(u32::MAX));
            }
        }
    }
    audience
}

fn write_whole(socket: &mut TcpStream, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        match socket.write(bytes) {
            Ok(taken) => bytes = bytes.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(RETRY),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
