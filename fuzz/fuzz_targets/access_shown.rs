//! Any bytes as the credentials of an unauthenticated client: a token, and both messages of SCRAM.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::OnceLock;
use std::time::Duration;
use tieline_node::access::jwt::Tokens;
use tieline_node::access::scram::{Exchange, Verifier};
use tieline_node::config::JwtConfig;

static TOKENS: OnceLock<Tokens> = OnceLock::new();

fn tokens() -> Tokens {
    let file = std::env::temp_dir().join(format!("tieline-fuzz-{}.key", std::process::id()));
    std::fs::write(&file, "0123456789abcdef0123456789abcdef").expect("a writable folder");
    let config = JwtConfig {
        keys: vec![file.clone()],
        issuer: None,
        audience: None,
        user_claim: "sub".to_owned(),
        roles_claim: "roles".to_owned(),
        leeway: Duration::ZERO,
    };
    let tokens = Tokens::load(&config).expect("a secret");
    let _ = std::fs::remove_file(file);
    tokens
}

fuzz_target!(|bytes: &[u8]| {
    assert!(TOKENS.get_or_init(tokens).verify(bytes).is_err(), "nobody has signed it");
    let kept = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";
    let look = |_: &str| Verifier::parse(kept);
    let at = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let (first, last) = bytes.split_at(at);
    if let Ok((exchange, answer)) = Exchange::begin(first, look, b"secret", "nonce") {
        assert!(answer.len() < 2048);
        assert!(exchange.finish(last.get(1..).unwrap_or_default()).is_err(), "nobody knows the password");
    }
});
