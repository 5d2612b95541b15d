//! The connection to the servers: tried until it is there. What ends later, it makes again by itself.

use crate::config::{FabricAccess, FabricConfig};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tieline_fabric::{Credentials, Fabric, FabricError, FabricOptions};
use tieline_net::tls::ClientTls;

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// Connects as `name`, and says why not meanwhile.
pub async fn connect(config: &FabricConfig, name: &str, mut failed: impl FnMut(String)) -> Fabric {
    let mut pause = PAUSE;
    let mut known = String::new();
    loop {
        let why = match options(config, name) {
            Ok(options) => match Fabric::connect(options).await {
                Ok(fabric) => return fabric,
                Err(error) => error.to_string(),
            },
            Err(why) => why,
        };
        if why != known {
            tracing::warn!(why, "the servers of the fabric cannot be reached; they are tried again");
            known.clone_from(&why);
        }
        failed(why);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Whether an error says that nothing was done, or that it is not known; anything else a person must see to.
pub const fn is_away(error: &FabricError) -> bool {
    matches!(error, FabricError::Nobody | FabricError::Away(_))
}

fn options(config: &FabricConfig, name: &str) -> Result<FabricOptions, String> {
    let mut options = FabricOptions::new(name, config.servers.clone());
    options.credentials = match &config.access {
        FabricAccess::Open => Credentials::None,
        FabricAccess::Credentials(file) => Credentials::Jwt(read(file)?),
        FabricAccess::Seed(file) => Credentials::SeedFile(file.clone()),
        FabricAccess::Password(user, file) => Credentials::Password { user: user.clone(), password: read(file)? },
    };
    if config.is_tls {
        let identity = config.identity.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
        let tls = ClientTls::load(config.authorities.as_deref(), identity).map_err(|error| error.to_string())?;
        options.tls = Some((*tls.config()).clone());
    }
    Ok(options)
}

fn read(file: &Path) -> Result<String, String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(text.trim_end().to_owned())
}
