//! The command line of `tieline import`.

use crate::args::HttpArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline import`.
#[derive(Debug, Subcommand)]
pub enum ImportVerb {
    /// Convert the configuration of a VOLTTRON platform driver, and report what became of each line
    Volttron(VolttronArgs),
    /// Import the values of a VOLTTRON historian, and report what became of each topic. It can be interrupted and repeated
    VolttronHistory(Box<VolttronHistoryArgs>),
}

/// `tieline import volttron-history`.
#[derive(Debug, Args)]
pub struct VolttronHistoryArgs {
    /// File of a SQLite historian, or the address of a database: postgresql://user@host/name, mongodb://user@host/name
    #[arg(value_name = "FILE|ADDRESS")]
    pub from: String,
    /// File of the database's password
    #[arg(long, value_name = "FILE")]
    pub source_password_file: Option<PathBuf>,
    /// Trusted authorities, if the address asks for TLS [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub source_authorities: Option<PathBuf>,
    /// Prefix of the tables, as table_prefix of the historian
    #[arg(long, value_name = "NAME")]
    pub table_prefix: Option<String>,
    /// Table of values [default: data]
    #[arg(long, value_name = "NAME")]
    pub data_table: Option<String>,
    /// Table of topics [default: topics]
    #[arg(long, value_name = "NAME")]
    pub topics_table: Option<String>,
    /// Table of metadata, if topics have none [default: meta]
    #[arg(long, value_name = "NAME")]
    pub meta_table: Option<String>,
    /// Topics that begin with OLD begin with NEW in the history; the longest OLD counts
    #[arg(long, value_name = "OLD=NEW", value_parser = renamed)]
    pub map: Vec<(String, String)>,
    /// Read everything and print the report, and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// File with the progress of the import [default: volttron-history.state, with --data in its folder]
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Ignore the progress, and begin at the first value
    #[arg(long)]
    pub restart: bool,
    /// Print the report as a JSON array
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub node: HttpArgs,
    /// Write to the data folder of a node that is stopped instead of to a node
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

/// `tieline import volttron`.
#[derive(Debug, Args)]
pub struct VolttronArgs {
    /// Folder with registries (CSV) and devices (JSON), a VOLTTRON_HOME, or a file such as platform.driver.store
    #[arg(value_name = "DIR")]
    pub from: PathBuf,
    /// Folder to write tieline.toml and point lists to; it is created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "tieline-import")]
    pub out: PathBuf,
    /// Overwrite files of the folder
    #[arg(long)]
    pub force: bool,
    /// The router to a network of BACnet, as in 12=10.0.0.9: VOLTTRON looks for it and does not store it
    #[arg(long, value_name = "NETWORK=ADDRESS", value_parser = router)]
    pub bacnet_router: Vec<(u16, String)>,
    /// Print the report as a JSON array
    #[arg(long)]
    pub json: bool,
}

fn router(text: &str) -> Result<(u16, String), String> {
    let parsed = text.split_once('=').and_then(|(network, address)| Some((network.parse().ok()?, address)));
    let parsed = parsed.filter(|(_, address)| !address.is_empty());
    parsed
        .map(|(network, address)| (network, address.to_owned()))
        .ok_or_else(|| "expected one like 12=10.0.0.9".to_owned())
}

fn renamed(text: &str) -> Result<(String, String), String> {
    let parsed =
        text.split_once('=').map(|(old, new)| (old.trim_matches('/').to_owned(), new.trim_matches('/').to_owned()));
    parsed.ok_or_else(|| "expected one like campus/building=site/building".to_owned())
}
