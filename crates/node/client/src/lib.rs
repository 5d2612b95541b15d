//! A client of a Tieline node, or of any MQTT server: what the command line and tests talk through.
//!
//! In: an address and what to ask. Out: messages ([`MqttClient`], asynchronous) and answers of the HTTP API
//! ([`HttpClient`], blocking).
//!
//! Never: a decision about a value; never anything printed.
//!
//! Read first: `mqtt/mod.rs`, then `http.rs`.

mod http;
mod mqtt;
mod tls;

pub use http::{HttpClient, HttpError};
pub use mqtt::{Done, MqttClient, MqttError, MqttOptions, Outbox, Subscription, Values, offer};
pub use tieline_delta::{DeltaError, Event, SenderStats};
pub use tieline_mqtt::{Message, Qos, ReasonCode, Received, Version};
pub use tieline_net::tls::{ClientTls, TlsError};
