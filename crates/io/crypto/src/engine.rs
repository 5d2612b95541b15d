//! Runs jobs: what suits the lanes in passes of four, the rest one at a time.

use crate::content::DIGEST_BYTES;
use crate::lanes::{Ifma, is_below};
use crate::padding::{KeyBlock, from_text, pad_digest, pad_key, unpad};
use crate::worker::{PublicNumber, Worker};
use crate::{CryptoError, MODULUS_BYTES, PrivateKey, PublicKey};
use subtle::{Choice, ConstantTimeEq};
use zeroize::Zeroizing;

/// Jobs that are taken together at most: two passes of four.
pub const BATCH_MAX: usize = 8;

/// A number mod n, or one to be raised.
pub(crate) type Number = Zeroizing<[u8; MODULUS_BYTES]>;

/// How a digest is padded before it is signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePadding {
    /// RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017 clause 8.2).
    Pkcs1v15,
    /// RSASSA-PSS with SHA-256 and a salt of 32 bytes (RFC 8017 clause 8.1). Always done one at a time.
    PssSha256,
}

/// How a content key is padded before it is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPadding {
    /// RSAES-PKCS1-v1_5 (RFC 8017 clause 7.2).
    Pkcs1v15,
    /// RSAES-OAEP with SHA-256 in both places (RFC 8017 clause 7.1). Always done one at a time.
    OaepSha256,
}

/// Work for a private key.
#[derive(Clone, Debug)]
pub enum PrivateJob {
    /// Sign a digest.
    Sign {
        /// The signer's key.
        key: PrivateKey,
        /// SHA-256 of what is signed.
        digest: [u8; DIGEST_BYTES],
        /// How it is padded.
        padding: SignaturePadding,
    },
    /// Decrypt a content key.
    Unwrap {
        /// The recipient's key.
        key: PrivateKey,
        /// What was encrypted to it.
        block: Box<[u8; MODULUS_BYTES]>,
        /// How it is padded.
        padding: KeyPadding,
        /// The lengths that the content key may have, 1 to 64 bytes each; the first is that of the random bytes
        /// which come out of a wrong block.
        lengths: &'static [usize],
    },
}

/// What became of a [`PrivateJob`].
#[derive(Debug)]
pub enum PrivateOutcome {
    /// The signature; its check with the public exponent passed.
    Signature([u8; MODULUS_BYTES]),
    /// The content key, or random bytes in its place.
    Unwrapped(KeyBlock),
    /// Nothing came out.
    Failed(CryptoError),
}

/// Work for a public key.
#[derive(Clone, Copy, Debug)]
pub enum PublicJob<'a> {
    /// Check a signature.
    Verify {
        /// The signer's key.
        key: &'a PublicKey,
        /// SHA-256 of what was signed.
        digest: &'a [u8; DIGEST_BYTES],
        /// The signature, of any length.
        signature: &'a [u8],
        /// How the digest is padded.
        padding: SignaturePadding,
    },
    /// Recover what a signature was made of, before the digest is known that it should be of.
    Recover {
        /// The signer's key.
        key: &'a PublicKey,
        /// The signature, of any length.
        signature: &'a [u8],
        /// How the digest is padded.
        padding: SignaturePadding,
    },
    /// Encrypt a content key.
    Wrap {
        /// The recipient's key.
        key: &'a PublicKey,
        /// The content key, up to 190 bytes.
        text: &'a [u8],
        /// How it is padded.
        padding: KeyPadding,
    },
}

/// What became of a [`PublicJob`].
#[derive(Debug, PartialEq, Eq)]
pub enum PublicOutcome {
    /// Whether the signature is right.
    Verified(bool),
    /// What the signature was made of; none where lanes did not do it, and [`PublicJob::Verify`] is still to be done.
    Recovered(Option<Recovered>),
    /// The encrypted content key.
    Wrapped([u8; MODULUS_BYTES]),
    /// Nothing came out.
    Failed(CryptoError),
}

/// What a signature was made of (RFC 8017 clause 5.2.2).
#[derive(Debug, PartialEq, Eq)]
pub struct Recovered([u8; MODULUS_BYTES]);

impl Recovered {
    /// Whether that is `digest` (SHA-256), padded as RSASSA-PKCS1-v1_5 pads it (RFC 8017 clause 8.2.2).
    #[must_use]
    pub fn is_of(&self, digest: &[u8; DIGEST_BYTES]) -> bool {
        self.0.ct_eq(&pad_digest(digest)).into()
    }
}

/// How often what was done, since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Private operations done one at a time.
    pub private_single: u64,
    /// Private operations done in lanes.
    pub private_lanes: u64,
    /// Passes that did them; four messages fill one.
    pub private_passes: u64,
    /// Results of a pass that the check with the public exponent refused; each was done again, one at a time.
    pub faults: u64,
    /// Public operations done one at a time, without the checks.
    pub public_single: u64,
    /// Public operations done in lanes, without the checks.
    pub public_lanes: u64,
}

/// Does jobs on the thread that calls it; one for each thread, as it owns 60 KiB of working memory.
pub struct Engine {
    lanes: Option<Worker<Ifma>>,
    counters: EngineCounters,
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// With lanes where the processor has AVX-512 IFMA.
    #[must_use]
    pub fn new() -> Self {
        Self { lanes: Ifma::detect().map(Worker::new), counters: EngineCounters::default() }
    }

    /// One at a time on every processor.
    #[must_use]
    pub fn without_lanes() -> Self {
        Self { lanes: None, counters: EngineCounters::default() }
    }

    /// Whether several jobs are done at once.
    #[must_use]
    pub fn has_lanes(&self) -> bool {
        self.lanes.is_some()
    }

    /// How often what was done.
    #[must_use]
    pub fn counters(&self) -> EngineCounters {
        self.counters
    }

    /// Does all `jobs` and appends an outcome for each to `done`, in their order.
    pub fn private(&mut self, jobs: &[PrivateJob], done: &mut Vec<PrivateOutcome>) {
        self.together((jobs, done), (&[], &mut Vec::new()));
    }

    /// Does all `jobs` and appends an outcome for each to `done`, in their order.
    pub fn public(&mut self, jobs: &[PublicJob<'_>], done: &mut Vec<PublicOutcome>) {
        self.together((&[], &mut Vec::new()), (jobs, done));
    }

    /// Does private and public jobs that do not wait for each other's outcomes, and appends an outcome for each, in their
    /// order. Public operations fill the lanes that the checks of private results leave free: four messages to be sealed,
    /// or opened, are one pass of each kind.
    pub fn together(
        &mut self,
        (private, private_done): (&[PrivateJob], &mut Vec<PrivateOutcome>),
        (public, public_done): (&[PublicJob<'_>], &mut Vec<PublicOutcome>),
    ) {
        let (mut private, mut public) = (private.chunks(BATCH_MAX), public.chunks(BATCH_MAX));
        loop {
            let (jobs, public_jobs) = match (private.next(), public.next()) {
                (None, None) => return,
                (jobs, public_jobs) => (jobs.unwrap_or_default(), public_jobs.unwrap_or_default()),
            };
            let work: Vec<_> = jobs.iter().map(Prepared::new).collect();
            let numbers: Vec<_> = work.iter().filter_map(|work| Some((work.key, work.number.as_ref()?))).collect();
            let (powers, public_powers) = self.pow_mod(&numbers, public_jobs);
            let mut powers = powers.into_iter();
            private_done.extend(work.iter().zip(jobs).map(|(work, job)| match &work.number {
                Some(_) => finish(job, work.possible, powers.next()),
                None => self.apart(job),
            }));
            let mut public_powers = public_powers.into_iter();
            public_done.extend(public_jobs.iter().map(|job| self.finish_public(job, public_powers.next().flatten())));
        }
    }

    /// number^d mod n of each private number, checked; and of each public job number^e mod n where lanes did it.
    fn pow_mod(
        &mut self,
        numbers: &[(&PrivateKey, &[u8; MODULUS_BYTES])],
        public: &[PublicJob<'_>],
    ) -> (Vec<Result<Number, CryptoError>>, Vec<Option<Number>>) {
        let mut out: Vec<Option<Number>> = numbers.iter().map(|_| None).collect();
        let mut public_out = Vec::new();
        if let Some(worker) = &mut self.lanes {
            let public: Vec<_> = public.iter().map(public_number).collect();
            public_out = worker.run(numbers, &mut out, &public, &mut self.counters);
        }
        let mut out: Vec<_> = out.into_iter().map(|done| done.map(Ok)).collect();
        self.counters.private_single += out.iter().filter(|done| done.is_none()).count() as u64;
        pow_mod_in_tokens(numbers, &mut out);
        let single = |(key, number): &(&PrivateKey, &[u8; MODULUS_BYTES])| key.raw(number);
        let done = numbers.iter().zip(out).map(|(number, done)| done.unwrap_or_else(|| single(number)));
        (done.collect(), public_out)
    }

    fn finish_public(&mut self, job: &PublicJob<'_>, powers: Option<Number>) -> PublicOutcome {
        match (job, powers) {
            (PublicJob::Recover { .. }, powers) => PublicOutcome::Recovered(powers.map(|number| Recovered(*number))),
            (PublicJob::Verify { digest, .. }, Some(number)) => {
                PublicOutcome::Verified(Recovered(*number).is_of(digest))
            }
            (PublicJob::Wrap { .. }, Some(number)) => PublicOutcome::Wrapped(*number),
            (PublicJob::Verify { key, digest, signature, padding }, None) => {
                self.counters.public_single += 1;
                PublicOutcome::Verified(match padding {
                    SignaturePadding::Pkcs1v15 => key.verify(digest, signature),
                    SignaturePadding::PssSha256 => key.verify_pss(digest, signature),
                })
            }
            (PublicJob::Wrap { key, text, padding }, None) => {
                self.counters.public_single += 1;
                let wrapped = match padding {
                    KeyPadding::Pkcs1v15 => key.encrypt(text),
                    KeyPadding::OaepSha256 => key.encrypt_oaep(text),
                };
                wrapped.map_or_else(PublicOutcome::Failed, PublicOutcome::Wrapped)
            }
        }
    }

    /// The paddings that only the library does.
    fn apart(&mut self, job: &PrivateJob) -> PrivateOutcome {
        self.counters.private_single += 1;
        match job {
            PrivateJob::Sign { key, digest, .. } => {
                key.sign_pss(digest).map_or_else(PrivateOutcome::Failed, PrivateOutcome::Signature)
            }
            PrivateJob::Unwrap { key, block, lengths, .. } => {
                let text = key.decrypt_oaep(block);
                let key = from_text(text.as_ref().map(|text| text.as_slice()), lengths);
                key.map_or_else(PrivateOutcome::Failed, PrivateOutcome::Unwrapped)
            }
        }
    }
}

/// Asks tokens for all that they have to do at once: a token in a network takes milliseconds for each, and several at a
/// time.
fn pow_mod_in_tokens(numbers: &[(&PrivateKey, &[u8; MODULUS_BYTES])], out: &mut [Option<Result<Number, CryptoError>>]) {
    if numbers.iter().filter(|(key, _)| key.is_in_token()).count() < 2 {
        return;
    }
    std::thread::scope(|scope| {
        let asked = numbers.iter().zip(out).filter(|((key, _), _)| key.is_in_token());
        for ((key, number), out) in asked {
            scope.spawn(move || *out = Some(key.raw(number)));
        }
    });
}

/// A job as a number to be raised; none for paddings that only the library does.
struct Prepared<'a> {
    key: &'a PrivateKey,
    number: Option<[u8; MODULUS_BYTES]>,
    possible: Choice,
}

impl<'a> Prepared<'a> {
    fn new(job: &'a PrivateJob) -> Self {
        match job {
            PrivateJob::Sign { key, digest, padding: SignaturePadding::Pkcs1v15 } => {
                Self { key, number: Some(pad_digest(digest)), possible: Choice::from(1) }
            }
            PrivateJob::Unwrap { key, block, padding: KeyPadding::Pkcs1v15, .. } => {
                // A number that cannot be is decrypted as another one, and as surely refused: same steps, same time.
                let possible = is_possible(block, key.public().modulus());
                let number = if possible { **block } else { TWO };
                Self { key, number: Some(number), possible: Choice::from(u8::from(possible)) }
            }
            PrivateJob::Sign { key, padding: SignaturePadding::PssSha256, .. }
            | PrivateJob::Unwrap { key, padding: KeyPadding::OaepSha256, .. } => {
                Self { key, number: None, possible: Choice::from(1) }
            }
        }
    }
}

const ONE: [u8; MODULUS_BYTES] = small(1);
const TWO: [u8; MODULUS_BYTES] = small(2);

const fn small(number: u8) -> [u8; MODULUS_BYTES] {
    let mut bytes = [0; MODULUS_BYTES];
    bytes[MODULUS_BYTES - 1] = number;
    bytes
}

/// Whether the block is a number between 2 and n - 2. The others decrypt to themselves or to nothing (SP 800-56B
/// clause 7.1.2 has the same bounds), which no padding survives.
fn is_possible(block: &[u8; MODULUS_BYTES], modulus: &[u8; MODULUS_BYTES]) -> bool {
    let mut last = *modulus;
    // n is odd.
    last[MODULUS_BYTES - 1] ^= 1;
    is_below(&ONE, block) & is_below(block, &last)
}

fn finish(job: &PrivateJob, possible: Choice, result: Option<Result<Number, CryptoError>>) -> PrivateOutcome {
    let number = match result {
        Some(Ok(number)) => number,
        Some(Err(error)) => return PrivateOutcome::Failed(error),
        None => return PrivateOutcome::Failed(CryptoError::Fault),
    };
    match job {
        PrivateJob::Sign { .. } => PrivateOutcome::Signature(*number),
        PrivateJob::Unwrap { lengths, .. } => {
            unpad(&number, lengths, possible).map_or_else(PrivateOutcome::Failed, PrivateOutcome::Unwrapped)
        }
    }
}

/// The number that a job raises; none for what the library does, and for what it will refuse.
fn public_number<'a>(job: &PublicJob<'a>) -> Option<PublicNumber<'a>> {
    match *job {
        PublicJob::Verify { key, signature, padding: SignaturePadding::Pkcs1v15, .. }
        | PublicJob::Recover { key, signature, padding: SignaturePadding::Pkcs1v15 } => {
            let signature: &[u8; MODULUS_BYTES] = signature.try_into().ok()?;
            let lane = key.lane().filter(|_| is_below(signature, key.modulus()))?;
            Some((lane, Zeroizing::new(*signature)))
        }
        PublicJob::Wrap { key, text, padding: KeyPadding::Pkcs1v15 } => Some((key.lane()?, pad_key(text).ok()?)),
        PublicJob::Verify { padding: SignaturePadding::PssSha256, .. }
        | PublicJob::Recover { padding: SignaturePadding::PssSha256, .. }
        | PublicJob::Wrap { padding: KeyPadding::OaepSha256, .. } => None,
    }
}
