use super::*;
use crate::testkit::Folder;

fn check(text: &str, expect: &[&str]) {
    let folder = Folder::with_keys(&["alice", "bruno"]);
    let errors = match from_text("seal.toml", text, folder.path()) {
        Ok(_) => Vec::new(),
        Err(ConfigError(findings)) => findings.iter().map(ToString::to_string).collect(),
    };
    let root = format!("{}/", folder.path().display());
    let errors: Vec<_> = errors.iter().map(|error| error.replace(&root, "")).collect();
    assert_eq!(errors.len(), expect.len(), "{errors:#?}");
    for (error, expect) in errors.iter().zip(expect) {
        assert!(error.contains(expect), "{error}\nshould say\n{expect}");
    }
}

const CLIENT: &str = "[client.a]\nrights = [\"pack:*\"]\n\
    token_sha256 = \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"\n";

#[test]
fn a_whole_configuration_is_read() {
    let text = format!(
        "{CLIENT}[domain.spb]\nispb = \"11111111\"\nversions = [3]\n\
         [[domain.spb.key]]\nversion = 1\nfile = \"alice.key.pem\"\ncertificate = \"alice.cert.pem\"\n\
         [[domain.spb.peer]]\ncertificate = \"bruno.cert.pem\"\n"
    );
    check(&text, &[]);
}

#[test]
fn all_errors_come_at_once() {
    let text = "[seal]\nworkers = -1\nbatches = true\n[http]\nlisten = \"0.0.0.0:1\"\n\
                [domain.spb]\nispb = \"1\"\n\
                [[domain.spb.key]]\nversion = 1\nfile = \"none.p12\"\n\
                [[domain.spb.key]]\nversion = 2\nfile = \"alice.key.pem\"\ncertificate = \"bruno.cert.pem\"\n\
                [client.a]\ntoken_sha256 = \"12\"\nrights = [\"pack:elsewhere\"]\n";
    check(
        text,
        &[
            "seal.toml:2:11: seal.workers: found -1, expected a whole number from 0 to 1024",
            "seal.toml:3:1: seal.batches: found the unknown key \"batches\", expected batch",
            "http.listen: found 0.0.0.0:1, which other machines can reach",
            "domain.spb.ispb: found \"1\", expected an institution's number",
            "domain.spb.key[0].file: found none.p12: No such file",
            "domain.spb.key[1].file: found alice.key.pem: the certificate is that of another key",
            "client.a.token_sha256: found \"12\"",
            "client.a.rights: found an array of 1",
        ],
    );
}

#[test]
fn a_server_without_clients_is_refused() {
    check("", &["client: found no client, expected at least one"]);
}

#[test]
fn a_key_that_everyone_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with_keys(&["alice"]);
    let path = folder.path().join("alice.key.pem");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = crate::keyring::load_key(&path, None, Some(&folder.path().join("alice.cert.pem"))).unwrap_err();
    assert!(error.to_string().contains("chmod 600"), "{error}");
}
