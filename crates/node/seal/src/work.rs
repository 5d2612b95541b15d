//! A batch of operations, stage by stage.
//!
//! ```text
//! begin (header, hash, cipher) ──▶ private and public keys, all together ──▶ finish
//! ```
//!
//! No public operation waits for a private one: the key is encrypted beside the signing, and what a signature was made of
//! is recovered beside the decryption of the key, and compared with the content's digest when there is one.
//!
//! A message that is to be opened takes every stage, whatever is wrong with its key: see `tieline_rsfn::Admitted::open`.

use crate::Ispb;
use crate::cipher::{Ciphers, draw_secrets, key_padding, signature_padding};
use crate::keyring::{Domain, Known, OwnKey};
use std::collections::HashMap;
use std::sync::Arc;
use tieline_crypto::{
    Engine, KeyBlock, MODULUS_BYTES, PrivateJob, PrivateOutcome, PublicJob, PublicOutcome, Recovered,
};
use tieline_rsfn::{
    Acceptance, Admitted, ErrorCode, Fault, Header, Incoming, InflateLimits, Opened, Outgoing, Packing, Refused,
    Secret, Serial, Treatment, Version, gzip,
};

/// What is asked.
#[derive(Debug)]
pub enum Operation {
    /// Sign and encrypt.
    Pack(Pack),
    /// Decrypt and verify.
    Unpack(Unpack),
}

/// Sign and encrypt.
#[derive(Debug)]
pub struct Pack {
    /// The domain that sends.
    pub domain: Arc<str>,
    /// The institution that receives.
    pub recipient: Ispb,
    /// Which of the domain's keys signs; the highest active one otherwise.
    pub key_version: Option<u32>,
    /// The protocol.
    pub version: Version,
    /// The special treatment.
    pub treatment: Treatment,
    /// The error that the message answers with.
    pub error: ErrorCode,
    /// Whether content of a compressed treatment is still to be compressed.
    pub compress: bool,
    /// The content.
    pub content: Vec<u8>,
}

/// Decrypt and verify.
#[derive(Debug)]
pub struct Unpack {
    /// The domain that receives.
    pub domain: Arc<str>,
    /// The institution that the message must come from; any peer otherwise.
    pub sender: Option<Ispb>,
    /// Whether compressed content is to be decompressed.
    pub inflate: bool,
    /// The message.
    pub message: Vec<u8>,
}

/// What came out.
#[derive(Debug)]
pub enum Output {
    /// A sealed message.
    Packed(Vec<u8>),
    /// Verified content.
    Unpacked {
        /// The header. Of it, only the sender's key is authentic.
        header: Header,
        /// The institution whose key signed.
        sender: Ispb,
        /// The content.
        content: Vec<u8>,
    },
}

/// Why nothing came out: the exact reason, for the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request asks for what is not there or not possible.
    Request(String),
    /// The message breaks a rule of the protocol, or cannot be opened.
    Message(Refused),
    /// What is inside is not compressed as the header says.
    Compression(tieline_rsfn::InflateError),
    /// A library failed.
    Failed(&'static str),
}

/// What the audit log tells of an operation.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Our key's version.
    pub key_version: Option<u32>,
    /// The sender's and the recipient's serial.
    pub serials: Option<(Serial, Serial)>,
    /// The institution on the other side.
    pub peer: Option<Ispb>,
}

/// The result of one operation.
pub type Done = (Result<Output, Refusal>, Trace);

/// Does batches; one for each thread.
pub struct BatchExecutor {
    engine: Engine,
    limits: Limits,
}

/// How large things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of content.
    pub content_bytes_max: u64,
    /// How far compressed content may grow.
    pub inflate: InflateLimits,
}

/// The domains, by name.
pub type Domains = HashMap<String, Domain>;

/// What waits for RSA.
enum Stage {
    Packing(Box<PackStage>),
    Unpacking(Box<UnpackStage>),
    Over(Refusal),
}

struct PackStage {
    packing: Packing,
    key: Arc<OwnKey>,
    recipient: Arc<Known>,
    signature: [u8; MODULUS_BYTES],
    wrapped: Option<[u8; MODULUS_BYTES]>,
}

struct UnpackStage {
    admitted: Option<Admitted>,
    opened: Option<Opened>,
    message: Vec<u8>,
    own: Option<Arc<OwnKey>>,
    sender: Arc<Known>,
    /// What the signature was made of, where that is known before the content is.
    recovered: Option<Recovered>,
    decoy: Secret,
    genuine: bool,
    inflate: bool,
}

impl BatchExecutor {
    /// With eight lanes where the processor has them and `batch` is set.
    #[must_use]
    pub fn new(limits: Limits, batch: bool) -> Self {
        Self { engine: if batch { Engine::new() } else { Engine::without_lanes() }, limits }
    }

    /// How often what was done.
    #[must_use]
    pub fn counters(&self) -> tieline_crypto::EngineCounters {
        self.engine.counters()
    }

    /// Does all operations; the results are in their order. `seconds` is the time since 1970-01-01T00:00:00Z.
    pub fn run(&mut self, operations: Vec<Operation>, domains: &Domains, seconds: u64) -> Vec<Done> {
        let Ok(secrets) = draw_secrets(operations.len()) else {
            let failed = || (Err(Refusal::Failed("the system gave no random bytes")), Trace::default());
            return operations.iter().map(|_| failed()).collect();
        };
        let mut traces: Vec<Trace> = operations.iter().map(|_| Trace::default()).collect();
        let begun = operations.into_iter().zip(secrets).zip(&mut traces);
        let mut stages: Vec<_> =
            begun.map(|((operation, secret), trace)| self.begin(operation, domains, seconds, secret, trace)).collect();
        self.pow_mod(&mut stages);
        let results: Vec<_> = stages.into_iter().map(|stage| self.finish(stage)).collect();
        results.into_iter().zip(traces).collect()
    }

    fn begin(&self, operation: Operation, domains: &Domains, seconds: u64, secret: Secret, trace: &mut Trace) -> Stage {
        let begun = match operation {
            Operation::Pack(pack) => begin_pack(pack, domains, seconds, secret, trace).map(Stage::Packing),
            Operation::Unpack(unpack) => {
                begin_unpack(unpack, domains, seconds, secret, self.limits, trace).map(Stage::Unpacking)
            }
        };
        begun.unwrap_or_else(Stage::Over)
    }

    /// The operations with private and with public keys of all stages, together.
    fn pow_mod(&mut self, stages: &mut [Stage]) {
        let private: Vec<_> = stages.iter().filter_map(Stage::private_job).collect();
        let public: Vec<_> = stages.iter().filter_map(Stage::public_job).collect();
        let (mut done, mut public_done) = (Vec::with_capacity(private.len()), Vec::with_capacity(public.len()));
        self.engine.together((&private, &mut done), (&public, &mut public_done));
        let (mut done, mut public_done) = (done.into_iter(), public_done.into_iter());
        for stage in stages {
            let public = stage.public_job().is_some().then(|| public_done.next()).flatten();
            let over = match stage {
                Stage::Packing(packing) => packing.take(done.next(), public),
                Stage::Unpacking(unpacking) if unpacking.own.is_some() => unpacking.take(done.next(), public),
                Stage::Unpacking(unpacking) => {
                    unpacking.open(None, public);
                    None
                }
                Stage::Over(_) => None,
            };
            if let Some(refusal) = over {
                *stage = Stage::Over(refusal);
            }
        }
    }

    fn finish(&mut self, stage: Stage) -> Result<Output, Refusal> {
        match stage {
            Stage::Packing(stage) => stage.finish(),
            Stage::Unpacking(stage) => {
                let right = stage.is_signed(&mut self.engine);
                stage.finish(right, self.limits.inflate)
            }
            Stage::Over(refusal) => Err(refusal),
        }
    }
}

impl Stage {
    fn private_job(&self) -> Option<PrivateJob> {
        match self {
            Self::Packing(stage) => {
                let job = stage.packing.sign_job();
                let (key, padding) = (stage.key.key.clone(), signature_padding(job.padding));
                Some(PrivateJob::Sign { key, digest: job.digest, padding })
            }
            Self::Unpacking(stage) => {
                let (admitted, own) = (stage.admitted.as_ref()?, stage.own.as_ref()?);
                let job = admitted.unwrap_job()?;
                let block = Box::new(job.block.try_into().ok()?);
                let (padding, lengths) = (key_padding(job.padding), job.lengths);
                Some(PrivateJob::Unwrap { key: own.key.clone(), block, padding, lengths })
            }
            Self::Over(_) => None,
        }
    }

    fn public_job(&self) -> Option<PublicJob<'_>> {
        match self {
            Self::Packing(stage) => stage.packing.wrap_job().map(|job| PublicJob::Wrap {
                key: &stage.recipient.certificate.public_key,
                text: job.secret,
                padding: key_padding(job.padding),
            }),
            Self::Unpacking(stage) => stage.admitted.as_ref().map(|admitted| PublicJob::Recover {
                key: &stage.sender.certificate.public_key,
                signature: admitted.signature(),
                padding: signature_padding(admitted.profile().signature_padding),
            }),
            Self::Over(_) => None,
        }
    }
}

impl PackStage {
    fn take(&mut self, private: Option<PrivateOutcome>, public: Option<PublicOutcome>) -> Option<Refusal> {
        match private {
            Some(PrivateOutcome::Signature(signature)) => self.signature = signature,
            Some(PrivateOutcome::Unwrapped(_) | PrivateOutcome::Failed(_)) | None => {
                return Some(Refusal::Failed("the content could not be signed"));
            }
        }
        match public {
            Some(PublicOutcome::Wrapped(block)) => self.wrapped = Some(block),
            Some(PublicOutcome::Verified(_) | PublicOutcome::Recovered(_) | PublicOutcome::Failed(_)) => {
                return Some(Refusal::Failed("the content's key could not be encrypted"));
            }
            None => {}
        }
        None
    }

    fn finish(self) -> Result<Output, Refusal> {
        let wrapped = self.wrapped.as_ref().map(<[u8; MODULUS_BYTES]>::as_slice).unwrap_or_default();
        let sealed = self.packing.finish(&self.signature, wrapped);
        sealed.map(|sealed| Output::Packed(sealed.into_bytes())).map_err(|error| Refusal::Request(error.to_string()))
    }
}

impl UnpackStage {
    fn take(&mut self, private: Option<PrivateOutcome>, public: Option<PublicOutcome>) -> Option<Refusal> {
        match private {
            Some(PrivateOutcome::Unwrapped(block)) => {
                self.open(Some(&block), public);
                None
            }
            Some(PrivateOutcome::Signature(_) | PrivateOutcome::Failed(_)) | None => {
                Some(Refusal::Failed("the content's key could not be decrypted"))
            }
        }
    }

    fn open(&mut self, key: Option<&KeyBlock>, public: Option<PublicOutcome>) {
        self.recovered = match public {
            Some(PublicOutcome::Recovered(recovered)) => recovered,
            Some(PublicOutcome::Verified(_) | PublicOutcome::Wrapped(_) | PublicOutcome::Failed(_)) | None => None,
        };
        self.genuine = key.is_none_or(KeyBlock::is_genuine);
        let message = std::mem::take(&mut self.message);
        let admitted = self.admitted.take();
        self.opened = admitted.map(|a| a.open(&Ciphers, message, key.map(KeyBlock::bytes), &self.decoy));
    }

    /// Whether the sender signed the content.
    fn is_signed(&self, engine: &mut Engine) -> bool {
        let Some(job) = self.opened.as_ref().map(Opened::verify_job) else { return false };
        if let Some(recovered) = &self.recovered {
            return recovered.is_of(&job.digest);
        }
        let (key, padding) = (&self.sender.certificate.public_key, signature_padding(job.padding));
        let verify = PublicJob::Verify { key, digest: &job.digest, signature: job.signature, padding };
        let mut done = Vec::with_capacity(1);
        engine.public(&[verify], &mut done);
        done.pop() == Some(PublicOutcome::Verified(true))
    }

    fn finish(self, signed: bool, limits: InflateLimits) -> Result<Output, Refusal> {
        let opened = self.opened.ok_or(Refusal::Failed("the message was not opened"))?;
        let exact = |fault| match fault {
            // A key out of a wrong padding is random, so that what comes after it fails; the audit tells the cause.
            Fault::ContentCipher | Fault::Signature if !self.genuine => Fault::KeyExtraction,
            other => other,
        };
        let verified = opened.verify(signed).map_err(|fault| Refusal::Message(exact(fault).into()))?;
        let header = *verified.header();
        let content = match self.inflate {
            true => verified.into_plain(limits).map_err(Refusal::Compression)?,
            false => verified.into_content(),
        };
        Ok(Output::Unpacked { header, sender: self.sender.ispb, content })
    }
}

fn begin_pack(
    pack: Pack,
    domains: &Domains,
    seconds: u64,
    secret: Secret,
    trace: &mut Trace,
) -> Result<Box<PackStage>, Refusal> {
    let domain = find(domains, &pack.domain)?;
    let wrong = |what: String| Refusal::Request(what);
    let profile =
        domain.profile(pack.version).ok_or_else(|| wrong("this domain does not speak that version".into()))?;
    let key = domain.signing_key(pack.key_version, seconds).cloned();
    let key = key.ok_or_else(|| wrong(format!("domain {:?} has no such key that is active", domain.name)))?;
    let recipient = domain.recipient(pack.recipient, seconds).cloned();
    let recipient = recipient.ok_or_else(|| wrong(format!("no active certificate of {}", pack.recipient)))?;
    let (sender, to) = (key.known.party, recipient.party);
    *trace =
        Trace { key_version: Some(key.version), serials: Some((sender.serial, to.serial)), peer: Some(pack.recipient) };
    let outgoing = Outgoing { treatment: pack.treatment, error: pack.error, sender, recipient: to };
    let compressed = (pack.compress && pack.treatment.is_compressed()).then(|| gzip(&pack.content));
    let content = compressed.as_ref().unwrap_or(&pack.content);
    let packing = Packing::new(&Ciphers, profile, &outgoing, content, secret).map_err(|e| wrong(e.to_string()))?;
    Ok(Box::new(PackStage { packing, key, recipient, signature: [0; MODULUS_BYTES], wrapped: None }))
}

fn begin_unpack(
    unpack: Unpack,
    domains: &Domains,
    seconds: u64,
    decoy: Secret,
    limits: Limits,
    trace: &mut Trace,
) -> Result<Box<UnpackStage>, Refusal> {
    let domain = find(domains, &unpack.domain)?;
    let content_bytes_max = limits.content_bytes_max.saturating_add(tieline_rsfn::TAG_BYTES as u64);
    let acceptance = Acceptance { profiles: &domain.profiles, content_bytes_max };
    let incoming = Incoming::read(&unpack.message, &acceptance).map_err(Refusal::Message)?;
    let header = *incoming.header();
    let own = domain.own(&header.recipient).filter(|_| header.treatment.is_encrypted()).cloned();
    let sender = domain.peer(&header.sender).cloned();
    *trace = Trace {
        key_version: own.as_ref().map(|own| own.version),
        serials: Some((header.sender.serial, header.recipient.serial)),
        peer: sender.as_ref().map(|sender| sender.ispb),
    };
    let judged = (
        own.as_ref().map(|own| own.known.judged(seconds, None)),
        sender.as_ref().map(|sender| sender.judged(seconds, unpack.sender)),
    );
    let admitted =
        incoming.admit(judged.0.as_ref(), judged.1.as_ref()).map_err(|fault| Refusal::Message(fault.into()))?;
    let sender = sender.ok_or(Refusal::Message(Fault::SenderSerial.into()))?;
    let Unpack { inflate, message, .. } = unpack;
    let (admitted, opened, recovered) = (Some(admitted), None, None);
    Ok(Box::new(UnpackStage { admitted, opened, message, own, sender, recovered, decoy, genuine: true, inflate }))
}

fn find<'a>(domains: &'a Domains, name: &str) -> Result<&'a Domain, Refusal> {
    domains.get(name).ok_or_else(|| Refusal::Request(format!("there is no domain {name:?}")))
}
