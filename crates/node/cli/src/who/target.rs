//! Which node is meant, and as whom it is asked: flags, environment, a context, or the defaults.
//!
//! From first to last: a flag of the address; `--context`; the environment variable of the address; `TIELINE_CONTEXT`;
//! the context in use; the default. Who names the address himself gets nothing of a context: its password is for the
//! node of the context and for no other.

use super::args::WhoArgs;
use crate::context::store::{Context, Store};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// Which of a node's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    Http,
    Mqtt,
}

impl Server {
    const fn variable(self) -> &'static str {
        match self {
            Self::Http => "TIELINE_HTTP",
            Self::Mqtt => "TIELINE_MQTT",
        }
    }

    const fn default(self) -> &'static str {
        match self {
            Self::Http => "127.0.0.1:8080",
            Self::Mqtt => "127.0.0.1:1883",
        }
    }

    fn of(self, context: &Context) -> Option<String> {
        match self {
            Self::Http => context.http.clone(),
            Self::Mqtt => context.mqtt.clone().or_else(|| mqtt_beside(context.http.as_deref()?)),
        }
    }
}

/// The MQTT server of the node whose HTTP address this is, at the port of the defaults.
fn mqtt_beside(http: &str) -> Option<String> {
    let (scheme, rest) = http.split_once("://").unwrap_or(("http", http));
    let authority = rest.split('/').next()?;
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => authority,
    };
    Some(if scheme == "https" { format!("mqtts://{host}:8883") } else { format!("{host}:1883") })
}

/// A node's server, and who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Address as it was given.
    pub address: String,
    /// The user's name.
    pub user: Option<String>,
    /// File with the password or a token.
    pub password_file: Option<PathBuf>,
    /// Certificates to trust.
    pub ca: Option<PathBuf>,
    /// Certificate to show.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
    /// The context that was taken.
    pub context: Option<String>,
}

/// Finds out what is meant. `variable` gives environment variables that are not empty.
pub fn resolve(
    server: Server,
    given: Option<&str>,
    who: &WhoArgs,
    variable: &dyn Fn(&str) -> Option<String>,
    store: impl FnOnce() -> Result<Store>,
) -> Result<Target> {
    if given.is_some() && who.context.is_some() {
        let flag = if server == Server::Http { "--http" } else { "--mqtt" };
        bail!("both {flag} and --context are given, expected one of them");
    }
    let by_flag = who.context.is_some();
    let address = given.map(str::to_owned).or_else(|| variable(server.variable()).filter(|_| !by_flag));
    let context = match &address {
        Some(_) => None,
        None => store()?.chosen(who.context.as_deref(), variable("TIELINE_CONTEXT").as_deref())?,
    };
    let (name, context) = context.map_or((None, Context::default()), |(name, context)| (Some(name), context));
    let of_context = match &name {
        None => None,
        Some(name) => match server.of(&context) {
            Some(address) => Some(address),
            None => bail!("the context {name:?} has no address for this, expected one with --http"),
        },
    };
    let pick = |flag: Option<String>, name: &str, of_context: Option<String>| {
        let environment = variable(name);
        flag.or(if by_flag { of_context.or(environment) } else { environment.or(of_context) })
    };
    let path = |flag: &Option<PathBuf>, name: &str, of_context: Option<PathBuf>| {
        let environment = variable(name).map(PathBuf::from);
        flag.clone().or(if by_flag { of_context.or(environment) } else { environment.or(of_context) })
    };
    let target = Target {
        address: address.or(of_context).unwrap_or_else(|| server.default().to_owned()),
        user: pick(who.user.clone(), "TIELINE_USER", context.user),
        password_file: path(&who.password_file, "TIELINE_PASSWORD_FILE", context.password_file),
        ca: path(&who.ca, "TIELINE_CA", context.ca),
        cert: path(&who.cert, "TIELINE_CERT", context.cert),
        key: path(&who.key, "TIELINE_KEY", context.key),
        context: name,
    };
    match (&target.cert, &target.key) {
        (Some(_), None) => bail!("--cert is given without --key, expected both"),
        (None, Some(_)) => bail!("--key is given without --cert, expected both"),
        (Some(_), Some(_)) | (None, None) => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Store {
        let text = "current = \"used\"\n[context.used]\nhttp = \"used:8080\"\nuser = \"u\"\n\
                    [context.safe]\nhttp = \"https://safe:8443\"\nuser = \"s\"\npassword_file = \"/p\"\n";
        Store::read(text).unwrap()
    }

    fn check(server: Server, given: Option<&str>, context: Option<&str>, variables: &[(&str, &str)], expect: &str) {
        let who = WhoArgs { context: context.map(str::to_owned), ..WhoArgs::default() };
        let variable = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        let found = match resolve(server, given, &who, &variable, || Ok(store())) {
            Ok(target) => format!("{} {}", target.address, target.user.unwrap_or_default()).trim_end().to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expect, "{given:?} {context:?} {variables:?}");
    }

    #[test]
    fn the_address_is_taken_from_the_first_that_names_it() {
        use Server::{Http, Mqtt};
        let (http, user, named) = (("TIELINE_HTTP", "env:1"), ("TIELINE_USER", "e"), ("TIELINE_CONTEXT", "safe"));
        check(Http, None, None, &[], "used:8080 u");
        check(Http, None, None, &[named], "https://safe:8443 s");
        check(Http, None, None, &[named, user], "https://safe:8443 e");
        check(Http, None, None, &[named, http], "env:1");
        check(Http, None, None, &[named, http, user], "env:1 e");
        check(Http, None, Some("used"), &[named, http, user], "used:8080 u");
        check(Http, Some("flag:1"), None, &[named, http], "flag:1");
        check(Http, Some("flag:1"), Some("used"), &[], "both --http and --context are given, expected one of them");
        check(Mqtt, None, None, &[], "used:1883 u");
        check(Mqtt, None, None, &[named], "mqtts://safe:8883 s");
        check(Http, None, Some("none"), &[], "there is no context \"none\", expected one of safe, used");
    }

    #[test]
    fn without_a_context_the_defaults_hold() {
        let none = |_: &str| None;
        let empty = || Ok(Store::default());
        let target = resolve(Server::Mqtt, None, &WhoArgs::default(), &none, empty).unwrap();
        assert_eq!(target, Target { address: "127.0.0.1:1883".to_owned(), ..Target::default() });
        let lonely = WhoArgs { cert: Some("c.pem".into()), ..WhoArgs::default() };
        let wrong = resolve(Server::Http, None, &lonely, &none, empty).unwrap_err();
        assert_eq!(wrong.to_string(), "--cert is given without --key, expected both");
    }
}
