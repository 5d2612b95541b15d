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
use tieline_databases::{
    BATCH_ROWS, BATCH_ROWS_MONGODB, Credentials, HAS_MARIADB, HAS_MONGODB, HAS_POSTGRES, HAS_REMOTE_WRITE, Index,
};
use toml::de::DeValue;

/// Databases of one node.
const DATABASES_MAX: usize = 16;
/// Characters of a name.
const NAME_CHARS: usize = 64;
/// The port of PostgreSQL, of MariaDB.
const POSTGRES_PORT: u16 = 5432;
const MARIADB_PORT: u16 = 3306;
/// The port of MongoDB.
const MONGO_PORT: u16 = 27017;

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
    /// MongoDB, or what speaks its protocol.
    Mongo {
        /// Hosts and ports; the first is used that takes writes.
        hosts: Vec<(String, u16)>,
        /// Who writes.
        user: Option<String>,
        /// The file of the password.
        password_file: Option<PathBuf>,
        /// The database that has the user.
        auth_database: String,
        /// The database's name.
        database: String,
        /// The collection of samples.
        collection: String,
        /// TLS, and the file of the authorities that are trusted; none of the latter are those of the machine.
        tls: Option<Option<PathBuf>>,
    },
    /// Prometheus remote write.
    RemoteWrite {
        /// The whole address of writes.
        url: String,
        /// Who writes.
        credentials: Option<Credentials>,
        /// More headers of each request.
        headers: Vec<(String, String)>,
        /// The name of the metric.
        metric: String,
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
            Self::Mongo { .. } => MONGODB,
            Self::RemoteWrite { .. } => REMOTE_WRITE,
        }
    }
}

const KIND_WORDS: &str =
    "\"postgresql\", \"mariadb\", \"mysql\", \"influxdb\", \"victoriametrics\", \"remotewrite\" or \"mongodb\"";
const POSTGRESQL: &str = "postgresql";
const MARIADB: &str = "mariadb";
const MYSQL: &str = "mysql";
const REMOTE_WRITE: &str = "remotewrite";
const MONGODB: &str = "mongodb";
const KINDS: [(&str, &str); 7] = [
    (POSTGRESQL, POSTGRESQL),
    (MARIADB, MARIADB),
    (MYSQL, MYSQL),
    ("influxdb", "influxdb"),
    (VICTORIA, VICTORIA),
    (REMOTE_WRITE, REMOTE_WRITE),
    (MONGODB, MONGODB),
];
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
    let kind = s.required(doc, "kind", KIND_WORDS, parse::word(&KINDS));
    let server = match kind {
        Some(POSTGRESQL) => read_postgres(&mut s, doc, folder),
        Some(kind @ (MARIADB | MYSQL)) => read_mariadb(&mut s, doc, folder, kind),
        Some(MONGODB) => read_mongo(&mut s, doc, folder),
        Some(REMOTE_WRITE) => read_remote_write(&mut s, doc, folder),
        Some(kind) => read_line(&mut s, doc, folder, kind),
        None => None,
    };
    let topics = s.or(doc, "topics", Filter::new("#").into_iter().collect(), parse::filters);
    let batch_rows = HISTORY_DATABASE_BATCH_ROWS.optional_size(&mut s, doc);
    let batch_rows = batch_rows.unwrap_or(if kind == Some(MONGODB) { BATCH_ROWS_MONGODB } else { BATCH_ROWS });
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
    let tls = read_tls(s, doc, folder);
    let (hosts, user, database) = (hosts?, user?, database?);
    Some(ServerAccess { hosts, user, password_file, database, tls })
}

fn read_mongo(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<DatabaseServer> {
    if !HAS_MONGODB {
        let found = "\"mongodb\", which this binary was built without".to_owned();
        doc.report(s.value_at("kind"), &s.key("kind"), found, "a binary with the feature mongodb".to_owned());
    }
    let hosts = s.required(doc, "hosts", HOSTS, |value| read_hosts(value, MONGO_PORT));
    let credentials = read_credentials(s, doc, folder);
    if let Some(Credentials { user: None, .. }) = credentials {
        let found = "a password without a user".to_owned();
        doc.report(s.value_at("password_file"), &s.key("password_file"), found, "user beside it".to_owned());
    }
    let auth_database = s.or(doc, "auth_database", "admin".to_owned(), parse::text);
    let database = s.required(doc, "database", "the name of the database", parse::text);
    let collection = s.or(doc, "collection", "tieline".to_owned(), parse::text);
    let tls = read_tls(s, doc, folder);
    let (user, password_file) = credentials.map_or((None, None), |found| (found.user, Some(found.file)));
    let (hosts, database) = (hosts?, database?);
    Some(DatabaseServer::Mongo { hosts, user, password_file, auth_database, database, collection, tls })
}

fn read_tls(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Option<PathBuf>> {
    let is_tls = HISTORY_DATABASE_TLS.read(s, doc);
    let authorities = s.optional(doc, "authorities", parse::text).map(|file| folder.join(file));
    if authorities.is_some() && !is_tls {
        let found = "a file of authorities without TLS".to_owned();
        doc.report(s.value_at("authorities"), &s.key("authorities"), found, "tls = true beside it".to_owned());
    }
    is_tls.then_some(authorities)
}

fn read_line(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path, kind: &'static str) -> Option<DatabaseServer> {
    let url = read_url(s, doc);
    let credentials = read_credentials(s, doc, folder);
    let measurement = s.or(doc, "measurement", "tieline".to_owned(), parse::text);
    Some(DatabaseServer::Line { kind, url: url?, credentials, measurement })
}

fn read_remote_write(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<DatabaseServer> {
    if !HAS_REMOTE_WRITE {
        let found = "\"remotewrite\", which this binary was built without".to_owned();
        doc.report(s.value_at("kind"), &s.key("kind"), found, "a binary with the feature remotewrite".to_owned());
    }
    let url = read_url(s, doc);
    let credentials = read_credentials(s, doc, folder);
    let headers = s.each_text(doc, "headers", HEADERS, |text| read_header(text).ok_or_else(|| HEADERS.to_owned()));
    let metric = s.or(doc, "metric", "tieline_value".to_owned(), |value| {
        let is_first = |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | ':');
        let is_name =
            |text: &&str| text.starts_with(is_first) && text.chars().all(|c| is_first(c) || c.is_ascii_digit());
        let name = value.as_str().filter(is_name).map(str::to_owned);
        name.ok_or_else(|| "the name of a metric, of letters, digits, _ and :".to_owned())
    });
    Some(DatabaseServer::RemoteWrite { url: url?, credentials, headers, metric })
}

fn read_url(s: &mut Section<'_>, doc: &mut Document<'_>) -> Option<String> {
    s.required(doc, "url", URL, |value| {
        let url = value.as_str().filter(|text| text.strip_prefix("http://").is_some_and(|rest| !rest.is_empty()));
        url.map(str::to_owned).ok_or_else(|| URL.to_owned())
    })
}

fn read_credentials(s: &mut Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Option<Credentials> {
    let user = s.optional(doc, "user", parse::text);
    let file = s.optional(doc, "password_file", parse::text).map(|file| folder.join(file));
    if user.is_some() && file.is_none() {
        let found = "a user without a password".to_owned();
        doc.report(s.value_at("user"), &s.key("user"), found, "password_file beside it".to_owned());
    }
    file.map(|file| Credentials { user, file })
}

/// The name and the value of a header.
fn read_header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    let is_value = value.chars().all(|c| c == ' ' || c.is_ascii_graphic());
    (is_name && is_value).then(|| (name.to_owned(), value.to_owned()))
}

const HOSTS: &str = "hosts, each with a port or without, as in [\"db1.example:5432\", \"db2.example\"]";
const HEADERS: &str = "headers of requests, as in [\"X-Scope-OrgID: plant\"]";
const URL: &str = "the address of writes, as in \"http://10.1.2.3:8428/write\"; https needs a proxy that makes it";

fn read_hosts(value: &DeValue<'_>, usual: u16) -> Result<Vec<(String, u16)>, Expected> {
    let hosts = parse::texts(value).map_err(|_| HOSTS.to_owned())?;
    let host = |text: &String| {
        let has_port = text.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']'));
        let (host, port) = match has_port {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
            None => (text.as_str(), usual),
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
        check("kind='mysql'\nhosts=['a']\nuser='u'", "history.database.plant.database");
        check("kind='mariadb'\nhosts=['a']\nuser='u'\ndatabase='d'\nindex='brin'", "history.database.plant.index");
        check("kind='mariadb'\nhosts=['a']\nuser='u'\ndatabase='d'\nschema='s'", "history.database.plant.schema");
        check("kind='oracle'", "\"victoriametrics\" or \"remotewrite\" or \"mongodb\"");
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
        check("kind='remotewrite'\nurl='http://x/'\nmetric='a b'", "the name of a metric");
        for header in ["a", "a b: c", ": c", "a: \u{e9}"] {
            check(&format!("kind='remotewrite'\nurl='http://x/'\nheaders=['b: c', '{header}']"), "X-Scope-OrgID");
        }
        check("kind='mongodb'\nhosts=['a']\ndatabase='d'\npassword_file='p'", "user beside it");
        check("kind='mongodb'\nhosts=['a']", "history.database.plant.database");
        if HAS_MONGODB {
            let all = read("kind='mongodb'\nhosts=['a']\ndatabase='d'\nuser='u'\npassword_file='p'\ntls=true").unwrap();
            let DatabaseServer::Mongo { hosts, collection, tls, .. } = &all[0].server else { panic!() };
            assert_eq!((hosts[0].1, collection.as_str(), tls), (MONGO_PORT, "tieline", &Some(None)));
        }
        if HAS_REMOTE_WRITE {
            let all = read("kind='remotewrite'\nurl='http://x/w'\nheaders=['a: b c']").unwrap();
            let DatabaseServer::RemoteWrite { headers, metric, .. } = &all[0].server else { panic!() };
            assert_eq!(
                (headers.as_slice(), metric.as_str()),
                ([("a".to_owned(), "b c".to_owned())].as_slice(), "tieline_value")
            );
        }
        let line = read("kind='victoriametrics'\nurl='http://x:8428/write'\ntopics=['a/#']").unwrap();
        assert_eq!((line[0].server.kind(), line[0].topics.len(), line[0].batch_rows), (VICTORIA, 1, 20_000));
    }
}
