//! The command line of `tieline seal`.

use crate::args::address;
use clap::{Args, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// `tieline seal`.
#[derive(Debug, Subcommand)]
pub enum SealVerb {
    /// Serve packing and unpacking over HTTP and over a binary protocol
    Serve(SealServeArgs),
    /// Sign and encrypt a file
    Pack(SealPackArgs),
    /// Decrypt a file and verify who signed it; exit code 3 if the message is refused
    Unpack(SealUnpackArgs),
    /// Print the header of a message; checks nothing, needs no key
    Inspect(SealInspectArgs),
    /// Make a private key and a certificate request
    Keygen(SealKeygenArgs),
    /// Keys of a configuration: list, import, activate, retire
    #[command(subcommand)]
    Key(KeyVerb),
    /// Certificates of others in a configuration
    #[command(subcommand)]
    Peer(PeerVerb),
    /// Make a token for a client of the server
    Token {
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `tieline seal key`.
#[derive(Debug, Subcommand)]
pub enum KeyVerb {
    /// List keys and certificates with their states and the days until they expire
    List(KeyListArgs),
    /// Add a key with its certificate; it opens messages and signs none until it is activated
    Import(KeyAddArgs),
    /// Activate a key: it signs, if no other active key has a higher version
    Activate(KeyNamedArgs),
    /// Retire a key: it neither signs nor opens messages any more
    Retire(KeyNamedArgs),
}

/// `tieline seal key list`.
#[derive(Debug, Args)]
pub struct KeyListArgs {
    /// Configuration file of the server
    #[arg(long, value_name = "FILE", env = "TIELINE_SEAL_CONFIG")]
    pub config: PathBuf,
    /// Print a JSON array
    #[arg(long)]
    pub json: bool,
}

/// `tieline seal key import`.
#[derive(Debug, Args)]
pub struct KeyAddArgs {
    /// Configuration file of the server
    #[arg(long, value_name = "FILE", env = "TIELINE_SEAL_CONFIG")]
    pub config: PathBuf,
    /// The domain whose key it is
    #[arg(long, value_name = "NAME")]
    pub domain: String,
    /// The key: a file (PKCS#12, or PKCS#8 as PEM or DER), or a `pkcs11:` URI
    #[arg(long, value_name = "FILE|URI")]
    pub key: String,
    /// The certificate, if it is not in the file of the key
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// A file with the password or PIN of the key
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Its version [default: one more than the highest]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub key_version: Option<u32>,
    /// Activate the key at once
    #[arg(long)]
    pub activate: bool,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// One key of a configuration.
#[derive(Debug, Args)]
pub struct KeyNamedArgs {
    /// Configuration file of the server
    #[arg(long, value_name = "FILE", env = "TIELINE_SEAL_CONFIG")]
    pub config: PathBuf,
    /// The domain whose key it is
    #[arg(long, value_name = "NAME")]
    pub domain: String,
    /// Its version
    #[arg(long, value_name = "N")]
    pub key_version: u32,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline seal peer`.
#[derive(Debug, Subcommand)]
pub enum PeerVerb {
    /// Add the certificate of another institution
    Import {
        /// Configuration file of the server
        #[arg(long, value_name = "FILE", env = "TIELINE_SEAL_CONFIG")]
        config: PathBuf,
        /// The domain that exchanges messages with it
        #[arg(long, value_name = "NAME")]
        domain: String,
        /// The certificate, PEM or DER
        #[arg(long, value_name = "FILE")]
        certificate: PathBuf,
        /// The institution [default: as the certificate's subject says]
        #[arg(long, value_name = "ISPB", value_parser = super::parse_ispb)]
        ispb: Option<tieline_seal::Ispb>,
        /// It is not activated yet (GEN0006): taken in messages about security only
        #[arg(long)]
        pending: bool,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
}

/// `tieline seal serve`.
#[derive(Debug, Args)]
pub struct SealServeArgs {
    /// Configuration file; SIGHUP reloads it
    #[arg(long, value_name = "FILE", env = "TIELINE_SEAL_CONFIG")]
    pub config: PathBuf,
    /// Address on which HTTP listens; port 0 selects a free port [default: http.listen of the configuration]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// Address of the binary protocol; port 0 selects a free port [default: protocol.listen of the configuration]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub protocol: Option<SocketAddr>,
    /// Print one JSON object with the addresses in use first, and log in JSON
    #[arg(long)]
    pub json: bool,
}

/// A key of ours.
#[derive(Debug, Args)]
pub struct OwnKeyArgs {
    /// Our private key: a file (PKCS#12, or PKCS#8 as PEM or DER), or a `pkcs11:` URI
    #[arg(long, value_name = "FILE|URI")]
    pub key: PathBuf,
    /// The certificate of this key, if it is not in the same file
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// A file with the password of the key
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The authority of our certificate, 1 to 7 [default: as its subject says]
    #[arg(long, value_name = "N")]
    pub authority: Option<u8>,
}

/// `tieline seal pack`.
#[derive(Debug, Args)]
pub struct SealPackArgs {
    #[command(flatten)]
    pub own: OwnKeyArgs,
    /// The recipient's certificate
    #[arg(long, value_name = "FILE")]
    pub to: PathBuf,
    /// The authority of the recipient's certificate, 1 to 7 [default: as its subject says]
    #[arg(long, value_name = "N")]
    pub to_authority: Option<u8>,
    /// The protocol
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(2..=3))]
    pub protocol: u8,
    /// The special treatment: 0 message, 4 file, 8 compressed file; clear: 2, 3, 6, 10; 1 about security
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub treatment: u8,
    /// The error that the message answers with, two hexadecimal digits
    #[arg(long, value_name = "XX", default_value = "00", value_parser = super::parse_code)]
    pub error: u8,
    /// The content of a compressed file is compressed already
    #[arg(long)]
    pub compressed: bool,
    /// The content is UTF-8 text, to be packed as UTF-16BE
    #[arg(long)]
    pub utf16: bool,
    /// Content; `-` is standard input
    #[arg(default_value = "-")]
    pub input: PathBuf,
    /// File for the message; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Print a JSON object about what was written; the output must be a file
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// `tieline seal unpack`.
#[derive(Debug, Args)]
pub struct SealUnpackArgs {
    #[command(flatten)]
    pub own: OwnKeyArgs,
    /// Certificates that may have signed
    #[arg(long, value_name = "FILE", required = true)]
    pub from: Vec<PathBuf>,
    /// The authority of the senders' certificates, 1 to 7 [default: as their subjects say]
    #[arg(long, value_name = "N")]
    pub from_authority: Option<u8>,
    /// Do not check the validity period of certificates
    #[arg(long)]
    pub any_time: bool,
    /// Leave compressed content compressed
    #[arg(long)]
    pub compressed: bool,
    /// The content is UTF-16BE text, to be written as UTF-8
    #[arg(long)]
    pub utf16: bool,
    /// Maximum bytes of content
    #[arg(long, value_name = "N", default_value_t = 1 << 34)]
    pub bytes_max: u64,
    /// Message; `-` is standard input
    #[arg(default_value = "-")]
    pub input: PathBuf,
    /// File for the verified content; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
    /// Print a JSON object about what was written; the output must be a file
    #[arg(long, requires = "output")]
    pub json: bool,
}

/// `tieline seal inspect`.
#[derive(Debug, Args)]
pub struct SealInspectArgs {
    /// Message; `-` is standard input
    #[arg(default_value = "-")]
    pub input: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `tieline seal keygen`.
#[derive(Debug, Args)]
pub struct SealKeygenArgs {
    /// The common name, as in "BANCO X P001"
    #[arg(long)]
    pub name: String,
    /// The institution's number, eight digits
    #[arg(long, value_parser = super::parse_ispb)]
    pub ispb: tieline_seal::Ispb,
    /// The authority that will issue the certificate, written as OU=CSPB-N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=7))]
    pub authority: Option<u8>,
    /// File for the private key; never overwritten
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// A file with the password that the key is encrypted with
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// File for the certificate request (PKCS#10)
    #[arg(long, value_name = "FILE")]
    pub csr: PathBuf,
    /// File for a self-signed certificate, for tests
    #[arg(long, value_name = "FILE")]
    pub self_signed: Option<PathBuf>,
    /// Days that it is valid
    #[arg(long, value_name = "N", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub days: u32,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}
