//! The files to import: a folder, or the store of VOLTTRON's configurations.

use super::device::Topic;
use super::jsonc::{self, Json, JsonError, Value};
use super::table::{Table, decode};
use crate::import::report::{Outcome, Place, Report};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Folders within each other.
const DEPTH_MAX: usize = 16;
/// Files of a folder.
const FILES_MAX: usize = 100_000;
/// Bytes of a file.
const BYTES_MAX: u64 = 64 << 20;

/// A configuration.
#[derive(Debug)]
pub struct Input {
    /// As it is shown.
    pub file: String,
    /// By which others refer to it, in lower case: its path in the folder, or its name in the store.
    pub name: String,
    pub topic: Topic,
    pub content: Content,
    /// What it is encoded in, unless UTF-8.
    pub encoding: Option<&'static str>,
}

/// What is in it.
#[derive(Debug)]
pub enum Content {
    Json(Json),
    Registry(Table),
}

/// All of them.
#[derive(Debug, Default)]
pub struct Sources {
    pub inputs: Vec<Input>,
    /// The files that were read, which are never overwritten.
    pub paths: Vec<PathBuf>,
}

impl Sources {
    /// Reads a folder or a file. What is none of VOLTTRON's configurations is reported.
    pub fn read(from: &Path, out: &Path, report: &mut Report) -> Result<Self> {
        let mut sources = Self::default();
        let stores = ["configuration_store", "."].map(|below| from.join(below));
        if from.is_file() {
            let name = from.file_name().unwrap_or_default().to_string_lossy().into_owned();
            sources.read_file(from, &name, report)?;
        } else if let Some(folder) = stores.iter().find(|folder| folder.join("platform.driver.store").is_file()) {
            for (path, name) in files(folder, out)?.into_iter().filter(|(_, name)| name.ends_with(".store")) {
                sources.read_file(&path, &name, report)?;
            }
        } else if from.is_dir() {
            for (path, name) in files(from, out)? {
                sources.read_file(&path, &name, report)?;
            }
        } else {
            bail!("{} is neither a folder nor a file", from.display());
        }
        Ok(sources)
    }

    fn read_file(&mut self, path: &Path, name: &str, report: &mut Report) -> Result<()> {
        let whole = Place { file: name.to_owned(), line: 0, last_line: 0, key: String::new() };
        let shown = || format!("{} cannot be read", path.display());
        if std::fs::metadata(path).with_context(shown)?.len() > BYTES_MAX {
            report.add(&whole, Outcome::LeftOut(format!("larger than {} MiB", BYTES_MAX >> 20)));
            return Ok(());
        }
        self.paths.push(path.to_owned());
        let Some((text, encoding)) = decode(&std::fs::read(path).with_context(shown)?) else {
            report.add(&whole, Outcome::NotNeeded("neither a registry nor a configuration".to_owned()));
            return Ok(());
        };
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if extension == "store" {
            self.read_store(name, &text, report);
            return Ok(());
        }
        let is_json = ["json", "config", "conf", "agent"].contains(&extension.as_str()) || begins_as_json(&text);
        match (extension.as_str(), is_json) {
            ("csv", _) => self.add(name, name, Content::Registry(Table::read(&text)), encoding),
            (_, true) => match jsonc::parse(&text) {
                Ok(json) => self.add(name, name, Content::Json(json), encoding),
                Err(error) => refuse(name, &error, report),
            },
            (_, false) => report.add(&whole, Outcome::NotNeeded("neither a registry nor a configuration".to_owned())),
        }
        Ok(())
    }

    /// `platform.driver.store`: an object with a member for each configuration.
    fn read_store(&mut self, file: &str, text: &str, report: &mut Report) {
        let store = match jsonc::parse(text) {
            Ok(store) => store,
            Err(error) => return refuse(file, &error, report),
        };
        let Value::Object(members) = &store.value else { return };
        if !members.iter().any(|(name, _)| name.to_lowercase().starts_with("devices/") || name == "config") {
            let whole = Place { file: file.to_owned(), line: 0, last_line: 0, key: String::new() };
            return report.add(&whole, Outcome::NotNeeded("the store of another agent".to_owned()));
        }
        for (name, member) in members {
            let shown = format!("{file}/{name}");
            let kind = member.member("type").and_then(Json::text).unwrap_or("raw");
            let Some(data) = member.member("data").and_then(Json::text) else {
                let place =
                    Place { file: file.to_owned(), line: member.line, last_line: member.line, key: name.clone() };
                report.add(&place, Outcome::LeftOut("no text in \"data\"".to_owned()));
                continue;
            };
            match (kind, jsonc::parse(data)) {
                ("csv", _) => self.add(&shown, name, Content::Registry(Table::read(data)), None),
                ("json", Ok(json)) => self.add(&shown, name, Content::Json(json), None),
                ("json", Err(error)) => refuse(&shown, &error, report),
                _ => {
                    let whole = Place { file: shown, line: 0, last_line: 0, key: String::new() };
                    report.add(&whole, Outcome::NotNeeded("neither JSON nor CSV to VOLTTRON".to_owned()));
                }
            }
        }
    }

    fn add(&mut self, file: &str, name: &str, content: Content, encoding: Option<&'static str>) {
        let topic = topic(name);
        self.inputs.push(Input { file: file.to_owned(), name: name.to_lowercase(), topic, content, encoding });
    }

    /// Sources of texts by their names.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)], report: &mut Report) -> Self {
        let mut sources = Self::default();
        for (name, text) in files {
            match (name.ends_with(".csv"), jsonc::parse(text)) {
                (true, _) => sources.add(name, name, Content::Registry(Table::read(text)), None),
                (false, Ok(json)) => sources.add(name, name, Content::Json(json), None),
                (false, Err(error)) => refuse(name, &error, report),
            }
        }
        sources
    }

    /// The configuration that a link names: by its name, by the end of its path, or by the name of its file. Of several the
    /// one in the folders of who names it.
    pub fn find(&self, link: &str, from: &str) -> Result<usize, String> {
        let name = link.trim().trim_start_matches("config://").trim_start_matches("./").to_lowercase();
        let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let below = |input: &Input, end: &str| {
            input.name.strip_suffix(end).is_some_and(|front| front.is_empty() || front.ends_with('/'))
        };
        let all = || self.inputs.iter().enumerate();
        let exact: Vec<usize> = all().filter(|(_, input)| input.name == name).map(|(at, _)| at).collect();
        let ends: Vec<usize> = all().filter(|(_, input)| below(input, &name)).map(|(at, _)| at).collect();
        let files: Vec<usize> = all().filter(|(_, input)| below(input, last)).map(|(at, _)| at).collect();
        let Some(found) = [exact, ends, files].into_iter().find(|found| !found.is_empty()) else {
            return Err(format!("{link:?} is not there"));
        };
        let shared = |at: usize| {
            let name = self.inputs.get(at).map(|input| input.name.as_str()).unwrap_or_default();
            name.split('/').zip(from.split('/')).take_while(|(one, other)| one == other).count()
        };
        let most = found.iter().map(|at| shared(*at)).max().unwrap_or_default();
        let nearest: Vec<usize> = found.into_iter().filter(|at| shared(*at) == most).collect();
        match nearest.as_slice() {
            [one] => Ok(*one),
            several => {
                let names = several.iter().filter_map(|at| Some(self.inputs.get(*at)?.file.as_str()));
                Err(format!("{link:?} may be {}", names.collect::<Vec<_>>().join(" or ")))
            }
        }
    }
}

fn refuse(file: &str, error: &JsonError, report: &mut Report) {
    let place = Place { file: file.to_owned(), line: error.line, last_line: error.line, key: String::new() };
    report.add(&place, Outcome::LeftOut(error.to_string()));
}

fn begins_as_json(text: &str) -> bool {
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with(['#', '/']));
    lines.next().is_some_and(|line| line.starts_with('{'))
}

/// What is below a folder `devices` is the topic; elsewhere the path without its extension may be.
fn topic(name: &str) -> Topic {
    let plain = [".json", ".config", ".conf"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    let levels: Vec<&str> = plain.split('/').collect();
    let at = levels.iter().position(|level| level.eq_ignore_ascii_case("devices"));
    match at.and_then(|at| levels.get(at + 1..)).filter(|rest| !rest.is_empty()) {
        Some(rest) => Topic { text: rest.join("/"), is_sure: true },
        None => Topic { text: levels.last().copied().unwrap_or_default().to_owned(), is_sure: false },
    }
}

/// All files below a folder with their paths in it, sorted; not those that are hidden, and not those below `out`.
fn files(folder: &Path, out: &Path) -> Result<Vec<(PathBuf, String)>> {
    let out = out.canonicalize().ok();
    let (mut found, mut folders) = (Vec::new(), vec![(folder.to_owned(), String::new(), 0)]);
    while let Some((folder, prefix, depth)) = folders.pop() {
        let shown = || format!("{} cannot be read", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(shown)? {
            let entry = entry.with_context(shown)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let (path, name) = (entry.path(), format!("{prefix}{name}"));
            if entry.file_name().to_string_lossy().starts_with('.') {
                continue;
            }
            if path.is_dir() {
                let is_out = out.is_some() && path.canonicalize().ok() == out;
                if depth < DEPTH_MAX && !is_out {
                    folders.push((path, format!("{name}/"), depth + 1));
                }
            } else if path.is_file() {
                found.push((path, name));
            }
        }
        if found.len() > FILES_MAX {
            bail!("{} has more than {FILES_MAX} files", folder.display());
        }
    }
    found.sort_by(|a, b| a.1.cmp(&b.1));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_name_registries() {
        let files = ["a/r.csv", "b/r.csv", "registry_configs/Meter.csv", "b/devices/x"];
        let files = files.map(|name| (name, "{}"));
        let sources = Sources::of(&files, &mut Report::default());
        let check = |link: &str, from: &str, expect: Result<usize, &str>| {
            assert_eq!(sources.find(link, from), expect.map_err(str::to_owned), "{link} of {from}");
        };
        check("config://registry_configs/METER.csv", "b/devices/x", Ok(2));
        check("/etc/volttron/meter.csv", "x", Ok(2));
        check("config://r.csv", "b/devices/x", Ok(1));
        check("config://r.csv", "c/x", Err("\"config://r.csv\" may be a/r.csv or b/r.csv"));
        check("config://eter.csv", "x", Err("\"config://eter.csv\" is not there"));
    }
}
