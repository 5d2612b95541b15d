//! How to reach a node, and as whom, as the command line says it.

use clap::Args;
use std::path::PathBuf;

/// How to reach a node's MQTT server.
#[derive(Clone, Debug, Default, Args)]
pub struct MqttArgs {
    /// MQTT address of the node, mqtts://HOST:PORT for TLS [env: TIELINE_MQTT] [default: 127.0.0.1:1883]
    #[arg(long, value_name = "ADDR")]
    pub mqtt: Option<String>,
    #[command(flatten)]
    pub who: WhoArgs,
}

/// How to reach a node's HTTP API.
#[derive(Clone, Debug, Default, Args)]
pub struct HttpArgs {
    /// HTTP address of the node, https://HOST:PORT for TLS [env: TIELINE_HTTP] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    #[command(flatten)]
    pub who: WhoArgs,
}

/// Who asks a node, where it wants to know.
#[derive(Clone, Debug, Default, Args)]
pub struct WhoArgs {
    /// Take address, user and TLS files of this context: see tieline context [env: TIELINE_CONTEXT]
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// User; the password is in TIELINE_PASSWORD or in --password-file [env: TIELINE_USER]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File with the password, or with a token in place of both [env: TIELINE_PASSWORD_FILE]
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Certificates of authorities to trust over TLS, or the node's own, in PEM; without it those of the system
    /// [env: TIELINE_CA]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate to show over TLS, in PEM; with --key [env: TIELINE_CERT]
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate [env: TIELINE_KEY]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}
