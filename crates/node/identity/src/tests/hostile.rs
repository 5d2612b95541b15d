//! Providers and browsers that lie.

use super::*;
use proptest::prelude::*;

/// What comes of an ID token.
fn of_token(token: &str) -> Result<Person, Fault> {
    let mut exchange = exchange(code(), Some(known()), at(1));
    let answer = json!({ "id_token": token, "access_token": "at" });
    person(run(&mut exchange, at(1), &mut vec![ok(&answer)].into_iter()))
}

#[test]
fn an_id_token_must_be_of_this_provider_for_this_node_and_this_login() {
    let check = |more: &[(&str, Value)], expect: Result<(), &str>| {
        let found = of_token(&signed("k1", &claims(more)));
        match (found, expect) {
            (Ok(_), Ok(())) => {}
            (Err(Fault::Token(why)), Err(expect)) => assert!(why.contains(expect), "{more:?}: {why}"),
            (found, _) => panic!("{more:?}: {found:?}"),
        }
    };
    check(&[], Ok(()));
    check(&[("nonce", json!("other"))], Err("nonce"));
    check(&[("nonce", Value::Null)], Err("nonce"));
    check(&[("nonce", json!(["n"]))], Err("nonce"));
    check(&[("aud", json!("other"))], Err("InvalidAudience"));
    check(&[("aud", Value::Null)], Err("aud"));
    check(&[("aud", json!(["other", "tieline"]))], Err("azp"));
    check(&[("aud", json!(["other", "tieline"])), ("azp", json!("tieline"))], Ok(()));
    check(&[("azp", json!("other"))], Err("azp"));
    check(&[("azp", json!(5))], Err("azp"));
    check(&[("iss", json!("https://id.example/realms/other"))], Err("InvalidIssuer"));
    check(&[("iss", json!("https://id.example/realms/grid/"))], Err("InvalidIssuer"));
    check(&[("iss", Value::Null)], Err("iss"));
    check(&[("exp", json!(NOW_S - 59))], Ok(()));
    check(&[("exp", json!(NOW_S - 60))], Err("ExpiredSignature"));
    check(&[("exp", Value::Null)], Err("exp"));
    check(&[("exp", json!("soon"))], Err("exp"));
    check(&[("nbf", json!(NOW_S + 61))], Err("ImmatureSignature"));
    check(&[("iat", json!(NOW_S + 61))], Err("future"));
    check(&[("sub", json!(""))], Err("subject"));
    check(&[("sub", json!(5))], Err("subject"));
}

#[test]
fn a_token_is_signed_with_a_key_of_the_provider() {
    let is_refused = |token: &str| assert!(matches!(of_token(token), Err(Fault::Token(_))), "{token}");
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let body = part(&claims(&[]));
    // No algorithm, with and without a signature.
    for algorithm in ["none", "None", "NONE", ""] {
        let header = part(&json!({ "alg": algorithm, "kid": "k1" }));
        is_refused(&format!("{header}.{body}."));
        is_refused(&format!("{header}.{body}.AAAA"));
    }
    // The public key taken for a secret: as JWK, as PEM, and its bytes.
    let der = STANDARD.decode(P256_PUBLIC).unwrap();
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{P256_PUBLIC}\n-----END PUBLIC KEY-----");
    for secret in [keys("k1").to_string().into_bytes(), pem.into_bytes(), der] {
        let header = Header { kid: Some("k1".to_owned()), ..Header::new(Algorithm::HS256) };
        is_refused(&encode(&header, &claims(&[]), &EncodingKey::from_secret(&secret)).unwrap());
    }
    // Changed after it was signed.
    let good = signed("k1", &claims(&[]));
    let [header, _, signature] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let forged = part(&claims(&[("preferred_username", json!("root"))]));
    is_refused(&format!("{header}.{forged}.{signature}"));
    // A header that names its own key.
    let header =
        part(&json!({ "alg": "ES256", "jwk": keys("k1")["keys"][0], "jku": "https://evil.example", "kid": "k9" }));
    is_refused(&format!("{header}.{body}.{signature}"));
}

#[test]
fn a_secret_that_a_provider_publishes_is_no_key() {
    let secret = URL_SAFE_NO_PAD.encode([7; 32]);
    let oct = json!({ "kty": "oct", "kid": "k1", "k": secret });
    let none = Key::public_set(json!({ "keys": [oct.clone()] }).to_string().as_bytes());
    assert_eq!(none.unwrap_err(), "no public key that verifies RS256, ES256 or EdDSA");
    let mut both = keys("k1");
    both["keys"].as_array_mut().unwrap().push(oct);
    assert_eq!(Key::public_set(both.to_string().as_bytes()).unwrap().len(), 1);
}

#[test]
fn a_discovery_document_must_be_of_the_issuer_and_lead_to_safe_addresses() {
    let check = |more: &[(&str, Value)], expect: Result<(), &str>| {
        let mut exchange = exchange(Goal::Address, None, at(0));
        let answers = vec![ok(&discovery(more)), ok(&keys("k1"))];
        let answers = if expect.is_ok() { answers } else { answers[..1].to_vec() };
        match (run(&mut exchange, at(0), &mut answers.into_iter()), expect) {
            (Ok(Outcome::Ready), Ok(())) => {}
            (Err(Fault::Answer(why)), Err(expect)) => assert!(why.contains(expect), "{why}"),
            (found, _) => panic!("{more:?}: {found:?}"),
        }
    };
    check(&[], Ok(()));
    check(&[("issuer", json!("https://id.example/realms/grid/"))], Err("issuer"));
    check(&[("issuer", Value::Null)], Err("issuer"));
    check(&[("token_endpoint", Value::Null)], Err("token_endpoint"));
    check(&[("token_endpoint", json!("http://id.example/token"))], Err("token_endpoint"));
    check(&[("jwks_uri", json!("file:///etc/passwd"))], Err("jwks_uri"));
    check(&[("authorization_endpoint", json!("javascript:alert(1)"))], Err("authorization_endpoint"));
    check(&[("userinfo_endpoint", json!("https://a@b/"))], Err("userinfo_endpoint"));
    check(&[("userinfo_endpoint", Value::Null)], Ok(()));
    check(&[("code_challenge_methods_supported", json!(["plain"]))], Err("PKCE"));
    check(&[("code_challenge_methods_supported", json!(["plain", "S256"]))], Ok(()));
}

#[test]
fn addresses_are_safe_or_refused() {
    let check = |text: &str, expect: bool| assert_eq!(is_address(text), expect, "{text}");
    check("https://id.example", true);
    check("https://id.example:8443/a?b=c", true);
    check("http://127.0.0.1:8080", true);
    check("http://[::1]:8080/x", true);
    check("http://localhost", true);
    check("http://id.example", false);
    check("http://localhost.example", false);
    check("http://127.0.0.1.example", false);
    check("http://127.0.0.1@evil.example", false);
    check("https://", false);
    check("https:///path", false);
    check("HTTPS://id.example", false);
    check("//id.example", false);
    check("https://id.example\\@evil", false);
    check("https://id.example/a b", false);
    check("https://id.example/#x", false);
    check("https://id.example/\r\nx: y", false);
    check(&format!("https://id.example/{}", "a".repeat(3000)), false);
}

#[test]
fn answers_that_are_none_are_told_from_a_provider_that_is_away() {
    let check = |answer: Result<Answer, String>, expect: &str| {
        let mut exchange = exchange(code(), Some(known()), at(1));
        let found = run(&mut exchange, at(1), &mut vec![answer].into_iter());
        assert_eq!(found.unwrap_err().word(), expect);
    };
    let of = |status: u16, body: &str| Ok(Answer { status, body: body.as_bytes().to_vec() });
    check(Err("timeout: global".to_owned()), "away");
    check(Err("the response body is larger than request limit: 262144".to_owned()), "away");
    check(of(503, ""), "away");
    check(of(429, "{}"), "away");
    check(of(302, ""), "answer");
    check(of(200, "<html>"), "answer");
    check(of(200, "[]"), "answer");
    check(of(200, "{}"), "answer");
    check(of(200, r#"{"id_token":5}"#), "answer");
    check(of(200, r#"{"id_token":"a.b.c"}"#), "token");
    check(of(400, r#"{"error":"invalid_grant"}"#), "refused");
    check(of(401, r#"{"error":"invalid_client"}"#), "refused");
    check(of(400, "{}"), "answer");
    // Only devices wait.
    check(of(400, r#"{"error":"authorization_pending"}"#), "refused");
}

#[test]
fn a_callback_is_of_this_provider_and_says_each_thing_once() {
    let check = |pairs: &[(&str, &str)], expect: Result<&str, &str>| {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let found = Callback::read(pairs.clone()).and_then(|callback| callback.code(&provider(), &known()));
        assert_eq!(found.map_err(|fault| fault.word()), expect.map(str::to_owned), "{:?}", pairs.collect::<Vec<_>>());
    };
    check(&[("state", "s"), ("code", "c")], Ok("c"));
    check(&[("state", "s"), ("code", "c"), ("iss", ISSUER), ("session_state", "x")], Ok("c"));
    check(&[("state", "s"), ("code", "c"), ("iss", "https://evil.example")], Err("login"));
    check(&[("state", "s"), ("code", "c"), ("code", "d")], Err("login"));
    check(&[("state", "s"), ("state", "t"), ("code", "c")], Err("login"));
    check(&[("code", "c")], Err("login"));
    check(&[("state", ""), ("code", "c")], Err("login"));
    check(&[("state", "s")], Err("login"));
    check(&[("state", "s"), ("code", "")], Err("login"));
    check(&[("state", "s"), ("code", &"c".repeat(5000))], Err("login"));
    check(&[("state", "s"), ("error", "access_denied"), ("error_description", "no")], Err("refused"));
    check(&[("state", "s"), ("error", "access_denied"), ("code", "c")], Err("refused"));
    // RFC 9207: who says that it names itself must.
    let mut named = exchange(Goal::Address, None, at(0));
    let says = discovery(&[("authorization_response_iss_parameter_supported", json!(true))]);
    run(&mut named, at(0), &mut vec![ok(&says), ok(&keys("k1"))].into_iter()).unwrap();
    let pairs = [("state", "s"), ("code", "c")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let callback = Callback::read(pairs.into_iter()).unwrap();
    assert!(callback.code(&provider(), &named.known().unwrap()).is_err());
}

proptest! {
    #[test]
    fn any_answers_are_survived(answers in prop::collection::vec((any::<u16>(), prop::collection::vec(any::<u8>(), 0..64)), 0..8), fresh in any::<bool>(), which in 0..4u8) {
        let goal = match which {
            0 => code(),
            1 => Goal::Device,
            2 => Goal::Poll { device_code: "d".to_owned() },
            _ => Goal::Logout { token: "eyJ.a.b".to_owned() },
        };
        let mut exchange = exchange(goal, fresh.then(known), at(1));
        for (status, body) in answers {
            if let Step::Done(_) = exchange.poll() {
                break;
            }
            exchange.handle_answer(at(1), Ok(Answer { status, body }));
        }
    }

    #[test]
    fn any_claims_are_survived(text in "\\PC{0,40}", name in "(iss|aud|sub|exp|iat|nbf|nonce|azp|groups|preferred_username|sid)") {
        let _ = of_token(&signed("k1", &claims(&[(&name, json!(text))])));
    }
}
