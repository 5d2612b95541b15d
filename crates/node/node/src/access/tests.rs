//! Files, passwords, tokens and the door, without a network.

use super::authenticator::{Authenticator, Peer, Shown};
use super::credential_store::CredentialStore;
use super::credential_store::check_files;
use super::edit::{Edit, edit_user};
use super::jwt::{Tokens, looks_like_token};
use super::outcome::Wrong;
use super::{DeliveryFilter, ReadFilter, Serials};
use super::{hash_password, is_password_hash, verify_password};
use crate::config::{AccessConfig, Checks, JwtConfig, from_text_with};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use tieline_access::{Identity, Rules};
use tieline_net::Clock;

const PEER: Peer<'static> = Peer { address: IpAddr::V4(Ipv4Addr::LOCALHOST), client: None };
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

/// Passwords of tests may be short.
fn config_of(file: &Path) -> AccessConfig {
    AccessConfig { users: Some(file.to_owned()), password_length_min: 1, ..AccessConfig::default() }
}

fn edit(file: &Path, name: &str, edit: &Edit<'_>) -> Result<(), String> {
    edit_user(&config_of(file), name, edit)
}

fn add(file: &Path, name: &str, roles: &[&str], password: Option<&str>) {
    let roles: Vec<String> = roles.iter().map(ToString::to_string).collect();
    edit(file, name, &Edit::Add { roles: &roles, password }).unwrap();
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
    edit(&file, "bob", &Edit::Roles(&roles)).unwrap();
    edit(&file, "bob", &Edit::Disabled(true)).unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("# a word of one's own") && !text.contains("secret"), "{text}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let config = AccessConfig { users: Some(file.clone()), ..AccessConfig::default() };
    let store = CredentialStore::load(&config).unwrap();
    assert!(store.policy.user("bob").unwrap().disabled);
    assert!(verify_password(b"secret", store.secrets["anna"].password.as_ref().unwrap()));
    assert!(store.secrets["anna"].scram.is_some());
    let first = store.policy.user("anna").unwrap().credential;
    edit(&file, "anna", &Edit::Password("other")).unwrap();
    edit(&file, "bob", &Edit::Remove).unwrap();
    let store = CredentialStore::load(&config).unwrap();
    assert_ne!(store.policy.user("anna").unwrap().credential, first);
    assert!(store.policy.user("bob").is_none());
    let refused = |name: &str, change: &Edit<'_>| edit(&file, name, change).unwrap_err();
    assert_eq!(refused("bob", &Edit::Remove), "there is no user \"bob\"");
    assert_eq!(refused("anna", &Edit::Add { roles: &[], password: None }), "the user \"anna\" is there already");
    assert!(refused("a/b", &Edit::Remove).starts_with("\"a/b\" is no name"));
    assert_eq!(
        refused("anna", &Edit::Password("")),
        "the password has 0 characters, expected 1 at least and 1024 bytes at most"
    );
}

#[test]
fn what_a_node_would_not_take_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    let roles_file = folder.path().join("roles.toml");
    let config = AccessConfig { roles: Some(roles_file.clone()), ..config_of(&file) };
    std::fs::write(&roles_file, "[role.works]\nrules = ['allow read #']\n").unwrap();
    let (works, boss) = (["works".to_owned()], ["boss".to_owned()]);
    edit_user(&config, "anna", &Edit::Add { roles: &works, password: Some("secret") }).unwrap();
    let before = std::fs::read_to_string(&file).unwrap();
    let refused = |name: &str, edit: &Edit<'_>, why: &str| {
        let found = edit_user(&config, name, edit).unwrap_err();
        assert!(found.starts_with("nothing is changed") && found.contains(why), "{found}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    };
    let unknown = "has the role \"boss\", which there is not";
    refused("bob", &Edit::Add { roles: &boss, password: None }, unknown);
    refused("anna", &Edit::Roles(&boss), unknown);
    // Whatever else is wrong in the files would keep the change from a node too: it is no change that is done.
    std::fs::write(&roles_file, "[role.works]\nrules = ['allow fly #']\n").unwrap();
    refused("anna", &Edit::Disabled(true), "roles.toml:2:10: role.works.rules");
    std::fs::write(&roles_file, "").unwrap();
    refused("anna", &Edit::Disabled(true), "has the role \"works\", which there is not");
    // What makes them right again is done.
    edit_user(&config, "anna", &Edit::Roles(&["VIEWER".to_owned()])).unwrap();
    edit_user(&config, "anna", &Edit::Disabled(true)).unwrap();
    assert!(CredentialStore::load(&config).unwrap().policy.user("anna").unwrap().disabled);
}

#[test]
fn a_password_has_a_length() {
    let folder = tempfile::tempdir().unwrap();
    let config = AccessConfig { users: Some(folder.path().join("users.toml")), ..AccessConfig::default() };
    let add = |name: &str, password: &str| {
        edit_user(&config, name, &Edit::Add { roles: &["VIEWER".to_owned()], password: Some(password) })
    };
    let short = "the password has 11 characters, expected 12 at least and 1024 bytes at most";
    assert_eq!(add("anna", "elevenchars"), Err(short.to_owned()));
    assert!(add("anna", &"é".repeat(600)).unwrap_err().contains("1024 bytes at most"));
    for guessed in ["aaaaaaaaaaaaaaaa", "annaannaanna", "AnnaAnnaAnna"] {
        assert!(add("anna", guessed).unwrap_err().contains("hard to guess"), "{guessed}");
    }
    assert_eq!(add("anna", "twelve chars"), Ok(()));
    assert_eq!(edit_user(&config, "anna", &Edit::Password("elevenchars")), Err(short.to_owned()));
    assert_eq!(edit_user(&config, "anna", &Edit::Password("zwölf Zeichen")), Ok(()));
}

#[test]
fn changes_at_one_time_are_all_made() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("users.toml");
    add(&file, "first", &["VIEWER"], None);
    std::thread::scope(|scope| {
        for n in 0..16 {
            let file = &file;
            scope.spawn(move || add(file, &format!("user{n}"), &["VIEWER"], None));
        }
    });
    assert_eq!(CredentialStore::load(&config_of(&file)).unwrap().policy.users().count(), 17);
}

#[test]
fn what_is_wrong_in_the_files_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let checks = Checks { access: check_files, ..Checks::NONE };
    let check = |config: &str, expect: &[&str]| {
        let shown: Vec<String> = match from_text_with("t.toml", config, folder.path(), checks) {
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
        &["users.toml: found the user \"anna\" has the role \"boss\", which there is not, expected roles of the \
           file of roles, or of IEC 62351-8"],
    );
    write("roles.toml", "[role.boss]\nrules = [\n  'allow read #',\n  'allow write #',\n]\nrule = 1\n");
    write("users.toml", "[user.anna]\npassword = 'plain'\nroles = ['VIEWER', 5]\n");
    check(
        "[access]\nusers = 'users.toml'\nroles = 'roles.toml'\nusres = 1\n",
        &[
            "roles.toml:4:3: role.boss.rules: found \"allow write #\", expected a rule: \"write\" is no verb, expected read, \
             publish, command, acknowledge, admin or all",
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
        &["short.key: found a secret of 5 bytes, expected 32 at least, expected a key, a JWKS or a secret"],
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

/// A token whose header is exactly this, signed well.
fn signed(header: &str, claims: &Value) -> Vec<u8> {
    use aws_lc_rs::hmac;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    let text = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), text.as_bytes());
    format!("{text}.{}", BASE64.encode(tag)).into_bytes()
}

#[test]
fn a_token_with_critical_extensions_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let tokens = Tokens::load(&jwt_config(folder.path(), &[("hs.key", SECRET)])).unwrap();
    let check = |more: &str, good: bool| {
        let token = signed(&format!("{{\"alg\":\"HS256\"{more}}}"), &claims(&[]));
        assert_eq!(tokens.verify(&token).is_ok(), good, "{more}: {:?}", tokens.verify(&token));
    };
    check("", true);
    check(r#","b64":true"#, true);
    check(r#","crit":["exp"],"exp":1"#, false);
    check(r#","crit":["b64"],"b64":false"#, false);
    check(r#","crit":["http://example.com/UNDEFINED"],"http://example.com/UNDEFINED":true"#, false);
    // Illegal lists are no reason to go on.
    check(r#","crit":[]"#, false);
    check(r#","crit":null"#, false);
    check(r#","crit":"b64""#, false);
    check(r#","cr\u0069t":["x"]"#, false);
}

#[test]
fn keys_of_a_set_are_taken_for_what_they_are_for_and_no_more() {
    use base64::Engine;
    let folder = tempfile::tempdir().unwrap();
    let secret = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(SECRET);
    let check = |more: &str, expect: Result<(), &str>| {
        let set = format!("{{\"keys\":[{{\"kty\":\"oct\",\"k\":\"{secret}\"{more}}}]}}");
        let loaded = Tokens::load(&jwt_config(folder.path(), &[("set.json", &set)])).map_err(|(_, why)| why);
        let found = loaded.and_then(|tokens| tokens.verify(&token(Algorithm::HS256, &claims(&[]))).map(drop));
        assert_eq!(found, expect.map_err(str::to_owned), "{more}");
    };
    let none = "no key that verifies RS256, ES256, EdDSA or HS256";
    check("", Ok(()));
    check(r#","use":"sig","alg":"HS256""#, Ok(()));
    check(r#","key_ops":["sign","verify"]"#, Ok(()));
    check(r#","use":"enc""#, Err(none));
    check(r#","alg":"HS512""#, Err(none));
    check(r#","key_ops":["encrypt"]"#, Err(none));
    check(r#","kid":"other""#, Ok(()));
    let short = r#"{"keys":[{"kty":"oct","k":"c2hvcnQ"}]}"#;
    let found = Tokens::load(&jwt_config(folder.path(), &[("short.json", short)])).unwrap_err().1;
    assert_eq!(found, "a secret of 5 bytes, expected 32 at least");
}

proptest! {
    #[test]
    fn any_bytes_are_survived_as_tokens(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "eyJ[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}\\.[A-Za-z0-9_-]{0,40}") {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::load(&jwt_config(folder.path(), &[("hs.key", SECRET)])).unwrap();
        prop_assert!(tokens.verify(&bytes).is_err());
        prop_assert!(tokens.verify(text.as_bytes()).is_err());
    }
}

fn ask(authenticator: &Authenticator, shown: Shown) -> Result<Identity, Wrong> {
    asked(authenticator, PEER, shown)
}

fn asked(authenticator: &Authenticator, peer: Peer<'_>, shown: Shown) -> Result<Identity, Wrong> {
    let (told, hears) = sync_channel(1);
    authenticator.ask(peer, shown, move |checked| told.send(checked).unwrap());
    hears.recv_timeout(PATIENCE).unwrap()
}

fn password(user: &str, password: &str) -> Shown {
    Shown::Password { user: user.to_owned(), password: password.as_bytes().to_vec() }
}

#[test]
fn the_authenticator_takes_users_and_changed_files() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml");
    add(&users, "anna", &["VIEWER"], Some("secret"));
    let jwt = Some(jwt_config(folder.path(), &[("hs.key", SECRET)]));
    let config = AccessConfig { users: Some(users.clone()), jwt, ..AccessConfig::default() };
    let (told, changes) = sync_channel(8);
    let on_change = Box::new(move |policy| drop(told.send(policy)));
    let authenticator =
        Authenticator::start(&config, CredentialStore::load(&config).unwrap(), Clock::start(), on_change).unwrap();
    // The first time by argon2id, the second by what is known of the first.
    assert!(
        ask(&authenticator, password("anna", "secret")).is_ok()
            && ask(&authenticator, password("anna", "secret")).is_ok()
    );
    let wrong = |user| Err(Wrong::Refused(format!("user {user:?} with a wrong password")));
    assert_eq!(ask(&authenticator, password("anna", "Secret")), wrong("anna"));
    assert_eq!(ask(&authenticator, password("eve", "secret")), wrong("eve"));
    let by_token = |user: Option<&str>| Shown::Token {
        user: user.map(str::to_owned),
        token: token(Algorithm::HS256, &claims(&[])),
    };
    let found = ask(&authenticator, by_token(Some("anna"))).unwrap();
    assert_eq!((&*found.user, found.roles), ("anna", Some(vec!["VIEWER".into()])));
    assert!(found.expires.is_some() && ask(&authenticator, by_token(None)).is_ok());
    assert!(matches!(ask(&authenticator, by_token(Some("bob"))), Err(Wrong::Refused(_))));
    // One whose time ends within this second is over: the library rounds, and takes it.
    let now_s = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let over = token(Algorithm::HS256, &claims(&[("exp", json!(now_s as f64 + 0.5))]));
    let refused = ask(&authenticator, Shown::Token { user: None, token: over });
    assert!(matches!(&refused, Err(Wrong::Refused(why)) if why.contains("xpired")), "{refused:?}");
    edit(&users, "anna", &Edit::Password("other")).unwrap();
    let policy: Arc<tieline_access::Policy> = changes.recv_timeout(PATIENCE).unwrap();
    assert_ne!(policy.user("anna").unwrap().credential, found.credential);
    assert_eq!(ask(&authenticator, password("anna", "secret")), wrong("anna"));
    assert!(ask(&authenticator, password("anna", "other")).is_ok());
    assert_eq!((authenticator.counts().good, authenticator.counts().wrong, authenticator.counts().reloads), (5, 5, 1));
}

#[test]
fn an_address_that_keeps_failing_is_not_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let config = AccessConfig { users: Some(folder.path().join("users.toml")), ..AccessConfig::default() };
    let authenticator =
        Authenticator::start(&config, CredentialStore::default(), Clock::start(), Box::new(|_| ())).unwrap();
    let wrong = |_| matches!(authenticator.begin_scram(PEER, b"n,,n=u"), Err(Wrong::Refused(_)));
    assert!((0..10).all(wrong));
    assert_eq!(authenticator.begin_scram(PEER, b"n,,n=u,r=12345678").unwrap_err(), Wrong::TooOften);
    assert_eq!(authenticator.counts().too_often, 1);
}

#[test]
fn no_two_updates_share_a_decision() {
    let rules = Rules::new(vec!["allow read open/#".parse().unwrap()]);
    let read_filter = DeliveryFilter::new(ReadFilter::new(Arc::new(rules), "", ""));
    let mut serials = Serials::default();
    let first = serials.fresh();
    assert!(read_filter.allows_update(first, "open/a"));
    // It is asked once for each update, and never takes another's answer.
    assert!(read_filter.allows_update(first, "closed/a"));
    assert!(!read_filter.allows_update(serials.fresh(), "closed/a"));
}

/// A door for users of a file, and what it tells when other users hold.
fn authenticator_of(users: &Path) -> (Authenticator, std::sync::mpsc::Receiver<Arc<tieline_access::Policy>>) {
    let config = AccessConfig { users: Some(users.to_owned()), ..AccessConfig::default() };
    let (told, changes) = sync_channel(8);
    let on_change = Box::new(move |policy| drop(told.send(policy)));
    (
        Authenticator::start(&config, CredentialStore::load(&config).unwrap(), Clock::start(), on_change).unwrap(),
        changes,
    )
}

#[test]
fn guesses_are_refused_before_they_are_compared_even_where_the_password_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml");
    add(&users, "anna", &["VIEWER"], Some("correct horse battery"));
    let (authenticator, _changes) = authenticator_of(&users);
    let from = |n: u8, client| Peer { address: IpAddr::from([10, 0, 0, n]), client: Some(client) };
    assert!(asked(&authenticator, from(1, "desk"), password("anna", "correct horse battery")).is_ok());
    // Elsewhere, with the password known: the right one comes after 1,000 wrong ones, all at once.
    let guesses = (0..1000).map(|n| format!("guess{n}")).chain(["correct horse battery".to_owned()]);
    let (told, hears) = sync_channel(2000);
    for guess in guesses {
        let told = told.clone();
        authenticator.ask(from(2, "eve"), password("anna", &guess), move |checked| told.send(checked).unwrap());
    }
    drop(told);
    let found: Vec<_> = hears.iter().collect();
    let count = |wanted: &dyn Fn(&Result<Identity, Wrong>) -> bool| found.iter().filter(|found| wanted(found)).count();
    assert_eq!(count(&|found| *found == Err(Wrong::TooOften)), 991);
    // Ten are compared; on a machine that compares slowly, some of them wait so long that they are not.
    let (refused, busy) =
        (count(&|found| matches!(found, Err(Wrong::Refused(_)))), count(&|found| *found == Err(Wrong::Busy)));
    assert!(refused >= 1 && refused + busy == 10, "{refused} refused, {busy} busy");
    // At the address of anna's desk, by one that is not her desk: she goes on.
    for n in 0..1000 {
        authenticator.ask(from(1, "eve"), password("anna", &format!("guess{n}")), |_| ());
        authenticator.ask(from(1, "eve"), password("nobody", &format!("guess{n}")), |_| ());
    }
    assert!(asked(&authenticator, from(1, "desk"), password("anna", "correct horse battery")).is_ok());
}

#[test]
fn a_flood_of_wrong_passwords_does_not_keep_others_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml");
    for name in ["anna", "bob", "carl"] {
        add(&users, name, &["VIEWER"], Some("correct horse battery"));
    }
    let (authenticator, changes) = authenticator_of(&users);
    let from = |a: u8, b: u8| Peer { address: IpAddr::from([10, 0, a, b]), client: None };
    assert!(asked(&authenticator, from(0, 1), password("anna", "correct horse battery")).is_ok());
    assert!(asked(&authenticator, from(0, 2), password("bob", "correct horse battery")).is_ok());
    // As many addresses as can wait, each with a guess, and then some.
    let (told, wrong) = sync_channel(10_000);
    for (a, b) in (1..=5).flat_map(|a| (0..=255).map(move |b| (a, b))) {
        let told = told.clone();
        authenticator.ask(from(a, b), password("anna", "wrong"), move |checked| told.send(checked).unwrap());
    }
    // Another user's password changes: those of these two are known all the same.
    edit(&users, "carl", &Edit::Password("another horse battery")).unwrap();
    changes.recv_timeout(PATIENCE).unwrap();
    assert!(asked(&authenticator, from(0, 1), password("anna", "correct horse battery")).is_ok());
    // Bob's password is not known any longer; that he is in good standing is.
    edit(&users, "bob", &Edit::Password("another horse battery")).unwrap();
    changes.recv_timeout(PATIENCE).unwrap();
    assert!(asked(&authenticator, from(0, 2), password("bob", "another horse battery")).is_ok());
    assert!(wrong.try_iter().any(|checked| checked == Err(Wrong::Busy)));
}

#[test]
fn what_is_known_of_a_password_ends_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users.toml");
    add(&users, "anna", &["VIEWER"], Some("correct horse battery"));
    let (authenticator, changes) = authenticator_of(&users);
    assert!(ask(&authenticator, password("anna", "correct horse battery")).is_ok());
    edit(&users, "anna", &Edit::Password("another horse battery")).unwrap();
    changes.recv_timeout(PATIENCE).unwrap();
    assert!(ask(&authenticator, password("anna", "correct horse battery")).is_err());
    assert!(ask(&authenticator, password("anna", "another horse battery")).is_ok());
    edit(&users, "anna", &Edit::Remove).unwrap();
    changes.recv_timeout(PATIENCE).unwrap();
    assert!(ask(&authenticator, password("anna", "another horse battery")).is_err());
}
