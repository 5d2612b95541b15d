//! `tieline seal key` and `tieline seal peer`: what a configuration knows, and changes to it.
//!
//! The file stays the only truth: comments and order are kept, and nothing is written that a server would not take. A
//! running server takes the change at SIGHUP.

use super::args::{KeyAddArgs, KeyListArgs, KeyNamedArgs, KeyVerb, PeerVerb};
use super::{password, unix_seconds};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_seal::config;
use tieline_seal::keyring::{KeyState, Known};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, value};

/// Does one of the verbs of `tieline seal key`.
pub fn key(verb: &KeyVerb) -> Result<ExitCode> {
    match verb {
        KeyVerb::List(args) => list(args),
        KeyVerb::Import(args) => import(args),
        KeyVerb::Activate(args) => set_state(args, KeyState::Active),
        KeyVerb::Retire(args) => set_state(args, KeyState::Retired),
    }
}

/// Does one of the verbs of `tieline seal peer`.
pub fn peer(verb: &PeerVerb) -> Result<ExitCode> {
    let PeerVerb::Import { config, domain, certificate, ispb, pending } = verb;
    let mut file = Configuration::open(config)?;
    let mut entry = Table::new();
    entry["certificate"] = value(absolute(certificate)?);
    if let Some(ispb) = ispb {
        entry["ispb"] = value(ispb.to_string());
    }
    if *pending {
        entry["state"] = value(KeyState::Pending.word());
    }
    file.entries(domain, "peer")?.push(entry);
    file.save()?;
    say(&format!("peer added to {domain}"))
}

fn list(args: &KeyListArgs) -> Result<ExitCode> {
    let config = config::load(&args.config)?;
    let seconds = unix_seconds();
    let mut rows = Vec::new();
    let mut domains: Vec<_> = config.domains.values().collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    for domain in domains {
        let own = domain.keys.iter().map(|key| row(&domain.name, "key", Some(key.version), &key.known, seconds));
        rows.extend(own);
        rows.extend(domain.peers.iter().map(|peer| row(&domain.name, "peer", None, peer, seconds)));
    }
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", Value::Array(rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    let columns = ["domain", "kind", "version", "state", "ispb", "authority", "serial", "days_left"];
    writeln!(out, "{}", columns.join("\t"))?;
    for row in rows {
        let cells = columns.map(|column| match &row[column] {
            Value::Null => "-".to_owned(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        writeln!(out, "{}", cells.join("\t"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(domain: &str, kind: &str, version: Option<u32>, known: &Known, seconds: u64) -> Value {
    json!({
        "domain": domain,
        "kind": kind,
        "version": version,
        "state": known.state.word(),
        "ispb": known.ispb.to_string(),
        "authority": known.party.authority.0,
        "serial": known.party.serial.to_string(),
        "subject": known.certificate.subject,
        "not_after": known.certificate.not_after,
        "days_left": known.certificate.not_after.saturating_sub(seconds) / 86_400,
    })
}

fn import(args: &KeyAddArgs) -> Result<ExitCode> {
    let mut file = Configuration::open(&args.config)?;
    if let Some(path) = &args.password_file {
        drop(password(path)?);
    }
    let entries = file.entries(&args.domain, "key")?;
    let highest = entries.iter().filter_map(|entry| entry.get("version")?.as_integer()).max().unwrap_or(0);
    let version = args.key_version.map_or(highest + 1, i64::from);
    let mut entry = Table::new();
    entry["version"] = value(version);
    entry["file"] =
        value(if args.key.starts_with("pkcs11:") { args.key.clone() } else { absolute(Path::new(&args.key))? });
    for (name, path) in [("certificate", &args.certificate), ("password_file", &args.password_file)] {
        if let Some(path) = path {
            entry[name] = value(absolute(path)?);
        }
    }
    let state = if args.activate { KeyState::Active } else { KeyState::Pending };
    entry["state"] = value(state.word());
    entries.push(entry);
    file.save()?;
    say(&format!("key {version} of {} added, {}", args.domain, state.word()))
}

fn set_state(args: &KeyNamedArgs, state: KeyState) -> Result<ExitCode> {
    let mut file = Configuration::open(&args.config)?;
    let wanted = i64::from(args.key_version);
    let entries = file.entries(&args.domain, "key")?;
    let of_version = |entry: &&mut Table| entry.get("version").and_then(Item::as_integer) == Some(wanted);
    let entry = entries.iter_mut().find(of_version);
    let entry = entry.with_context(|| format!("domain {:?} has no key of version {wanted}", args.domain))?;
    entry["state"] = value(state.word());
    file.save()?;
    say(&format!("key {wanted} of {} is {}", args.domain, state.word()))
}

fn say(what: &str) -> Result<ExitCode> {
    writeln!(std::io::stdout().lock(), "{what}; a running server takes it at SIGHUP")?;
    Ok(ExitCode::SUCCESS)
}

/// Where a file is, for whoever reads the configuration from another folder.
fn absolute(path: &Path) -> Result<String> {
    let full = path.canonicalize().with_context(|| path.display().to_string())?;
    full.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// A configuration as its text.
struct Configuration {
    path: PathBuf,
    document: DocumentMut,
}

impl Configuration {
    fn open(path: &Path) -> Result<Self> {
        config::load(path)?;
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Ok(Self { path: path.to_owned(), document: text.parse().with_context(|| path.display().to_string())? })
    }

    /// The tables `[[domain.NAME.KIND]]`.
    fn entries(&mut self, domain: &str, kind: &str) -> Result<&mut ArrayOfTables> {
        let known = self.document.get_mut("domain").and_then(|domains| domains.get_mut(domain));
        let Some(table) = known.and_then(Item::as_table_mut) else { bail!("there is no [domain.{domain}]") };
        let entries = table.entry(kind).or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        entries.as_array_of_tables_mut().with_context(|| format!("domain.{domain}.{kind} is not written as [[…]]"))
    }

    /// Writes the file in one step, if a server would take it.
    fn save(&self) -> Result<()> {
        let text = self.document.to_string();
        let folder = self.path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        config::from_text(&self.path.display().to_string(), &text, folder).context("nothing was changed")?;
        let mut written = tempfile::NamedTempFile::new_in(folder)?;
        written.write_all(text.as_bytes())?;
        let rights = std::fs::metadata(&self.path)?.permissions();
        written.as_file().set_permissions(rights)?;
        written.as_file().sync_all()?;
        written.persist(&self.path)?;
        Ok(())
    }
}
