//! `tieline join`: a node becomes a site of a centre, and changes its key.

use crate::answer::say;
use crate::exit::Exit;
use crate::fabric::{exit_of, make_folder};
use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::{ClientTls, HttpClient};
use tieline_fabric::{Credentials, Fabric, FabricError, FabricOptions, KeyKind, Keys};
use tieline_node::config::{Config, FabricConfig};
use tieline_node::joining::{FabricFiles, offer_key};
use tieline_node::load_config;
use toml_edit::{Array, DocumentMut, Item, Table, Value, value};

/// How long the centre, or a server, may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// `tieline join`.
#[derive(Debug, Args)]
pub struct JoinArgs {
    /// Address of the centre: https://HOST:PORT
    #[arg(required_unless_present = "rotate")]
    pub url: Option<String>,
    /// Token of tieline site token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TIELINE_JOIN_TOKEN",
        hide_env_values = true,
        conflicts_with = "token_file"
    )]
    pub token: Option<String>,
    /// File with the token, so that it is in no list of processes
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Name that the site must have at the centre
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Data folder of this node, in which its key is kept
    #[arg(long, value_name = "DIR", env = "TIELINE_DATA", default_value = "tieline-data")]
    pub data: PathBuf,
    /// Certificates of authorities to trust, or the centre's own, in PEM; without it those of the system [env: TIELINE_CA]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Send the token without TLS to another machine
    #[arg(long)]
    pub insecure: bool,
    /// Change the key of a site that has joined
    #[arg(long, conflicts_with_all = ["url", "token", "token_file", "name", "ca", "insecure"])]
    pub rotate: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Deserialize)]
struct Joined {
    site: String,
    is_new: bool,
    servers: Vec<String>,
    authorities: Option<String>,
}

/// Runs the verb.
pub fn join(args: &JoinArgs) -> Result<ExitCode> {
    let files = FabricFiles::of(&args.data);
    let Some(url) = &args.url else { return rotate(args, &files) };
    let Outcome { words, object, is_connected } = join_centre(args, url, &files)?;
    say(args.json, &words, &object)?;
    Ok(if is_connected { ExitCode::SUCCESS } else { Exit::Incomplete.into() })
}

/// What joining came to.
pub struct Outcome {
    /// For people.
    pub words: String,
    object: Json,
    is_connected: bool,
}

/// Joins a centre, as a part of a start: it prints nothing.
pub fn join_centre(args: &JoinArgs, url: &str, files: &FabricFiles) -> Result<Outcome> {
    let client = client(args, url)?;
    let token = token(args)?;
    make_folder(files)?;
    // The key of an attempt before is used again: so the answer to it, which may have been lost, is the same.
    let keys = Keys::read_or_make(&files.site(), KeyKind::User)?;
    let body = json!({ "token": token, "key": keys.public(), "site": args.name });
    let Joined { site, is_new, servers, authorities } = client.post("/v1/join", &body)?;
    let over_tls = servers.iter().all(|server| server.starts_with("tls://"));
    let authorities = authorities.filter(|_| over_tls);
    if let Some(text) = &authorities {
        write(&files.authorities(), text)?;
    }
    let before = std::fs::read_to_string(files.joined()).unwrap_or_default();
    let joined = settings(&before, &site, &servers, authorities.is_some());
    write(&files.joined(), &joined.with_context(|| files.joined().display().to_string())?)?;
    let connected = connect(&files.joined(), &site, files.site());
    let words = match &connected {
        Ok(_) => "it can connect to the centre's servers".to_owned(),
        Err(error) => format!("its settings are written, and it cannot connect yet: {error:#}"),
    };
    let (data, again) = (args.data.display(), if is_new { "" } else { ", as before" });
    let words = format!("{site}: joined{again}; {words}\ntieline run --data {data} sends its history to the centre");
    let object = json!({
        "site": site, "new": is_new, "key": keys.public(), "servers": servers, "settings": files.joined(),
        "connected": connected.is_ok(),
    });
    Ok(Outcome { words, object, is_connected: connected.is_ok() })
}

/// A client of the centre. A token is a secret: it is not sent where others can read it.
fn client(args: &JoinArgs, url: &str) -> Result<HttpClient> {
    let tls = match url.split_once("://") {
        Some(("https", _)) => {
            let ca = args.ca.clone().or_else(|| crate::who::variable("TIELINE_CA").map(PathBuf::from));
            Some(ClientTls::load(ca.as_deref(), None)?)
        }
        Some(("http", rest)) if args.insecure || is_this_machine(rest) => None,
        Some(("http", _)) => bail!(
            "{url} is without TLS, and others could read the token on its way; expected https://HOST:PORT, or --insecure"
        ),
        Some(_) | None => bail!("the address is {url}, expected https://HOST:PORT"),
    };
    Ok(HttpClient::over(url, PATIENCE, tls))
}

fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.parse::<std::net::SocketAddr>() {
        Ok(address) => return address.ip().is_loopback(),
        Err(_) => authority.rsplit_once(':').map_or(authority, |(host, _)| host),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn token(args: &JoinArgs) -> Result<String> {
    match (&args.token, &args.token_file) {
        (Some(token), _) => Ok(token.trim().to_owned()),
        (None, Some(file)) => {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Ok(text.trim().to_owned())
        }
        (None, None) => bail!("no token is given, expected --token or --token-file"),
    }
}

/// What `tieline run` reads where the configuration has no `[fabric]`. What was added to it by hand stays.
fn settings(before: &str, site: &str, servers: &[String], has_authorities: bool) -> Result<String> {
    const HEADER: &str = "# Written by `tieline join`. A node uses it if its configuration has no [fabric].\n";
    let header = if before.trim().is_empty() { HEADER } else { "" };
    let mut document: DocumentMut = before.parse().context("it is no TOML; mend it or remove it")?;
    let mut set = |section: &str, key: &str, item: Option<Value>| {
        let table = document.entry(section).or_insert_with(|| Item::Table(Table::new()));
        let table = table.as_table_like_mut().with_context(|| format!("{section} is no section"))?;
        match item {
            Some(found) => table.insert(key, value(found)),
            None => table.remove(key),
        };
        anyhow::Ok(())
    };
    set("fabric", "servers", Some(servers.iter().collect::<Array>().into()))?;
    set("fabric", "seed_file", Some("site.nk".into()))?;
    set("fabric", "authorities", has_authorities.then(|| "authorities.pem".into()))?;
    set("site", "name", Some(site.into()))?;
    Ok(format!("{header}{document}"))
}

/// Replaced as a whole: a node that starts meanwhile reads what was there before, or this.
fn write(path: &Path, text: &str) -> Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.with_context(|| path.display().to_string())
}

fn connect(settings: &Path, site: &str, seed: PathBuf) -> Result<(Fabric, tokio::runtime::Runtime)> {
    let Config { fabric: Some(FabricConfig { servers, is_tls, authorities, .. }), .. } = load_config(settings)? else {
        bail!("{} has no [fabric]", settings.display());
    };
    let mut options = FabricOptions::new(site, servers);
    options.credentials = Credentials::SeedFile(seed);
    if is_tls {
        options.tls = Some((*ClientTls::load(authorities.as_deref(), None)?.config()).clone());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let fabric = runtime.block_on(Fabric::connect(options))?;
    Ok((fabric, runtime))
}

/// The centre takes the next key before the file has it, and the one before until the next one connects: whatever is stopped on the
/// way, the key in the file is one that the centre takes.
fn rotate(args: &JoinArgs, files: &FabricFiles) -> Result<ExitCode> {
    let settings = files.joined();
    if !settings.exists() {
        bail!("{} is not there: this node has not joined by tieline join", settings.display());
    }
    let Config { site: Some(site), .. } = load_config(&settings)? else {
        bail!("{} has no [site]", settings.display());
    };
    let next = Keys::read_or_make(&files.site_next(), KeyKind::User)?;
    let offered = connect(&settings, &site.name, files.site())
        .and_then(|(fabric, runtime)| Ok(runtime.block_on(offer_key(&fabric, &site.name, &next, PATIENCE))?));
    if let Err(error) = offered {
        return fail(args, error.context("the key was not changed"));
    }
    std::fs::rename(files.site_next(), files.site()).with_context(|| files.site().display().to_string())?;
    if let Err(error) = connect(&settings, &site.name, files.site()) {
        return fail(args, error.context("the key is changed, and cannot connect yet"));
    }
    let words = format!("{}: has the key {}; the one before is void", site.name, next.public());
    say(args.json, &words, &json!({ "site": site.name, "key": next.public() }))?;
    Ok(ExitCode::SUCCESS)
}

fn fail(args: &JoinArgs, error: anyhow::Error) -> Result<ExitCode> {
    let Some(exit) = error.downcast_ref::<FabricError>().map(exit_of) else { return Err(error) };
    crate::answer::complain(args.json, &error);
    Ok(exit.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_gets_a_token_without_tls() {
        for (rest, expect) in [
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("localhost:1/x", true),
            ("[::1]:8080", true),
            ("10.0.0.1:8080", false),
            ("localhost.example:1", false),
            ("127.0.0.1.example", false),
        ] {
            assert_eq!(is_this_machine(rest), expect, "{rest}");
        }
    }

    #[test]
    fn settings_are_those_of_a_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("joined.toml");
        let servers = ["tls://a.example:4222".to_owned()];
        let first = settings("", "no\"rth", &servers, true).unwrap();
        write(&path, &first).unwrap();
        let config = load_config(&path).unwrap();
        assert_eq!(config.site.unwrap().name, "no\"rth");
        assert_eq!(config.fabric.unwrap().authorities, Some(folder.path().join("authorities.pem")));
        // It joins again, elsewhere; what was added stays.
        let added = format!("{first}share = ['alarms/#'] # for all\n");
        let again = settings(&added, "south", &["nats://b.example:4222".to_owned()], false).unwrap();
        write(&path, &again).unwrap();
        let Config { site: Some(site), fabric: Some(fabric), .. } = load_config(&path).unwrap() else {
            panic!("{again}")
        };
        assert_eq!((site.name.as_str(), site.share.len(), fabric.authorities), ("south", 1, None));
        assert!(again.contains("# for all") && again.contains("b.example") && !again.contains("a.example"), "{again}");
        assert!(settings("[site", "south", &servers, true).is_err());
        assert!(settings("site = 1", "south", &servers, true).is_err());
    }
}
