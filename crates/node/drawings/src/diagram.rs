//! Single-line diagrams: the SVG files of a folder.

use crate::folder::{Folder, version_of, whole};
use std::path::Path;
use tieline_diagram::{Diagram, SVG_BYTES_MAX};
use tieline_service::reader::{Finding, Findings};

/// Where they are. Other files, as the bays that they were drawn from, are not looked at.
pub const FOLDER: Folder = Folder {
    key: "diagrams",
    noun: "diagram",
    end: "svg",
    readable: "a folder of SVG files that can be read",
    count_max: 256,
    bytes_max: 32 << 20,
};

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

/// Reads and checks the file of a name; none where it is wrong, which has been reported then.
pub fn read_diagram(file: &Path, name: &str, findings: &mut Findings) -> Option<(DiagramFile, usize)> {
    match load_svg(file) {
        Ok((svg, diagram)) => {
            let (version, bytes) = (version_of(&svg), svg.len());
            Some((DiagramFile { name: name.to_owned(), svg, version, diagram }, bytes))
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
    let one = |found: String, expected: &str| vec![whole(file, "svg", found, expected)];
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

#[cfg(test)]
mod tests {
    use crate::read_in;

    const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><text data-topic=\"a/b\"/></svg>";

    #[test]
    fn the_diagrams_of_a_folder_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| read_in(folder.path(), text);
        assert!(read("").unwrap().diagrams.is_empty());
        assert!(read("diagrams='none'\n").unwrap_err().contains("diagrams"));
        std::fs::create_dir(folder.path().join("diagrams")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join("diagrams").join(name), text).unwrap();
        write("b.svg", SVG);
        write("a.svg", SVG);
        write("a.toml", "not looked at");
        let console = read("").unwrap();
        let names: Vec<&str> = console.diagrams.iter().map(|diagram| diagram.name.as_str()).collect();
        assert_eq!((names, console.diagrams[0].version.len()), (vec!["a", "b"], 16));
        assert_eq!(console.diagrams[0].diagram.topics[0].as_str(), "a/b");
        write("Wrong Name.svg", SVG);
        write("c.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\">\n<script/>\n</svg>");
        let found = read("diagrams='diagrams'\n").unwrap_err();
        for words in ["c.svg:2", "<script>", "no script", "Wrong Name", "a name of a-z"] {
            assert!(found.contains(words), "{words} is not in {found}");
        }
    }
}
