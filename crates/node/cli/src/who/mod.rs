//! Who asks a node.

pub mod args;
pub mod target;

use crate::context::store::Store;
use crate::login::now_s;
use crate::login::store::Logins;
use anyhow::{Context, Result, anyhow, bail};
use args::{HttpArgs, MqttArgs};
use std::time::Duration;
use target::{Server, Target, resolve};
use tieline_client::{ClientTls, HttpClient, MqttOptions};

/// How long the first byte of an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The environment variable that holds a password.
const PASSWORD: &str = "TIELINE_PASSWORD";
/// The environment variable that holds a token.
const TOKEN: &str = "TIELINE_TOKEN";

/// An environment variable that is not empty.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// A user and its password; a token without a user.
fn credentials(target: &Target) -> Result<Option<(String, String)>> {
    let word = match &target.password_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        None if target.user.is_some() => variable(PASSWORD).or_else(|| variable(TOKEN)),
        None => variable(TOKEN),
    };
    Ok(word.map(|word| (target.user.clone().unwrap_or_default(), word)))
}

/// What connections over TLS are made with.
fn tls(target: &Target) -> Result<ClientTls> {
    let identity = target.cert.as_deref().zip(target.key.as_deref());
    ClientTls::load(target.ca.as_deref(), identity).map_err(|error| match target.ca {
        Some(_) => error.into(),
        // A machine without authorities of its own.
        None => anyhow!("{error}; --ca names a file with them"),
    })
}

/// Who names certificates means TLS: an address without it is a mistake that would show passwords to the network.
fn plain(target: &Target, expected: &str) -> Result<()> {
    let named = [("--ca", &target.ca), ("--cert", &target.cert)].into_iter().find(|(_, file)| file.is_some());
    named.map_or(Ok(()), |(name, _)| bail!("{name} is for TLS, and the address is without; expected {expected}"))
}

/// Which HTTP server is meant.
pub fn http_target(args: &HttpArgs) -> Result<Target> {
    resolve(Server::Http, args.http.as_deref(), &args.who, &variable, Store::load)
}

/// A client of the node's HTTP API. Where nothing else shows who asks, a login of `tieline login` does.
pub fn http(args: &HttpArgs, patience: Option<Duration>) -> Result<HttpClient> {
    let target = http_target(args)?;
    let client = connected(&target, patience)?;
    Ok(match credentials(&target)? {
        Some((user, token)) if user.is_empty() => client.with_token(&token),
        Some((user, password)) => client.with_password(&user, &password),
        None if target.user.is_none() && target.cert.is_none() => {
            match Logins::load()?.find(&target.address, now_s()) {
                Some(login) => client.with_token(&login.token),
                None => client,
            }
        }
        None => client,
    })
}

/// The same without credentials.
pub fn http_as_nobody(args: &HttpArgs) -> Result<HttpClient> {
    connected(&http_target(args)?, None)
}

fn connected(target: &Target, patience: Option<Duration>) -> Result<HttpClient> {
    let tls = match target.address.split_once("://") {
        Some(("https", _)) => Some(tls(target)?),
        Some(("http", _)) | None => plain(target, "--http https://HOST:PORT").map(|()| None)?,
        Some((scheme, _)) => {
            bail!("--http is {scheme}://…, expected HOST:PORT, http://HOST:PORT or https://HOST:PORT")
        }
    };
    Ok(HttpClient::over(&target.address, patience.unwrap_or(PATIENCE), tls))
}

/// How to connect to the node's MQTT server.
pub fn mqtt(args: &MqttArgs) -> Result<MqttOptions> {
    let target = resolve(Server::Mqtt, args.mqtt.as_deref(), &args.who, &variable, Store::load)?;
    let (address, over_tls) = match target.address.split_once("://") {
        None => (target.address.as_str(), false),
        Some(("mqtt" | "tcp", address)) => (address, false),
        Some(("mqtts" | "tls" | "ssl", address)) => (address, true),
        Some(("http" | "https", _)) => {
            bail!("--mqtt is an HTTP address, expected HOST:PORT, mqtt://HOST:PORT or mqtts://HOST:PORT")
        }
        Some((scheme, _)) => bail!("--mqtt is {scheme}://…, expected HOST:PORT, mqtt://HOST:PORT or mqtts://HOST:PORT"),
    };
    let address = address.trim_end_matches('/');
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if over_tls { 8883 } else { 1883 };
    let address = if has_port { address.to_owned() } else { format!("{address}:{port}") };
    let tls = match over_tls {
        true => Some(tls(&target)?),
        false => plain(&target, "--mqtt mqtts://HOST:PORT").map(|()| None)?,
    };
    Ok(MqttOptions { credentials: credentials(&target)?, tls, ..MqttOptions::new(&address) })
}
