//! `[history.database.NAME]`: other people's databases that history is written to.

use super::parse;
use super::reader::{Document, Expected, Section};
use super::settings::{
    HISTORY_DATABASE_BATCH_ROWS, HISTORY_DATABASE_EVERY, HISTORY_DATABASE_INDEX, HISTORY_DATABASE_TIMEOUT,
    HISTORY_DATABASE_TLS,
};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tieline_core::Filter;
use tieline_databases::{Credentials, HAS_MARIADB, HAS_POSTGRES, Index};
use toml::de::DeValue;

/// Databases of one node.
const DATABASES_MAX: usize = 16;
/// Characters of a name.
const NAME_CHARS: usize = 64;
/// The port of PostgreSQL, of MariaDB.
const POSTGRES_PORT: u16 = 5432;
const MARIADB_PORT: u16 = 3306;

/// A database and what is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseConfig {
    /// The key of its table.
    pub name: String,
    /// What it is and how it is reached.
    pub server: DatabaseServer,
    /// The topics whose samples go there.
    pub topics: Vec<Filter>,
    /// Samples of one batch.
    pub batch_rows: usize,
    /// How long samples are collected for a batch that is not full.
    pub every: Duration,
    /// The longest time for a batch.
    pub timeout: Duration,
}

/// What a database is and how it is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseServer {
    /// PostgreSQL, or what speaks its protocol.
    Postgres {
        /// Where it is and who writes.
        access: ServerAccess,
        /// The schema of all tables.
        schema: String,
        /// The index on samples.
        index: Index,
    },
    /// MariaDB or MySQL.
    Mariadb {
        /// Which product: the word of `kind`.
        kind: &'static str,
        /// Where it is and who writes.
        access: ServerAccess,
    },
    /// Line protocol over HTTP.
    Line {
        /// Which product: the word of `kind`.
        kind: &'static str,
        /// The whole address of writes.
        url: String,
        /// Who writes.
        credentials: Option<Credentials>,
        /// The measurement of all samples.
        measurement: String,
    },
}

/// Where a database with tables is, and who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAccess {
    /// Hosts and ports; the first is used that can be written to.
    pub hosts: Vec<(String, u16)>,
    /// Who writes.
    pub user: String,
    /// The file of the password.
    pub password_file: Option<PathBuf>,
    /// The database's name.
    pub database: String,
    /// TLS, and the file of the authorities that are trusted; none of the latter are those of the machine.
    pub tls: Option<Option<PathBuf>>,
}

impl DatabaseServer {
    /// The word of `kind`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Postgres { .. } => POSTGRESQL,
            Self::Mariadb { kind, .. } | Self::Line { kind, .. } => kind,
        }
    }
}

const POSTGRESQL: &str = "postgresql";
const MARIADB: &str = "mariadb";
const MYSQL: &str = "mysql";
const KINDS: [(&str, &str); 5] =
    [(POSTGRESQL, POSTGRESQL), (MARIADB, MARIADB), (MYSQL, MYSQL), ("influxdb", "influxdb"), (VICTORIA, VICTORIA)];
/// The product that has no texts.
pub const VICTORIA: &str = "victoriametrics";

/// Reads all `[history.database.NAME]`. Files are found beside `folder`.
pub fn read_databases(mut all: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Vec<DatabaseConfig> {
    let sections = all.sections(doc);
    if let Some((_, section)) = sections.get(DATABASES_MAX) {
        let found = format!("{} databases", sections.len());
        doc.report(section.at(), "history.database", found, format!("{DATABASES_MAX} at most"));
    }
    sections.into_iter().filter_map(|(name, section)| read_database(name, section, doc, folder)).collect()
}

fn read_database(name: String, mut s: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<DatabaseConfig> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > NAME_CHARS || !name.chars().all(is_name) {
        let expected = format!("a name of 1 to {NAME_CHARS} letters, digits, - and _: it is the name of files");
        doc.report(s.at(), "history.database", format!("{name:?}"), expected);
    }
    let kinds = "\"postgresql\", \"mariadb\", \"mysql\", \"influxdb\" or \"victoriametrics\"";
    let kind = s.required(doc, "kind", kinds, parse::word(&KINDS));
    let server = match kind {
        Some(POSTGRESQL) => read_postgres(&mut s, doc, folder),
        Some(kind @ (MARIADB | MYSQL)) => read_mariadb(&mut s, doc, folder, kind),
        Some(kind) => read_line(&mut s, doc, folder, kind),
        None => None,
    };
    let topics = s.or(doc, "topics", Filter::new("#").into_iter().collect(), parse::filters);
    let batch_rows = HISTORY_DATABASE_BATCH_ROWS.read_size(&mut s, doc);
    let every = HISTORY_DATABASE_EVERY.read(&mut s, doc);
    let timeout = HISTORY_DATABASE_TIMEOUT.read(&mut s, doc);
    if server.is_some() || kind.is_some() {
        s.finish(doc);
    }
    Some(DatabaseConfig { name, server: server?, topics, batch_rows, every, timeout })
}

fn read_postgres(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<DatabaseServer> {
    if !HAS_POSTGRES {
        let found = "\"postgresql\", which this binary was built without".to_owned();
        doc.report(s.value_at("kind"), &s.key("kind"), found, "a binary with the feature postgres".to_owned());
    }
    let schema = s.or(doc, "schema", "tieline".to_owned(), parse::text);
    let index = HISTORY_DATABASE_INDEX.read(s, doc, [Index::Btree, Index::Brin, Index::None]);
    let access = read_access(s, doc, folder, POSTGRES_PORT)?;
    Some(DatabaseServer::Postgres { access, schema, index })
}

fn read_mariadb(
    s: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    kind: &'static str,
) -> Option<DatabaseServer> {
    if !HAS_MARIADB {
        let found = format!("{kind:?}, which this binary was built without");
        doc.report(s.value_at("kind"), &s.key("kind"), found, "a binary with the feature mariadb".to_owned());
    }
    Some(DatabaseServer::Mariadb { kind, access: read_access(s, doc, folder, MARIADB_PORT)? })
}

fn read_access(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, port: u16) -> Option<ServerAccess> {
    let hosts = s.required(doc, "hosts", HOSTS, |value| read_hosts(value, port));
    let user = s.required(doc, "user", "the name of a user of the database", parse::text);
    let password_file = s.optional(doc, "password_file", parse::text).map(|file| folder.join(file));
    let database = s.required(doc, "database", "the name of the database", parse::text);
    let is_tls = HISTORY_DATABASE_TLS.read(s, doc);
    let authorities = s.optional(doc, "authorities", parse::text).map(|file| folder.join(file));
    if authorities.is_some() && !is_tls {
        let found = "a file of authorities without TLS".to_owned();
        doc.report(s.value_at("authorities"), &s.key("authorities"), found, "tls = true beside it".to_owned());
    }
    let tls = is_tls.then_some(authorities);
    let (hosts, user, database) = (hosts?, user?, database?);
    Some(ServerAccess { hosts, user, password_file, database, tls })
}

fn read_line(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, kind: &'static str) -> Option<DatabaseServer> {
    let url = s.required(doc, "url", URL, |value| {
        let url = value.as_str().filter(|text| text.strip_prefix("http://").is_some_and(|rest| !rest.is_empty()));
        url.map(str::to_owned).ok_or_else(|| URL.to_owned())
    });
    let user = s.optional(doc, "user", parse::text);
    let file = s.optional(doc, "password_file", parse::text).map(|file| folder.join(file));
    if user.is_some() && file.is_none() {
        let found = "a user without a password".to_owned();
        doc.report(s.value_at("user"), &s.key("user"), found, "password_file beside it".to_owned());
    }
    let credentials = file.map(|file| Credentials { user, file });
    let measurement = s.or(doc, "measurement", "tieline".to_owned(), parse::text);
    Some(DatabaseServer::Line { kind, url: url?, credentials, measurement })
}

const HOSTS: &str = "hosts, each with a port or without, as in [\"db1.example:5432\", \"db2.example\"]";
const URL: &str = "the address of writes, as in \"http://10.1.2.3:8428/write\"; https needs a proxy that makes it";

fn read_hosts(value: &DeValue<'_>, usual_port: u16) -> Result<Vec<(String, u16)>, Expected> {
    let hosts = parse::texts(value).map_err(|_| HOSTS.to_owned())?;
    let host = |text: &String| {
        let has_port = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match has_port {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
            None => (text.as_str(), usual_port),
        };
        let host = host.trim_matches(['[', ']']);
        (!host.is_empty()).then(|| (host.to_owned(), port))
    };
    let hosts: Option<Vec<_>> = hosts.iter().map(host).collect();
    hosts.filter(|hosts| !hosts.is_empty()).ok_or_else(|| HOSTS.to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;

    fn read(text: &str) -> Result<Vec<DatabaseConfig>, String> {
        let text = format!("[history.database.plant]\n{text}");
        match from_text("t.toml", &text, Path::new("/etc/t")) {
            Ok(config) => Ok(config.history.databases),
            Err(error) => Err(error.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
        }
    }

    #[test]
    fn hosts_have_ports_or_the_usual_one() {
        let check = |text: &str, expect: &[(&str, u16)]| {
            let text = format!("kind='postgresql'\nhosts={text}\nuser='u'\ndatabase='d'\npassword_file='p'");
            if !HAS_POSTGRES {
                return;
            }
            match read(&text) {
                Ok(all) => {
                    let DatabaseServer::Postgres { access, .. } = &all[0].server else { panic!() };
                    let ServerAccess { hosts, password_file, tls, .. } = access;
                    let found: Vec<(&str, u16)> = hosts.iter().map(|(host, port)| (host.as_str(), *port)).collect();
                    assert_eq!((found.as_slice(), tls), (expect, &None));
                    assert_eq!(password_file.as_deref(), Some(Path::new("/etc/t/p")));
                }
                Err(error) => assert!(expect.is_empty(), "{error}"),
            }
        };
        check("['a']", &[("a", 5432)]);
        check(
            "['a:1', '10.0.0.1', '[::1]:7', '::1', '/run/postgresql']",
            &[("a", 1), ("10.0.0.1", 5432), ("::1", 7), ("::1", 5432), ("/run/postgresql", 5432)],
        );
        for wrong in ["[]", "['']", "['a:0']", "['a:x']", "[':1']", "'a'", "[1]"] {
            check(wrong, &[]);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let check = |text: &str, part: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("", "history.database.plant.kind");
        check("kind='mongodb'", "\"postgresql\" or \"mariadb\" or \"mysql\" or \"influxdb\" or \"victoriametrics\"");
        check("kind='mysql'\nhosts=['a']\nuser='u'", "history.database.plant.database");
        check("kind='mariadb'\nhosts=['a']\nuser='u'\ndatabase='d'\nindex='brin'", "history.database.plant.index");
        check("kind='mariadb'\nhosts=['a']\nuser='u'\ndatabase='d'\nschema='s'", "history.database.plant.schema");
        check("kind='influxdb'", "history.database.plant.url");
        check("kind='influxdb'\nurl='https://x/'", "https needs a proxy");
        check("kind='influxdb'\nurl='http://x/'\nuser='u'", "password_file beside it");
        check("kind='influxdb'\nurl='http://x/'\nhosts=['a']", "history.database.plant.hosts");
        check("kind='postgresql'\nhosts=['a']\nuser='u'", "history.database.plant.database");
        check("kind='postgresql'\nhosts=['a']\nuser='u'\ndatabase='d'\nauthorities='ca'", "tls = true beside it");
        if HAS_MARIADB {
            let all = read("kind='mysql'\nhosts=['a','b:1']\nuser='u'\ndatabase='d'\ntls=true").unwrap();
            let DatabaseServer::Mariadb { kind: MYSQL, access } = &all[0].server else { panic!() };
            assert_eq!((access.hosts[0].1, access.hosts[1].1, &access.tls), (MARIADB_PORT, 1, &Some(None)));
        }
        let line = read("kind='victoriametrics'\nurl='http://x:8428/write'\ntopics=['a/#']").unwrap();
        assert_eq!((line[0].server.kind(), line[0].topics.len(), line[0].batch_rows), (VICTORIA, 1, 20_000));
    }
}
