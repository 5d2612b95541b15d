//! The files that are proposed for what was found.

use super::Device;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// The file of the devices.
const DEVICES: &str = "devices.toml";

/// Writes a table for each device, and a point list for each that has known points. Nothing is overwritten.
///
/// # Errors
/// A file is there already, or cannot be written.
pub fn write(folder: &Path, devices: &[Device]) -> Result<Vec<String>> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    let files = files(devices);
    if let Some(there) = files.keys().find(|name| folder.join(name).exists()) {
        bail!("{}: found a file that is there already, expected a folder without it", folder.join(there).display());
    }
    for (name, text) in &files {
        let path = folder.join(name);
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        let written = file.as_mut().map_err(|error| std::io::Error::new(error.kind(), error.to_string()));
        written.and_then(|file| file.write_all(text.as_bytes())).with_context(|| path.display().to_string())?;
    }
    Ok(files.into_keys().collect())
}

/// Files by name.
fn files(devices: &[Device]) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    let mut tables =
        String::from("# Devices that were found. Change the topics, and the point lists, as the site has them.\n");
    for (number, device) in (1..).zip(devices) {
        let name = name_of(device, number);
        let list = format!("{name}.csv");
        let _ = write!(
            tables,
            "\n# {}\n[device.{name}]\ntopic = \"site/{name}\"\nprotocol = \"modbus\"\naddress = \"{}\"\npoints = \"{list}\"\n\
             poll = {{ every = \"10s\" }}\nmodbus = {{ unit = {} }}\n",
            device.words(),
            device.address,
            device.unit
        );
        files.insert(list, list_of(device));
    }
    files.insert(DEVICES.to_owned(), tables);
    files
}

/// A name for tables and topics.
fn name_of(device: &Device, number: usize) -> String {
    let said: Vec<&str> = device.identity.iter().map(String::as_str).filter(|text| !text.is_empty()).collect();
    let text = said.get(..2).unwrap_or(&said).join("-").to_lowercase();
    let plain: String = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    let plain = plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
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
    use crate::discover::sunspec::Found;

    fn device(identity: [&str; 4], points: Vec<Found>) -> Device {
        let identity = identity.map(str::to_owned);
        Device { address: "10.1.2.3:502".to_owned(), unit: 3, identity, models: vec![1, 103], points }
    }

    #[test]
    fn what_is_proposed_is_a_configuration() {
        let power = Found { name: "power", index: 40_084, format: "i16", scale: 0.1, unit: "W" };
        let folder = tempfile::tempdir().unwrap();
        let devices = [device(["Acme \"Sun\"", "I-1", "", "42"], vec![power]), device(["", "", "", ""], Vec::new())];
        let written = write(folder.path(), &devices).unwrap();
        assert_eq!(written, ["acme-sun-i-1-1.csv", "devices.toml", "modbus-2.csv"]);
        let config = tieline_node::load_config(&folder.path().join("devices.toml")).unwrap();
        assert_eq!(config.devices.iter().map(|device| device.points.len()).collect::<Vec<_>>(), [1, 1]);
        assert!(write(folder.path(), &devices).unwrap_err().to_string().contains("is there already"));
    }
}
