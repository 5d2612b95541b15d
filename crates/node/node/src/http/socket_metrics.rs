//! Metrics of sockets.

use tieline_net::{Counters, SocketShardStatus};
use tieline_service::exposition::Exposition;

/// Nothing where the bus has the sockets itself.
pub fn socket_shard_metrics(e: &mut Exposition, shards: &[SocketShardStatus]) {
    let each = |of: fn(&SocketShardStatus) -> u64| {
        shards.iter().enumerate().map(move |(number, status)| (number.to_string(), of(status)))
    };
    let connections = ("tieline_socket_shard_connections", "MQTT connections of each socket shard.", "gauge");
    e.labelled(connections, "shard", each(|status| status.connections as u64));
    let refusing =
        ("tieline_socket_shard_refusing", "Of these, connections whose sockets cannot take more bytes.", "gauge");
    e.labelled(refusing, "shard", each(|status| status.refusing as u64));
    let batches = (
        "tieline_socket_shard_batches_total",
        "Batches of reads and writes that the bus gave to each socket shard.",
        "counter",
    );
    e.labelled(batches, "shard", each(|status| status.batches));
    let waiting = ("tieline_socket_shard_waiting", "Batches of each socket shard that are not done.", "gauge");
    e.labelled(waiting, "shard", each(|status| status.waiting));
}

pub fn socket_metrics(e: &mut Exposition, columns: &[(&str, &Counters)]) {
    let counts: Vec<Vec<(&'static str, u64)>> = columns.iter().map(|(_, counters)| counters.each().collect()).collect();
    let help = "Sockets of devices and of MQTT clients: see docs/metrics.md.";
    for (at, (name, _)) in counts.first().into_iter().flatten().enumerate() {
        let count = |counts: &Vec<(_, u64)>| counts.get(at).map_or(0, |(_, count)| *count);
        let samples = columns.iter().zip(&counts).map(|((column, _), counts)| (column, count(counts)));
        e.labelled((&format!("tieline_socket_{name}_total"), help, "counter"), "column", samples);
    }
}
