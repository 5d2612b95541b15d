//! Who asks a node.

use crate::args::{HttpArgs, MqttArgs, WhoArgs};
use anyhow::{Context, Result};
use std::time::Duration;
use tieline_client::{HttpClient, MqttOptions};

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

/// A client of the node's HTTP API.
pub fn http(args: &HttpArgs, patience: Option<Duration>) -> Result<HttpClient> {
    let client = match patience {
        Some(patience) => HttpClient::patient(&args.http, patience),
        None => HttpClient::new(&args.http),
    };
    Ok(match credentials(&args.who)? {
        Some((user, token)) if user.is_empty() => client.with_token(&token),
        Some((user, password)) => client.with_password(&user, &password),
        None => client,
    })
}

/// How to connect to the node's MQTT server.
pub fn mqtt(args: &MqttArgs) -> Result<MqttOptions> {
    Ok(MqttOptions { credentials: credentials(&args.who)?, ..MqttOptions::new(&args.mqtt) })
}
