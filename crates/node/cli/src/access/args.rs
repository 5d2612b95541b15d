//! The command line of `tieline access`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `tieline access`.
#[derive(Debug, Subcommand)]
pub enum AccessVerb {
    /// Users in a file; a running node uses changes within two seconds
    #[command(subcommand)]
    User(UserVerb),
    /// Print whether a user has a right on a topic, and which rule decides; exit code 3 if not
    Test(TestArgs),
    /// Check the files of users and roles; print every error
    Check(ConfigFile),
    /// List the roles with their rules
    Roles(ConfigFile),
    /// Verify the audit log with its chain of hashes; exit code 3 if it was changed
    Verify(VerifyArgs),
}

/// `tieline access user`.
#[derive(Debug, Subcommand)]
pub enum UserVerb {
    /// Add a user; its password, of 12 characters or more, is read from standard input
    Add(AddArgs),
    /// Remove a user; its sessions end
    Remove(UserArgs),
    /// List users with their roles
    List(ListArgs),
    /// Give a user another password, read from standard input; its sessions end
    Password(PasswordArgs),
    /// Give a user other roles
    Roles(RolesArgs),
    /// Disable a user; its sessions end
    Disable(UserArgs),
    /// Enable a user again
    Enable(UserArgs),
}

/// The file of users, and what it has to fit with.
#[derive(Debug, Args)]
pub struct UsersFile {
    /// Configuration file of the node: it names the files of users and roles; tieline.toml where there is one
    #[arg(long, value_name = "FILE", env = "TIELINE_CONFIG")]
    pub config: Option<PathBuf>,
    /// The file of users, in place of the one that the configuration names; users.toml without a configuration
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// The file of roles, in place of the one that the configuration names; roles.toml beside the users without a configuration
    #[arg(long = "roles", value_name = "FILE")]
    pub roles_file: Option<PathBuf>,
}

/// `tieline access user list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    #[command(flatten)]
    pub file: UsersFile,
    /// One JSON object a user and line
    #[arg(long)]
    pub json: bool,
}

/// One user.
#[derive(Debug, Args)]
pub struct UserArgs {
    /// The user's name
    pub name: String,
    #[command(flatten)]
    pub file: UsersFile,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline access user add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    #[command(flatten)]
    pub user: UserArgs,
    /// A role of the user; may be given several times
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub roles: Vec<String>,
    /// Read the password from a file in place of standard input
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    pub password_file: Option<PathBuf>,
    /// No password: the user authenticates with a token or a certificate
    #[arg(long)]
    pub no_password: bool,
}

/// `tieline access user password`.
#[derive(Debug, Args)]
pub struct PasswordArgs {
    #[command(flatten)]
    pub user: UserArgs,
    /// Read the password from a file in place of standard input
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// `tieline access user roles`.
#[derive(Debug, Args)]
pub struct RolesArgs {
    #[command(flatten)]
    pub user: UserArgs,
    /// A role of the user; may be given several times
    #[arg(long = "role", value_name = "ROLE", required = true)]
    pub roles: Vec<String>,
}

/// The configuration of a node.
#[derive(Debug, Args)]
pub struct ConfigFile {
    /// Configuration file of the node
    #[arg(long, value_name = "FILE", env = "TIELINE_CONFIG", default_value = "tieline.toml")]
    pub config: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `tieline access test`.
#[derive(Debug, Args)]
pub struct TestArgs {
    /// The user's name
    pub user: String,
    /// read, publish, command, acknowledge or admin
    #[arg(value_parser = ["read", "publish", "command", "acknowledge", "admin"])]
    pub verb: String,
    /// The topic, or a filter to subscribe to
    pub topic: String,
    #[command(flatten)]
    pub config: ConfigFile,
    /// The client identifier, for {client} in rules
    #[arg(long, value_name = "NAME", default_value = "")]
    pub client: String,
    /// A certificate of the user, in PEM; its roles count if the configuration accepts roles of certificates
    #[arg(long, value_name = "FILE", conflicts_with = "roles")]
    pub certificate: Option<PathBuf>,
    /// A role that a token would bring, in place of the user's; may be given several times
    #[arg(long = "role", value_name = "ROLE")]
    pub roles: Vec<String>,
}

/// `tieline access verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The data folder of the node, whose audit log is read; the node may run
    #[arg(value_name = "FOLDER", default_value = "./tieline-data")]
    pub folder: PathBuf,
    /// A record that must be there, as this command printed it before: its number and its chain
    #[arg(long, value_name = "ID:CHAIN")]
    pub record: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
