//! `tieline man`: a manual page for every verb.

use crate::examples;
use anyhow::{Context, Result};
use clap::Command;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Writes `tieline.1`, `tieline-run.1`, … into a folder.
pub fn man(out: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let pages = pages();
    for (name, text) in &pages {
        let file = out.join(format!("{name}.1"));
        std::fs::write(&file, text).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    writeln!(std::io::stdout(), "{}: {} manual pages", out.display(), pages.len())?;
    Ok(ExitCode::SUCCESS)
}

/// All pages by their names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut pages = Vec::new();
    page(examples::command().disable_help_subcommand(true), "tieline", "tieline", &mut pages);
    pages
}

/// A page and those below it. The name of a page holds no spaces, and its usage does.
fn page(command: Command, name: &str, usage: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let command = command.display_name(name.to_owned()).bin_name(usage.to_owned());
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let (name, usage) = (format!("{name}-{}", sub.get_name()), format!("{usage} {}", sub.get_name()));
        page(sub.clone(), &name, &usage, pages);
    }
    let mut text = Vec::new();
    // Into memory it cannot fail.
    let _ = clap_mangen::Man::new(command).title(name.to_uppercase()).section("1").source("tieline").render(&mut text);
    pages.push((name.to_owned(), text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_has_a_page_with_its_examples() {
        let pages = pages();
        let page = |wanted: &str| {
            let found = pages.iter().find(|(name, _)| name == wanted);
            String::from_utf8(found.unwrap_or_else(|| panic!("{wanted}")).1.clone()).unwrap()
        };
        assert!(page("tieline").contains("tieline\\-history(1)"), "{}", page("tieline"));
        assert!(page("tieline-command").contains("tieline command demo/feeder2/relay/breaker open"));
        assert!(
            page("tieline-context-use").contains(".SH EXAMPLES") || page("tieline-context-use").contains("Examples")
        );
        assert!(pages.iter().all(|(_, text)| text.starts_with(b".ie")), "each is roff");
    }
}
