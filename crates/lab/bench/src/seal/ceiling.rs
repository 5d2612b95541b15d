//! The ceiling: the cryptography of a message, eight messages at a time, on one thread, and nothing around it.

use super::Verb;
use anyhow::{Result, ensure};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;
use tieline_crypto::{
    BATCH_MAX, Engine, KeyPadding, PrivateJob, PrivateKey, PrivateOutcome, PublicJob, PublicOutcome, SignaturePadding,
    aes256_gcm_open, aes256_gcm_seal, fill_random, sha256,
};

/// Bytes of key and vector in C14.
const SECRET_BYTES: usize = 44;

/// Messages a second of processor time.
pub(super) fn measure(verb: Verb, key: &PrivateKey, bytes: usize, batch: bool, span: Duration) -> Result<f64> {
    let mut bare = Bare::new(key, bytes, batch, BATCH_MAX)?;
    let (start, mut messages) = (thread_cpu(), 0_u32);
    loop {
        bare.run(verb)?;
        messages += u32::try_from(BATCH_MAX)?;
        let spent = thread_cpu().saturating_sub(start);
        if spent >= span {
            return Ok(f64::from(messages) / spent.as_secs_f64());
        }
    }
}

/// The operations of some messages.
pub(super) struct Bare<'a> {
    together: usize,
    engine: Engine,
    key: &'a PrivateKey,
    content: Vec<u8>,
    wrapped: [u8; 256],
    signature: [u8; 256],
    private: Vec<PrivateOutcome>,
    public: Vec<PublicOutcome>,
}

impl<'a> Bare<'a> {
    /// Of so many messages together, [`BATCH_MAX`] at most.
    pub(super) fn new(key: &'a PrivateKey, bytes: usize, batch: bool, together: usize) -> Result<Self> {
        let engine = if batch { Engine::new() } else { Engine::without_lanes() };
        let content = vec![0x5a; bytes];
        let wrapped = key.public().encrypt(&[7; SECRET_BYTES])?;
        let signature = key.sign(&sha256(&content))?;
        Ok(Self { together, engine, key, content, wrapped, signature, private: Vec::new(), public: Vec::new() })
    }

    /// Does them all.
    pub(super) fn run(&mut self, verb: Verb) -> Result<()> {
        match verb {
            Verb::Pack => self.pack(),
            Verb::Unpack => self.unpack(),
        }
    }

    fn pack(&mut self) -> Result<()> {
        let (mut secrets, mut jobs) = (vec![[0; SECRET_BYTES]; self.together], Vec::with_capacity(self.together));
        for secret in &mut secrets {
            fill_random(secret)?;
            let digest = sha256(&self.content);
            let mut content = self.content.clone();
            let (key, iv) = parts(secret);
            std::hint::black_box(aes256_gcm_seal(&key, &iv, &mut content)?);
            let padding = SignaturePadding::Pkcs1v15;
            jobs.push(PrivateJob::Sign { key: self.key.clone(), digest, padding });
        }
        self.run_private(&jobs)?;
        let (key, padding) = (self.key.public(), KeyPadding::Pkcs1v15);
        let jobs: Vec<_> = secrets.iter().map(|text| PublicJob::Wrap { key, text, padding }).collect();
        self.public.clear();
        self.engine.public(&jobs, &mut self.public);
        ensure!(self.public.iter().all(|done| matches!(done, PublicOutcome::Wrapped(_))), "a public operation failed");
        Ok(())
    }

    fn unpack(&mut self) -> Result<()> {
        let block = Box::new(self.wrapped);
        let (padding, lengths) = (KeyPadding::Pkcs1v15, &[SECRET_BYTES, 32][..]);
        let job = PrivateJob::Unwrap { key: self.key.clone(), block, padding, lengths };
        self.run_private(&vec![job; self.together])?;
        let mut digests = vec![[0; 32]; self.together];
        for digest in &mut digests {
            let mut content = self.content.clone();
            std::hint::black_box(aes256_gcm_open(&[7; 32], &[7; 12], &mut content, &[0; 16]));
            *digest = sha256(&self.content);
        }
        let (key, padding) = (self.key.public(), SignaturePadding::Pkcs1v15);
        let signature = &self.signature[..];
        let jobs: Vec<_> = digests.iter().map(|digest| PublicJob::Verify { key, digest, signature, padding }).collect();
        self.public.clear();
        self.engine.public(&jobs, &mut self.public);
        ensure!(self.public.iter().all(|done| *done == PublicOutcome::Verified(true)), "a public operation failed");
        Ok(())
    }

    fn run_private(&mut self, jobs: &[PrivateJob]) -> Result<()> {
        self.private.clear();
        self.engine.private(jobs, &mut self.private);
        ensure!(
            !self.private.iter().any(|done| matches!(done, PrivateOutcome::Failed(_))),
            "a private operation failed"
        );
        Ok(())
    }
}

fn parts(secret: &[u8; SECRET_BYTES]) -> ([u8; 32], [u8; 12]) {
    let (mut key, mut iv) = ([0; 32], [0; 12]);
    key.copy_from_slice(&secret[..32]);
    iv.copy_from_slice(&secret[32..]);
    (key, iv)
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
