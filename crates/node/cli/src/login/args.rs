//! `tieline login` and `tieline logout` on the command line.

use crate::who::args::HttpArgs;
use clap::Args;

/// `tieline login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Print JSON: first the code, then who is logged in
    #[arg(long)]
    pub json: bool,
}

/// `tieline logout`.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// End all logins of this user, which needs admin on $access/logins; without it, the login of this command line
    #[arg(long, value_name = "USER")]
    pub of: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
