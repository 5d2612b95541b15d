//! The files that are proposed for Modbus devices.

use super::Device;
use crate::discover::proposal::{Files, Proposal, Proposed, plain_name};
use std::fmt::Write as _;

/// A table for each device, and a point list for each.
pub fn files(devices: &[Device]) -> Files {
    let mut proposal = Proposal::default();
    for (number, device) in (1..).zip(devices) {
        proposal.add(&Proposed {
            words: &device.words(),
            name: &name_of(device, number),
            protocol: "modbus",
            address: &device.address,
            more: &format!("poll = {{ every = \"10s\" }}\nmodbus = {{ unit = {} }}\n", device.unit),
            list: &list_of(device),
        });
    }
    proposal.into_files()
}

/// A name for tables and topics.
fn name_of(device: &Device, number: usize) -> String {
    let said: Vec<&str> = device.identity.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let plain = plain_name(&said.get(..2).unwrap_or(&said).join("-"));
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

    fn device(identity: [&str; 4], points: Vec<Found>) -> Device {
        let identity = identity.map(str::to_owned);
        Device { address: "10.1.2.3:502".to_owned(), unit: 3, identity, models: vec![1, 103], points }
    }

    #[test]
    fn what_is_proposed_is_a_configuration() {
        let power = Found { name: "power", index: 40_084, format: "i16", scale: 0.1, unit: "W" };
        let folder = tempfile::tempdir().unwrap();
        let devices = [device(["Acme \"Sun\"", "I-1", "", "42"], vec![power]), device(["", "", "", ""], Vec::new())];
        let written = write(folder.path(), &files(&devices)).unwrap();
        assert_eq!(written, ["acme-sun-i-1-1.csv", "devices.toml", "modbus-2.csv"]);
        let config = tieline_node::load_config(&folder.path().join("devices.toml")).unwrap();
        assert_eq!(config.devices.iter().map(|device| device.points.len()).collect::<Vec<_>>(), [1, 1]);
        assert!(write(folder.path(), &files(&devices)).unwrap_err().to_string().contains("is there already"));
    }
}
