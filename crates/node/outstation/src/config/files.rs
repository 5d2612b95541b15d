//! The files that an outstation serves.
//!
//! ```toml
//! [files]
//! root = "/var/lib/relay1"     # the folder; no name leads out of it
//! writable = false             # whether a master may write and delete
//! size_max = "16MiB"            # bytes of a file that is written
//! user = "engineer"            # a master must authenticate as this user …
//! password_file = "password"   # … with the first line of this file; it travels in the clear
//! open_max = 4                 # files open at a time
//! block_bytes_max = 1024      # bytes in one block
//! idle_timeout = "60s"         # an open file that is left alone so long is closed
//! ```

use super::settings::{FILES_BLOCK_BYTES_MAX, FILES_IDLE_TIMEOUT, FILES_OPEN_MAX, FILES_SIZE_MAX, FILES_WRITABLE};
use std::path::{Path, PathBuf};
use tieline_dnp3::outstation::FileConfig;
use tieline_service::reader::{Document, Section};
use toml::de::DeValue;

/// A folder that an outstation serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderConfig {
    /// The folder.
    pub root: PathBuf,
    /// Whether a master may write and delete.
    pub writable: bool,
    /// Bytes of a file that is written.
    pub size_max: u64,
    /// Who may use it: a user, and the file with the password. None: every master.
    pub user: Option<(String, PathBuf)>,
    /// Limits of the protocol.
    pub limits: FileConfig,
}

impl FolderConfig {
    /// A folder that is only read, by any master.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let (writable, size_max) = (FILES_WRITABLE.default, FILES_SIZE_MAX.default);
        Self { root, writable, size_max, user: None, limits: FileConfig::default() }
    }
}

/// Reads `[files]`; none where it is missing. Paths are relative to `folder`, where the file is.
pub(super) fn read(doc: &mut Document<'_>, parent: &mut Section<'_>, folder: &Path) -> Option<FolderConfig> {
    let is_there = parent.has("files");
    let mut s = parent.section(doc, "files");
    if !is_there {
        return None;
    }
    let text = |expected: &'static str| {
        move |v: &DeValue<'_>| v.as_str().filter(|s| !s.is_empty()).map(str::to_owned).ok_or(expected.to_owned())
    };
    let expected = "the path of a folder";
    let root = s.required(doc, "root", expected, text(expected)).unwrap_or_default();
    let user = s.optional(doc, "user", text("the name of a user"));
    let password_file = s.optional(doc, "password_file", text("the path of a file"));
    if user.is_some() != password_file.is_some() {
        let key = if user.is_some() { "password_file" } else { "user" };
        doc.report(s.at(), &s.key(key), "nothing".to_owned(), "user and password_file together".to_owned());
    }
    let limits = FileConfig {
        handles_max: FILES_OPEN_MAX.read(&mut s, doc),
        block_bytes_max: FILES_BLOCK_BYTES_MAX.read(&mut s, doc),
        idle_timeout: FILES_IDLE_TIMEOUT.read(&mut s, doc),
    };
    let config = FolderConfig {
        root: folder.join(root),
        writable: FILES_WRITABLE.read(&mut s, doc),
        size_max: FILES_SIZE_MAX.read(&mut s, doc),
        user: user.zip(password_file.map(|file| folder.join(file))),
        limits,
    };
    s.finish(doc);
    Some(config)
}
