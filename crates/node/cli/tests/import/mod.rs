//! `tieline import volttron`: 41 registries in the style of public ones, each with what is expected of it.
//!
//! `UPDATE_EXPECT=1 cargo test -p tieline import` writes the expected files again: read the difference.

use super::{done, printed, refused};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use tieline_control::RevertTo;
use tieline_core::Value;
use tieline_modbus::layout::{Kind, Layout};
use tieline_node::config::{Findings, PointAddress, PointConfig, ProtocolName, read_points};

/// The registries, each in a folder of its own.
fn cases() -> Vec<PathBuf> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import/volttron");
    let mut all: Vec<PathBuf> = fs::read_dir(all).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    assert_eq!(all.len(), 41);
    all
}

/// All files below a folder, by their paths in it.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                    drop(found.insert(name, fs::read(&path).unwrap()));
                }
            }
        }
    }
    found
}

/// What an import of a case writes and prints; and its exit code.
fn import(case: &Path, more: &[&str]) -> (BTreeMap<String, Vec<u8>>, String, i32) {
    let folder = tempfile::tempdir().unwrap();
    let (from, out) = (case.join("in"), folder.path().join("out"));
    let words = [&["import", "volttron", from.to_str().unwrap(), "--out", out.to_str().unwrap()], more].concat();
    let done = done(&words);
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(told, "", "{}", case.display());
    let printed = String::from_utf8(done.stdout).unwrap().replace(out.to_str().unwrap(), "OUT");
    (files(&out), printed, done.status.code().unwrap())
}

fn entries(case: &Path) -> (Vec<Json>, BTreeMap<String, Vec<u8>>) {
    let (written, printed, _) = import(case, &["--json"]);
    let all: Json = serde_json::from_str(&printed).unwrap();
    (all.as_array().unwrap().clone(), written)
}

#[test]
fn registries_become_what_is_expected() {
    for case in cases() {
        let expect = case.join("expect");
        let (mut written, printed, code) = import(&case, &[]);
        written.insert("report.txt".to_owned(), format!("{printed}exit code {code}\n").into_bytes());
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let _ = fs::remove_dir_all(&expect);
            fs::create_dir_all(&expect).unwrap();
            written.iter().for_each(|(name, text)| fs::write(expect.join(name), text).unwrap());
        }
        let expect = files(&expect);
        let names = |all: &BTreeMap<String, Vec<u8>>| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&written), names(&expect), "{}", case.display());
        for (name, text) in &written {
            let (found, expected) = (String::from_utf8_lossy(text), String::from_utf8_lossy(&expect[name]));
            assert_eq!(found, expected, "{}: {name}", case.display());
        }
    }
}

/// Lines as people count them.
fn line_count(bytes: &[u8]) -> usize {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => rest.iter().step_by(2).copied().map(char::from).collect(),
        _ => bytes.iter().copied().map(char::from).collect::<String>(),
    };
    text.replace("\r\n", "\n").replace('\r', "\n").lines().count()
}

/// Members of objects that are no objects.
fn leaves(json: &Json) -> usize {
    match json {
        Json::Object(all) => {
            all.values().map(|value| if value == &serde_json::json!({}) { 1 } else { leaves(value) }).sum()
        }
        _ => 1,
    }
}

#[test]
fn every_line_and_every_key_is_accounted_for_once() {
    for case in cases() {
        let (all, _) = entries(&case);
        let of = |name: &str| -> Vec<&Json> { all.iter().filter(|entry| entry["file"] == name).collect() };
        for (name, bytes) in files(&case.join("in")) {
            let found = of(&name);
            if name.ends_with(".csv") && found.iter().all(|entry| entry["line"] != 0) {
                let lines = found
                    .iter()
                    .flat_map(|entry| entry["line"].as_u64().unwrap()..=entry["last_line"].as_u64().unwrap());
                let mut lines: Vec<u64> = lines.collect();
                lines.sort_unstable();
                let expect: Vec<u64> = (1..=line_count(&bytes).try_into().unwrap()).collect();
                assert_eq!(lines, expect, "{}: {name}", case.display());
            }
            let keyed = found.iter().any(|entry| entry["key"] != "");
            if let (true, Ok(json)) = (keyed, serde_json::from_slice::<Json>(&bytes)) {
                assert_eq!(found.len(), leaves(&json), "{}: {name}", case.display());
            }
        }
        let places = |entry: &Json| format!("{}:{}:{}", entry["file"], entry["line"], entry["key"]);
        let once: HashSet<String> = all.iter().map(places).collect();
        assert_eq!(once.len(), all.len(), "{}", case.display());
    }
}

/// The points of each list that was written, with its number of rows; of protocols that this version has.
fn points(written: &BTreeMap<String, Vec<u8>>) -> BTreeMap<String, Vec<PointConfig>> {
    let mut all = BTreeMap::new();
    for (name, text) in written.iter().filter(|(name, _)| name.ends_with(".csv")) {
        let text = std::str::from_utf8(text).unwrap();
        let read = |protocol: ProtocolName| read_points(&mut Findings::default(), name, text, protocol);
        if let Some(points) = ProtocolName::ALL.into_iter().find_map(read) {
            assert_eq!(points.len(), text.lines().count() - 1, "{name}");
            all.insert(name.clone(), points);
        }
    }
    all
}

/// The cell of a plain registry, by the end of the name of its column.
fn cell<'a>(text: &'a str, line: usize, column: &str) -> Option<&'a str> {
    let names = text.lines().next()?.split(',').map(str::trim).collect::<Vec<_>>();
    let at = names.iter().position(|name| name.eq_ignore_ascii_case(column))?;
    text.lines().nth(line - 1)?.split(',').nth(at)
}

#[test]
fn points_come_back_with_their_addresses_and_formats() {
    let mut compared = 0;
    for case in cases() {
        let (all, written) = entries(&case);
        let points = points(&written);
        let inputs = files(&case.join("in"));
        for entry in all.iter().filter(|entry| entry["status"] == "mapped") {
            let (file, line) = (entry["file"].as_str().unwrap(), entry["line"].as_u64().unwrap());
            let Some(text) = inputs.get(file).and_then(|bytes| std::str::from_utf8(bytes).ok()) else { continue };
            // Quoted cells have commas: only plain registries are read here.
            if !file.ends_with(".csv") || text.contains(['"', ';', '\r', '#']) || line == 1 || text.starts_with('\n') {
                continue;
            }
            for to in entry["to"].as_array().unwrap() {
                let Some(list) = points.get(to["file"].as_str().unwrap()) else { continue };
                let row = usize::try_from(to["line"].as_u64().unwrap() - 2).unwrap();
                compare(text, usize::try_from(line).unwrap(), &list[row]);
                compared += 1;
            }
        }
    }
    assert!(compared > 80, "{compared}");
}

fn compare(text: &str, line: usize, point: &PointConfig) {
    let cell = |column: &str| cell(text, line, column).unwrap_or_default();
    let name = cell("Volttron Point Name");
    assert!(name.is_empty() || point.name == name, "{line}: {name}");
    // Of modbus_tk it may be in the other file.
    if !cell("Default Value").is_empty() || !cell("Modbus Register").is_empty() {
        compare_revert(cell("Default Value"), point);
    }
    match &point.address {
        PointAddress::Dnp3(at) => {
            assert_eq!(at.index.to_string(), cell("Index"));
            assert_eq!(point.control.is_some(), cell("Writable") == "TRUE" && at.point_type.name().ends_with("output"));
        }
        PointAddress::Modbus(at) if !cell("Modbus Register").is_empty() => {
            assert_eq!(at.address.to_string(), cell("Point Address"));
            assert_eq!(point.control.is_some(), cell("Writable") == "TRUE");
            let format = cell("Modbus Register");
            if !format.eq_ignore_ascii_case("bool") && cell("Mixed Endian").is_empty() {
                let expect: Layout = format.parse().unwrap();
                let found = at.layout((Layout::new(at.kind).words, Layout::new(at.kind).bytes));
                let orders = |layout: Layout| match layout.registers() {
                    1 => (layout.bytes, layout.bytes),
                    _ => (layout.words, layout.bytes),
                };
                assert_eq!((found.kind, orders(found)), (expect.kind, orders(expect)), "{format}");
            }
        }
        PointAddress::Modbus(_)
        | PointAddress::Bacnet(_)
        | PointAddress::Iec104(_)
        | PointAddress::Goose(_)
        | PointAddress::Simulated(_) => {}
    }
}

/// What VOLTTRON reverts a point to is what the list reverts it to, where it is a value of the point.
fn compare_revert(default: &str, point: &PointConfig) {
    let Some(control) = &point.control else { return };
    let expect = match &point.address {
        PointAddress::Modbus(at) if at.table.is_bits() && !default.is_empty() => RevertTo::Value(
            if ["1", "true", "on"].contains(&default.to_lowercase().as_str()) { "true" } else { "false" }.into(),
        ),
        PointAddress::Modbus(at) => match default.parse::<f64>() {
            Ok(number) if control.limits(1.0, 0.0).is_some_and(|limits| limits.contains(&number)) => {
                let is_whole = number.fract() == 0.0 || matches!(at.kind, Kind::Float32 | Kind::Float64);
                if is_whole { RevertTo::Value(Value::Float(number)) } else { RevertTo::Previous }
            }
            Ok(_) | Err(_) => RevertTo::Previous,
        },
        PointAddress::Dnp3(_)
        | PointAddress::Bacnet(_)
        | PointAddress::Iec104(_)
        | PointAddress::Goose(_)
        | PointAddress::Simulated(_) => {
            return;
        }
    };
    assert_eq!(control.rules.revert, expect, "{}: {default:?}", point.name);
}

#[test]
fn files_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (from, out) = (folder.path().join("in"), folder.path().join("out"));
    fs::create_dir(&from).unwrap();
    let device = "{\"driver_type\": \"modbus\", \"driver_config\": {\"device_address\": \"10.0.0.1\"}, \
                  \"registry_config\": \"config://r.csv\", \"campus\": \"a\"}";
    fs::write(from.join("d.json"), device).unwrap();
    let registry = "Volttron Point Name,Units,Modbus Register,Writable,Point Address\nPower,W,>f,FALSE,1\n";
    fs::write(from.join("r.csv"), registry).unwrap();
    let (from, out) = (from.to_str().unwrap(), out.to_str().unwrap());
    printed(&["import", "volttron", from, "--out", out]);
    let told = refused(1, &["import", "volttron", from, "--out", out]);
    assert!(told.contains("is there already"), "{told}");
    printed(&["import", "volttron", from, "--out", out, "--force"]);
    let told = refused(1, &["import", "volttron", from, "--out", from, "--force"]);
    assert!(told.contains("is one of the files to import"), "{told}");
    assert_eq!(fs::read_to_string(Path::new(from).join("r.csv")).unwrap(), registry);
    assert_eq!(printed(&["config", "check", &format!("{out}/tieline.toml")]).lines().count(), 1);
    let told = refused(1, &["import", "volttron", "/nonexistent", "--json"]);
    assert!(told.contains("neither a folder nor a file"), "{told}");
}

#[test]
fn routers_are_named_on_the_command_line() {
    let case = cases().into_iter().find(|case| case.ends_with("10-bacnet-routed")).unwrap();
    let (written, printed, _) = import(&case, &["--bacnet-router", "12=10.0.0.8", "--bacnet-router", "2001=10.0.0.7"]);
    let config = String::from_utf8(written["tieline.toml"].clone()).unwrap();
    assert!(config.contains("address = \"10.0.0.8:47808\"") && config.contains("network = 2001"), "{config}");
    assert!(!printed.contains("left out:"), "{printed}");
    refused(2, &["import", "volttron", ".", "--bacnet-router", "x"]);
}
