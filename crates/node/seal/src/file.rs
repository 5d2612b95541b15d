//! One message from a reader to a writer, of any size, without a server.

use crate::cipher::{Ciphers, draw_secret, key_padding, signature_padding};
use crate::keyring::{Known, OwnKey};
use std::fmt;
use std::io::{Read, Seek, SeekFrom, Write};
use tieline_crypto::{CryptoError, Engine, PrivateJob, PrivateOutcome, PublicJob, PublicOutcome};
use tieline_rsfn::{
    Acceptance, Certificate, ErrorCode, Fault, GzipWriter, HEADER_BYTES, Header, Incoming, InflateError, InflateLimits,
    Inflater, Outgoing, PackError, PackingStream, Profile, Refused, TooLarge, Treatment,
};

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 16;

/// What a message to be packed says, and how.
#[derive(Clone, Copy, Debug)]
pub struct Sealing<'a> {
    /// How the version is written.
    pub profile: &'a Profile,
    /// The special treatment.
    pub treatment: Treatment,
    /// The error that the message answers with.
    pub error: ErrorCode,
    /// Whether content of a compressed treatment is still to be compressed.
    pub compress: bool,
    /// Who signs.
    pub own: &'a OwnKey,
    /// Who may open.
    pub recipient: &'a Known,
}

/// Who may have sealed a message, for whom, and what is taken.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The profiles of the versions that are taken.
    pub profiles: &'a [Profile],
    /// Our key.
    pub own: &'a OwnKey,
    /// The certificates that may have signed.
    pub senders: &'a [Known],
    /// The time at which certificates must be valid, in seconds since 1970-01-01T00:00:00Z; none does not ask.
    pub seconds: Option<u64>,
    /// Bytes of content at most.
    pub content_bytes_max: u64,
    /// How far compressed content may grow; none leaves it compressed.
    pub inflate: Option<InflateLimits>,
}

/// Why a file could not be packed or unpacked.
#[derive(Debug)]
pub enum FileError {
    /// Reading or writing failed.
    Io(std::io::Error),
    /// The request is not what the profile can say.
    Request(PackError),
    /// The message is refused; the exact code.
    Message(Refused),
    /// The content is not compressed as the header says.
    Compression(InflateError),
    /// A library failed.
    Crypto(CryptoError),
}

impl FileError {
    /// The value of C03 that tells it to the sender; none where the message is not to blame.
    #[must_use]
    pub const fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Message(refused) => Some(refused.code()),
            Self::Compression(error) => Some(error.code()),
            Self::Io(_) | Self::Request(_) | Self::Crypto(_) => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Request(error) => error.fmt(f),
            Self::Message(refused) => refused.fmt(f),
            Self::Compression(error) => error.fmt(f),
            Self::Crypto(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}

macro_rules! from {
    ($($error:ty => $variant:ident),*) => {
        $(impl From<$error> for FileError {
            fn from(error: $error) -> Self {
                Self::$variant(error.into())
            }
        })*
    };
}
from!(
    std::io::Error => Io, PackError => Request, Fault => Message, Refused => Message, TooLarge => Message,
    InflateError => Compression, CryptoError => Crypto
);

/// Packs all that `input` gives and returns the bytes of the message. The header is written last, at the beginning.
///
/// # Errors
/// Reading, writing, or what is asked; what was written is useless then.
pub fn pack(sealing: &Sealing<'_>, mut input: impl Read, mut output: impl Write + Seek) -> Result<u64, FileError> {
    let Sealing { profile, treatment, error, compress, own, recipient } = *sealing;
    let outgoing = Outgoing { treatment, error, sender: own.known.party, recipient: recipient.party };
    let mut stream = PackingStream::new(&Ciphers, profile, &outgoing, draw_secret()?)?;
    let mut gzip = (compress && treatment.is_compressed()).then(GzipWriter::new);
    output.write_all(&[0; HEADER_BYTES])?;
    let mut bytes = HEADER_BYTES as u64;
    let (mut piece, mut squeezed, mut out) = (vec![0; PIECE_BYTES], Vec::new(), Vec::new());
    loop {
        let count = read(&mut input, &mut piece)?;
        let content = piece.get(..count).unwrap_or_default();
        match &mut gzip {
            Some(gzip) => gzip.feed(content, &mut squeezed),
            None => squeezed.extend_from_slice(content),
        }
        if let Some(gzip) = (count == 0).then(|| gzip.take()).flatten() {
            gzip.finish(&mut squeezed);
        }
        stream.feed(&squeezed, &mut out)?;
        bytes += write_out(&mut output, &mut out)?;
        squeezed.clear();
        if count == 0 {
            break;
        }
    }
    let packing = stream.finish(&mut out)?;
    bytes += write_out(&mut output, &mut out)?;
    let job = packing.sign_job();
    let padding = signature_padding(job.padding);
    let sign = PrivateJob::Sign { key: own.key.clone(), digest: job.digest, padding };
    let Some(PrivateOutcome::Signature(signature)) = private(&[sign]) else { return Err(CryptoError::Fault.into()) };
    let wrapped = packing.wrap_job().map(|job| {
        let key = &recipient.certificate.public_key;
        public(&[PublicJob::Wrap { key, text: job.secret, padding: key_padding(job.padding) }])
    });
    let wrapped = match wrapped {
        Some(Some(PublicOutcome::Wrapped(block))) => block.to_vec(),
        Some(_) => return Err(CryptoError::Fault.into()),
        None => Vec::new(),
    };
    output.seek(SeekFrom::Start(0))?;
    output.write_all(&packing.finish(&signature, &wrapped)?)?;
    output.flush()?;
    Ok(bytes)
}

/// Unpacks the message that `input` gives. What is written must be thrown away when an error is returned: nobody has
/// signed it.
///
/// # Errors
/// Reading, writing, or what is wrong with the message, with the exact code.
pub fn unpack(opening: &Opening<'_>, mut input: impl Read, mut output: impl Write) -> Result<Header, FileError> {
    let mut header = Vec::with_capacity(HEADER_BYTES);
    input.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    let acceptance = Acceptance { profiles: opening.profiles, content_bytes_max: opening.content_bytes_max };
    let incoming = Incoming::read_header(&header, &acceptance)?;
    let (recipient, sender) = opening.certificates(incoming.header());
    let signer = sender.map(|(known, _)| known);
    let admitted = incoming.admit(recipient.as_ref(), sender.map(|(_, judged)| judged).as_ref())?;
    let signer = signer.ok_or(Fault::SenderSerial)?;
    let key = admitted.unwrap_job().map(|job| {
        let block = Box::new(job.block.try_into().map_err(|_| Fault::KeyExtraction)?);
        let (padding, lengths) = (key_padding(job.padding), job.lengths);
        match private(&[PrivateJob::Unwrap { key: opening.own.key.clone(), block, padding, lengths }]) {
            Some(PrivateOutcome::Unwrapped(key)) => Ok(key),
            Some(_) | None => Err(FileError::from(CryptoError::Fault)),
        }
    });
    let key = key.transpose()?;
    let genuine = key.as_ref().is_none_or(tieline_crypto::KeyBlock::is_genuine);
    let (decoy, limit) = (draw_secret()?, opening.content_bytes_max);
    let bytes = key.as_ref().map(tieline_crypto::KeyBlock::bytes);
    let compressed = admitted.header().treatment.is_compressed();
    let mut stream = admitted.stream(&Ciphers, bytes, &decoy, limit);
    let mut writer = Plain { inflater: opening.inflate.filter(|_| compressed).map(Inflater::new), fault: None };
    let (mut piece, mut out) = (vec![0; PIECE_BYTES], Vec::new());
    loop {
        let count = read(&mut input, &mut piece)?;
        if count == 0 {
            break;
        }
        stream.feed(piece.get(..count).unwrap_or_default(), &mut out)?;
        writer.write(&mut output, &mut out)?;
    }
    let opened = stream.finish(&mut out);
    writer.write(&mut output, &mut out)?;
    let job = opened.verify_job();
    let (key, padding) = (&signer.certificate.public_key, signature_padding(job.padding));
    let verify = PublicJob::Verify { key, digest: &job.digest, signature: job.signature, padding };
    let right = public(&[verify]) == Some(PublicOutcome::Verified(true));
    let header = opened.verify(right).map_err(|fault| match fault {
        Fault::ContentCipher | Fault::Signature if !genuine => Fault::KeyExtraction,
        other => other,
    })?;
    // Only of verified content is it told that its compression is wrong.
    writer.finish()?;
    output.flush()?;
    Ok(header)
}

impl Opening<'_> {
    fn certificates(&self, header: &Header) -> (Option<Certificate>, Option<(&Known, Certificate)>) {
        let judged = |known: &Known| match self.seconds {
            Some(seconds) => known.judged(seconds, None),
            None => Certificate { party: known.party, standing: tieline_rsfn::Standing::Active },
        };
        let own = &self.own.known;
        let recipient = (own.party.serial == header.recipient.serial).then(|| judged(own));
        let sender = self.senders.iter().find(|known| known.party.serial == header.sender.serial);
        (recipient, sender.map(|known| (known, judged(known))))
    }
}

/// Content on its way out, decompressed if that is wanted.
struct Plain {
    inflater: Option<Inflater>,
    fault: Option<InflateError>,
}

impl Plain {
    fn write(&mut self, output: &mut impl Write, content: &mut Vec<u8>) -> Result<(), FileError> {
        let Some(inflater) = &mut self.inflater else {
            write_out(output, content)?;
            return Ok(());
        };
        let (mut rest, mut out) = (content.as_slice(), Vec::new());
        while self.fault.is_none() {
            match inflater.feed(rest, &mut out) {
                Ok(progress) => {
                    rest = rest.get(progress.used..).unwrap_or_default();
                    write_out(output, &mut out)?;
                    if rest.is_empty() && !progress.more {
                        break;
                    }
                }
                Err(error) => self.fault = Some(error),
            }
        }
        content.clear();
        Ok(())
    }

    fn finish(self) -> Result<(), InflateError> {
        match (self.fault, self.inflater) {
            (Some(error), _) => Err(error),
            (None, Some(inflater)) => inflater.finish(),
            (None, None) => Ok(()),
        }
    }
}

fn private(jobs: &[PrivateJob]) -> Option<PrivateOutcome> {
    let mut done = Vec::new();
    Engine::without_lanes().private(jobs, &mut done);
    done.pop()
}

fn public(jobs: &[PublicJob<'_>]) -> Option<PublicOutcome> {
    let mut done = Vec::new();
    Engine::without_lanes().public(jobs, &mut done);
    done.pop()
}

fn read(input: &mut impl Read, piece: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match input.read(piece) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

fn write_out(output: &mut impl Write, out: &mut Vec<u8>) -> std::io::Result<u64> {
    output.write_all(out)?;
    let bytes = out.len() as u64;
    out.clear();
    Ok(bytes)
}
