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
use tieline_access::{Applies, Explanation, IEC_ROLES, Names, Reach, Step, Verb};
use tieline_core::Filter;
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
    let own = store.policy.roles().map(|role| &*role.name);
    let names = own
        .chain(IEC_ROLES.iter().map(|(name, _)| *name).filter(|name| !store.policy.roles().any(|r| &*r.name == *name)));
    let all = names.filter_map(|name| store.policy.role(name));
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
    let policy = &store.policy;
    let known = policy.user(&args.user);
    let brought = match &args.certificate {
        Some(file) => roles_of_certificate(file, &args.user, &store, &config)?,
        None => args.roles.clone(),
    };
    let roles: Vec<Box<str>> = match (&brought[..], known) {
        ([], Some(user)) => user.roles.clone(),
        ([], None) => bail!(
            "there is no user {:?}; name its roles with --role, or --certificate, where a token or a certificate \
                                brings them",
            args.user
        ),
        (given, _) => given.iter().map(|role| role.as_str().into()).collect(),
    };
    if let Some(unknown) = roles.iter().find(|role| !policy.has_role(role)) {
        bail!("there is no role {unknown:?}");
    }
    let verb = Verb::of_word(&args.verb).unwrap_or(Verb::Read);
    let names = Names { user: &args.user, client: &args.client };
    // A filter is no topic: what is asked is how much of it is allowed.
    let filter = match Filter::new(&args.topic) {
        _ if !args.topic.contains(['+', '#']) => None,
        Ok(filter) => Some(filter),
        Err(error) => bail!("{:?} is no topic and no filter: {error}", args.topic),
    };
    let mut explained = match &filter {
        Some(filter) => policy.explain_filter(&roles, names, verb, filter),
        None => policy.explain(&roles, names, verb, &args.topic),
    };
    let disabled = known.is_some_and(|user| user.disabled);
    if disabled {
        explained.reach = Reach::Nothing;
    }
    let tested = Tested { roles, explained, disabled, is_filter: filter.is_some() };
    match args.config.json {
        true => writeln!(std::io::stdout(), "{}", tested.json())?,
        false => tested.print(args, verb)?,
    }
    Ok(match tested.explained.reach {
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

/// What a test has found.
struct Tested {
    roles: Vec<Box<str>>,
    explained: Explanation,
    disabled: bool,
    is_filter: bool,
}

impl Tested {
    fn json(&self) -> serde_json::Value {
        let reach = match self.explained.reach {
            Reach::All => "all",
            Reach::Some => "some",
            Reach::Nothing => "nothing",
        };
        let step =
            |step: &Step| json!({ "role": &*step.role, "rule": step.rule.to_string(), "is": word(step.applies) });
        let steps: Vec<_> = self.explained.steps.iter().map(step).collect();
        json!({
            "allowed": self.explained.reach == Reach::All,
            "roles": self.roles,
            "disabled": self.disabled,
            "reach": self.is_filter.then_some(reach),
            "rules": steps,
        })
    }

    fn print(&self, TestArgs { user, verb, topic, .. }: &TestArgs, asked: Verb) -> Result<()> {
        let mut out = std::io::stdout().lock();
        let may = match self.explained.reach {
            Reach::All => "may",
            Reach::Some => "may in part",
            Reach::Nothing => "may not",
        };
        writeln!(out, "{user} {may} {verb} {topic}")?;
        for Step { role, rule, applies } in &self.explained.steps {
            writeln!(out, "    {:<12} {role}: {rule}", word(*applies))?;
        }
        writeln!(out, "    {}", self.conclusion(asked))?;
        Ok(())
    }

    fn conclusion(&self, verb: Verb) -> &'static str {
        let denies = self.explained.steps.iter().any(|step| step.applies == Applies::Denies);
        match (self.explained.reach, self.is_filter) {
            _ if self.disabled => "the user is disabled",
            (Reach::All, true) => "it is allowed for every topic of the filter",
            (Reach::Some, _) if verb == Verb::Read => {
                "only some topics of the filter may be read; the others are not delivered"
            }
            (Reach::Some, _) => "it is allowed for some topics of the filter only",
            (Reach::Nothing, true) if verb == Verb::Read => {
                "no topic of the filter may be read: the subscription is refused"
            }
            (Reach::Nothing, true) => "it is allowed for no topic of the filter",
            (Reach::Nothing, false) if denies => "a rule that denies outweighs all that allow",
            (Reach::Nothing, false) => "what no rule allows is denied",
            (Reach::All, false) => "a rule allows it, and none denies it",
        }
    }
}

const fn word(applies: Applies) -> &'static str {
    match applies {
        Applies::OtherVerb => "other verb",
        Applies::OtherTopic => "other topic",
        Applies::Allows => "allows",
        Applies::Denies => "denies",
        Applies::AllowsSome => "allows some",
        Applies::DeniesSome => "denies some",
    }
}
