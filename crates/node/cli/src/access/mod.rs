//! `tieline access`: users, and why a decision is as it is.

pub mod args;
mod files;
mod password;
mod verify;

use crate::answer::say;
use crate::api::table::count;
use crate::exit::Exit;
use crate::terminal;
use anyhow::{Result, anyhow, bail};
use args::{AccessVerb, ConfigFile, ListArgs, PasswordArgs, RolesArgs, TestArgs, UserArgs, UserVerb};
use files::Files;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use tieline_access::{Names, Question, QuestionError, Reach, Step, Verb, Why};
use tieline_node::access::CredentialStore;
use tieline_node::access::certificate::holder_in_file;
use tieline_node::access::edit::{Edit, edit_user};
use tieline_node::config::AccessConfig;
use tieline_node::load_config;

/// Runs a verb.
pub fn access(verb: &AccessVerb) -> Result<ExitCode> {
    match verb {
        AccessVerb::User(verb) => user(verb).map(|()| ExitCode::SUCCESS),
        AccessVerb::Test(args) => test(args),
        AccessVerb::Check(file) => check(file),
        AccessVerb::Roles(file) => roles(file).map(|()| ExitCode::SUCCESS),
        AccessVerb::Verify(args) => verify::verify(args),
    }
}

fn user(verb: &UserVerb) -> Result<()> {
    let edited = |user: &UserArgs, edit: &Edit<'_>, done: &str, words: &str| {
        let Files { access, users, hint } = Files::find(&user.file)?;
        edit_user(&access, &user.name, edit).map_err(|why| anyhow!(why))?;
        let object = json!({ "user": user.name, "done": done, "file": users, "to_do": hint });
        say(user.json, &format!("{}: {words} in {}", user.name, users.display()), &object)?;
        if let Some(hint) = hint.filter(|_| !user.json) {
            eprintln!("{hint}");
        }
        Ok(())
    };
    match verb {
        UserVerb::Add(args) => {
            let password = match args.no_password {
                true => None,
                false => Some(password::read(args.password_file.as_deref())?),
            };
            let edit = Edit::Add { roles: &args.roles, password: password.as_ref().map(|word| word.as_str()) };
            edited(&args.user, &edit, "added", "added")
        }
        UserVerb::Remove(user) => edited(user, &Edit::Remove, "removed", "removed"),
        UserVerb::List(args) => list(args),
        UserVerb::Password(PasswordArgs { user, password_file }) => {
            let password = password::read(password_file.as_deref())?;
            edited(user, &Edit::Password(&password), "password", "has another password")
        }
        UserVerb::Roles(RolesArgs { user, roles }) => edited(user, &Edit::Roles(roles), "roles", "has other roles"),
        UserVerb::Disable(user) => edited(user, &Edit::Disabled(true), "disabled", "disabled"),
        UserVerb::Enable(user) => edited(user, &Edit::Disabled(false), "enabled", "enabled"),
    }
}

/// Roles that are declared elsewhere are shown and not looked up.
fn list(args: &ListArgs) -> Result<()> {
    let Files { users, hint, .. } = Files::find(&args.file)?;
    let text = std::fs::read_to_string(&users).map_err(|error| {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        anyhow!("{}: {error}: tieline access user add makes it{hint}", users.display())
    })?;
    let document: toml_edit::DocumentMut = text.parse()?;
    let mut out = std::io::stdout().lock();
    for (name, user) in document.get("user").and_then(|users| users.as_table()).into_iter().flatten() {
        let roles = user.get("roles").and_then(|roles| roles.as_array());
        let roles: Vec<&str> = roles.into_iter().flatten().filter_map(|role| role.as_str()).collect();
        let disabled = user.get("disabled").and_then(|value| value.as_bool()).unwrap_or(false);
        let by = match () {
            () if user.get("password").is_some() => "password",
            () if user.get("certificates").is_some() => "certificate",
            () => "token",
        };
        if args.json {
            let shown = json!({ "user": name, "by": by, "roles": roles, "disabled": disabled });
            writeln!(out, "{}", terminal::json(&shown.to_string()))?;
            continue;
        }
        writeln!(out, "{name:<20} {by:<11} {}{}", roles.join(", "), if disabled { "  (disabled)" } else { "" })?;
    }
    Ok(())
}

/// The `[access]` of a configuration whose files are all right.
fn read(file: &ConfigFile) -> Result<(AccessConfig, CredentialStore)> {
    let config = load_config(&file.config)?;
    if !config.access.is_configured() {
        bail!("{}: access is not configured; expected users in [access], or [access.jwt]", file.config.display());
    }
    let store = CredentialStore::load(&config.access)?;
    Ok((config.access, store))
}

fn check(file: &ConfigFile) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match read(file) {
        Ok((_, store)) => {
            let (users, roles) = (store.policy.users().count(), store.policy.roles().count());
            match file.json {
                true => writeln!(out, "{}", json!({ "ok": true, "users": users, "roles": roles }))?,
                false => {
                    let (file, users, roles) = (file.config.display(), count(users, "user"), count(roles, "role"));
                    writeln!(out, "{file}: ok, {users}, {roles} of its own")?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) if file.json => {
            writeln!(out, "{}", json!({ "ok": false, "error": error.to_string() }))?;
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

fn roles(file: &ConfigFile) -> Result<()> {
    let (_, store) = read(file)?;
    let all = store.policy.all_roles();
    let mut out = std::io::stdout().lock();
    if file.json {
        let shown = |role: tieline_access::Role| {
            let rules: Vec<String> = role.rules.iter().map(ToString::to_string).collect();
            json!({ "role": &*role.name, "rules": rules })
        };
        writeln!(out, "{}", serde_json::Value::Array(all.map(shown).collect()))?;
        return Ok(());
    }
    for role in all {
        writeln!(out, "{}", role.name)?;
        for rule in &role.rules {
            writeln!(out, "    {rule}")?;
        }
    }
    Ok(())
}

fn test(args: &TestArgs) -> Result<ExitCode> {
    let (config, store) = read(&args.config)?;
    let brought = match &args.certificate {
        Some(file) => roles_of_certificate(file, &args.user, &store, &config)?,
        None => args.roles.clone(),
    };
    let question = Question {
        names: Names { user: &args.user, client: &args.client },
        roles: brought.into_iter().map(String::into_boxed_str).collect(),
        verb: Verb::of_word(&args.verb).unwrap_or(Verb::Read),
        topic: &args.topic,
    };
    let why = store.policy.why(question).map_err(|error| match error {
        QuestionError::User(_) => {
            anyhow!("{error}; name its roles with --role, or --certificate, where a token or a certificate brings them")
        }
        QuestionError::Role(_) | QuestionError::Filter(..) => anyhow!(error.to_string()),
    })?;
    match args.config.json {
        true => writeln!(std::io::stdout(), "{}", as_json(&why))?,
        false => print(args, &why)?,
    }
    Ok(match why.explained.reach {
        Reach::All => ExitCode::SUCCESS,
        Reach::Some => Exit::Incomplete.into(),
        Reach::Nothing => Exit::Refused.into(),
    })
}

/// The roles that a certificate brings, if any.
fn roles_of_certificate(
    file: &Path,
    user: &str,
    store: &CredentialStore,
    config: &AccessConfig,
) -> Result<Vec<String>> {
    let holder = holder_in_file(file, store, config).map_err(|why| anyhow!("{}: {why}", file.display()))?;
    if holder.user != user {
        bail!("{}: found a certificate of {:?}, expected one of {user:?}", file.display(), holder.user);
    }
    Ok(holder.roles.unwrap_or_default())
}

fn as_json(why: &Why) -> serde_json::Value {
    let step = |step: &Step| json!({ "role": &*step.role, "rule": step.rule.to_string(), "is": step.applies.word() });
    let steps: Vec<_> = why.explained.steps.iter().map(step).collect();
    json!({
        "allowed": why.explained.reach == Reach::All,
        "roles": why.roles,
        "disabled": why.disabled,
        "reach": why.is_filter.then(|| why.reach_word()),
        "rules": steps,
    })
}

fn print(TestArgs { user, verb, topic, .. }: &TestArgs, why: &Why) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let may = match why.explained.reach {
        Reach::All => "may",
        Reach::Some => "may in part",
        Reach::Nothing => "may not",
    };
    writeln!(out, "{user} {may} {verb} {topic}")?;
    for Step { role, rule, applies } in &why.explained.steps {
        writeln!(out, "    {:<12} {role}: {rule}", applies.word())?;
    }
    writeln!(out, "    {}", why.conclusion())?;
    Ok(())
}
