//! Sealed messages of a financial network: headers, envelopes, compressed content.

use tieline_rsfn::{
    Acceptance, Admitted, Certificate, Crypto, Digest, GcmStream, HEADER_BYTES, Hasher, HeaderView, Incoming,
    InflateError, InflateLimits, Inflater, PIECE_BYTES_MAX, Profile, RSFN_V2, RSFN_V3, Refused, Secret, Standing, Tag,
    gzip, inflate,
};

const CONTENT_BYTES_MAX: u64 = 1024;
const PROFILES: [Profile; 2] = [Profile { rsa_1024: true, ..RSFN_V2 }, RSFN_V3];
const LIMITS: InflateLimits = InflateLimits { bytes_max: 300_000, ratio_max: 200 };

/// Any bytes as a header: what is read is written the same, and a legal header stays legal.
pub(super) fn header(bytes: &[u8]) {
    let profiles = PROFILES;
    let acceptance = Acceptance { profiles: &profiles, content_bytes_max: CONTENT_BYTES_MAX };
    let read = Incoming::read(bytes, &acceptance);
    let Ok(view) = HeaderView::parse(bytes) else {
        assert!(read.is_err());
        return;
    };
    let mut again = Vec::new();
    view.emit(&mut again);
    assert!(bytes.starts_with(&again));
    let Ok(read) = read else { return };
    let header = read.header();
    let profile = profiles.iter().find(|profile| profile.version == header.version).expect("an accepted version");
    again.clear();
    header.emit(profile.cipher, view.wrapped_key, view.signature, &mut again);
    let same = Incoming::read_header(&again, &acceptance).expect("what is written is read");
    assert_eq!(same.header(), header);
}

struct Open;

struct Sum(u64);

impl Hasher for Sum {
    fn update(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    }

    fn finish(self) -> Digest {
        std::array::from_fn(|at| self.0.to_le_bytes()[at % 8])
    }
}

impl GcmStream for Sum {
    fn encrypt(&mut self, bytes: &mut [u8]) {
        self.update(bytes);
    }

    fn decrypt(&mut self, bytes: &mut [u8]) {
        self.update(bytes);
    }

    fn finish(self) -> Tag {
        // Short enough that a fuzzer finds it.
        std::array::from_fn(|at| if at == 0 { self.0.to_le_bytes()[0] & 3 } else { 0 })
    }
}

impl Crypto for Open {
    type Hasher = Sum;
    type Gcm = Sum;

    fn sha256(&self, bytes: &[u8]) -> Digest {
        let mut sum = Sum(0);
        sum.update(bytes);
        Hasher::finish(sum)
    }

    fn sha256_start(&self) -> Sum {
        Sum(0)
    }

    fn aes256_gcm_seal(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8]) -> Tag {
        let mut sum = self.aes256_gcm_start(key, iv);
        sum.encrypt(content);
        GcmStream::finish(sum)
    }

    fn aes256_gcm_open(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool {
        self.aes256_gcm_seal(key, iv, content) == *tag
    }

    fn aes256_gcm_start(&self, key: &[u8; 32], _: &[u8; 12]) -> Sum {
        Sum(u64::from(key[0]))
    }

    fn tdes_cbc_encrypt(&self, _: &[u8; 24], _: &[u8; 8], blocks: &mut [u8]) {
        assert_eq!(blocks.len() % 8, 0);
    }

    fn tdes_cbc_decrypt(&self, _: &[u8; 24], _: &[u8; 8], blocks: &mut [u8]) {
        assert_eq!(blocks.len() % 8, 0);
    }
}

/// The length of a key stands in front of it.
fn unwrapped(admitted: &Admitted) -> Option<Vec<u8>> {
    let (&length, rest) = admitted.unwrap_job()?.block.split_first()?;
    rest.get(..length.into()).map(<[u8]>::to_vec)
}

/// Any message, with ciphers that hide nothing: whole and in pieces it is told the same, and what a header says cannot make it
/// panic.
pub(super) fn envelope(bytes: &[u8]) {
    let Some((&piece, message)) = bytes.split_first() else { return };
    let profiles = PROFILES;
    let acceptance = Acceptance { profiles: &profiles, content_bytes_max: CONTENT_BYTES_MAX };
    let incoming = match Incoming::read(message, &acceptance) {
        Ok(incoming) => incoming,
        Err(Refused::TooLarge(_)) => return assert!(message.len() as u64 > HEADER_BYTES as u64 + CONTENT_BYTES_MAX),
        Err(Refused::Fault(_)) => return,
    };
    let header = *incoming.header();
    let certificate = |party| Certificate { party, standing: Standing::Active };
    let (ours, theirs) = (certificate(header.recipient), certificate(header.sender));
    let admitted = incoming.admit(Some(&ours), Some(&theirs)).expect("the certificates are those of the header");
    let (key, decoy) = (unwrapped(&admitted), Secret::new([7; 44]));

    let mut out = Vec::new();
    let mut stream = admitted.clone().stream(&Open, key.as_deref(), &decoy, CONTENT_BYTES_MAX);
    for bytes in message.split_at(HEADER_BYTES).1.chunks(usize::from(piece).max(1)) {
        stream.feed(bytes, &mut out).expect("no more than the limit");
    }
    let pieces = stream.finish(&mut out);
    let whole = admitted.open(&Open, message.to_vec(), key.as_deref(), &decoy);
    let right = whole.verify_job().signature.starts_with(&whole.verify_job().digest[..1]);
    match (whole.verify(right), pieces.verify(right)) {
        (Ok(verified), Ok(_)) => assert_eq!(verified.content(), out),
        (whole, pieces) => assert_eq!(whole.map(drop), pieces.map(drop)),
    }
}

fn by_pieces(content: &[u8], piece: usize) -> Result<Vec<u8>, InflateError> {
    let (mut inflater, mut out) = (Inflater::new(LIMITS), Vec::new());
    for mut bytes in content.chunks(piece) {
        loop {
            let before = out.len();
            let progress = inflater.feed(bytes, &mut out)?;
            assert!(out.len() - before <= PIECE_BYTES_MAX);
            bytes = bytes.split_at(progress.used).1;
            if bytes.is_empty() && !progress.more {
                break;
            }
            assert!(progress.used > 0 || progress.more);
        }
    }
    inflater.finish().map(|()| out)
}

/// Any bytes as compressed content, whole and in pieces: the same outcome, and never more than the limits.
pub(super) fn compressed(bytes: &[u8]) {
    let Some((&first, content)) = bytes.split_first() else { return };
    let whole = inflate(content, LIMITS);
    if let Ok(plain) = &whole {
        assert!(plain.len() as u64 <= LIMITS.bytes_max);
    }
    match (by_pieces(content, usize::from(first).max(1)), whole) {
        (Ok(pieces), Ok(whole)) => assert_eq!(pieces, whole),
        (Err(_), Err(_)) => {}
        (pieces, whole) => panic!("pieces {pieces:?}, whole {whole:?}"),
    }
    assert_eq!(inflate(&gzip(content), InflateLimits { bytes_max: 1 << 24, ratio_max: 2000 }).as_deref(), Ok(content));
}
