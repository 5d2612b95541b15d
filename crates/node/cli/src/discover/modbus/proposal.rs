//! The files that are proposed for Modbus devices.

use super::Device;
use crate::discover::proposal::{Files, Proposal, Proposed, Reach, name_of_identity};
use std::fmt::Write as _;

/// A table for each device, and a point list for each. Devices behind one address share a connection: most gateways take few.
/// The devices are in the order of their addresses.
pub fn files(devices: &[Device]) -> Files {
    let mut proposal = Proposal::default();
    let (mut number, mut gateways) = (0, 0);
    for behind in devices.chunk_by(|a, b| a.address == b.address) {
        let channel = (behind.len() > 1).then(|| {
            gateways += 1;
            format!("gateway-{gateways}")
        });
        if let (Some(channel), Some(device)) = (&channel, behind.first()) {
            proposal.add_channel(channel, &device.address);
        }
        for device in behind {
            number += 1;
            proposal.add(&Proposed {
                words: &device.words(),
                name: &name_of(device, number),
                protocol: "modbus",
                reach: channel.as_deref().map_or(Reach::Address(&device.address), Reach::Channel),
                more: &format!("poll = {{ every = \"10s\" }}\nmodbus = {{ unit = {} }}\n", device.unit),
                list: &list_of(device),
            });
        }
    }
    proposal.into_files()
}

/// A name for tables and topics.
fn name_of(device: &Device, number: usize) -> String {
    let plain = name_of_identity(&device.identity);
    if plain.is_empty() { format!("modbus-{number}") } else { format!("{plain}-{number}") }
}

fn list_of(device: &Device) -> String {
    let mut list = String::from("name,type,index,format,scale,unit\n");
    if device.points.is_empty() {
        list.push_str(
            "# The device does not say what its registers are: see its manual.\nregister/0,holding-register,0,,,\n",
        );
    }
    for point in &device.points {
        let scale = if point.scale == 1.0 { String::new() } else { format!("{}", point.scale) };
        let _ =
            writeln!(list, "{},holding-register,{},{},{scale},{}", point.name, point.index, point.format, point.unit);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::modbus::sunspec::Found;
    use crate::discover::proposal::write;

    fn device((address, unit): (&str, u8), identity: [&str; 4], points: Vec<Found>) -> Device {
        let identity = identity.map(str::to_owned);
        Device { address: address.to_owned(), unit, identity, models: vec![1, 103], points }
    }

    #[test]
    fn what_is_proposed_is_a_configuration() {
        let power = Found { name: "power", index: 40_084, format: "i16", scale: 0.1, unit: "W" };
        let folder = tempfile::tempdir().unwrap();
        let devices = [
            device(("10.1.2.3:502", 3), ["Acme \"Sun\"", "I-1", "", "42"], vec![power]),
            device(("10.1.2.4:502", 3), ["", "", "", ""], Vec::new()),
        ];
        let written = write(folder.path(), &files(&devices)).unwrap();
        assert_eq!(written, ["acme-sun-i-1-1.csv", "devices.toml", "modbus-2.csv"]);
        let config = tieline_node::load_config(&folder.path().join("devices.toml")).unwrap();
        assert_eq!(config.devices.iter().map(|device| device.points.len()).collect::<Vec<_>>(), [1, 1]);
        assert!(write(folder.path(), &files(&devices)).unwrap_err().to_string().contains("is there already"));
    }

    #[test]
    fn units_behind_one_address_share_a_connection() {
        let silent = |place| device(place, ["", "", "", ""], Vec::new());
        let devices = [
            silent(("10.1.2.3:502", 1)),
            silent(("10.1.2.4:502", 1)),
            silent(("10.1.2.4:502", 7)),
            silent(("10.1.2.5:502", 1)),
        ];
        let files = files(&devices);
        let tables = &files["devices.toml"];
        assert_eq!(tables.matches("[channel.gateway-1]\naddress = \"10.1.2.4:502\"\n").count(), 1, "{tables}");
        assert_eq!((tables.matches("channel = \"gateway-1\"").count(), tables.matches("address =").count()), (2, 3));
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files).unwrap();
        let config = tieline_node::load_config(&folder.path().join("devices.toml")).unwrap();
        assert_eq!(config.devices.len(), 4);
    }
}
