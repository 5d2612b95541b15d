//! The file that says how far an import is, so that one that was killed goes on.

use crate::import::args::VolttronHistoryArgs;
use crate::who;
use anyhow::{Context as _, Result, bail};
use serde_json::{Value as Json, json};
use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use tieline_databases::historian::Survey;

/// The usual name of the file.
const FILE: &str = "volttron-history.state";

/// How far an import is.
pub struct Place {
    /// None where nothing is written.
    path: Option<PathBuf>,
    /// What is imported, whereto and how: the place of another import must not be believed.
    about: Json,
    after: Option<String>,
    rows: u64,
}

impl Place {
    pub fn open(args: &VolttronHistoryArgs, survey: &Survey) -> Result<Self> {
        let tables = &survey.tables;
        let to = match &args.data {
            Some(_) if args.dry_run => String::new(),
            Some(folder) => fs::canonicalize(folder).unwrap_or_else(|_| folder.clone()).display().to_string(),
            None if args.dry_run => String::new(),
            None => who::http_target(&args.node)?.address,
        };
        let about =
            json!({ "from": source(&args.from), "tables": [tables.data, tables.topics], "to": to, "map": args.map });
        // In the folder it goes where the history goes.
        let usual = || args.data.as_deref().unwrap_or(Path::new("")).join(FILE);
        let path = (!args.dry_run).then(|| args.state.clone().unwrap_or_else(usual));
        let mut place = Self { path, about, after: None, rows: 0 };
        if let Some(path) = place.path.as_deref().filter(|_| !args.restart) {
            let path = path.to_path_buf();
            place.read(&path)?;
        }
        Ok(place)
    }

    fn read(&mut self, path: &Path) -> Result<()> {
        let named = || path.display().to_string();
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            text => text.with_context(named)?,
        };
        let state: Json = serde_json::from_str(&text).unwrap_or_default();
        if state.get("about") != Some(&self.about) {
            bail!(
                "{} is not of this import, expected another file with --state, or --restart to begin again",
                path.display()
            );
        }
        self.after = state.get("after").and_then(Json::as_str).map(str::to_owned);
        self.rows = state.get("rows").and_then(Json::as_u64).unwrap_or_default();
        Ok(())
    }

    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// Values before the place.
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Writes a page's end; the end of all is the place before the last page, so that what comes later is found.
    pub fn move_on(&mut self, next: Option<&str>, rows: u64) -> Result<()> {
        let before = self.rows;
        self.rows += rows;
        let Some(next) = next else { return Ok(()) };
        self.after = Some(next.to_owned());
        let Some(path) = &self.path else { return Ok(()) };
        let state = json!({ "about": self.about, "after": self.after, "rows": before + rows });
        let write = || {
            let part = path.with_extension("part");
            let mut file = File::create(&part)?;
            writeln!(file, "{state}")?;
            file.sync_all()?;
            fs::rename(&part, path)
        };
        write().with_context(|| path.display().to_string())
    }
}

/// The source without a password.
fn source(from: &str) -> String {
    match from.split_once("://").and_then(|(scheme, rest)| rest.rsplit_once('@').map(|(_, host)| (scheme, host))) {
        Some((scheme, host)) => format!("{scheme}://{host}"),
        None => fs::canonicalize(from).map_or_else(|_| from.to_owned(), |path| path.display().to_string()),
    }
}
