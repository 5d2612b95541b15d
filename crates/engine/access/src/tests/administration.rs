use crate::{Lockout, Policy, Role, User};

/// A policy of users with their roles; one that begins with `-` is disabled.
fn policy(users: &[(&str, &str)]) -> Policy {
    let role = Role::parse("keys", ["allow admin $access/users"]).unwrap();
    let users = users.iter().map(|(name, role)| {
        let user = User::new(name.trim_start_matches('-'), [*role]);
        User { disabled: name.starts_with('-'), ..user }
    });
    Policy::new([role], users).unwrap()
}

#[test]
fn no_change_leaves_users_without_an_administrator() {
    let check = |before: &[(&str, &str)], after: &[(&str, &str)], caller: Option<&str>, expect: Option<Lockout>| {
        let found = policy(before).check_lockout(&policy(after), caller, |user| user != "keyless");
        assert_eq!(found.err(), expect, "{before:?} to {after:?} by {caller:?}");
    };
    let two = [("anna", "SECADM"), ("ben", "keys")];
    check(&two, &[("anna", "SECADM"), ("ben", "VIEWER")], Some("anna"), None);
    check(&two, &[("anna", "VIEWER"), ("ben", "keys")], Some("ben"), None);
    check(&two, &[("anna", "VIEWER"), ("ben", "keys")], Some("anna"), Some(Lockout::Oneself));
    check(&two, &[("-anna", "SECADM"), ("ben", "keys")], Some("anna"), Some(Lockout::Oneself));
    check(&two, &[("ben", "keys")], Some("anna"), Some(Lockout::Oneself));
    check(&two, &[("anna", "VIEWER"), ("-ben", "keys")], None, Some(Lockout::Last));
    check(&two, &[], Some("of a token"), Some(Lockout::Last));
    check(&two, &[("keyless", "SECADM")], Some("of a token"), Some(Lockout::Last));
    check(&[], &[("anna", "VIEWER")], None, None);
    check(&[("anna", "VIEWER")], &[], Some("anna"), None);
}
