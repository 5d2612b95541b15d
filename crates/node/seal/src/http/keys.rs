//! `/v1/seal/keys`, and how long certificates are still valid.

use super::Identified;
use crate::access::Action;
use crate::config::Config;
use crate::keyring::{Domain, KeyState, Known};
use crate::pool::unix_seconds;
use schemars::JsonSchema;
use serde::Serialize;
use tieline_core::Timestamp;
use tieline_rsfn::Standing;
use tieline_service::exposition::Exposition;
use tieline_service::http::body::Answer;

/// Domains with keys and peers.
#[derive(JsonSchema, Serialize)]
pub struct Domains {
    domains: Vec<DomainShown>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Domain")]
struct DomainShown {
    domain: String,
    ispb: String,
    keys: Vec<KeyShown>,
    peers: Vec<CertificateShown>,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Key")]
struct KeyShown {
    #[serde(flatten)]
    certificate: CertificateShown,
    version: u32,
    /// Whether it is the one that signs
    signs: bool,
}

#[derive(JsonSchema, Serialize)]
#[schemars(rename = "Certificate")]
struct CertificateShown {
    ispb: String,
    serial: String,
    authority: u8,
    subject: String,
    issuer: String,
    #[schemars(extend("format" = "date-time"))]
    not_before: String,
    #[schemars(extend("format" = "date-time"))]
    not_after: String,
    days_left: u64,
    #[schemars(extend("enum" = KeyState::ALL.map(KeyState::word)))]
    state: &'static str,
    standing: StandingShown,
}

/// Whether it is taken now.
#[derive(JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
enum StandingShown {
    Active,
    Pending,
    Over,
    Invalid,
}

/// The keys and certificates of the domains that the client may administer.
pub async fn keys(Identified { app, client }: Identified) -> Answer<Domains> {
    let config = app.0.config();
    let mut domains: Vec<_> = config.domains.values().filter(|d| client.may(Action::Admin, &d.name)).collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    Answer(Domains { domains: domains.into_iter().map(shown).collect() })
}

fn shown(domain: &Domain) -> DomainShown {
    let seconds = unix_seconds();
    let signing = domain.signing_key(None, seconds).map(|key| key.version);
    let keys = domain.keys.iter().map(|key| KeyShown {
        certificate: certificate(&key.known, seconds),
        version: key.version,
        signs: Some(key.version) == signing,
    });
    DomainShown {
        domain: domain.name.to_string(),
        ispb: domain.ispb.to_string(),
        keys: keys.collect(),
        peers: domain.peers.iter().map(|peer| certificate(peer, seconds)).collect(),
    }
}

fn certificate(known: &Known, seconds: u64) -> CertificateShown {
    let certificate = &known.certificate;
    CertificateShown {
        ispb: known.ispb.to_string(),
        serial: known.party.serial.to_string(),
        authority: known.party.authority.0,
        subject: certificate.subject.clone(),
        issuer: certificate.issuer.clone(),
        not_before: time(certificate.not_before),
        not_after: time(certificate.not_after),
        days_left: certificate.not_after.saturating_sub(seconds) / 86_400,
        state: known.state.word(),
        standing: match known.standing(seconds) {
            Standing::Active => StandingShown::Active,
            Standing::Pending => StandingShown::Pending,
            Standing::Over => StandingShown::Over,
            Standing::Foreign | Standing::Invalid => StandingShown::Invalid,
        },
    }
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
