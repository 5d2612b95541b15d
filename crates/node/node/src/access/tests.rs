//! Files, passwords, tokens and the door, without a network.

use super::book::Book;
use super::door::{Door, Shown, Wrong};
use super::edit::{Edit, edit_user};
use super::jwt::{JwtConfig, Tokens, looks_like_token};
use super::{hash_password, is_password_hash, verify_password};
use crate::config::{AccessConfig, from_text};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tieline_access::Identity;
use tieline_net::Clock;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Longer than anything here takes on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(60);
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const P256: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgfvqUostX35f5X7Vc
L5/cDLED+1wkOzi7e+kcqotUW1KhRANCAAQbPSsjLz6YZ9+hmt20+XkOpZrEc9Hh
0B8jBA7XOsJsbOGQjJijGGIS/JUhJqwZT5BVOkc55BIKY/A1wE3+HV5L
-----END PRIVATE KEY-----";
const P256_PUBLIC: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEGz0rIy8+mGffoZrdtPl5DqWaxHPR
4dAfIwQO1zrCbGzhkIyYoxhiEvyVISasGU+QVTpHOeQSCmPwNcBN/h1eSw==
-----END PUBLIC KEY-----";

fn add(file: &Path, name: &str, roles: &[&str], password: Option<&str>) {
    let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
    edit_user(file, name, &Edit::Add { roles: &roles, password }).unwrap();
}

#[test]
fn passwords_are_kept_as_argon2id() {
    let hash = hash_password("pass word").unwrap();
    assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$") && is_password_hash(&hash));
    assert!(verify_password(b"pass word", &hash) && !verify_password(b"password", &hash));
    assert!(!verify_password(&[b'x'; 2000], &hash));
    for wrong in
        ["", "plain", "$argon2i$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaA", &hash.replace("m=19456", "m=4000000")]
    {
        assert!(!is_password_hash(wrong), "{wrong}");
    }
}

#[test]
fn the_file_of_users_is_edited_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    add(&file, "anna", &["OPERATOR"], Some("secret"));
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + "\n# a word of one's own\n").unwrap();
    add(&file, "bob", &[], None);
    let roles = ["VIEWER".to_owned()];
    edit_user(&file, "bob", &Edit::Roles(&roles)).unwrap();
    edit_user(&file, "bob", &Edit::Disabled(true)).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# a word of one's own") && !text.contains("secret"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let config = AccessConfig { users: Some(file.clone()), ..AccessConfig::default() };
    let book = Book::load(&config).unwrap();
    assert!(book.policy.user("bob").unwrap().disabled);
    assert!(verify_password(b"secret", book.secrets["anna"].password.as_ref().unwrap()));
    assert!(book.secrets["anna"].scram.is_some());
    let first = book.policy.user("anna").unwrap().credential;
    edit_user(&file, "anna", &Edit::Password("other")).unwrap();
    edit_user(&file, "bob", &Edit::Remove).unwrap();
    let book = Book::load(&config).unwrap();
    assert_ne!(book.policy.user("anna").unwrap().credential, first);
    assert!(book.policy.user("bob").is_none());
    let refused = |name: &str, edit: &Edit<'_>| edit_user(&file, name, edit).unwrap_err();
    assert_eq!(refused("bob", &Edit::Remove), "there is no user \"bob\"");
    assert_eq!(refused("anna", &Edit::Add { roles: &[], password: None }), "the user \"anna\" is there already");
    assert!(refused("a/b", &Edit::Remove).starts_with("\"a/b\" is no name"));
    assert_eq!(refused("anna", &Edit::Password("")), "the password has 0 octets, expected 1 to 1024");
}

#[test]
fn what_is_wrong_in_the_files_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let check = |config: &str, expect: &[&str]| {
        let shown: Vec<String> = match from_text("t.toml", config, folder.path()) {
            Ok(_) => Vec::new(),
            Err(error) => error.0.iter().map(ToString::to_string).collect(),
        };
        let root = format!("{}/", folder.path().display());
        let shown: Vec<String> = shown.iter().map(|line| line.replace(&root, "")).collect();
        assert_eq!(shown, expect);
    };
    write("users.toml", "[user.anna]\nroles = ['VIEWER', 'boss']\n");
    write("roles.toml", "[role.boss]\nrules = ['allow all #']\n");
    check("[access]\nusers = 'users.toml'\nroles = 'roles.toml'\n", &[]);
    check(
        "[access]\nusers = 'users.toml'\n",
        &[
            "users.toml:1:1: (file): found the user \"anna\" has the role \"boss\", which there is not, expected roles of the \
           file of roles, or of IEC 62351-8",
        ],
    );
    write("roles.toml", "[role.boss]\nrules = [\n  'allow read #',\n  'allow write #',\n]\nrule = 1\n");
    write("users.toml", "[user.anna]\npassword = 'plain'\nroles = ['VIEWER', 5]\n");
    check(
        "[access]\nusers = 'users.toml'\nroles = 'roles.toml'\nusres = 1\n",
        &[
            "roles.toml:4:3: role.boss.rules: found \"allow write #\", expected a rule: \"write\" is no verb, expected read, \
             publish, command, admin or all",
            "roles.toml:6:1: role.boss.rule: found the unknown key \"rule\", expected rules",
            "users.toml:2:12: user.anna.password: found \"plain\", expected a hash of argon2id, as `tieline access user \
             password` writes it",
            "users.toml:3:20: user.anna.roles: found 5, expected roles, as in [\"VIEWER\"]",
            "t.toml:4:1: access.usres: found the unknown key \"usres\", expected users",
        ],
    );
    check(
        "[access]\nloopback = 'closed'\n",
        &[
            "t.toml:2:12: access.loopback: found \"closed\", and nobody could come in, expected users = \"users.toml\", \
           [access.jwt] or [access.certificates] beside it",
        ],
    );
    write("short.key", "short");
    check(
        "[access.jwt]\nkeys = ['short.key']\n",
        &[
            "short.key:1:1: (file): found a secret of 5 octets, expected 32 at least, expected a key, a JWKS or a secret",
        ],
    );
}

fn jwt_config(folder: &Path, keys: &[(&str, &str)]) -> JwtConfig {
    let write = |(name, text): &(&str, &str)| {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    JwtConfig {
        keys: keys.iter().map(write).collect(),
        issuer: Some("https://id.example".to_owned()),
        audience: None,
        user_claim: "sub".to_owned(),
        roles_claim: "roles".to_owned(),
        leeway: Duration::ZERO,
    }
}

fn token(algorithm: Algorithm, claims: &Value) -> Vec<u8> {
    let key = match algorithm {
        Algorithm::HS256 => EncodingKey::from_secret(SECRET.as_bytes()),
        _ => EncodingKey::from_ec_pem(P256.as_bytes()).unwrap(),
    };
    encode(&Header::new(algorithm), claims, &key).unwrap().into_bytes()
}

fn claims(more: &[(&str, Value)]) -> Value {
    let mut claims =
        json!({ "sub": "anna", "iss": "https://id.example", "exp": 4_000_000_000_u64, "roles": ["VIEWER"] });
    for (name, value) in more {
        claims[*name] = value.clone();
    }
    claims
}

#[test]
fn tokens_are_good_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::load(&jwt_config(folder.path(), &[("hs.key", SECRET), ("es.pem", P256_PUBLIC)])).unwrap();
    let check = |algorithm, more: &[(&str, Value)], expect: Result<&[&str], &str>| {
        let found = tokens.verify(&token(algorithm, &claims(more)));
        let found = found.map(|claims| claims.roles.unwrap_or_default());
        let expect = expect.map(|roles| roles.iter().map(ToString::to_string).collect()).map_err(str::to_owned);
        assert_eq!(found, expect, "{more:?}");
    };
    check(Algorithm::HS256, &[], Ok(&["VIEWER"]));
    check(Algorithm::ES256, &[], Ok(&["VIEWER"]));
    check(Algorithm::HS256, &[("roles", json!("a b"))], Ok(&["a", "b"]));
    check(Algorithm::HS256, &[("roles", Value::Null)], Ok(&[]));
    check(Algorithm::HS256, &[("exp", json!(4_000_000_000.5))], Ok(&["VIEWER"]));
    check(Algorithm::HS256, &[("exp", json!(1))], Err("ExpiredSignature"));
    check(Algorithm::HS256, &[("exp", Value::Null)], Err("Missing required claim: exp"));
    check(Algorithm::HS256, &[("nbf", json!(4_000_000_000_u64))], Err("ImmatureSignature"));
    check(Algorithm::HS256, &[("iss", json!("other"))], Err("InvalidIssuer"));
    check(Algorithm::HS256, &[("sub", json!(5))], Err("the claim \"sub\" is no text"));
    check(Algorithm::HS256, &[("roles", json!(5))], Err("the claim \"roles\" is neither a list nor a text"));
    let mut forged = token(Algorithm::HS256, &claims(&[]));
    let at = forged.len() - 10;
    forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
    assert_eq!(tokens.verify(&forged), Err("InvalidSignature".to_owned()));
}

#[test]
fn the_key_says_the_algorithm_never_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::load(&jwt_config(folder.path(), &[("es.pem", P256_PUBLIC)])).unwrap();
    // The public key, taken for a secret.
    let forged =
        encode(&Header::new(Algorithm::HS256), &claims(&[]), &EncodingKey::from_secret(P256_PUBLIC.as_bytes()));
    let none = "no key of its algorithm and name is known";
    assert_eq!(tokens.verify(forged.unwrap().as_bytes()).unwrap_err(), none);
    // {"alg":"none","typ":"JWT"} and no signature.
    let text = b"eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.eyJzdWIiOiJhbm5hIn0.";
    assert!(looks_like_token(text) && tokens.verify(text).is_err());
}

proptest! {
    #[test]
    fn any_octets_are_survived_as_tokens(octets in prop::collection::vec(any::<u8>(), 0..200), text in "eyJ[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}") {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::load(&jwt_config(folder.path(), &[("hs.key", SECRET)])).unwrap();
        prop_assert!(tokens.verify(&octets).is_err());
        prop_assert!(tokens.verify(text.as_bytes()).is_err());
    }
}

fn ask(door: &Door, shown: Shown) -> Result<Identity, Wrong> {
    let (told, hears) = sync_channel(1);
    door.ask(PEER, shown, move |verdict| told.send(verdict).unwrap());
    hears.recv_timeout(PATIENCE).unwrap()
}

fn password(user: &str, password: &str) -> Shown {
    Shown::Password { user: user.to_owned(), password: password.as_bytes().to_vec() }
}

#[test]
fn the_door_lets_users_in_and_takes_changed_files() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml");
    add(&users, "anna", &["VIEWER"], Some("secret"));
    let jwt = Some(jwt_config(folder.path(), &[("hs.key", SECRET)]));
    let config = AccessConfig { users: Some(users.clone()), jwt, ..AccessConfig::default() };
    let (told, changes) = sync_channel(8);
    let on_change = Box::new(move |policy| drop(told.send(policy)));
    let door = Door::start(&config, Book::load(&config).unwrap(), Clock::start(), on_change).unwrap();
    // The first time by argon2id, the second by what is known of the first.
    assert!(ask(&door, password("anna", "secret")).is_ok() && ask(&door, password("anna", "secret")).is_ok());
    let wrong = |user| Err(Wrong::Refused(format!("user {user:?} with a wrong password")));
    assert_eq!(ask(&door, password("anna", "Secret")), wrong("anna"));
    assert_eq!(ask(&door, password("eve", "secret")), wrong("eve"));
    let by_token = |user: Option<&str>| Shown::Token {
        user: user.map(str::to_owned),
        token: token(Algorithm::HS256, &claims(&[])),
    };
    let found = ask(&door, by_token(Some("anna"))).unwrap();
    assert_eq!((&*found.user, found.roles), ("anna", Some(vec!["VIEWER".into()])));
    assert!(found.expires.is_some() && ask(&door, by_token(None)).is_ok());
    assert!(matches!(ask(&door, by_token(Some("bob"))), Err(Wrong::Refused(_))));
    edit_user(&users, "anna", &Edit::Password("other")).unwrap();
    let policy: Arc<tieline_access::Policy> = changes.recv_timeout(PATIENCE).unwrap();
    assert_ne!(policy.user("anna").unwrap().credential, found.credential);
    assert_eq!(ask(&door, password("anna", "secret")), wrong("anna"));
    assert!(ask(&door, password("anna", "other")).is_ok());
    assert_eq!((door.counts().good, door.counts().wrong, door.counts().reloads), (5, 4, 1));
}

#[test]
fn an_address_that_keeps_failing_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let config = AccessConfig { users: Some(folder.path().join("users.toml")), ..AccessConfig::default() };
    let door = Door::start(&config, Book::default(), Clock::start(), Box::new(|_| ())).unwrap();
    let wrong = |_| matches!(door.begin_scram(PEER, b"n,,n=u"), Err(Wrong::Refused(_)));
    assert!((0..10).all(wrong));
    assert_eq!(door.begin_scram(PEER, b"n,,n=u,r=12345678").unwrap_err(), Wrong::TooOften);
    assert_eq!(door.counts().too_often, 1);
}
