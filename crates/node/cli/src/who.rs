//! Who asks a node.

use crate::args::{HttpArgs, MqttArgs, WhoArgs};
use anyhow::{Context, Result, bail};
use std::time::Duration;
use tieline_client::{ClientTls, HttpClient, MqttOptions};

/// How long the first octet of an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The environment variable that holds a password.
const PASSWORD: &str = "TIELINE_PASSWORD";
/// The environment variable that holds a token.
const TOKEN: &str = "TIELINE_TOKEN";

/// A user and its password; a token without a user.
fn credentials(who: &WhoArgs) -> Result<Option<(String, String)>> {
    let of = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let word = match &who.password_file {
        Some(file) => {
            let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
            Some(text.lines().next().unwrap_or_default().to_owned())
        }
        None if who.user.is_some() => of(PASSWORD).or_else(|| of(TOKEN)),
        None => of(TOKEN),
    };
    Ok(word.map(|word| (who.user.clone().unwrap_or_default(), word)))
}

/// What connections over TLS are made with.
fn tls(who: &WhoArgs) -> Result<ClientTls> {
    let identity = who.cert.as_deref().zip(who.key.as_deref());
    Ok(ClientTls::load(who.ca.as_deref(), identity)?)
}

/// Who names certificates means TLS: an address without it is a mistake that would show passwords to the network.
fn plain(who: &WhoArgs, expected: &str) -> Result<()> {
    let named = [("--ca", &who.ca), ("--cert", &who.cert)].into_iter().find(|(_, file)| file.is_some());
    named.map_or(Ok(()), |(name, _)| bail!("{name} is for TLS, and the address is without; expected {expected}"))
}

/// A client of the node's HTTP API.
pub fn http(args: &HttpArgs, patience: Option<Duration>) -> Result<HttpClient> {
    let tls = match args.http.starts_with("https://") {
        true => Some(tls(&args.who)?),
        false => plain(&args.who, "--http https://HOST:PORT").map(|()| None)?,
    };
    let client = HttpClient::over(&args.http, patience.unwrap_or(PATIENCE), tls);
    Ok(match credentials(&args.who)? {
        Some((user, token)) if user.is_empty() => client.with_token(&token),
        Some((user, password)) => client.with_password(&user, &password),
        None => client,
    })
}

/// How to connect to the node's MQTT server.
pub fn mqtt(args: &MqttArgs) -> Result<MqttOptions> {
    let (address, over_tls) = match args.mqtt.split_once("://") {
        None => (args.mqtt.as_str(), false),
        Some(("mqtt" | "tcp", address)) => (address, false),
        Some(("mqtts" | "tls" | "ssl", address)) => (address, true),
        Some((scheme, _)) => bail!("--mqtt is {scheme}://…, expected HOST:PORT, mqtt://HOST:PORT or mqtts://HOST:PORT"),
    };
    let address = address.trim_end_matches('/');
    let has_port = address.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if over_tls { 8883 } else { 1883 };
    let address = if has_port { address.to_owned() } else { format!("{address}:{port}") };
    let tls = match over_tls {
        true => Some(tls(&args.who)?),
        false => plain(&args.who, "--mqtt mqtts://HOST:PORT").map(|()| None)?,
    };
    Ok(MqttOptions { credentials: credentials(&args.who)?, tls, ..MqttOptions::new(&address) })
}
