//! Servers of databases, each in a folder of its own, reached by a Unix socket or a free port, and ended with the measurement.

use super::Kind;
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_databases::{Database, Line, LineOptions};

/// The database of the collections.
const MONGO_DATABASE: &str = "plant";
/// How long a server may take to start.
const START: Duration = Duration::from_secs(60);
/// Where Debian has programs that are not in the path of everybody.
const FOLDERS: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// A server that runs.
pub(in crate::history) struct Server {
    kind: Kind,
    pub(super) folder: TempDir,
    /// The programs of PostgreSQL.
    programs: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    /// None where it is not installed, or this binary has no client of it.
    pub(in crate::history) fn start(kind: Kind) -> Result<Option<Self>> {
        let found = match kind {
            Kind::Postgres(_) if tieline_databases::HAS_POSTGRES => find_postgres(),
            Kind::Mariadb if tieline_databases::HAS_MARIADB => find("mariadbd"),
            Kind::Victoria => find("victoria-metrics"),
            Kind::Mongo if tieline_databases::HAS_MONGODB => find("ferretdb"),
            Kind::Postgres(_) | Kind::Mariadb | Kind::Mongo => None,
        };
        let Some(program) = found else { return Ok(None) };
        let programs = program.parent().unwrap_or(Path::new("/")).to_owned();
        let folder = TempDir::new().context("a folder for the server")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = match kind {
            Kind::Postgres(_) => postgres(&programs, folder.path())?,
            Kind::Mariadb => mariadb(&program, folder.path())?,
            Kind::Victoria => {
                let mut command = Command::new(&program);
                command.arg(format!("-storageDataPath={}/data", folder.path().display()));
                command.args([&format!("-httpListenAddr=127.0.0.1:{port}"), "-retentionPeriod=100y"]);
                command
            }
            Kind::Mongo => ferretdb(&program, folder.path(), port)?,
        };
        let log = File::create(folder.path().join("log"))?;
        command.stdout(log.try_clone()?).stderr(log).stdin(Stdio::null());
        let child = command.spawn().with_context(|| format!("{}", program.display()))?;
        let mut server = Self { kind, folder, programs, port, child };
        let began = Instant::now();
        while !server.answers() {
            let log = fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
            ensure!(server.child.try_wait()?.is_none() && began.elapsed() < START, "it does not answer: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(server))
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    fn answers(&self) -> bool {
        match self.kind {
            Kind::Postgres(_) | Kind::Mariadb => self.sql("select 1").is_ok(),
            Kind::Victoria => self.get("/health").is_ok(),
            Kind::Mongo => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        }
    }

    /// What writes to a part of its own, with tables that are made when it connects.
    pub(super) fn database(&self, name: &str, folder: &Path) -> Result<Box<dyn Database>> {
        let timeout = super::PATIENCE;
        match self.kind {
            Kind::Postgres(index) => self.postgres(name, index, timeout),
            Kind::Mariadb => self.mariadb(name, timeout),
            Kind::Mongo => self.mongo(name, timeout),
            Kind::Victoria => {
                let (url, position) = (self.url("/write"), folder.join("position"));
                let measurement = name.to_owned();
                let options = LineOptions { url, credentials: None, measurement, texts: false, timeout, position };
                Ok(Box::new(Line::new(options)))
            }
        }
    }

    #[cfg(feature = "postgres")]
    fn postgres(&self, name: &str, index: tieline_databases::Index, timeout: Duration) -> Result<Box<dyn Database>> {
        use tieline_databases::{Postgres, PostgresOptions};
        let (hosts, user) = (vec![(self.folder.path().display().to_string(), 5432)], "tieline".to_owned());
        let (database, schema) = ("postgres".to_owned(), name.to_owned());
        let options = PostgresOptions { hosts, user, password_file: None, database, schema, index, timeout, tls: None };
        Ok(Box::new(Postgres::new(options)))
    }

    #[cfg(not(feature = "postgres"))]
    fn postgres(&self, _: &str, _: tieline_databases::Index, _: Duration) -> Result<Box<dyn Database>> {
        bail!("this binary has no client of PostgreSQL")
    }

    #[cfg(feature = "mariadb")]
    fn mariadb(&self, name: &str, timeout: Duration) -> Result<Box<dyn Database>> {
        use tieline_databases::{Mariadb, MariadbOptions};
        self.sql(&format!("create database {name}"))?;
        let (hosts, user) = (vec![(self.socket().display().to_string(), 0)], "root".to_owned());
        let options =
            MariadbOptions { hosts, user, password_file: None, database: name.to_owned(), timeout, tls: None };
        Ok(Box::new(Mariadb::new(options)))
    }

    #[cfg(not(feature = "mariadb"))]
    fn mariadb(&self, _: &str, _: Duration) -> Result<Box<dyn Database>> {
        bail!("this binary has no client of MariaDB")
    }

    #[cfg(feature = "mongodb")]
    fn mongo(&self, name: &str, timeout: Duration) -> Result<Box<dyn Database>> {
        use tieline_databases::{Mongo, MongoOptions};
        let (hosts, collection) = (vec![("127.0.0.1".to_owned(), self.port)], name.to_owned());
        let (auth_database, database) = ("admin".to_owned(), MONGO_DATABASE.to_owned());
        let (user, password_file, tls) = (None, None, None);
        let options = MongoOptions { hosts, user, password_file, auth_database, database, collection, timeout, tls };
        Ok(Box::new(Mongo::new(options)))
    }

    #[cfg(not(feature = "mongodb"))]
    fn mongo(&self, _: &str, _: Duration) -> Result<Box<dyn Database>> {
        bail!("this binary does not speak MongoDB's protocol")
    }

    /// Sees to it that all rows are in a part. VictoriaMetrics shows them a while after it took them.
    pub(super) fn check(&self, name: &str, rows: usize) -> Result<()> {
        let began = Instant::now();
        loop {
            let found = self.count(name)?;
            if found == rows as u64 {
                return Ok(());
            }
            ensure!(self.kind == Kind::Victoria && began.elapsed() < START, "{found} of {rows} rows are there");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn count(&self, name: &str) -> Result<u64> {
        let count = match self.kind {
            Kind::Postgres(_) | Kind::Mariadb => self.sql(&format!("select count(*) from {name}.samples"))?,
            Kind::Victoria => {
                self.get("/internal/force_flush")?;
                let query = format!("/api/v1/export?match[]={name}_value");
                let found = self.get(&query)?;
                let of_line =
                    |line: &str| line.split_once("\"timestamps\":[").map_or(0, |(_, times)| times.split(',').count());
                found.lines().map(of_line).sum::<usize>().to_string()
            }
            Kind::Mongo => self.ferretdb_samples(name)?.to_string(),
        };
        count.trim().parse().with_context(|| format!("{count:?} is no count"))
    }

    /// The samples in the documents of a collection, from the file in which FerretDB has them.
    fn ferretdb_samples(&self, collection: &str) -> Result<u64> {
        let file = self.folder.path().join(format!("data/{MONGO_DATABASE}.sqlite"));
        let index = rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let table = "select table_name from _ferretdb_collections where name = ?";
        let table: String = index.query_row(table, [collection], |row| row.get(0))?;
        let count = format!("select coalesce(sum(json_array_length(_ferretdb_sjson, '$.t')), 0) from \"{table}\"");
        Ok(index.query_row(&count, [], |row| row.get::<_, i64>(0))?.unsigned_abs())
    }

    /// Writes to the disk what waits for it, so that it is not charged to what follows.
    pub(super) fn settle(&self) -> Result<()> {
        match self.kind {
            Kind::Postgres(_) => drop(self.sql("checkpoint")?),
            Kind::Mariadb | Kind::Victoria | Kind::Mongo => rustix::fs::sync(),
        }
        Ok(())
    }

    /// Removes a part.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        match self.kind {
            Kind::Postgres(_) => drop(self.sql(&format!("drop schema {name} cascade"))?),
            Kind::Mariadb => drop(self.sql(&format!("drop database {name}"))?),
            Kind::Victoria | Kind::Mongo => {}
        }
        Ok(())
    }

    /// The database's own client, with what it needs to get in.
    pub(super) fn client(&self) -> Command {
        match self.kind {
            Kind::Postgres(_) | Kind::Victoria | Kind::Mongo => {
                let mut command = Command::new(self.programs.join("psql"));
                command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "tieline", "-d", "postgres"]);
                command.arg("-h").arg(self.folder.path());
                command
            }
            Kind::Mariadb => {
                let mut command = Command::new("mariadb");
                command.args(["--no-defaults", "--local-infile=1", "-N", "--batch", "-u", "root"]);
                command.arg(format!("--socket={}", self.socket().display()));
                command
            }
        }
    }

    /// Runs a statement, and gives what came back.
    pub(super) fn sql(&self, statement: &str) -> Result<String> {
        let mut client = self.client();
        client.arg(if self.kind == Kind::Mariadb { "-e" } else { "-c" }).arg(statement);
        run(client)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub(in crate::history) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Bytes of its files, once it was stopped and has written all.
    pub(in crate::history) fn disk_bytes(mut self) -> Result<u64> {
        fn below(folder: &Path) -> Result<u64> {
            let mut bytes = 0;
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                bytes += if entry.file_type()?.is_dir() { below(&entry.path())? } else { entry.metadata()?.len() };
            }
            Ok(bytes)
        }
        let process = Pid::from_raw(i32::try_from(self.child.id())?).context("the server's process")?;
        rustix::process::kill_process(process, Signal::TERM)?;
        self.child.wait()?;
        below(&self.folder.path().join("data"))
    }

    pub(in crate::history) fn get(&self, path: &str) -> Result<String> {
        let mut answer = ureq::get(self.url(path)).call()?;
        Ok(answer.body_mut().with_config().limit(1 << 30).read_to_string()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn postgres(programs: &Path, folder: &Path) -> Result<Command> {
    let data = folder.join("data");
    let mut make = as_user("postgres", &programs.join("initdb"), folder)?;
    make.arg("-D").arg(&data).args(["-U", "tieline", "-A", "trust", "-E", "UTF8"]);
    run(make)?;
    let mut command = as_user("postgres", &programs.join("postgres"), folder)?;
    command.arg("-D").arg(&data).arg("-k").arg(folder).args(["-h", "", "-c", "max_wal_size=16GB"]);
    command.args(["-c", "checkpoint_timeout=1h", "-c", "shared_buffers=512MB"]);
    Ok(command)
}

fn mariadb(program: &Path, folder: &Path) -> Result<Command> {
    let data = format!("--datadir={}/data", folder.display());
    let user = if is_root() { Some("--user=mysql") } else { None };
    let sizes = ["--innodb-buffer-pool-size=512M", "--innodb-log-file-size=1G"];
    let mut make = as_user("mysql", Path::new("mariadb-install-db"), folder)?;
    make.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
    make.args(user).args(sizes);
    run(make)?;
    let mut command = Command::new(program);
    command.args(["--no-defaults", &data, "--skip-networking"]).args(user).args(sizes);
    command.arg(format!("--socket={}/socket", folder.display()));
    command.arg(format!("--pid-file={}/pid", folder.display()));
    Ok(command)
}

fn ferretdb(program: &Path, folder: &Path, port: u16) -> Result<Command> {
    let data = folder.join("data");
    fs::create_dir(&data)?;
    let mut command = Command::new(program);
    command.args(["--handler=sqlite", "--debug-addr=-", "--telemetry=disable", "--log-level=warn"]);
    command.arg(format!("--sqlite-url=file:{}/", data.display())).arg(format!("--state-dir={}", folder.display()));
    command.arg(format!("--listen-addr=127.0.0.1:{port}"));
    Ok(command)
}

/// These servers do not run as root: then the folder is given to their user, and the program runs as it.
fn as_user(user: &str, program: &Path, folder: &Path) -> Result<Command> {
    if !is_root() {
        return Ok(Command::new(program));
    }
    let users = fs::read_to_string("/etc/passwd")?;
    let of_user = |line: &str| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(user);
        let mut ids = fields.skip(1).map(|id| id.parse().ok());
        is_it.then(|| Some((ids.next()??, ids.next()??)))?
    };
    let (uid, gid): (u32, u32) = users.lines().find_map(of_user).with_context(|| format!("there is no user {user}"))?;
    chown(folder, Some(uid), Some(gid))?;
    let mut command = Command::new("setpriv");
    command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]).arg(program);
    command.current_dir("/");
    Ok(command)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs a program to its end, and gives its output.
pub(super) fn run(mut command: Command) -> Result<String> {
    let done = command.stdin(Stdio::null()).output().with_context(|| format!("{command:?}"))?;
    if !done.status.success() {
        bail!("{command:?} ended with {}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(FOLDERS.iter().map(PathBuf::from));
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// The newest server: Debian has each version in a folder of its own.
fn find_postgres() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let number = |folder: &Path| folder.file_name().and_then(OsStr::to_str).and_then(|name| name.parse::<u32>().ok());
    let newest = versions.map(|entry| entry.path()).max_by_key(|folder| number(folder));
    newest.map(|folder| folder.join("bin/postgres")).filter(|file| file.is_file()).or_else(|| find("postgres"))
}
