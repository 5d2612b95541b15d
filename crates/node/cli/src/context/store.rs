//! The file of contexts: which nodes there are, and as whom they are asked. It holds no password and no token, only
//! where they are, and nobody but its owner may read it.

use anyhow::{Context as _, Result, anyhow, bail};
use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table, value};

/// Contexts of one file.
const CONTEXTS_MAX: usize = 1000;
/// Bytes of the file.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How one node is reached, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    /// Its HTTP address.
    pub http: Option<String>,
    /// Its MQTT address.
    pub mqtt: Option<String>,
    /// The user's name.
    pub user: Option<String>,
    /// File with the password or a token.
    pub password_file: Option<PathBuf>,
    /// Certificates to trust.
    pub ca: Option<PathBuf>,
    /// Certificate to show.
    pub cert: Option<PathBuf>,
    /// Its private key.
    pub key: Option<PathBuf>,
}

impl Context {
    /// What it has, by the names of the file.
    pub fn members(&self) -> impl Iterator<Item = (&'static str, String)> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let all = [
            ("http", self.http.clone()),
            ("mqtt", self.mqtt.clone()),
            ("user", self.user.clone()),
            ("password_file", path(&self.password_file)),
            ("ca", path(&self.ca)),
            ("cert", path(&self.cert)),
            ("key", path(&self.key)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }

    fn set(&mut self, name: &str, text: &str) -> bool {
        let (text, path) = (Some(text.to_owned()), Some(PathBuf::from(text)));
        match name {
            "http" => self.http = text,
            "mqtt" => self.mqtt = text,
            "user" => self.user = text,
            "password_file" => self.password_file = path,
            "ca" => self.ca = path,
            "cert" => self.cert = path,
            "key" => self.key = path,
            _ => return false,
        }
        true
    }
}

/// All contexts, and the one in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Store {
    /// The one in use.
    pub current: Option<String>,
    /// All, by name.
    pub contexts: BTreeMap<String, Context>,
}

impl Store {
    /// Reads the user's file; there are no contexts where there is none.
    pub fn load() -> Result<Self> {
        let Some(file) = path(&crate::who::variable) else { return Ok(Self::default()) };
        let read = || -> Result<Self> {
            if std::fs::metadata(&file)?.len() > FILE_BYTES_MAX {
                bail!("more than {FILE_BYTES_MAX} bytes");
            }
            Self::read(&std::fs::read_to_string(&file)?)
        };
        match read() {
            Err(error) if is_missing(&error) => Ok(Self::default()),
            other => other.with_context(|| format!("the contexts in {} cannot be used", file.display())),
        }
    }

    /// Writes the user's file, whole or not at all.
    pub fn save(&self) -> Result<PathBuf> {
        let file = path(&crate::who::variable).ok_or_else(|| anyhow!("neither XDG_CONFIG_HOME nor HOME is set"))?;
        self.save_as(&file).with_context(|| format!("{} cannot be written", file.display()))?;
        Ok(file)
    }

    fn save_as(&self, file: &Path) -> Result<()> {
        save_private(file, &self.write())
    }

    /// Reads the text of a file.
    pub fn read(text: &str) -> Result<Self> {
        let document: DocumentMut = text.parse()?;
        let mut store = Self::default();
        for (name, item) in document.iter() {
            match (name, item) {
                ("current", item) => {
                    store.current = Some(item.as_str().ok_or_else(|| anyhow!("current is no text"))?.to_owned());
                }
                ("context", Item::Table(all)) => {
                    for (name, item) in all {
                        let context = read_one(item).with_context(|| format!("context.{name}"))?;
                        store.contexts.insert(name.to_owned(), context);
                    }
                }
                (other, _) => bail!("the key {other:?} is unknown, expected current or context"),
            }
        }
        Ok(store)
    }

    fn write(&self) -> String {
        let mut document = DocumentMut::new();
        if let Some(current) = &self.current {
            document["current"] = value(current);
        }
        let mut all = Table::new();
        all.set_implicit(true);
        for (name, context) in &self.contexts {
            let members = context.members().map(|(name, text)| (name, value(text)));
            all.insert(name, Item::Table(members.collect()));
        }
        document.insert("context", Item::Table(all));
        document.to_string()
    }

    /// The context of a flag, of the environment, or in use.
    pub fn chosen(&self, flag: Option<&str>, environment: Option<&str>) -> Result<Option<(String, Context)>> {
        let Some(name) = flag.or(environment).or(self.current.as_deref()) else { return Ok(None) };
        Ok(Some((name.to_owned(), self.get(name)?.clone())))
    }

    /// One by its name.
    pub fn get(&self, name: &str) -> Result<&Context> {
        self.contexts.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.contexts.keys().map(String::as_str).collect();
            let expected = match names[..] {
                [] => "tieline context add makes one".to_owned(),
                _ => format!("expected one of {}", names.join(", ")),
            };
            anyhow!("there is no context {name:?}, {expected}")
        })
    }

    /// Adds one.
    pub fn add(&mut self, name: &str, context: Context, replace: bool) -> Result<()> {
        let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(legal) {
            bail!("the name is {name:?}, expected 1 to 64 letters, digits, -, _ and .");
        }
        if !replace && self.contexts.contains_key(name) {
            bail!("there is a context {name:?} already, expected another name, or --replace");
        }
        if self.contexts.len() >= CONTEXTS_MAX && !self.contexts.contains_key(name) {
            bail!("there are {CONTEXTS_MAX} contexts, which is the limit");
        }
        self.contexts.insert(name.to_owned(), context);
        Ok(())
    }
}

/// Writes a file that nobody but its owner may read, whole or not at all.
pub fn save_private(file: &Path, text: &str) -> Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // A temporary file is its owner's alone, and stays so.
    let mut written = tempfile::NamedTempFile::new_in(folder)?;
    written.write_all(text.as_bytes())?;
    written.as_file().sync_all()?;
    written.persist(file)?;
    Ok(())
}

fn read_one(item: &Item) -> Result<Context> {
    let table = item.as_table_like().ok_or_else(|| anyhow!("found no table, expected http, mqtt, user, …"))?;
    let mut context = Context::default();
    for (name, item) in table.iter() {
        let text = item.as_str().ok_or_else(|| anyhow!("{name} is no text"))?;
        if !context.set(name, text) {
            bail!("the key {name:?} is unknown, expected http, mqtt, user, password_file, ca, cert or key");
        }
    }
    Ok(context)
}

fn is_missing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

/// Where the user's contexts are.
pub fn path(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".config"));
    // The XDG base directory specification: a relative path is ignored.
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute()).or_else(home)?;
    Some(folder.join("tieline").join("contexts.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn site() -> Context {
        let http = Some("https://site.example:8443".to_owned());
        Context { http, user: Some("anna".to_owned()), ca: Some("/etc/ca.pem".into()), ..Context::default() }
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_is_its_owners() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deep").join("contexts.toml");
        let mut store = Store { current: Some("a.b".to_owned()), ..Store::default() };
        store.add("a.b", site(), false).unwrap();
        store.add("other", Context::default(), false).unwrap();
        for _ in 0..2 {
            store.save_as(&file).unwrap();
            assert_eq!(Store::read(&std::fs::read_to_string(&file).unwrap()).unwrap(), store);
            let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
        }
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn wrong_files_and_names_are_refused() {
        let check = |text: &str, expect: &str| {
            let told = format!("{:#}", Store::read(text).unwrap_err());
            assert!(told.contains(expect), "{told}");
        };
        check("currant = 'a'", "the key \"currant\" is unknown, expected current or context");
        check("[context.a]\nhttps = 'x'", "context.a: the key \"https\" is unknown, expected http, mqtt, user");
        check("[context.a]\nuser = 5", "context.a: user is no text");
        check("context.a = 5", "context.a: found no table");
        let mut store = Store::default();
        store.add("a", site(), false).unwrap();
        let twice = store.add("a", site(), false).unwrap_err().to_string();
        assert_eq!(twice, "there is a context \"a\" already, expected another name, or --replace");
        store.add("a", Context::default(), true).unwrap();
        for wrong in ["", "a b", "ä", "a/b"] {
            assert!(store.add(wrong, site(), false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_file_is_where_xdg_says() {
        let of = |xdg: Option<&str>| {
            path(&|name| match name {
                "HOME" => Some("/people/anna".to_owned()),
                _ => xdg.map(str::to_owned),
            })
        };
        assert_eq!(of(None), Some("/people/anna/.config/tieline/contexts.toml".into()));
        assert_eq!(of(Some("/x")), Some("/x/tieline/contexts.toml".into()));
        assert_eq!(of(Some("relative")), Some("/people/anna/.config/tieline/contexts.toml".into()));
        assert_eq!(path(&|_| None), None);
    }
}
