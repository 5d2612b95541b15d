//! Who may connect: servers with an auth callout ask this side, and a decision is answered as a JWT that the issuer's key signs.
//!
//! ```text
//! client ─ CONNECT: nkey, signature of a nonce ─▶ server ─ request, a JWT signed by the server ─▶ Callout ─ Ask ─▶ who decides
//!                                                 server ◀─ answer, signed by the issuer: a user's JWT, or why not ─ Grant
//! ```
//!
//! A client is known by the public key whose other half signed the server's nonce; what else it says about itself is words. The
//! server makes a key for each request, and takes an answer for that key alone: an answer cannot be replayed.
//!
//! Times in JWTs count from the server's clock, as the request has it: the clocks of the two need not agree.

use crate::jwt::{self, JwtError};
use crate::keys::{KeyKind, Keys, is_public, is_signed};
use crate::service::{Request, Service};
use crate::{Fabric, FabricError, subject};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

/// Where servers ask.
const SUBJECT: &str = "$SYS.REQ.USER.AUTH";
/// Those that answer share the requests.
const GROUP: &str = "door";
/// The audience of a server's request.
const AUDIENCE: &str = "nats-authorization-request";
/// How long an answer to a call may be sent: commands take up to five minutes, by the wish of who asks.
const ANSWER_WITHIN: Duration = Duration::from_secs(400);
/// What separates a site and its key in the name of a connection; neither has it.
const NAME_SEPARATOR: char = '.';

/// A client that wants to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its public key, which is proven; none where it shows something else, or no right signature.
    pub key: Option<String>,
    /// The name that it gives itself.
    pub name: String,
    /// Its address, as the server sees it.
    pub host: String,
    server: String,
    user: String,
    issued: i64,
}

/// What a client may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name that the server has for the connection: see [`connection_name`].
    pub name: String,
    /// The account that it is in.
    pub account: String,
    /// Subjects that it may publish to, and no others.
    pub publish: Vec<String>,
    /// Subjects that it may subscribe to, and no others.
    pub subscribe: Vec<String>,
    /// Whether it may answer requests, wherever the answer goes.
    pub answers: bool,
    /// The server ends the connection after this time; the client connects again, and this is asked again.
    pub holds: Duration,
}

impl Grant {
    /// The rights of a site: its own subjects and its own inbox, and none of another site.
    #[must_use]
    pub fn site(site: &str, key: &str, account: &str, holds: Duration) -> Self {
        let own = subject::token(site);
        Self {
            name: connection_name(site, key),
            account: account.to_owned(),
            publish: vec![format!("tl.{own}.up.*"), format!("tl.{own}.t.>"), format!("tl.{own}.join.*")],
            subscribe: vec![format!("tl.{own}.call.*"), format!("tl.{own}.t.>"), format!("{}.>", subject::inbox(site))],
            answers: true,
            holds,
        }
    }
}

/// The name of a connection at the server, from which [`key_of_connection`] reads the key.
#[must_use]
pub fn connection_name(site: &str, key: &str) -> String {
    format!("{}{NAME_SEPARATOR}{key}", subject::token(site))
}

/// The key in the name of a connection; none where it has another form.
#[must_use]
pub fn key_of_connection(name: &str) -> Option<&str> {
    let (_, key) = name.rsplit_once(NAME_SEPARATOR)?;
    is_public(key, KeyKind::User).then_some(key)
}

/// Requests of servers, which are answered with an issuer's key.
#[derive(Debug)]
pub struct Callout {
    service: Service,
    issuer: Keys,
    /// Requests that were none.
    refused: u64,
}

/// A client that waits for a decision. Dropped, it is told nothing, and the server turns it away after a while.
#[derive(Debug)]
pub struct Waiting {
    /// The client.
    pub ask: Ask,
    request: Request,
}

impl Fabric {
    /// Answers servers that ask who may connect, together with all others of the centre that do.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn callout(&self, issuer: Keys) -> Result<Callout, FabricError> {
        Ok(Callout { service: self.serve(SUBJECT, GROUP).await?, issuer, refused: 0 })
    }
}

impl Callout {
    /// The next client; none once the connection is closed. What is no request of a server is left out and counted.
    pub async fn next(&mut self) -> Option<Waiting> {
        loop {
            let request = self.service.next().await?;
            match read_ask(&request.body, &self.issuer.public()) {
                Ok(ask) => return Some(Waiting { ask, request }),
                Err(error) => {
                    self.refused += 1;
                    tracing::warn!(%error, "a request of the fabric's server cannot be read");
                }
            }
        }
    }

    /// Requests that were none.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Lets a client in.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn grant(&self, waiting: Waiting, grant: &Grant) -> Result<(), FabricError> {
        let body = grant_body(&waiting.ask, grant, &self.issuer);
        waiting.request.answer(body.into()).await
    }

    /// Turns a client away. The reason is in the server's log; the client is not told.
    ///
    /// # Errors
    /// The connection is closed.
    pub async fn refuse(&self, waiting: Waiting, reason: &str) -> Result<(), FabricError> {
        let body = refusal_body(&waiting.ask, reason, &self.issuer);
        waiting.request.answer(body.into()).await
    }
}

fn grant_body(ask: &Ask, grant: &Grant, issuer: &Keys) -> String {
    let holds = i64::try_from(grant.holds.as_secs()).unwrap_or(i64::MAX);
    // -1: no limit here, so that of the server's configuration.
    let user = json!({
        "sub": ask.user,
        "aud": grant.account,
        "name": grant.name,
        "iat": ask.issued,
        "exp": ask.issued.saturating_add(holds),
        "nats": {
            "type": "user",
            "version": 2,
            "pub": { "allow": grant.publish },
            "sub": { "allow": grant.subscribe },
            "resp": grant.answers.then(|| json!({ "max": 1, "ttl": ANSWER_WITHIN.as_nanos() as u64 })),
            "subs": -1,
            "data": -1,
            "payload": -1,
            "allowed_connection_types": ["STANDARD"],
        },
    });
    answer_body(ask, &json!({ "jwt": jwt::encode(user, issuer) }), issuer)
}

fn refusal_body(ask: &Ask, reason: &str, issuer: &Keys) -> String {
    answer_body(ask, &json!({ "error": reason }), issuer)
}

fn answer_body(ask: &Ask, decision: &serde_json::Value, issuer: &Keys) -> String {
    let mut nats = decision.clone();
    nats["type"] = "authorization_response".into();
    nats["version"] = 2.into();
    let answer = json!({ "sub": ask.user, "aud": ask.server, "iat": ask.issued, "nats": nats });
    jwt::encode(answer, issuer)
}

#[derive(Deserialize)]
struct Claims {
    aud: String,
    sub: String,
    iat: i64,
    nats: Asked,
}

#[derive(Deserialize)]
struct Asked {
    #[serde(rename = "type")]
    kind: String,
    version: u8,
    server_id: Server,
    user_nkey: String,
    #[serde(default)]
    client_info: Client,
    connect_opts: Shown,
}

#[derive(Deserialize)]
struct Server {
    id: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Client {
    host: String,
    name: String,
    nonce: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    nkey: String,
    sig: String,
}

/// Reads what a server asks; `issuer` is the public key that the server was configured with, to which it addresses its requests.
///
/// # Errors
/// It is no JWT, or is not signed by the server that it names, or is for somebody else.
pub fn read_ask(body: &[u8], issuer: &str) -> Result<Ask, JwtError> {
    let (signer, claims) = jwt::decode::<Claims>(body, KeyKind::Server)?;
    let Claims { aud, sub, iat, nats } = claims;
    let Asked { kind, version, server_id, user_nkey, client_info, connect_opts } = nats;
    if aud != AUDIENCE || sub != issuer || kind != "authorization_request" || version != 2 {
        return Err(JwtError::Claims);
    }
    if server_id.id != signer || !is_public(&user_nkey, KeyKind::User) {
        return Err(JwtError::Claims);
    }
    let Shown { nkey, sig } = connect_opts;
    let Client { host, name, nonce } = client_info;
    let is_proven = !nonce.is_empty()
        && signature_of(&sig).is_some_and(|sig| is_signed(&nkey, KeyKind::User, nonce.as_bytes(), &sig));
    Ok(Ask { key: is_proven.then_some(nkey), name, host, server: signer, user: user_nkey, issued: iat })
}

/// Clients write it in one of two alphabets, as the server reads both.
fn signature_of(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).or_else(|_| STANDARD.decode(text)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::takes;
    use proptest::prelude::*;
    use serde_json::Value as Json;

    struct Parts {
        server: Keys,
        issuer: Keys,
        client: Keys,
        claims: Json,
    }

    fn parts() -> Parts {
        let [server, issuer, client, user] =
            [KeyKind::Server, KeyKind::Account, KeyKind::User, KeyKind::User].map(Keys::generate);
        let signature = URL_SAFE_NO_PAD.encode(client.sign(b"nonce"));
        let claims = json!({
            "aud": AUDIENCE, "sub": issuer.public(), "iat": 1_000, "exp": 1_002,
            "nats": {
                "type": "authorization_request", "version": 2, "user_nkey": user.public(),
                "server_id": { "id": server.public(), "name": "n1", "host": "0.0.0.0", "version": "2.15.2" },
                "client_info": { "host": "10.1.2.3", "id": 7, "name": "north", "kind": "Client", "nonce": "nonce" },
                "connect_opts": { "nkey": client.public(), "sig": signature, "protocol": 1 },
            },
        });
        Parts { server, issuer, client, claims }
    }

    impl Parts {
        fn read(&self) -> Result<Ask, JwtError> {
            read_ask(jwt::encode(self.claims.clone(), &self.server).as_bytes(), &self.issuer.public())
        }
    }

    #[test]
    fn a_request_proves_who_asks() {
        let parts = parts();
        let ask = parts.read().unwrap();
        assert_eq!(ask.key, Some(parts.client.public()));
        assert_eq!((&*ask.name, &*ask.host, ask.issued), ("north", "10.1.2.3", 1_000));
    }

    fn check(change: impl FnOnce(&mut Json), expect: Result<(), JwtError>) {
        let mut parts = parts();
        change(&mut parts.claims);
        // What is read has no proven key.
        assert_eq!(parts.read().map(|ask| assert_eq!(ask.key, None)), expect, "{}", parts.claims);
    }

    #[test]
    fn what_is_changed_proves_nothing() {
        let other = || Keys::generate(KeyKind::User).public();
        check(|claims| claims["nats"]["client_info"]["nonce"] = "other".into(), Ok(()));
        check(|claims| claims["nats"]["client_info"]["nonce"] = "".into(), Ok(()));
        check(|claims| claims["nats"]["connect_opts"]["nkey"] = other().into(), Ok(()));
        check(|claims| claims["nats"]["connect_opts"]["sig"] = "!".into(), Ok(()));
        check(|claims| claims["nats"]["connect_opts"] = json!({ "user": "u", "pass": "p", "protocol": 1 }), Ok(()));
        check(|claims| claims["aud"] = "other".into(), Err(JwtError::Claims));
        check(|claims| claims["sub"] = other().into(), Err(JwtError::Claims));
        check(|claims| claims["nats"]["version"] = 1.into(), Err(JwtError::Claims));
        check(|claims| claims["nats"]["type"] = "user".into(), Err(JwtError::Claims));
        check(|claims| claims["nats"]["user_nkey"] = "U".into(), Err(JwtError::Claims));
        check(|claims| claims["nats"]["server_id"]["id"] = other().into(), Err(JwtError::Claims));
        check(|claims| claims["nats"] = Json::Null, Err(JwtError::Claims));
    }

    #[test]
    fn an_answer_is_for_one_request_and_signed() {
        let parts = parts();
        let ask = parts.read().unwrap();
        let grant = Grant::site("north", &parts.client.public(), "TL", Duration::from_secs(60));
        let (signer, answer) =
            jwt::decode::<Json>(grant_body(&ask, &grant, &parts.issuer).as_bytes(), KeyKind::Account).unwrap();
        assert_eq!(signer, parts.issuer.public());
        assert_eq!((&answer["sub"], &answer["aud"]), (&Json::from(ask.user.clone()), &parts.server.public().into()));
        let user = answer["nats"]["jwt"].as_str().unwrap();
        let (_, user) = jwt::decode::<Json>(user.as_bytes(), KeyKind::Account).unwrap();
        assert_eq!((&user["aud"], &user["exp"]), (&Json::from("TL"), &Json::from(1_060)));
        assert_eq!(user["nats"]["pub"]["allow"], json!(["tl.north.up.*", "tl.north.t.>", "tl.north.join.*"]));
        assert_eq!(key_of_connection(user["name"].as_str().unwrap()), Some(&*parts.client.public()));
        let refusal = refusal_body(&ask, "revoked", &parts.issuer);
        let (_, refusal) = jwt::decode::<Json>(refusal.as_bytes(), KeyKind::Account).unwrap();
        assert_eq!((&refusal["nats"]["error"], &refusal["nats"]["jwt"]), (&"revoked".into(), &Json::Null));
    }

    proptest! {
        #[test]
        fn no_site_has_rights_of_another(a in "[ab.*>%+/ é]{0,4}", b in "[ab.*>%+/ é]{0,4}", name in "[a.*>]{0,3}") {
            prop_assume!(a != b);
            let grant = Grant::site(&a, "U", "TL", Duration::from_secs(1));
            let subjects = [
                subject::up(&b, &name).unwrap(), subject::call(&b, &name).unwrap(), format!("{}.{}", subject::inbox(&b), "x"),
                format!("tl.{}.t.{}", subject::token(&b), subject::token(&name)),
            ];
            for subject in subjects {
                let all = grant.publish.iter().chain(&grant.subscribe);
                prop_assert!(!all.clone().any(|pattern| takes(pattern, &subject)), "{grant:?} {subject}");
            }
        }

        #[test]
        fn any_bytes_are_a_request_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200), claims in "[{}\":,a-z0-9\\[\\]]{0,60}") {
            let issuer = "A";
            prop_assert!(read_ask(&bytes, issuer).is_err());
            let server = Keys::generate(KeyKind::Server);
            let header = URL_SAFE_NO_PAD.encode("{\"typ\":\"JWT\",\"alg\":\"ed25519-nkey\"}");
            let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(&claims));
            let signature = URL_SAFE_NO_PAD.encode(server.sign(signed.as_bytes()));
            let text = format!("{signed}.{signature}");
            prop_assert!(read_ask(text.as_bytes(), issuer).is_err());
        }
    }
}
