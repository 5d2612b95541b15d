//! `tieline seal`: security envelopes of RSFN, on files and as a server.

pub mod args;
mod keys;

use crate::answer::say;
use crate::signals::until_done;
use anyhow::{Context, Result, anyhow, bail};
use args::{OwnKeyArgs, SealInspectArgs, SealKeygenArgs, SealPackArgs, SealServeArgs, SealUnpackArgs, SealVerb};
use serde_json::{Value as Json, json};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tieline_crypto::{Certificate, PrivateKey, encrypt_pkcs8};
use tieline_rsfn::{
    Authority, ErrorCode, HEADER_BYTES, HeaderView, InflateLimits, RSFN_V2, RSFN_V3, TextEncoding, Treatment,
};
use tieline_seal::access::{digest, draw_token, hex};
use tieline_seal::file::{self, FileError, Opening, Sealing};
use tieline_seal::keyring::{KeyState, Known, OwnKey, load_certificate, load_key, load_password};
use tieline_seal::x509::{Subject, pem, request, self_signed};
use tieline_seal::{Ispb, Server, config};
use tokio::signal::unix::{SignalKind, signal};
use zeroize::Zeroizing;

/// What the operating system is told of a message that is refused.
const REFUSED: u8 = 3;
/// Bytes of a message that goes to standard output which are kept in memory; more are kept in a file without a name.
const SPOOL_BYTES: usize = 16 << 20;
/// How often the server's threads are looked after.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Does one of the verbs.
pub fn seal(verb: &SealVerb) -> Result<ExitCode> {
    match verb {
        SealVerb::Serve(args) => serve(args),
        SealVerb::Pack(args) => pack(args),
        SealVerb::Unpack(args) => unpack(args),
        SealVerb::Inspect(args) => inspect(args),
        SealVerb::Keygen(args) => keygen(args),
        SealVerb::Key(verb) => keys::key(verb),
        SealVerb::Peer(verb) => keys::peer(verb),
        SealVerb::Token { json } => token(*json),
    }
}

fn serve(args: &SealServeArgs) -> Result<ExitCode> {
    crate::log::start("info", args.json);
    let mut config = config::load(&args.config)?;
    for (flag, given, listen) in
        [("--http", args.http, &mut config.http), ("--protocol", args.protocol, &mut config.protocol)]
    {
        let Some(address) = given else { continue };
        if !address.ip().is_loopback() {
            bail!("{flag} is {address}, which other machines can reach; expected an address of this machine alone");
        }
        *listen = address;
    }
    let (domains, clients) = (config.domains.len(), config.clients.len());
    let server = Server::start(config)?;
    let (http, protocol) = (server.http(), server.protocol());
    let mut out = std::io::stdout().lock();
    if args.json {
        let line = json!({
            "http": http.to_string(), "protocol": protocol.to_string(), "domains": domains, "clients": clients,
        });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "http      http://{http}/\nprotocol  {protocol}\ndomains   {domains}\nclients   {clients}")?;
    }
    out.flush()?;
    let ended = until_done(look_after(&server, &args.config))?;
    tracing::info!("stopping");
    drop(server);
    match ended {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => Err(error),
    }
}

/// Reads the configuration again at SIGHUP; ends when the server has.
async fn look_after(server: &Server, path: &Path) -> anyhow::Error {
    let mut hang_up = match signal(SignalKind::hangup()) {
        Ok(hang_up) => hang_up,
        Err(error) => return error.into(),
    };
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            _ = hang_up.recv() => match server.reload(|| config::load(path)) {
                Ok(()) => tracing::info!("the configuration was read again"),
                Err(error) => tracing::warn!(%error, "the old configuration stays in use"),
            },
            _ = looks.tick() => if server.has_ended() {
                return anyhow!("a thread of the server ended unasked; the log says why");
            },
        }
    }
}

fn pack(args: &SealPackArgs) -> Result<ExitCode> {
    let own = own_key(&args.own)?;
    let recipient = known(&args.to, args.to_authority)?;
    let profile = if args.protocol == 2 { &RSFN_V2 } else { &RSFN_V3 };
    let treatment = Treatment::from_code(args.treatment)
        .with_context(|| format!("--treatment is {}, expected 0, 1, 2, 3, 4, 6, 8 or 10", args.treatment))?;
    let compress = !args.compressed;
    let sealing =
        Sealing { profile, treatment, error: ErrorCode(args.error), compress, own: &own, recipient: &recipient };
    let mut input = open(&args.input)?;
    let mut encoded = None;
    if args.utf16 {
        let mut text = String::new();
        input.read_to_string(&mut text).context("the text is not UTF-8")?;
        encoded = Some(TextEncoding::Utf16Be.encode(&text)?);
    }
    let input: Box<dyn Read> = match &encoded {
        Some(bytes) => Box::new(bytes.as_slice()),
        None => input,
    };
    into(&args.output, args.json, |output| {
        let bytes = file::pack(&sealing, input, output)?;
        Ok(json!({ "status": "success", "output": args.output, "bytes": bytes }))
    })
}

fn unpack(args: &SealUnpackArgs) -> Result<ExitCode> {
    let own = own_key(&args.own)?;
    let senders: Vec<_> = args.from.iter().map(|path| known(path, args.from_authority)).collect::<Result<_>>()?;
    let opening = Opening {
        profiles: &[RSFN_V2, RSFN_V3],
        own: &own,
        senders: &senders,
        seconds: (!args.any_time).then(unix_seconds),
        content_bytes_max: args.bytes_max,
        inflate: (!args.compressed).then(InflateLimits::default),
    };
    let input = open(&args.input)?;
    into(&args.output, args.json, |output| {
        let header = match args.utf16 {
            false => file::unpack(&opening, input, &mut *output)?,
            true => {
                let mut bytes = Vec::new();
                let header = file::unpack(&opening, input, &mut bytes)?;
                let text = TextEncoding::Utf16Be.decode(&bytes).map_err(|e| FileError::Io(std::io::Error::other(e)))?;
                output.write_all(text.as_bytes())?;
                header
            }
        };
        Ok(json!({
            "status": "success",
            "output": args.output,
            "bytes": output.stream_position()?,
            "error": format!("{:02X}", header.error.0),
            "treatment": header.treatment.code(),
            "sender_authority": header.sender.authority.0,
            "sender_serial": header.sender.serial.to_string(),
        }))
    })
}

/// Something that is written, and read again once it is whole.
trait Spool: Read + Write + Seek {}
impl<T: Read + Write + Seek> Spool for T {}

/// Writes to a file that gets its name, or to standard output that gets its bytes, only when all went well.
fn into(path: &Path, json: bool, write: impl FnOnce(&mut dyn Spool) -> Result<Json, FileError>) -> Result<ExitCode> {
    if path == Path::new("-") {
        if json {
            bail!("--json is given, and standard output takes what is written, expected a file with --output");
        }
        let mut spool = tempfile::SpooledTempFile::new(SPOOL_BYTES);
        return told(write(&mut spool), false, || {
            spool.seek(SeekFrom::Start(0))?;
            std::io::copy(&mut spool, &mut std::io::stdout().lock())?;
            Ok(())
        });
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The file is its owner's alone, also under its final name.
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(|| folder.display().to_string())?;
    told(write(file.as_file_mut()), json, || {
        file.persist(path).with_context(|| path.display().to_string())?;
        Ok(())
    })
}

fn told(written: Result<Json, FileError>, json: bool, keep: impl FnOnce() -> Result<()>) -> Result<ExitCode> {
    let mut out = std::io::stdout();
    match written.map_err(|error| (error.code(), error)) {
        Ok(object) => {
            keep()?;
            if json {
                writeln!(out, "{object}")?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err((Some(code), error)) => {
            match json {
                true => {
                    let code = format!("{:02X}", code.0);
                    writeln!(out, "{}", json!({ "status": "refused", "code": code, "detail": error.to_string() }))?;
                }
                false => eprintln!("tieline: the message is refused: {error}"),
            }
            Ok(ExitCode::from(REFUSED))
        }
        Err((None, error)) => Err(error.into()),
    }
}

fn inspect(args: &SealInspectArgs) -> Result<ExitCode> {
    let mut bytes = Vec::new();
    let mut input = open(&args.input)?;
    input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    let content = std::io::copy(&mut input, &mut std::io::sink())?;
    let view =
        HeaderView::parse(&bytes).map_err(|_| anyhow!("{} bytes, expected a header of {HEADER_BYTES}", bytes.len()))?;
    let mut out = std::io::stdout().lock();
    let fields = fields(&view, content);
    if args.json {
        let object: serde_json::Map<_, _> = fields.into_iter().map(|(key, value, _)| (key.to_owned(), value)).collect();
        writeln!(out, "{}", serde_json::Value::Object(object))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (key, value, meaning) in fields {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writeln!(out, "{key:<22}{value}{}{meaning}", if meaning.is_empty() { "" } else { "  " })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Every field as (name, value, meaning). Nothing is judged: `unpack` does that.
fn fields(view: &HeaderView<'_>, content: u64) -> Vec<(&'static str, serde_json::Value, String)> {
    let treatment = Treatment::from_code(view.treatment).map_or_else(
        || "unknown".to_owned(),
        |t| {
            let compressed = if t.is_compressed() { ", compressed" } else { "" };
            format!("{t:?}, {}{compressed}", if t.is_encrypted() { "encrypted" } else { "clear" })
        },
    );
    let error = view.error.fault().map_or_else(String::new, |fault| fault.to_string());
    let meaning = |code: u8, words: &[(u8, &str)]| {
        words.iter().find(|(known, _)| *known == code).map_or("unknown", |(_, word)| word).to_owned()
    };
    let rsa = [(1, "RSA-1024"), (2, "RSA-2048")];
    let serial = |digits: &[u8; 32]| String::from_utf8_lossy(digits).escape_debug().to_string();
    let name = |authority: Authority| authority.name().unwrap_or("unknown").to_owned();
    vec![
        ("length", view.length.into(), String::new()),
        ("version", view.version.into(), meaning(view.version, &[(0, "clear"), (2, "second"), (3, "third")])),
        ("error", format!("{:02X}", view.error.0).into(), error),
        ("treatment", view.treatment.into(), treatment),
        ("reserved", view.reserved.into(), String::new()),
        ("recipient_algorithm", view.recipient_algorithm.into(), meaning(view.recipient_algorithm, &rsa)),
        (
            "content_algorithm",
            view.content_algorithm.into(),
            meaning(view.content_algorithm, &[(0, "none"), (1, "triple DES"), (2, "AES-256-GCM")]),
        ),
        ("sender_algorithm", view.sender_algorithm.into(), meaning(view.sender_algorithm, &rsa)),
        ("hash", view.hash.into(), meaning(view.hash, &[(2, "SHA-1"), (3, "SHA-256")])),
        ("recipient_authority", view.recipient_authority.0.into(), name(view.recipient_authority)),
        ("recipient_serial", serial(&view.recipient_serial).into(), String::new()),
        ("sender_authority", view.sender_authority.0.into(), name(view.sender_authority)),
        ("sender_serial", serial(&view.sender_serial).into(), String::new()),
        ("content_bytes", content.into(), "behind the header, with tag or padding".to_owned()),
    ]
}

fn keygen(args: &SealKeygenArgs) -> Result<ExitCode> {
    let subject = Subject { name: args.name.clone(), ispb: args.ispb, authority: args.authority };
    let password = args.password_file.as_deref().map(password).transpose()?;
    let (key, pkcs8) = PrivateKey::generate()?;
    let text = match &password {
        Some(password) => encrypt_pkcs8(&pkcs8, password)?,
        None => Zeroizing::new(pem("PRIVATE KEY", &pkcs8)),
    };
    write_new(&args.key, text.as_bytes(), 0o600)?;
    let csr = request(&key, &subject)?;
    write_new(&args.csr, pem("CERTIFICATE REQUEST", &csr).as_bytes(), 0o644)?;
    if let Some(path) = &args.self_signed {
        let from = unix_seconds();
        let der = self_signed(&key, &subject, from, from + u64::from(args.days) * 86_400)?;
        write_new(path, pem("CERTIFICATE", &der).as_bytes(), 0o644)?;
    }
    let mut words = format!("{}: a private key\n{}: its certificate request", args.key.display(), args.csr.display());
    if let Some(path) = &args.self_signed {
        words = format!("{words}\n{}: a certificate that signs itself", path.display());
    }
    let object = json!({
        "key": args.key, "encrypted": password.is_some(), "csr": args.csr, "self_signed": args.self_signed,
    });
    say(args.json, &words, &object)?;
    Ok(ExitCode::SUCCESS)
}

fn token(json: bool) -> Result<ExitCode> {
    let token = draw_token().context("the system gave no random bytes")?;
    let digest = hex(&digest(&token));
    let object = json!({ "token": token.as_str(), "token_sha256": digest });
    say(json, &format!("token         {}\ntoken_sha256  {digest}", token.as_str()), &object)?;
    Ok(ExitCode::SUCCESS)
}

/// A key that exists is never overwritten.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = file.with_context(|| match path.exists() {
        true => format!("{} is there already, and is not overwritten; expected the name of a new file", path.display()),
        false => path.display().to_string(),
    })?;
    file.write_all(bytes).and_then(|()| file.sync_all()).with_context(|| path.display().to_string())
}

fn own_key(args: &OwnKeyArgs) -> Result<OwnKey> {
    let password = args.password_file.as_deref().map(password).transpose()?;
    let password = password.as_ref().map(|password| password.as_str());
    let (key, certificate) =
        load_key(&args.key, password, args.certificate.as_deref()).with_context(|| args.key.display().to_string())?;
    let known = on_file(certificate, args.authority).with_context(|| args.key.display().to_string())?;
    Ok(OwnKey { version: 1, known, key })
}

fn known(path: &Path, authority: Option<u8>) -> Result<Known> {
    let named = || path.display().to_string();
    on_file(load_certificate(path).with_context(named)?, authority).with_context(named)
}

/// For one message between two files it does not matter which institution a certificate names.
fn on_file(certificate: Certificate, authority: Option<u8>) -> Result<Known> {
    let ispb = Ispb::of_subject(&certificate.subject).or_else(|| Ispb::from_text("00000000"));
    Ok(Known::new(certificate, ispb, authority.map(Authority), KeyState::Active)?)
}

fn password(path: &Path) -> Result<Zeroizing<String>> {
    load_password(path).with_context(|| path.display().to_string())
}

fn open(path: &Path) -> Result<Box<dyn Read>> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin()));
    }
    Ok(Box::new(File::open(path).with_context(|| path.display().to_string())?))
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// An institution's number.
///
/// # Errors
/// What was expected.
pub fn parse_ispb(text: &str) -> Result<Ispb, String> {
    Ispb::from_text(text).ok_or_else(|| "expected an institution's eight digits".to_owned())
}

/// A value of C03.
///
/// # Errors
/// What was expected.
pub fn parse_code(text: &str) -> Result<u8, String> {
    u8::from_str_radix(text, 16).map_err(|_| "expected two hexadecimal digits, as in 0B".to_owned())
}
