//! Every verb has examples, and every example is right.

use super::*;
use std::collections::BTreeSet;

/// Verbs that have no verbs below them, and those that work without one.
fn verbs(command: &Command, path: &str, found: &mut BTreeSet<String>) {
    let below: Vec<&Command> = command.get_subcommands().filter(|sub| sub.get_name() != "help").collect();
    if !path.is_empty() && (below.is_empty() || !command.is_subcommand_required_set()) {
        found.insert(path.to_owned());
    }
    for sub in below {
        let path = if path.is_empty() { sub.get_name().to_owned() } else { format!("{path} {}", sub.get_name()) };
        verbs(sub, &path, found);
    }
}

/// Verbs that print nothing a program would read as JSON, each with why.
const WITHOUT_JSON: &[(&str, &str)] = &[
    ("completion", "a shell reads it"),
    ("config default", "prints a configuration file, which is TOML"),
    ("config show", "prints a configuration file, which is TOML"),
    ("diagram new", "prints SVG"),
    ("fabric config", "prints the configuration file of a nats-server"),
    ("man", "writes files for people"),
];

#[test]
fn every_verb_takes_json() {
    let mut all = BTreeSet::new();
    let mut built = Cli::command();
    // Makes flags of a verb that hold below it theirs, too.
    built.build();
    verbs(&built, "", &mut all);
    let takes_json = |path: &str| {
        let find = |at: &Command, word: &str| at.find_subcommand(word).cloned();
        let verb = path.split(' ').try_fold(built.clone(), |at, word| find(&at, word)).unwrap();
        verb.get_arguments().any(|flag| flag.get_long() == Some("json"))
    };
    let without: Vec<&str> = all.iter().map(String::as_str).filter(|path| !takes_json(path)).collect();
    assert_eq!(without, WITHOUT_JSON.iter().map(|(path, _)| *path).collect::<Vec<_>>());
}

/// As a shell would: words in single quotes are one, and what follows a pipe or a redirection is not ours.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    let end = words.iter().position(|word| matches!(word.as_str(), "|" | ">" | "<")).unwrap_or(words.len());
    words.truncate(end);
    words.into_iter().skip_while(|word| word == "sudo").collect()
}

#[test]
fn every_verb_has_examples_and_every_example_is_right() {
    let mut all = BTreeSet::new();
    verbs(&Cli::command(), "", &mut all);
    let known: BTreeSet<String> = super::all().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(known, all);
    for (path, examples) in super::all() {
        for line in *examples {
            assert!(line.contains(&format!("tieline {}", path.split(' ').next().unwrap())), "{path}: {line}");
            let parsed = command().try_get_matches_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }
}

#[test]
fn help_shows_them() {
    let mut command = command();
    let sub = command.find_subcommand_mut("context").and_then(|sub| sub.find_subcommand_mut("use")).unwrap();
    assert!(sub.render_help().to_string().ends_with("Examples:\n  tieline context use plant\n"));
}
