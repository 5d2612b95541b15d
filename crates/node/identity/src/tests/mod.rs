//! A provider in a table: what it answers, and what comes of it.

mod flow;
mod hostile;
mod under_way;

use crate::*;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Instant;

const P256: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgfvqUostX35f5X7Vc
L5/cDLED+1wkOzi7e+kcqotUW1KhRANCAAQbPSsjLz6YZ9+hmt20+XkOpZrEc9Hh
0B8jBA7XOsJsbOGQjJijGGIS/JUhJqwZT5BVOkc55BIKY/A1wE3+HV5L
-----END PRIVATE KEY-----";
const P256_PUBLIC: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGz0rIy8+mGffoZrdtPl5DqWaxHPR4dAfIwQO1zrCbGzhkIyYoxhiEvyVISasGU+QVTpHOeQSCmPwNcBN/h1eSw==";
const ISSUER: &str = "https://id.example/realms/grid";
const NOW_S: u64 = 1_800_000_000;

fn at(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

fn provider() -> Arc<Provider> {
    let roles = BTreeMap::from([
        ("grid-ops".to_owned(), vec!["OPERATOR".to_owned(), "VIEWER".to_owned()]),
        ("staff".to_owned(), vec!["VIEWER".to_owned()]),
    ]);
    Arc::new(Provider {
        issuer: ISSUER.to_owned(),
        client_id: "tieline".to_owned(),
        address: "https://node.example".to_owned(),
        scopes: vec!["openid".to_owned(), "profile".to_owned()],
        user_claim: "preferred_username".to_owned(),
        groups_claim: "groups".to_owned(),
        roles: RoleMap(roles),
        leeway_s: 60,
    })
}

/// An object with some members changed; null takes one away.
fn changed(mut value: Value, more: &[(&str, Value)]) -> Value {
    for (name, member) in more {
        match member {
            Value::Null => value.as_object_mut().unwrap().remove(*name),
            member => value.as_object_mut().unwrap().insert((*name).to_owned(), member.clone()),
        };
    }
    value
}

fn discovery(more: &[(&str, Value)]) -> Value {
    let document = json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://id.example/auth",
        "token_endpoint": "https://id.example/token",
        "jwks_uri": "https://id.example/keys",
        "userinfo_endpoint": "https://id.example/me",
        "end_session_endpoint": "https://id.example/end",
        "device_authorization_endpoint": "https://id.example/device",
    });
    changed(document, more)
}

/// A set with the key of these tests under a name.
fn keys(name: &str) -> Value {
    let der = STANDARD.decode(P256_PUBLIC).unwrap();
    let (x, y) = der[der.len() - 64..].split_at(32);
    let [x, y] = [x, y].map(|part| URL_SAFE_NO_PAD.encode(part));
    json!({ "keys": [
        { "kty": "EC", "crv": "P-256", "kid": name, "use": "sig", "x": x, "y": y },
        { "kty": "unheard-of", "kid": "x" },
    ] })
}

fn claims(more: &[(&str, Value)]) -> Value {
    let claims = json!({
        "iss": ISSUER, "aud": "tieline", "sub": "7f3a", "exp": NOW_S + 300, "iat": NOW_S, "nonce": "n",
        "preferred_username": "anna", "groups": ["grid-ops"], "sid": "s1",
    });
    changed(claims, more)
}

fn signed(name: &str, claims: &Value) -> String {
    let header = Header { kid: Some(name.to_owned()), ..Header::new(Algorithm::ES256) };
    encode(&header, claims, &EncodingKey::from_ec_pem(P256.as_bytes()).unwrap()).unwrap()
}

fn tokens(claims: &Value) -> Value {
    json!({ "id_token": signed("k1", claims), "access_token": "at", "token_type": "Bearer" })
}

fn ok(value: &Value) -> Result<Answer, String> {
    Ok(Answer { status: 200, body: value.to_string().into_bytes() })
}

fn code() -> Goal {
    Goal::Code { code: "c".to_owned(), verifier: "v".to_owned(), nonce: "n".to_owned() }
}

fn exchange(goal: Goal, known: Option<Arc<Known>>, now: Instant) -> Exchange {
    Exchange::new(provider(), "s3cret %", known, goal, (now, NOW_S))
}

/// What a provider is known by.
fn known() -> Arc<Known> {
    let mut exchange = exchange(Goal::Address, None, at(0));
    let done = run(&mut exchange, at(0), &mut vec![ok(&discovery(&[])), ok(&keys("k1"))].into_iter());
    assert_eq!(done, Ok(Outcome::Ready));
    exchange.known().unwrap()
}

/// Gives answers one after the other, and what comes of it.
fn run(
    exchange: &mut Exchange,
    now: Instant,
    answers: &mut dyn Iterator<Item = Result<Answer, String>>,
) -> Result<Outcome, Fault> {
    loop {
        match exchange.poll() {
            Step::Send(request) => {
                let answer = answers.next().unwrap_or_else(|| panic!("no answer for {request:?}"));
                exchange.handle_answer(now, answer);
            }
            Step::Done(outcome) => {
                assert!(answers.next().is_none(), "{outcome:?}, and answers are left");
                return outcome;
            }
        }
    }
}

fn person(outcome: Result<Outcome, Fault>) -> Result<Person, Fault> {
    match outcome {
        Ok(Outcome::Person(person)) => Ok(person),
        Err(fault) => Err(fault),
        Ok(other) => panic!("{other:?}"),
    }
}
