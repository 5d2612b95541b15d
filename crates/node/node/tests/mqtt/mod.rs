//! MQTT clients of a node, packet by packet: what the server does between connections and between clients.

mod conditions;
mod declared;
mod groups;
mod kept;
mod peer;
mod publishers;
mod reasons;
mod retained;
mod selectors;
mod sessions;
mod statistics;
mod subscriptions;
mod watchers;
mod wills;
