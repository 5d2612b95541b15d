//! Links between documents of the repository lead somewhere, and tests that a document names exist.

use super::{Finding, Tree};

pub(super) fn findings(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (number, target) in links(text) {
            if let Some(what) = broken(tree, path, text, target) {
                findings.push(Finding::new(path, number, what, "a link that leads somewhere"));
            }
        }
        for (number, name, target) in tests(text) {
            let file = tree.get(&resolve(path, target)).unwrap_or_default();
            if !file.contains(&format!("fn {name}(")) && !file.contains(&format!("def {name}(")) {
                let what = format!("the test {name}, which {target} does not have");
                findings.push(Finding::new(path, number, what, "a test of that name in the linked file"));
            }
        }
    }
    findings
}

/// The targets of `[text](target)` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let in_code = line[..at].matches('`').count() % 2 == 1;
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if !in_code {
                found.push((number + 1, target));
            }
        }
    }
    found
}

/// The tests that a document names, as links with a function's name for text: ``[`name`](file.rs)``, with their lines.
fn tests(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    text.lines().enumerate().flat_map(|(number, line)| {
        line.match_indices("[`").filter_map(move |(at, _)| {
            let (name, rest) = line[at + 2..].split_once("`](")?;
            let target = rest.split(')').next()?;
            let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            let is_code = target.ends_with(".rs") || target.ends_with(".py");
            (is_name && is_code).then_some((number + 1, name, target))
        })
    })
}

fn broken(tree: &Tree, path: &str, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let place = if file.is_empty() { path.to_owned() } else { resolve(path, file) };
    if !tree.exists(&place) {
        return Some(format!("a link to {target}, which is not here"));
    }
    let text = if file.is_empty() { text } else { tree.get(&place).unwrap_or_default() };
    let known = anchor.is_empty() || !place.ends_with(".md") || headings(text).any(|slug| slug == anchor);
    (!known).then(|| format!("a link to {target}, where no heading has that name"))
}

/// `target` as seen from the file `path`, from the root of the repository.
fn resolve(path: &str, target: &str) -> String {
    let mut parts: Vec<&str> = path.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        parts.clear();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.is_empty() => parts.push(".."),
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let slug = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    };
    text.lines().filter(|line| line.starts_with('#')).map(slug)
}
