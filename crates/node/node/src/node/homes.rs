//! Which shard each device is on.

use crate::config::DeviceConfig;
use std::collections::HashMap;
use std::net::SocketAddrV4;

/// What devices share that one shard must have.
#[derive(PartialEq, Eq, Hash)]
enum Home<'a> {
    Network(&'a str),
    Channel(&'a str),
    Port(SocketAddrV4),
}

/// The shard of each device: one after the other, and those that share a connection, a local port or a network's limits together.
pub(super) fn homes(devices: &[DeviceConfig], shards: usize) -> Vec<usize> {
    let mut first: HashMap<Home<'_>, usize> = HashMap::new();
    let mut homes = Vec::with_capacity(devices.len());
    for (number, device) in devices.iter().enumerate() {
        let network = device.network.as_ref().map(|network| Home::Network(&network.name));
        let channel = device.channel.as_ref().map(|channel| Home::Channel(&channel.name));
        let local = device.protocol.bacnet().map(|bacnet| bacnet.socket.local).filter(|local| local.port() != 0);
        let place =
            network.or(channel).or(local.map(Home::Port)).map_or(number, |group| *first.entry(group).or_insert(number));
        homes.push(place % shards.max(1));
    }
    homes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::from_text;

    #[test]
    fn what_devices_share_is_on_one_shard() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog-input,0\n").unwrap();
        let device = |name: &str, more: &str| {
            format!("[device.{name}]\nprotocol='bacnet'\naddress='10.0.0.5'\npoints='p.csv'\n{more}\n")
        };
        let port = "bacnet.local='0.0.0.0:47808'";
        let text = "[network.n]\n".to_owned()
            + &[("a", ""), ("b", port), ("c", ""), ("d", "network='n'"), ("e", port), ("f", "network='n'")]
                .map(|(name, more)| device(name, more))
                .concat();
        let config = from_text("t.toml", &text, folder.path()).unwrap();
        assert_eq!(homes(&config.devices, 4), [0, 1, 2, 3, 1, 3]);
        assert_eq!(homes(&config.devices, 0), [0; 6]);
    }
}
