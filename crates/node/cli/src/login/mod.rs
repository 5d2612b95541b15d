//! Logins at the identity provider of a node, confirmed in a browser anywhere (RFC 8628).

pub mod args;
pub mod store;

use crate::{answer, who};
use anyhow::{Context, Result, bail};
use args::{LoginArgs, LogoutArgs};
use serde_json::{Value as Json, json};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use store::{Login, Logins};

/// Seconds between two requests at most, whatever the node says.
const INTERVAL_S_MAX: u64 = 60;

/// Logs in, and keeps the token for later commands at the same address.
pub fn login(args: &LoginArgs) -> Result<ExitCode> {
    let client = who::http_as_nobody(&args.node)?;
    let address = who::http_target(&args.node)?.address;
    let begun: Json = client.post("/v1/login/device", &json!({}))?;
    let text = |value: &Json, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let (page, code) = (text(&begun, "verification_uri"), text(&begun, "user_code"));
    let words = format!("Open {page} in a browser, and enter the code {code}");
    let shown = json!({
        "verification_uri": page, "user_code": code, "verification_uri_complete": begun["verification_uri_complete"],
    });
    answer::say(args.json, &words, &shown)?;
    let until = Instant::now() + Duration::from_secs(begun["expires_in"].as_u64().unwrap_or(600));
    let mut interval = begun["interval"].as_u64();
    loop {
        std::thread::sleep(Duration::from_secs(interval.unwrap_or(5).clamp(1, INTERVAL_S_MAX)));
        let found: Json = client.post("/v1/login/device/token", &json!({ "device": begun["device"] }))?;
        if found["done"] == true {
            let user = text(&found, "user");
            let expires = now_s().saturating_add(found["expires_in"].as_u64().unwrap_or(0));
            let login = Login { token: text(&found, "token"), user: user.clone(), expires };
            let file = Logins::change(|logins| logins.keep(&address, login))?;
            let words = format!("logged in as {user}; the token is in {}", file.display());
            answer::say(args.json, &words, &json!({ "user": user, "file": file, "expires": expires }))?;
            return Ok(ExitCode::SUCCESS);
        }
        if Instant::now() >= until {
            bail!("nobody has entered the code in time");
        }
        interval = found["interval"].as_u64();
    }
}

/// Ends a login here and at the node, or all logins of a user.
pub fn logout(args: &LogoutArgs) -> Result<ExitCode> {
    if let Some(user) = &args.of {
        let client = who::http(&args.node, None)?;
        let ended: Json = client.post("/v1/logins/end", &json!({ "user": user }))?;
        let words = format!("{} logins of {user} have ended", ended["ended"]);
        answer::say(args.json, &words, &json!({ "user": user, "ended": ended["ended"] }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let address = who::http_target(&args.node)?.address;
    let login = Logins::load()?.find(&address, now_s()).cloned();
    let Some(Login { token, user, .. }) = login else { bail!("there is no login at {address}") };
    Logins::change(|logins| logins.forget(&address))?;
    let told: Json = who::http_as_nobody(&args.node)?
        .with_token(&token)
        .post("/logout", &json!({}))
        .context("the token is removed here, and the node was not told")?;
    let page = told["to"].as_str().filter(|to| to.contains("://"));
    let words = match page {
        Some(page) => format!("{user}: logged out. To log out at the identity provider, too, open {page}"),
        None => format!("{user}: logged out"),
    };
    answer::say(args.json, &words, &json!({ "user": user, "provider": page }))?;
    Ok(ExitCode::SUCCESS)
}

/// Seconds since 1970.
pub fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
