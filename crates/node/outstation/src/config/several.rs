//! Several outstations behind one port: several files, or one that names them.
//!
//! ```toml
//! [[outstation]]
//! config = "relay.toml"        # beside this file
//!
//! [[outstation]]
//! config = "relay.toml"        # the same again, at another link address
//! address = 12
//! ```

use super::{OutstationFile, read_file, settings};
use std::path::{Path, PathBuf};
use tieline_dnp3::channel::MEMBERS_MAX;
use tieline_service::parse;
use tieline_service::reader::{ConfigError, Document, Finding, Findings, Section, read_text};
use tieline_service::setting::Legal;

/// An outstation, and where it was named.
struct Named {
    file: OutstationFile,
    place: Finding,
}

/// Reads the outstations of one port: each file is one, or names several.
///
/// # Errors
/// Everything that is wrong in any of them, or with them together.
pub fn load_all(paths: &[PathBuf]) -> Result<Vec<OutstationFile>, ConfigError> {
    let (mut findings, mut all) = (Findings::default(), Vec::new());
    for path in paths {
        match read_text(path) {
            Ok(text) => read_any(path, &text, &mut findings, &mut all),
            Err(ConfigError(found)) => found.into_iter().for_each(|finding| findings.push(finding)),
        }
    }
    check_together(&all, &mut findings);
    if findings.is_empty() {
        Ok(all.into_iter().map(|named| named.file).collect())
    } else {
        Err(ConfigError(findings.sorted()))
    }
}

fn read_any(path: &Path, text: &str, findings: &mut Findings, all: &mut Vec<Named>) {
    let (name, folder) = (path.display().to_string(), path.parent().unwrap_or(Path::new("")));
    let place = |(line, column), key: String| {
        let file = name.clone();
        Finding { file, line, column, key, found: String::new(), expected: String::new() }
    };
    Document::read(&name, text, findings, |doc, mut root| {
        if !root.has("outstation") {
            let place = place((1, 1), "address".to_owned());
            return all.push(Named { file: read_file(doc, root, folder), place });
        }
        for section in root.array(doc, "outstation") {
            let place = place(doc.place(section.at()), section.key("address"));
            all.extend(read_named(doc, section, folder).map(|file| Named { file, place }));
        }
        root.finish(doc);
    });
}

fn read_named(doc: &mut Document<'_>, mut s: Section<'_>, folder: &Path) -> Option<OutstationFile> {
    let expected = "the name of an outstation's file, as in \"relay.toml\"";
    let at = s.value_at("config");
    let (key, name) = (s.key("config"), s.required(doc, "config", expected, parse::text));
    let address = s.optional(doc, "address", |v| settings::ADDRESS.parse(v));
    s.finish(doc);
    let name = name?;
    let path = folder.join(&name);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            doc.report(at, &key, format!("{name:?} ({error})"), "a readable TOML file".to_owned());
            return None;
        }
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let read = |doc: &mut Document<'_>, root: Section<'_>| read_file(doc, root, folder);
    let mut file = Document::read(&path.display().to_string(), &text, doc.findings(), read);
    file.config.address = address.unwrap_or(file.config.address);
    Some(file)
}

/// What outstations of one port may not both be.
fn check_together(all: &[Named], findings: &mut Findings) {
    if all.len() < 2 {
        return;
    }
    for (number, Named { file, place }) in all.iter().enumerate() {
        let mut report = |found: String, expected: &str| {
            findings.push(Finding { found, expected: expected.to_owned(), ..place.clone() });
        };
        let earlier = || all.iter().take(number).map(|named| &named.file);
        let address = file.config.address;
        if earlier().any(|other| other.config.address == address) {
            report(format!("{address} a second time"), "a link address for each outstation of a port");
        }
        if number == MEMBERS_MAX {
            report("one more".to_owned(), &format!("{MEMBERS_MAX} outstations at most"));
        }
        if file.config.lean.is_some() {
            let expected = "lean = false: lean messages have no addresses to tell outstations of a port apart by";
            report("lean messages".to_owned(), expected);
        }
        if number > 0 && file.config.answers_self_address {
            report("self_address = true".to_owned(), "one outstation of a port that answers it, the first");
        }
        let store = |file: &OutstationFile| Some(file.secure.as_ref()?.store.as_ref()?.path().to_owned());
        if store(file).is_some_and(|path| earlier().filter_map(store).any(|other| other == path)) {
            report("another outstation's store of users".to_owned(), "a store for each outstation");
        }
        let root = |file: &OutstationFile| file.files.as_ref().map(|files| (files.root.clone(), files.writable));
        let shares = |(folder, writable): (PathBuf, bool)| {
            earlier().filter_map(root).any(|(other, other_writable)| folder == other && (writable || other_writable))
        };
        if root(file).is_some_and(shares) {
            report(
                "another outstation's folder of files".to_owned(),
                "a folder for each outstation, or writable = false",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RELAY: &str = "address=10\n[[point]]\ntype='binary'\nindex=0\n";

    /// Files of a folder, of which the first ones are named on the command line.
    fn check(files: &[(&str, &str)], named: usize, expect: Result<&[u16], &[&str]>) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let paths: Vec<_> = files.iter().take(named).map(|(name, _)| folder.path().join(name)).collect();
        let base = format!("{}/", folder.path().display());
        let found = load_all(&paths).map(|all| all.iter().map(|file| file.config.address).collect::<Vec<_>>());
        let found = found.map_err(|ConfigError(all)| {
            all.iter().map(|finding| finding.to_string().replace(&base, "")).collect::<Vec<_>>()
        });
        let expect = expect.map(<[u16]>::to_vec).map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(found, expect);
    }

    #[test]
    fn files_are_one_outstation_or_several() {
        check(&[("a.toml", RELAY)], 1, Ok(&[10]));
        check(&[("a.toml", RELAY), ("b.toml", "address=11\n")], 2, Ok(&[10, 11]));
        let port = "[[outstation]]\nconfig='relay.toml'\n[[outstation]]\nconfig='relay.toml'\naddress=12\n";
        check(&[("port.toml", port), ("relay.toml", RELAY)], 1, Ok(&[10, 12]));
        check(&[("port.toml", port), ("c.toml", "address=13\n"), ("relay.toml", RELAY)], 2, Ok(&[10, 12, 13]));
    }

    #[test]
    fn what_is_wrong_with_them_together_is_told_where_it_is() {
        let port = "[[outstation]]\nconfig='relay.toml'\n[[outstation]]\nconfig='relay.toml'\n[[outstation]]\nconfig='none.toml'\naddress=70000\n";
        check(
            &[("port.toml", port), ("relay.toml", RELAY)],
            1,
            Err(&[
                "port.toml:3:1: outstation[1].address: found 10 a second time, expected a link address for each outstation of a port",
                "port.toml:6:8: outstation[2].config: found \"none.toml\" (No such file or directory (os error 2)), expected a readable TOML file",
                "port.toml:7:9: outstation[2].address: found 70000, expected a whole number from 0 to 65519",
            ]),
        );
        let files = "[files]\nroot='.'\nwritable=true\n";
        check(
            &[
                ("a.toml", &format!("lean=true\n{files}")),
                ("b.toml", &format!("address=11\nself_address=true\n{files}")),
            ],
            2,
            Err(&[
                "a.toml:1:1: address: found lean messages, expected lean = false: lean messages have no addresses to tell outstations of a port apart by",
                "b.toml:1:1: address: found self_address = true, expected one outstation of a port that answers it, the first",
                "b.toml:1:1: address: found another outstation's folder of files, expected a folder for each outstation, or writable = false",
            ]),
        );
        check(
            &[("a.toml", "[[outstation]]\naddress=1\n[[point]]\n")],
            1,
            Err(&[
                "a.toml:1:1: outstation[0].config: found nothing, expected the name of an outstation's file, as in \"relay.toml\"",
                "a.toml:3:3: point: found the unknown key \"point\", expected one of outstation",
            ]),
        );
    }
}
