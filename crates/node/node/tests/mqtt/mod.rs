//! MQTT clients of a node, packet by packet: what the server does between connections and between clients.

mod peer;
mod retained;
mod sessions;
mod shared;
mod subscriptions;
mod wills;
