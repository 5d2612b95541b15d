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

use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_dnp3::outstation::FileConfig;
use tieline_service::parse;
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
        Self { root, writable: false, size_max: 16_000_000, user: None, limits: FileConfig::default() }
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
    let default = FolderConfig::new(folder.join(root));
    let user = s.optional(doc, "user", text("the name of a user"));
    let password_file = s.optional(doc, "password_file", text("the path of a file"));
    if user.is_some() != password_file.is_some() {
        let key = if user.is_some() { "password_file" } else { "user" };
        doc.report(s.at(), &s.key(key), "nothing".to_owned(), "user and password_file together".to_owned());
    }
    let limits = FileConfig {
        handles_max: s.or(doc, "open_max", default.limits.handles_max, parse::integer(1..=64)),
        block_bytes_max: s.or(doc, "block_bytes_max", default.limits.block_bytes_max, parse::integer(64..=2030)),
        idle_timeout: s.or(
            doc,
            "idle_timeout",
            default.limits.idle_timeout,
            parse::duration(Duration::from_secs(1)..=Duration::from_secs(3600)),
        ),
    };
    let config = FolderConfig {
        writable: s.or(doc, "writable", default.writable, parse::boolean),
        size_max: s.or(doc, "size_max", default.size_max, parse::bytes(1..=u64::from(u32::MAX))),
        user: user.zip(password_file.map(|file| folder.join(file))),
        limits,
        ..default
    };
    s.finish(doc);
    Some(config)
}
