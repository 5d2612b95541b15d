//! The command line of `tieline context`.

use crate::tls::ClientTlsArgs;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline context`.
#[derive(Debug, Subcommand)]
pub enum ContextVerb {
    /// Add a named node, with the user and the TLS files for it
    Add(AddArgs),
    /// List contexts; * marks the one in use
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Make a context the default of all commands
    Use(NameArgs),
    /// Remove a context
    Remove(NameArgs),
    /// Print a context, or the one in use
    Show(ShowArgs),
}

/// `tieline context add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Name of the context
    pub name: String,
    /// HTTP address of the node, https://HOST:PORT for TLS
    #[arg(long, value_name = "ADDR")]
    pub http: Option<String>,
    /// MQTT address of the node, mqtts://HOST:PORT for TLS [default: the host of --http, at port 1883 or 8883]
    #[arg(long, value_name = "ADDR")]
    pub mqtt: Option<String>,
    /// User
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// File with the password, or with a token in place of both; its content is not copied
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    #[command(flatten)]
    pub tls: ClientTlsArgs,
    /// Use this context from now on
    #[arg(long = "use")]
    pub select: bool,
    /// Replace a context of this name
    #[arg(long)]
    pub replace: bool,
    /// Print the context as a JSON object
    #[arg(long)]
    pub json: bool,
}

/// One context.
#[derive(Debug, Args)]
pub struct NameArgs {
    /// Name of the context
    pub name: String,
    /// Print the context as a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline context show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Name of the context [default: the one in use]
    pub name: Option<String>,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}
