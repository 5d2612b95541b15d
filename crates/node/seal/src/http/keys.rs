//! `/v1/seal/keys`, and how long certificates are still valid.

use super::{App, json};
use crate::access::Action;
use crate::config::Config;
use crate::keyring::{Domain, Known};
use crate::pool::unix_seconds;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use serde_json::{Value, json as object};
use tieline_core::Timestamp;
use tieline_rsfn::Standing;
use tieline_service::exposition::Exposition;
use tieline_service::http::problem::Problem;

/// The keys and certificates of the domains that the client may administer.
pub async fn keys(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let client = app.known(&headers)?;
    let config = app.0.config();
    let mut domains: Vec<_> = config.domains.values().filter(|d| client.may(Action::Admin, &d.name)).collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    let domains: Vec<_> = domains.into_iter().map(shown).collect();
    Ok(json(object!({ "domains": domains }).to_string()))
}

fn shown(domain: &Domain) -> Value {
    let seconds = unix_seconds();
    let signing = domain.signing_key(None, seconds).map(|key| key.version);
    let own = domain.keys.iter().map(|key| {
        let mut shown = certificate(&key.known, seconds);
        shown["version"] = key.version.into();
        shown["signs"] = (Some(key.version) == signing).into();
        shown
    });
    let peers = domain.peers.iter().map(|peer| certificate(peer, seconds));
    let (keys, peers): (Vec<_>, Vec<_>) = (own.collect(), peers.collect());
    object!({ "domain": domain.name, "ispb": domain.ispb.to_string(), "keys": keys, "peers": peers })
}

fn certificate(known: &Known, seconds: u64) -> Value {
    let certificate = &known.certificate;
    let standing = match known.standing(seconds) {
        Standing::Active => "active",
        Standing::Pending => "pending",
        Standing::Over => "over",
        Standing::Foreign | Standing::Invalid => "invalid",
    };
    object!({
        "ispb": known.ispb.to_string(),
        "serial": known.party.serial.to_string(),
        "authority": known.party.authority.0,
        "subject": certificate.subject,
        "issuer": certificate.issuer,
        "not_before": time(certificate.not_before),
        "not_after": time(certificate.not_after),
        "days_left": certificate.not_after.saturating_sub(seconds) / 86_400,
        "state": known.state.word(),
        "standing": standing,
    })
}

fn time(seconds: u64) -> String {
    let millis = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000);
    Timestamp::from_millis(millis).to_string()
}

/// For alarms: when each certificate ends.
pub fn expose(config: &Config, e: &mut Exposition) {
    let name = "tieline_seal_certificate_end_seconds";
    e.family(name, "The last second of a certificate's validity, since 1970-01-01T00:00:00Z.", "gauge");
    for domain in config.domains.values() {
        let own = domain.keys.iter().map(|key| (&key.known, "key"));
        for (known, kind) in own.chain(domain.peers.iter().map(|peer| (&**peer, "peer"))) {
            let (ispb, serial) = (known.ispb.to_string(), known.party.serial.to_string());
            let labels = [("domain", domain.name.as_str()), ("kind", kind), ("ispb", &ispb), ("serial", &serial)];
            e.sample(name, &labels, known.certificate.not_after);
        }
    }
}
