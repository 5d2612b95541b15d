//! `tieline context`: nodes by name.

pub mod args;
pub mod store;

use crate::answer::say;
use anyhow::{Result, bail};
use args::{AddArgs, ContextVerb, NameArgs, ShowArgs};
use serde_json::{Value as Json, json};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use store::{Context, Store};

/// Runs a verb.
pub fn context(verb: &ContextVerb) -> Result<ExitCode> {
    let store = Store::load()?;
    match verb {
        ContextVerb::Add(args) => add(store, args)?,
        ContextVerb::List { json } => list(&store, *json)?,
        ContextVerb::Use(args) => select(store, args)?,
        ContextVerb::Remove(args) => remove(store, args)?,
        ContextVerb::Show(args) => show(&store, args)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn add(mut store: Store, args: &AddArgs) -> Result<()> {
    if args.http.is_none() && args.mqtt.is_none() {
        bail!("no address is given, expected --http HOST:PORT, --mqtt HOST:PORT, or both");
    }
    let absolute = |path: &Option<PathBuf>| path.as_ref().map(std::path::absolute).transpose();
    let context = Context {
        http: args.http.clone(),
        mqtt: args.mqtt.clone(),
        user: args.user.clone(),
        password_file: absolute(&args.password_file)?,
        ca: absolute(&args.tls.ca)?,
        cert: absolute(&args.tls.cert)?,
        key: absolute(&args.tls.key)?,
    };
    store.add(&args.name, context.clone(), args.replace)?;
    if args.select {
        store.current = Some(args.name.clone());
    }
    let (file, name) = (store.save()?, &args.name);
    let is_used = store.current.as_ref() == Some(name);
    let next = match is_used {
        true => format!("{name}: in use"),
        false => format!("tieline context use {name} makes it the one that verbs take"),
    };
    say(args.json, &format!("{name}: added to {}\n{next}", file.display()), &object(name, is_used, &context))
}

fn select(mut store: Store, args: &NameArgs) -> Result<()> {
    let context = store.get(&args.name)?.clone();
    store.current = Some(args.name.clone());
    store.save()?;
    say(args.json, &format!("{}: in use", args.name), &object(&args.name, true, &context))
}

fn remove(mut store: Store, args: &NameArgs) -> Result<()> {
    let context = store.get(&args.name)?.clone();
    store.contexts.remove(&args.name);
    let was_used = store.current.as_deref() == Some(&args.name);
    if was_used {
        store.current = None;
    }
    store.save()?;
    let words = if was_used { "removed; no context is in use now" } else { "removed" };
    say(args.json, &format!("{}: {words}", args.name), &object(&args.name, false, &context))
}

fn list(store: &Store, json: bool) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let is_used = |name: &String| store.current.as_ref() == Some(name);
    for (name, context) in &store.contexts {
        if json {
            writeln!(out, "{}", object(name, is_used(name), context))?;
            continue;
        }
        let mark = if is_used(name) { '*' } else { ' ' };
        let address = context.http.as_deref().or(context.mqtt.as_deref()).unwrap_or_default();
        let line = format!("{mark} {name:<16} {address:<32} {}", context.user.as_deref().unwrap_or_default());
        writeln!(out, "{}", line.trim_end())?;
    }
    if store.contexts.is_empty() && !json {
        eprintln!("there is no context; tieline context add makes one");
    }
    Ok(())
}

fn show(store: &Store, args: &ShowArgs) -> Result<()> {
    let variable = crate::who::variable("TIELINE_CONTEXT");
    let mut out = std::io::stdout().lock();
    let Some((name, context)) = store.chosen(args.name.as_deref(), variable.as_deref())? else {
        if args.json {
            writeln!(out, "null")?;
        } else {
            eprintln!("no context is in use; verbs take 127.0.0.1");
        }
        return Ok(());
    };
    let is_used = store.current.as_ref() == Some(&name);
    if args.json {
        writeln!(out, "{}", object(&name, is_used, &context))?;
        return Ok(());
    }
    writeln!(out, "{:<14} {name}", "name")?;
    for (member, text) in context.members() {
        writeln!(out, "{member:<14} {text}")?;
    }
    Ok(())
}

fn object(name: &str, is_used: bool, context: &Context) -> Json {
    let mut shown = json!({ "name": name, "in_use": is_used });
    for (member, text) in context.members() {
        shown[member] = text.into();
    }
    shown
}
