//! A batch of sealed messages. RSA is a library's, and costs a hundred times what the rest does: a block is only copied here.

use crate::meter::Operation;
use crate::values::table;
use std::fmt::Display;
use tieline_rsfn::{
    Acceptance, Authority, Certificate, ErrorCode, Header, KeyAlgorithm, Outgoing, Party, RSFN_V3, Rsa, SECRET_BYTES,
    Sealed, Secret, Serial, SignJob, Standing, Treatment, UnwrapJob, VerifyJob, WrapJob, pack, unpack,
};
use tieline_seal::Ciphers;

/// Messages of a batch: as many as the lanes take.
const BATCH: usize = 8;
/// Bytes of content.
const CONTENT: usize = 2048;
/// Bytes of what RSA-2048 makes.
const BLOCK: usize = 256;

/// Counts the packing.
pub fn pack_batch() -> Result<Operation, String> {
    let (outgoing, content) = (outgoing()?, content());
    Ok(Box::new(move |meter| {
        let sealed = meter.count(|| seal(&outgoing, &content))?;
        if sealed.len() == BATCH { Ok(()) } else { Err("a message is missing".to_owned()) }
    }))
}

/// Counts the unpacking.
pub fn unpack_batch() -> Result<Operation, String> {
    let (outgoing, content) = (outgoing()?, content());
    let sealed = seal(&outgoing, &content)?;
    let acceptance = Acceptance { profiles: &[RSFN_V3], content_bytes_max: 1 << 20 };
    let certificate = |party| Some(Certificate { party, standing: Standing::Active });
    let certificates = (certificate(outgoing.recipient), certificate(outgoing.sender));
    Ok(Box::new(move |meter| {
        let messages = sealed.clone();
        let right = meter.count(|| {
            let opened = messages.into_iter().map(|message| {
                let find = |_: &Header| certificates;
                let decoy = Secret::new([9; SECRET_BYTES]);
                unpack(&Ciphers, &Copied, &acceptance, find, message.into_bytes(), &decoy).map_err(words)
            });
            opened.filter(|opened| opened.as_ref().is_ok_and(|opened| opened.content() == content)).count()
        });
        if right == BATCH { Ok(()) } else { Err(format!("{right} messages were opened")) }
    }))
}

fn seal(outgoing: &Outgoing, content: &[u8]) -> Result<Vec<Sealed>, String> {
    let one = |_| pack(&Ciphers, &Copied, &RSFN_V3, outgoing, content, Secret::new([7; SECRET_BYTES])).map_err(words);
    (0..BATCH).map(one).collect()
}

fn content() -> Vec<u8> {
    (0..).flat_map(table).take(CONTENT).collect()
}

fn outgoing() -> Result<Outgoing, String> {
    let party = |serial: &str, authority| {
        let serial = Serial::from_text(serial).ok_or("no serial")?;
        Ok::<_, String>(Party { algorithm: KeyAlgorithm::Rsa2048, authority: Authority(authority), serial })
    };
    let (sender, recipient) = (party("207D42E885DC9FA9", 1)?, party("0ABC0000DEAD0001", 2)?);
    Ok(Outgoing { treatment: Treatment::Normal, error: ErrorCode::NONE, sender, recipient })
}

/// In place of RSA: a block says how long what it holds is, and ends in zeros.
struct Copied;

impl Rsa for Copied {
    fn sign(&self, job: SignJob) -> Option<Vec<u8>> {
        block(&job.digest)
    }

    fn wrap(&self, job: WrapJob<'_>) -> Option<Vec<u8>> {
        block(job.secret)
    }

    fn unwrap(&self, job: UnwrapJob<'_>) -> Option<Vec<u8>> {
        held(job.block).map(<[u8]>::to_vec)
    }

    fn verify(&self, job: VerifyJob<'_>) -> bool {
        held(job.signature) == Some(&job.digest)
    }
}

fn block(held: &[u8]) -> Option<Vec<u8>> {
    let mut block = vec![u8::try_from(held.len()).ok()?];
    block.extend_from_slice(held);
    block.resize(BLOCK, 0);
    Some(block)
}

fn held(block: &[u8]) -> Option<&[u8]> {
    let (&length, rest) = block.split_first()?;
    rest.get(..usize::from(length))
}

fn words(error: impl Display) -> String {
    error.to_string()
}
