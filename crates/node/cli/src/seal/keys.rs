//! `tieline seal key` and `tieline seal peer`: what a configuration knows, and changes to it.
//!
//! The file stays the only truth: comments and order are kept, and nothing is written that a server would not take. A
//! running server takes the change at SIGHUP.

use super::args::{KeyAddArgs, KeyListArgs, KeyNamedArgs, KeyVerb, PeerVerb};
use super::{password, unix_seconds};
use crate::answer::say;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_crypto::TokenUri;
use tieline_seal::config::{self, ConfigFile, NewKey, NewPeer};
use tieline_seal::keyring::{KeyState, Known};

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
    let PeerVerb::Import { config, domain, certificate, ispb, pending, json } = verb;
    let mut file = ConfigFile::open(config)?;
    let state = if *pending { KeyState::Pending } else { KeyState::Active };
    file.add_peer(domain, &NewPeer { certificate: absolute(certificate)?, ispb: *ispb, state })?;
    file.save()?;
    let object = json!({ "domain": domain, "certificate": certificate, "state": state.word() });
    tell(*json, &format!("peer added to {domain}, {}", state.word()), &object)
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
    let mut file = ConfigFile::open(&args.config)?;
    if let Some(path) = &args.password_file {
        drop(password(path)?);
    }
    let path = |path: &Option<PathBuf>| path.as_deref().map(absolute).transpose();
    let state = if args.activate { KeyState::Active } else { KeyState::Pending };
    let key = NewKey {
        file: if TokenUri::is_one(&args.key) { args.key.clone() } else { absolute(Path::new(&args.key))? },
        certificate: path(&args.certificate)?,
        password_file: path(&args.password_file)?,
        version: args.key_version,
        state,
    };
    let version = file.add_key(&args.domain, &key)?;
    file.save()?;
    told_key(args.json, &args.domain, version, state, "added, ")
}

fn set_state(args: &KeyNamedArgs, state: KeyState) -> Result<ExitCode> {
    let mut file = ConfigFile::open(&args.config)?;
    file.set_key_state(&args.domain, args.key_version, state)?;
    file.save()?;
    told_key(args.json, &args.domain, args.key_version, state, "is ")
}

fn told_key(json: bool, domain: &str, version: u32, state: KeyState, how: &str) -> Result<ExitCode> {
    let object = json!({ "domain": domain, "version": version, "state": state.word() });
    tell(json, &format!("key {version} of {domain} {how}{}", state.word()), &object)
}

fn tell(json: bool, what: &str, object: &Value) -> Result<ExitCode> {
    say(json, &format!("{what}; a running server takes it at SIGHUP"), object)?;
    Ok(ExitCode::SUCCESS)
}

/// Where a file is, for a process that reads the configuration from another folder.
fn absolute(path: &Path) -> Result<String> {
    let full = path.canonicalize().with_context(|| path.display().to_string())?;
    full.into_os_string().into_string().map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}
