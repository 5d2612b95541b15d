//! Good providers, and their answers in the course of time.

use super::*;

#[test]
fn a_code_becomes_a_person_with_roles() {
    let mut exchange = exchange(code(), None, at(0));
    let ask = |exchange: &Exchange| match exchange.poll() {
        Step::Send(request) => request,
        Step::Done(done) => panic!("{done:?}"),
    };
    assert_eq!(ask(&exchange), Request::get("https://id.example/realms/grid/.well-known/openid-configuration"));
    exchange.handle_answer(at(0), ok(&discovery(&[])));
    assert_eq!(ask(&exchange), Request::get("https://id.example/keys"));
    exchange.handle_answer(at(0), ok(&keys("k1")));
    let Request { url, authorization, form } = ask(&exchange);
    assert_eq!(url, "https://id.example/token");
    // RFC 6749 section 2.3.1: both parts are encoded first.
    assert_eq!(authorization.unwrap(), format!("Basic {}", STANDARD.encode("tieline:s3cret%20%25")));
    let redirect = "https%3A%2F%2Fnode.example%2Flogin%2Fcallback";
    let expect = format!("grant_type=authorization_code&code=c&redirect_uri={redirect}&code_verifier=v");
    assert_eq!(form.unwrap(), expect);
    exchange.handle_answer(at(0), ok(&tokens(&claims(&[]))));
    let found = person(run(&mut exchange, at(0), &mut std::iter::empty())).unwrap();
    assert_eq!((&*found.user, &*found.subject, found.session.as_deref()), ("anna", "7f3a", Some("s1")));
    assert_eq!(found.roles, ["OPERATOR", "VIEWER"]);
}

#[test]
fn what_is_known_of_a_provider_is_used_for_an_hour() {
    let known = known();
    let answers = || vec![ok(&discovery(&[])), ok(&keys("k1"))].into_iter();
    let check = |s: u64, asks: bool| {
        let mut exchange = exchange(Goal::Address, Some(Arc::clone(&known)), at(s));
        let done = if asks {
            run(&mut exchange, at(s), &mut answers())
        } else {
            run(&mut exchange, at(s), &mut std::iter::empty())
        };
        assert_eq!(done, Ok(Outcome::Ready), "{s}");
    };
    check(3599, false);
    check(3600, true);
    // A provider that is away then is used as it was known, and asked again a minute later.
    let mut later = exchange(Goal::Address, Some(Arc::clone(&known)), at(3600));
    assert_eq!(run(&mut later, at(3600), &mut vec![Err("refused".to_owned())].into_iter()), Ok(Outcome::Ready));
    let kept = later.known().unwrap();
    assert!(kept.is_fresh(at(3659)) && !kept.is_fresh(at(3660)));
    // One that says something else is not.
    let mut later = exchange(Goal::Address, Some(known), at(3600));
    let other = ok(&discovery(&[("issuer", json!("https://other.example"))]));
    assert!(matches!(run(&mut later, at(3600), &mut vec![other].into_iter()), Err(Fault::Answer(_))));
}

#[test]
fn an_unknown_key_is_asked_for_once_and_not_too_often() {
    let token = json!({ "id_token": signed("k2", &claims(&[])), "access_token": "at" });
    let exchange_at = |s: u64, answers: Vec<Result<Answer, String>>| {
        let mut exchange = exchange(code(), Some(known()), at(s));
        person(run(&mut exchange, at(s), &mut answers.into_iter())).map(|person| person.user)
    };
    assert_eq!(exchange_at(10, vec![ok(&token), ok(&keys("k2"))]), Ok("anna".to_owned()));
    let unknown = Err(Fault::Token("no key of its algorithm and name is known".to_owned()));
    assert_eq!(exchange_at(10, vec![ok(&token), ok(&keys("k3"))]), unknown);
    assert_eq!(exchange_at(9, vec![ok(&token)]), unknown);
}

#[test]
fn claims_are_from_the_token_or_from_userinfo() {
    let check = |token: &[(&str, Value)], info: Option<Value>, expect: Result<&[&str], &str>| {
        let mut exchange = exchange(code(), Some(known()), at(1));
        let answers = [Some(ok(&tokens(&claims(token)))), info.map(|info| ok(&info))];
        let found = person(run(&mut exchange, at(1), &mut answers.into_iter().flatten()));
        let found = found.map(|person| person.roles).map_err(|fault| fault.word());
        let expect = expect.map(|roles| roles.iter().map(ToString::to_string).collect());
        assert_eq!(found, expect, "{token:?}");
    };
    let none = ("groups", Value::Null);
    check(&[("groups", json!("staff"))], None, Ok(&["VIEWER"]));
    check(&[("groups", json!(["staff", 5, "", "grid-ops"]))], None, Ok(&["OPERATOR", "VIEWER"]));
    check(std::slice::from_ref(&none), Some(json!({ "sub": "7f3a", "groups": ["staff"] })), Ok(&["VIEWER"]));
    check(std::slice::from_ref(&none), Some(json!({ "sub": "7f3a" })), Err("no_role"));
    check(std::slice::from_ref(&none), Some(json!({ "sub": "other", "groups": ["staff"] })), Err("answer"));
    check(std::slice::from_ref(&none), Some(json!({ "groups": ["staff"] })), Err("answer"));
    check(&[none], Some(json!({ "sub": "7f3a", "groups": 5 })), Err("answer"));
    check(&[("groups", json!([]))], None, Err("no_role"));
    check(&[("groups", json!(["Grid-Ops"]))], None, Err("no_role"));
    // Who the token is about is not what userinfo says.
    let anna = json!({ "sub": "7f3a", "preferred_username": "root", "groups": ["staff"] });
    check(&[("groups", Value::Null)], Some(anna), Ok(&["VIEWER"]));
    check(&[("preferred_username", Value::Null)], Some(json!({ "sub": "7f3a" })), Err("answer"));
}

#[test]
fn a_device_waits_for_a_person() {
    let device = json!({
        "device_code": "dc", "user_code": "WDJB-MJHT", "verification_uri": "https://id.example/device", "expires_in": 900,
    });
    let mut begun = exchange(Goal::Device, Some(known()), at(1));
    let Ok(Outcome::Device(code)) = run(&mut begun, at(1), &mut vec![ok(&device)].into_iter()) else { panic!() };
    assert_eq!(
        (&*code.user_code, code.interval, code.lasts),
        ("WDJB-MJHT", Duration::from_secs(5), Duration::from_secs(900))
    );
    let check = |status: u16, answer: &Value, expect: Result<&str, Fault>| {
        let goal = Goal::Poll { device_code: "dc".to_owned() };
        let mut exchange = exchange(goal, Some(known()), at(1));
        let answer = Ok(Answer { status, body: answer.to_string().into_bytes() });
        let found = run(&mut exchange, at(1), &mut vec![answer].into_iter()).map(|outcome| match outcome {
            Outcome::Person(person) => person.user,
            Outcome::Pending { slow_down } => format!("pending {slow_down}"),
            other => panic!("{other:?}"),
        });
        assert_eq!(found, expect.map(str::to_owned), "{answer:?}", answer = status);
    };
    let error = |word: &str| json!({ "error": word, "error_description": "words\u{7}" });
    check(400, &error("authorization_pending"), Ok("pending false"));
    check(400, &error("slow_down"), Ok("pending true"));
    check(400, &error("expired_token"), Err(Fault::Refused("expired_token: words".to_owned())));
    check(403, &error("access_denied"), Err(Fault::Refused("access_denied: words".to_owned())));
    // There is no browser whose login the nonce could be of.
    check(200, &tokens(&claims(&[("nonce", Value::Null)])), Ok("anna"));
}

#[test]
fn a_logout_token_ends_sessions() {
    const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";
    let base = [("nonce", Value::Null), ("events", json!({ EVENT: {} }))];
    let check = |more: &[(&str, Value)], expect: Result<(Option<&str>, Option<&str>), &str>| {
        let all: Vec<_> = base.iter().chain(more).cloned().collect();
        let goal = Goal::Logout { token: signed("k1", &claims(&all)) };
        let mut exchange = exchange(goal, Some(known()), at(1));
        let found = match run(&mut exchange, at(1), &mut std::iter::empty()) {
            Ok(Outcome::Ended(ended)) => Ok((ended.subject, ended.session)),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.word()),
        };
        let expect = expect.map(|(subject, session)| (subject.map(str::to_owned), session.map(str::to_owned)));
        assert_eq!(found, expect, "{more:?}");
    };
    check(&[], Ok((Some("7f3a"), Some("s1"))));
    check(&[("sid", Value::Null)], Ok((Some("7f3a"), None)));
    check(&[("sub", Value::Null)], Ok((None, Some("s1"))));
    check(&[("sub", Value::Null), ("sid", Value::Null)], Err("token"));
    // An ID token is none.
    check(&[("nonce", json!("n"))], Err("token"));
    check(&[("events", json!({ "other": {} }))], Err("token"));
    check(&[("events", Value::Null)], Err("token"));
    check(&[("aud", json!("other"))], Err("token"));
    check(&[("exp", json!(NOW_S - 61))], Err("token"));
}

#[test]
fn browsers_are_led_to_the_provider_and_out_again() {
    let provider = provider();
    let begun =
        Begun { state: "st".to_owned(), nonce: "no".to_owned(), challenge: "ch".to_owned(), browser: "b".to_owned() };
    assert_eq!(
        provider.authorization(&known(), &begun),
        "https://id.example/auth?response_type=code&client_id=tieline&redirect_uri=https%3A%2F%2Fnode.example%2Flogin%2Fcallback\
         &scope=openid%20profile&state=st&nonce=no&code_challenge=ch&code_challenge_method=S256"
    );
    assert_eq!(
        provider.end_session(&known(), "tok").unwrap(),
        "https://id.example/end?client_id=tieline&post_logout_redirect_uri=https%3A%2F%2Fnode.example%2Flogin&id_token_hint=tok"
    );
}
