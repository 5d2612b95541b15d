//! Which shard each device is on.

use super::plan::Placed;
use crate::config::DeviceConfig;
use std::collections::HashMap;
use std::net::SocketAddrV4;

/// What devices share that one shard must have.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Home<'a> {
    Network(&'a str),
    Channel(&'a str),
    Port(SocketAddrV4),
    Interface(&'a str),
}

fn home_of(device: &DeviceConfig) -> Option<Home<'_>> {
    let network = device.network.as_ref().map(|network| Home::Network(&network.name));
    let channel = device.channel.as_ref().map(|channel| Home::Channel(&channel.name));
    network.or(channel).or(device.local_port().map(Home::Port)).or(device.interface().map(Home::Interface))
}

/// The shard of each device. Those that share a connection, a local port, a network interface or a network's limits are together; one that is
/// `known` stays where it is, unless those with which it shares something are elsewhere; the others go where there are the
/// fewest.
pub(super) fn homes(devices: &[DeviceConfig], known: &[Option<&Placed>], shards: usize) -> Vec<usize> {
    let shards = shards.max(1);
    let mut of_group: HashMap<Home<'_>, usize> = HashMap::new();
    let mut loads = vec![0_usize; shards];
    let with_known = || devices.iter().zip(known).filter_map(|(device, known)| Some((device, (*known)?)));
    // Who shared the same before stays, and so do those with whom it is shared.
    for (device, known) in with_known() {
        if let Some(home) = home_of(device).filter(|home| home_of(&known.device.config) == Some(*home)) {
            of_group.entry(home).or_insert(known.shard);
        }
    }
    for (device, known) in with_known() {
        if let Some(home) = home_of(device) {
            of_group.entry(home).or_insert(known.shard);
        }
    }
    let mut homes: Vec<Option<usize>> = Vec::with_capacity(devices.len());
    for (device, known) in devices.iter().zip(known) {
        let place = match home_of(device) {
            Some(home) => of_group.get(&home).copied(),
            None => known.map(|known| known.shard),
        };
        if let Some(load) = place.and_then(|shard| loads.get_mut(shard)) {
            *load += 1;
        }
        homes.push(place);
    }
    let mut placed = Vec::with_capacity(devices.len());
    for (device, home) in devices.iter().zip(homes) {
        let group = home_of(device);
        let shard = home.or_else(|| group.and_then(|group| of_group.get(&group).copied()));
        let shard = shard.unwrap_or_else(|| least(&loads));
        if home.is_none() {
            if let Some(load) = loads.get_mut(shard) {
                *load += 1;
            }
            if let Some(group) = group {
                of_group.insert(group, shard);
            }
        }
        placed.push(shard);
    }
    placed
}

/// The first of those with the fewest devices.
fn least(loads: &[usize]) -> usize {
    loads.iter().zip(0..).min_by_key(|(load, at)| (**load, *at)).map_or(0, |(_, at)| at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Numbered, from_text};
    use tieline_core::DeviceId;

    fn devices(parts: &[(&str, &str)]) -> Vec<DeviceConfig> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog-input,0\n").unwrap();
        let device = |(name, more): &(&str, &str)| {
            format!("[device.{name}]\nprotocol='bacnet'\naddress='10.0.0.5'\npoints='p.csv'\n{more}\n")
        };
        let text = "[network.n]\n[network.m]\n".to_owned() + &parts.iter().map(device).collect::<String>();
        from_text("t.toml", &text, folder.path()).unwrap().devices
    }

    const PORT: &str = "bacnet.local='0.0.0.0:47808'";
    const N: &str = "network='n'";
    const M: &str = "network='m'";

    #[test]
    fn what_devices_share_is_on_one_shard() {
        let devices = devices(&[("a", ""), ("b", PORT), ("c", ""), ("d", N), ("e", PORT), ("f", N), ("g", "")]);
        let none = vec![None; devices.len()];
        assert_eq!(homes(&devices, &none, 4), [0, 1, 2, 3, 1, 3, 0]);
        assert_eq!(homes(&devices, &none, 0), [0; 7]);
    }

    #[test]
    fn known_devices_stay_and_others_go_where_there_are_few() {
        let placed = |config: &DeviceConfig, shard| Placed {
            device: Numbered { id: DeviceId(0), config: config.clone(), recorded: false, revision: 0 },
            shard,
            has_started: true,
        };
        let old = devices(&[("a", ""), ("b", N), ("c", M), ("d", "")]);
        let old: Vec<Placed> = old.iter().zip([3, 1, 2, 3]).map(|(config, shard)| placed(config, shard)).collect();
        let check = |parts: &[(&str, &str)], expect: &[usize]| {
            let new = devices(parts);
            let known: Vec<_> =
                new.iter().map(|new| old.iter().find(|old| old.device.config.name == new.name)).collect();
            assert_eq!(homes(&new, &known, 4), expect, "{parts:?}");
        };
        check(&[("a", ""), ("b", N), ("c", M), ("d", "")], &[3, 1, 2, 3]);
        // New devices: where the network is, else where there are the fewest.
        check(&[("x", ""), ("a", ""), ("b", N), ("y", N), ("z", "")], &[0, 3, 1, 1, 2]);
        // One moves to another network, and one to a new group.
        check(&[("b", M), ("c", M)], &[2, 2]);
        check(&[("c", N), ("b", N)], &[1, 1]);
        check(&[("a", PORT), ("e", PORT), ("d", PORT)], &[3, 3, 3]);
    }
}
