//! `--role`: what a node is among many, without a configuration file. Tables that the file has are used in place of these.

use super::args::{Role, RoleArgs, RunArgs};
use anyhow::{Context as _, Result, bail};
use std::path::Path;
use tieline_node::config::{Config, from_text};
use tieline_node::joining::FabricFiles;
use toml_edit::{Array, DocumentMut, Item, Table, value};

/// Where the server of a centre is that runs beside it.
const FABRIC: &str = "nats://127.0.0.1:4222";
/// Where the system has the name of the machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";
/// What errors in the text of a role name as their file.
const FILE: &str = "--role";

/// The configuration that a role stands for, as a file.
pub fn text(args: &RoleArgs, data: &Path) -> Result<String> {
    let Some(role) = args.role else { bail!("no role is given, expected --role edge, --role site or --role centre") };
    check(args, role)?;
    let mut document = DocumentMut::new();
    if role != Role::Site || args.name.is_some() {
        let mut node = Table::new();
        node.insert("name", value(args.name.clone().unwrap_or_else(machine)));
        document.insert("node", Item::Table(node));
    }
    match role {
        Role::Edge => drop(document.insert("edge", Item::Table(edge(args)))),
        Role::Site => {
            let joined = FabricFiles::of(data).joined();
            let text = std::fs::read_to_string(&joined).with_context(|| not_joined(&joined))?;
            return Ok(format!("{document}# {}; paths are beside it\n{text}", joined.display()));
        }
        Role::Centre => {
            document.insert("fabric", Item::Table(fabric(args, data)));
            document.insert("centre", Item::Table(Table::new()));
        }
    }
    Ok(document.to_string())
}

fn check(args: &RoleArgs, role: Role) -> Result<()> {
    match role {
        Role::Edge if args.upstream.is_empty() => {
            bail!("--role edge is given without its upstream, expected --upstream mqtts://HOST:PORT besides")
        }
        Role::Site | Role::Centre if !args.upstream.is_empty() => bail!("--upstream is of edges, expected --role edge"),
        Role::Edge | Role::Site if !args.fabric.is_empty() => bail!("--fabric is of centres, expected --role centre"),
        Role::Edge | Role::Site | Role::Centre => Ok(()),
    }
}

fn edge(args: &RoleArgs) -> Table {
    let mut edge = Table::new();
    let upstream = match args.upstream.as_slice() {
        [one] => value(one),
        several => value(several.iter().collect::<Array>()),
    };
    edge.insert("upstream", upstream);
    edge
}

fn fabric(args: &RoleArgs, data: &Path) -> Table {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let mut fabric = Table::new();
    let servers = match args.fabric.as_slice() {
        [] => [FABRIC].into_iter().collect::<Array>(),
        given => given.iter().collect(),
    };
    fabric.insert("servers", value(servers));
    fabric.insert("seed_file", value(absolute(&FabricFiles::of(data).centre())));
    if let Some(authorities) = &args.fabric_ca {
        fabric.insert("authorities", value(absolute(authorities)));
    }
    fabric
}

/// The name of the machine, so that two edges of one upstream differ.
fn machine() -> String {
    let name = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    match name.trim() {
        "" => "tieline".to_owned(),
        name => name.to_owned(),
    }
}

fn not_joined(joined: &Path) -> String {
    format!(
        "{}: this node has joined no centre; expected tieline join before, or --join URL --token-file FILE besides",
        joined.display()
    )
}

/// Gives a node the tables of its role that its configuration does not have.
pub fn apply(args: &RunArgs, config: &mut Config, data: &Path) -> Result<()> {
    if let Some(name) = &args.role.name {
        config.node.name.clone_from(name);
    }
    let Some(role) = args.role.role else { return Ok(()) };
    check(&args.role, role)?;
    match role {
        Role::Centre if config.site.is_some() => {
            bail!("--role centre is given to a node that is a site: its configuration or data folder has [site]")
        }
        Role::Site if config.centre.is_some() => {
            bail!("--role site is given to a node whose configuration has [centre]")
        }
        Role::Site if config.site.is_none() => bail!("{}", not_joined(&FabricFiles::of(data).joined())),
        Role::Site => return Ok(()),
        Role::Edge | Role::Centre => {}
    }
    let preset = from_text(FILE, &text(&args.role, data)?, Path::new(""))?;
    if args.config.is_none() && args.role.name.is_none() && args.demo.is_none() {
        config.node.name.clone_from(&preset.node.name);
    }
    if role == Role::Centre && config.fabric.is_none() && !FabricFiles::of(data).centre().exists() {
        bail!(
            "{} is not there, the key of the centre; tieline fabric start, or tieline fabric config, makes it",
            FabricFiles::of(data).centre().display()
        );
    }
    config.take_role(preset);
    Ok(())
}

/// Joins the centre, if that is asked for and was not done before.
#[cfg(feature = "fabric")]
pub fn join_first(args: &RunArgs, data: &Path) -> Result<()> {
    use crate::join::{JoinArgs, join_centre};
    let Some(url) = &args.join else { return Ok(()) };
    if args.role.role != Some(Role::Site) {
        bail!("--join is of sites, expected --role site besides");
    }
    let files = FabricFiles::of(data);
    if files.joined().exists() {
        tracing::info!("this node has joined before: --join is not used");
        return Ok(());
    }
    let join = JoinArgs {
        url: Some(url.clone()),
        token: args.token.clone(),
        token_file: args.token_file.clone(),
        name: None,
        data: data.to_owned(),
        ca: args.ca.clone(),
        insecure: false,
        rotate: false,
        json: args.json,
    };
    let joined = join_centre(&join, url, &files)?;
    tracing::info!("{}", joined.words.lines().next().unwrap_or_default());
    Ok(())
}

/// Joins the centre, if that is asked for.
#[cfg(not(feature = "fabric"))]
pub fn join_first(args: &RunArgs, _data: &Path) -> Result<()> {
    match args.join {
        Some(_) => bail!("--join is given, and this binary was built without the feature fabric"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_configurations() {
        let folder = tempfile::tempdir().unwrap();
        let read = |args: &RoleArgs| from_text(FILE, &text(args, folder.path()).unwrap(), Path::new("")).unwrap();
        let edge = RoleArgs {
            role: Some(Role::Edge),
            upstream: vec!["mqtt://a".into(), "mqtts://b:1".into()],
            name: Some("n\"1".into()),
            ..RoleArgs::default()
        };
        let config = read(&edge);
        assert_eq!((config.edge.unwrap().upstreams[0].addresses.len(), config.node.name.as_str()), (2, "n\"1"));
        let alone = RoleArgs { role: Some(Role::Edge), ..RoleArgs::default() };
        assert!(text(&alone, folder.path()).unwrap_err().to_string().contains("--upstream"));
        let site = RoleArgs { role: Some(Role::Site), ..RoleArgs::default() };
        assert!(text(&site, folder.path()).unwrap_err().to_string().contains("has joined no centre"));
        let wrong = RoleArgs { role: Some(Role::Site), upstream: vec!["mqtt://a".into()], ..RoleArgs::default() };
        assert!(text(&wrong, folder.path()).is_err());
    }

    #[cfg(feature = "fabric")]
    #[test]
    fn a_centre_uses_the_key_of_its_data_folder() {
        let folder = tempfile::tempdir().unwrap();
        let args = RoleArgs {
            role: Some(Role::Centre),
            fabric: vec!["tls://c.example:4222".into()],
            fabric_ca: Some("/ca.pem".into()),
            ..RoleArgs::default()
        };
        let text = text(&args, folder.path()).unwrap();
        let config = from_text(FILE, &text, Path::new("")).unwrap();
        let fabric = config.fabric.unwrap();
        assert_eq!(
            (fabric.servers, fabric.authorities),
            (vec!["tls://c.example:4222".to_owned()], Some("/ca.pem".into()))
        );
        assert!(config.centre.is_some() && text.contains("centre.nk"), "{text}");
    }
}
