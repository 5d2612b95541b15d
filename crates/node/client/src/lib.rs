//! A client of a Tieline node, or of any MQTT server, for the command line and tests.
//!
//! In: an address and requests. Out: messages ([`MqttClient`], asynchronous) and responses of the HTTP API
//! ([`HttpClient`], blocking).
//!
//! Never: a decision about a value, output to a terminal.
//!
//! Read first: `mqtt/mod.rs`, then `http.rs`.

mod fetch;
mod http;
mod mqtt;
mod tls;

pub use fetch::{Fetch, Post};
pub use http::{HttpClient, HttpError};
pub use mqtt::{Done, MqttClient, MqttError, MqttOptions, Outbox, Publishing, Subscription, Values, offer};
pub use tieline_delta::{DeltaError, Event, SenderStats};
pub use tieline_mqtt::{Message, Qos, ReasonCode, Received, Version};
pub use tieline_net::tls::{ClientTls, TlsError};
