//! A batch of operations, stage by stage.
//!
//! ```text
//! begin (header, hash, cipher) ──▶ private keys, all together ──▶ public keys, all together ──▶ finish
//! ```
//!
//! A message that is to be opened takes every stage, whatever is wrong with its key: see `tieline_rsfn::Admitted::open`.

use crate::Ispb;
use crate::cipher::{Ciphers, draw_secret, key_padding, signature_padding};
use crate::keyring::{Domain, Known, OwnKey};
use std::collections::HashMap;
use std::sync::Arc;
use tieline_crypto::{Engine, KeyBlock, PrivateJob, PrivateOutcome, PublicJob, PublicOutcome};
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
pub struct Bench {
    engine: Engine,
    limits: Limits,
}

/// How large things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Octets of content.
    pub content_octets_max: u64,
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
    signature: Vec<u8>,
}

struct UnpackStage {
    admitted: Option<Admitted>,
    opened: Option<Opened>,
    message: Vec<u8>,
    own: Option<Arc<OwnKey>>,
    sender: Arc<Known>,
    decoy: Secret,
    genuine: bool,
    inflate: bool,
}

impl Bench {
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
        let mut traces: Vec<Trace> = operations.iter().map(|_| Trace::default()).collect();
        let begun = operations.into_iter().zip(&mut traces);
        let mut stages: Vec<_> =
            begun.map(|(operation, trace)| self.begin(operation, domains, seconds, trace)).collect();
        self.private(&mut stages);
        let outcomes = self.public(&stages);
        let mut outcomes = outcomes.into_iter();
        let limits = self.limits.inflate;
        let results = stages.into_iter().map(|stage| match stage {
            Stage::Packing(stage) => stage.finish(&mut outcomes),
            Stage::Unpacking(stage) => {
                let outcome = stage.opened.is_some().then(|| outcomes.next()).flatten();
                stage.finish(outcome, limits)
            }
            Stage::Over(refusal) => Err(refusal),
        });
        results.zip(traces).collect()
    }

    fn begin(&self, operation: Operation, domains: &Domains, seconds: u64, trace: &mut Trace) -> Stage {
        let begun = match operation {
            Operation::Pack(pack) => begin_pack(pack, domains, seconds, trace).map(Stage::Packing),
            Operation::Unpack(unpack) => {
                begin_unpack(unpack, domains, seconds, self.limits, trace).map(Stage::Unpacking)
            }
        };
        begun.unwrap_or_else(Stage::Over)
    }

    /// The private-key operations of all stages, together.
    fn private(&mut self, stages: &mut [Stage]) {
        let jobs: Vec<_> = stages.iter().filter_map(Stage::private_job).collect();
        let mut outcomes = Vec::with_capacity(jobs.len());
        self.engine.private(&jobs, &mut outcomes);
        let mut outcomes = outcomes.into_iter();
        for stage in stages {
            let over = match stage {
                Stage::Packing(packing) => packing.take(outcomes.next()),
                Stage::Unpacking(unpacking) if unpacking.own.is_some() => unpacking.take(outcomes.next()),
                Stage::Unpacking(unpacking) => unpacking.open(None),
                Stage::Over(_) => None,
            };
            if let Some(refusal) = over {
                *stage = Stage::Over(refusal);
            }
        }
    }

    /// The public-key operations of all stages, together.
    fn public(&mut self, stages: &[Stage]) -> Vec<PublicOutcome> {
        // A verify job owns its digest; the library borrows it.
        let verifying: Vec<_> = stages
            .iter()
            .map(|stage| match stage {
                Stage::Unpacking(stage) => stage.opened.as_ref().map(Opened::verify_job),
                Stage::Packing(_) | Stage::Over(_) => None,
            })
            .collect();
        let jobs: Vec<_> = stages
            .iter()
            .zip(&verifying)
            .filter_map(|(stage, verify)| match stage {
                Stage::Packing(stage) => stage.packing.wrap_job().map(|job| PublicJob::Wrap {
                    key: &stage.recipient.certificate.public_key,
                    text: job.secret,
                    padding: key_padding(job.padding),
                }),
                Stage::Unpacking(stage) => verify.as_ref().map(|job| PublicJob::Verify {
                    key: &stage.sender.certificate.public_key,
                    digest: &job.digest,
                    signature: job.signature,
                    padding: signature_padding(job.padding),
                }),
                Stage::Over(_) => None,
            })
            .collect();
        let mut outcomes = Vec::with_capacity(jobs.len());
        self.engine.public(&jobs, &mut outcomes);
        outcomes
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
}

impl PackStage {
    fn take(&mut self, outcome: Option<PrivateOutcome>) -> Option<Refusal> {
        match outcome {
            Some(PrivateOutcome::Signature(signature)) => {
                self.signature = signature.to_vec();
                None
            }
            Some(PrivateOutcome::Unwrapped(_) | PrivateOutcome::Failed(_)) | None => {
                Some(Refusal::Failed("the content could not be signed"))
            }
        }
    }

    fn finish(self, outcomes: &mut impl Iterator<Item = PublicOutcome>) -> Result<Output, Refusal> {
        let wrapped = match self.packing.wrap_job().and_then(|_| outcomes.next()) {
            Some(PublicOutcome::Wrapped(block)) => block.to_vec(),
            Some(PublicOutcome::Verified(_) | PublicOutcome::Failed(_)) => {
                return Err(Refusal::Failed("the content's key could not be encrypted"));
            }
            None => Vec::new(),
        };
        let sealed = self.packing.finish(&self.signature, &wrapped);
        sealed.map(|sealed| Output::Packed(sealed.into_octets())).map_err(|error| Refusal::Request(error.to_string()))
    }
}

impl UnpackStage {
    fn take(&mut self, outcome: Option<PrivateOutcome>) -> Option<Refusal> {
        match outcome {
            Some(PrivateOutcome::Unwrapped(block)) => self.open(Some(&block)),
            Some(PrivateOutcome::Signature(_) | PrivateOutcome::Failed(_)) | None => {
                Some(Refusal::Failed("the content's key could not be decrypted"))
            }
        }
    }

    fn open(&mut self, key: Option<&KeyBlock>) -> Option<Refusal> {
        self.genuine = key.is_none_or(KeyBlock::is_genuine);
        let message = std::mem::take(&mut self.message);
        let admitted = self.admitted.take();
        self.opened = admitted.map(|a| a.open(&Ciphers, message, key.map(KeyBlock::octets), &self.decoy));
        None
    }

    fn finish(self, outcome: Option<PublicOutcome>, limits: InflateLimits) -> Result<Output, Refusal> {
        let right = outcome == Some(PublicOutcome::Verified(true));
        let opened = self.opened.ok_or(Refusal::Failed("the message was not opened"))?;
        let exact = |fault| match fault {
            // A key out of a wrong padding is random, so that what comes after it fails; the audit tells the cause.
            Fault::ContentCipher | Fault::Signature if !self.genuine => Fault::KeyExtraction,
            other => other,
        };
        let verified = opened.verify(right).map_err(|fault| Refusal::Message(exact(fault).into()))?;
        let header = *verified.header();
        let content = match self.inflate {
            true => verified.into_plain(limits).map_err(Refusal::Compression)?,
            false => verified.into_content(),
        };
        Ok(Output::Unpacked { header, sender: self.sender.ispb, content })
    }
}

fn begin_pack(pack: Pack, domains: &Domains, seconds: u64, trace: &mut Trace) -> Result<Box<PackStage>, Refusal> {
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
    let secret = draw_secret().map_err(|_| Refusal::Failed("the system gave no random octets"))?;
    let packing = Packing::new(&Ciphers, profile, &outgoing, content, secret).map_err(|e| wrong(e.to_string()))?;
    Ok(Box::new(PackStage { packing, key, recipient, signature: Vec::new() }))
}

fn begin_unpack(
    unpack: Unpack,
    domains: &Domains,
    seconds: u64,
    limits: Limits,
    trace: &mut Trace,
) -> Result<Box<UnpackStage>, Refusal> {
    let domain = find(domains, &unpack.domain)?;
    let content_octets_max = limits.content_octets_max.saturating_add(tieline_rsfn::TAG_OCTETS as u64);
    let acceptance = Acceptance { profiles: &domain.profiles, content_octets_max };
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
    let decoy = draw_secret().map_err(|_| Refusal::Failed("the system gave no random octets"))?;
    let Unpack { inflate, message, .. } = unpack;
    let admitted = Some(admitted);
    Ok(Box::new(UnpackStage { admitted, opened: None, message, own, sender, decoy, genuine: true, inflate }))
}

fn find<'a>(domains: &'a Domains, name: &str) -> Result<&'a Domain, Refusal> {
    domains.get(name).ok_or_else(|| Refusal::Request(format!("there is no domain {name:?}")))
}
