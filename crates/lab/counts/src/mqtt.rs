//! A PUBLISH, read and written.

use crate::meter::Operation;
use crate::room::{connect, publish};
use crate::values::{TABLE_BYTES, table};
use std::sync::Arc;
use tieline_core::{Instant, Machine, Now, Topic};
use tieline_mqtt::{Accept, Message, ServerConfig, ServerEvent, ServerSession, Version, encode_publish};

/// Counts from bytes to the event.
pub fn read_publish() -> Result<Operation, String> {
    let now = Now::default();
    let mut session = ServerSession::new(Arc::new(ServerConfig::default()), 7);
    session.handle_connected(now);
    let hello = connect("counts");
    if session.handle_input(now, &hello) != hello.len() || session.poll_event().is_none() {
        return Err("the client was not heard".to_owned());
    }
    if !session.accept(now, Accept::default()) {
        return Err("the client was not let in".to_owned());
    }
    while session.poll_transmit(now, &mut Vec::new()) {}
    let bytes = publish("plant/1/unit/2/table", &table(1));
    Ok(Box::new(move |meter| {
        let event = meter.count(|| {
            session.handle_input(now, &bytes);
            session.poll_event()
        });
        match event {
            Some(ServerEvent::Publish(request)) if request.message.payload.len() == TABLE_BYTES => Ok(()),
            other => Err(format!("no PUBLISH: {other:?}")),
        }
    }))
}

/// Counts the frame that all subscribers share.
pub fn write_publish() -> Result<Operation, String> {
    let topic = Topic::new("plant/1/unit/2/table").map_err(|error| error.to_string())?;
    let message = Message::new(topic, table(1), Instant::ZERO);
    Ok(Box::new(move |meter| {
        let frame = meter.count(|| encode_publish(Version::V5, &message, false, Instant::ZERO));
        match frame {
            Some(frame) if frame.len() > TABLE_BYTES => Ok(()),
            other => Err(format!("no frame: {other:?}")),
        }
    }))
}
