//! MQTT clients of a node, packet by packet: what the server does between connections and between clients.

mod groups;
mod peer;
mod retained;
mod sessions;

mod subscriptions;
mod wills;
