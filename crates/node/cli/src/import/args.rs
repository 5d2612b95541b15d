//! The command line of `tieline import`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline import`.
#[derive(Debug, Subcommand)]
pub enum ImportVerb {
    /// Make a configuration and point lists from those of a VOLTTRON platform driver; say what became of each line
    Volttron(VolttronArgs),
}

/// `tieline import volttron`.
#[derive(Debug, Args)]
pub struct VolttronArgs {
    /// Folder with registries (CSV) and devices (JSON), a VOLTTRON_HOME, or a file such as platform.driver.store
    #[arg(value_name = "DIR")]
    pub from: PathBuf,
    /// Folder to write tieline.toml and point lists to; it is made where it is not there
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
