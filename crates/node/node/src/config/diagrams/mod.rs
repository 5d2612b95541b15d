//! `[console]`: the folder of single-line diagrams.

mod bays;

pub use bays::load_drawing;

use super::parse;
use super::reader::{Document, Finding, Findings, Section};
use aws_lc_rs::digest::{SHA256, digest};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use tieline_diagram::{Diagram, NAME_BYTES_MAX, SVG_BYTES_MAX, is_diagram_name};

/// Diagrams of one node.
const DIAGRAMS_MAX: usize = 256;
/// Bytes of all of them: they are kept in memory.
const ALL_BYTES_MAX: usize = 32 << 20;
/// The folder where none is named.
const FOLDER: &str = "diagrams";

/// A diagram that was checked.
#[derive(Debug, PartialEq, Eq)]
pub struct DiagramFile {
    /// Its name: that of the file, without `.svg`.
    pub name: String,
    /// The SVG.
    pub svg: String,
    /// The beginning of its SHA-256, as text.
    pub version: String,
    /// What it is bound to.
    pub diagram: Diagram,
}

/// `[console]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsoleConfig {
    /// Diagrams, by their names.
    pub diagrams: Arc<[DiagramFile]>,
}

impl ConsoleConfig {
    /// With the diagrams of another configuration besides; of one name its own holds.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        // A demonstration without a file of one's own, or the other way round: nearly always one of the two is empty.
        if self.diagrams.is_empty() { other } else { self }
    }
}

/// Reads `[console]` and the diagrams of its folder, which is found beside `folder`. Without the key there may be no such folder.
pub fn read_console(mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> ConsoleConfig {
    let named = s.optional(doc, "diagrams", parse::text);
    let path = folder.join(named.as_deref().unwrap_or(FOLDER));
    let config = match std::fs::read_dir(&path) {
        Ok(entries) => {
            // In a folder that cannot be read to its end, what is missing is not known.
            let files: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
            match files {
                Ok(files) => read_all(files, doc),
                Err(error) => {
                    doc.report(s.value_at("diagrams"), &s.key("diagrams"), error.to_string(), READABLE.to_owned());
                    ConsoleConfig::default()
                }
            }
        }
        Err(error) if named.is_none() && error.kind() == std::io::ErrorKind::NotFound => ConsoleConfig::default(),
        Err(error) => {
            let found = format!("{:?} ({error})", path.display().to_string());
            doc.report(s.value_at("diagrams"), &s.key("diagrams"), found, READABLE.to_owned());
            ConsoleConfig::default()
        }
    };
    s.finish(doc);
    config
}

const READABLE: &str = "a folder of SVG files that can be read";

/// All SVG files of a folder. Others, as the bays that they were drawn from, are not looked at.
fn read_all(mut files: Vec<std::path::PathBuf>, doc: &mut Document<'_>) -> ConsoleConfig {
    files.retain(|file| file.extension().is_some_and(|end| end == "svg"));
    files.sort();
    let mut bytes = 0;
    let mut diagrams = Vec::new();
    for file in files {
        if diagrams.len() == DIAGRAMS_MAX || bytes > ALL_BYTES_MAX {
            let found = format!("more than {DIAGRAMS_MAX} diagrams or {ALL_BYTES_MAX} bytes");
            doc.findings().push(whole(&file, found, "fewer diagrams".to_owned()));
            break;
        }
        if let Some(diagram) = read_diagram(&file, doc.findings()) {
            bytes += diagram.svg.len();
            diagrams.push(diagram);
        }
    }
    ConsoleConfig { diagrams: diagrams.into() }
}

/// Reads and checks one file; none where it is wrong, which has been reported then.
fn read_diagram(file: &Path, findings: &mut Findings) -> Option<DiagramFile> {
    let name = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    if !is_diagram_name(name) {
        let expected = format!("a name of a-z, 0-9, - and _, at most {NAME_BYTES_MAX} of them");
        findings.push(whole(file, format!("a diagram with the name {name:?}"), expected));
        return None;
    }
    match load_svg(file) {
        Ok((svg, diagram)) => {
            let hash = digest(&SHA256, svg.as_bytes());
            let version = hash.as_ref().iter().take(8).fold(String::new(), |mut text, byte| {
                let _ = write!(text, "{byte:02x}");
                text
            });
            Some(DiagramFile { name: name.to_owned(), svg, version, diagram })
        }
        Err(found) => {
            found.into_iter().for_each(|finding| findings.push(finding));
            None
        }
    }
}

/// Reads and checks an SVG file.
///
/// # Errors
/// It cannot be read, or what is wrong with it.
pub fn load_svg(file: &Path) -> Result<(String, Diagram), Vec<Finding>> {
    let one = |found: String, expected: &str| vec![whole(file, found, expected.to_owned())];
    let length = std::fs::metadata(file).map_err(|error| one(error.to_string(), "a readable SVG file"))?.len();
    if length > SVG_BYTES_MAX as u64 {
        return Err(one(format!("{length} bytes"), &format!("at most {SVG_BYTES_MAX}")));
    }
    let svg = std::fs::read_to_string(file).map_err(|error| one(error.to_string(), "a readable SVG file"))?;
    match Diagram::check(&svg) {
        Ok(diagram) => Ok((svg, diagram)),
        Err(errors) => {
            let finding = |error: tieline_diagram::SvgError| Finding {
                file: file.display().to_string(),
                line: error.line,
                column: 1,
                key: "svg".to_owned(),
                found: error.found,
                expected: error.expected,
            };
            Err(errors.into_iter().map(finding).collect())
        }
    }
}

fn whole(file: &Path, found: String, expected: String) -> Finding {
    Finding { file: file.display().to_string(), line: 1, column: 1, key: "svg".to_owned(), found, expected }
}

#[cfg(test)]
mod tests {
    use super::super::from_text;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><text data-topic=\"a/b\"/></svg>";

    #[test]
    fn the_diagrams_of_a_folder_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| from_text("t.toml", text, folder.path()).map_err(|error| error.to_string());
        assert!(read("").unwrap().console.diagrams.is_empty());
        assert!(read("[console]\ndiagrams='none'\n").unwrap_err().contains("console.diagrams"));
        std::fs::create_dir(folder.path().join("diagrams")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join("diagrams").join(name), text).unwrap();
        write("b.svg", SVG);
        write("a.svg", SVG);
        write("a.toml", "not looked at");
        let console = read("").unwrap().console;
        let names: Vec<&str> = console.diagrams.iter().map(|diagram| diagram.name.as_str()).collect();
        assert_eq!((names, console.diagrams[0].version.len()), (vec!["a", "b"], 16));
        assert_eq!(console.diagrams[0].diagram.topics[0].as_str(), "a/b");
        write("Wrong Name.svg", SVG);
        write("c.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\">\n<script/>\n</svg>");
        let found = read("[console]\ndiagrams='diagrams'\n").unwrap_err();
        for words in ["c.svg:2", "<script>", "no script", "Wrong Name", "a name of a-z"] {
            assert!(found.contains(words), "{words} is not in {found}");
        }
    }
}
