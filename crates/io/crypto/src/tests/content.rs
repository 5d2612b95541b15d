use super::hex;
use crate::*;
use proptest::prelude::*;

#[test]
fn digests() {
    // FIPS 180-4, examples of NIST.
    let check = |input: &str, expect: &str| {
        assert_eq!(sha256(input.as_bytes()).to_vec(), hex(expect));
        let mut pieces = Sha256::default();
        input.as_bytes().chunks(3).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish().to_vec(), hex(expect));
    };
    check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/// AES-256-GCM without additional data: *The Galois/Counter Mode of Operation*, McGrew and Viega, test cases 13 to 15.
const GCM: [(&str, &str, &str, &str, &str); 3] = [
    ("", "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"),
    (
        "",
        "",
        "00000000000000000000000000000000",
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    ),
    (
        "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ),
];

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    out[..bytes.len()].copy_from_slice(bytes);
    out
}

#[test]
fn gcm_vectors() {
    for (key, iv, plain, cipher, tag) in GCM {
        let (key, iv, tag) = (padded(&hex(key)), padded(&hex(iv)), padded(&hex(tag)));
        let mut content = hex(plain);
        assert_eq!(aes256_gcm_seal(&key, &iv, &mut content).unwrap(), tag);
        assert_eq!(content, hex(cipher));
        assert!(aes256_gcm_open(&key, &iv, &mut content, &tag));
        assert_eq!(content, hex(plain));
        let mut stream = GcmStream::new(&key, &iv);
        stream.encrypt(&mut content);
        assert_eq!(content, hex(cipher));
        assert_eq!(stream.finish(), tag);
    }
}

#[test]
fn a_changed_bit_is_found() {
    let (key, iv) = ([7; 32], [9; 12]);
    let mut content = *b"a message of 26 characters";
    let tag = aes256_gcm_seal(&key, &iv, &mut content).unwrap();
    for bit in 0..8 * content.len() {
        let mut changed = content;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!aes256_gcm_open(&key, &iv, &mut changed, &tag));
    }
    for bit in 0..8 * tag.len() {
        let mut changed = tag;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(!aes256_gcm_open(&key, &iv, &mut content.clone(), &changed));
        let mut stream = GcmStream::new(&key, &iv);
        stream.decrypt(&mut content.clone());
        assert!(!stream.finish_matches(&changed));
    }
}

#[test]
fn triple_des() {
    // Made with `openssl enc -des-ede3-cbc -nopad`; IV as in RSFN 2, the key's first eight bytes.
    let key: [u8; 24] = padded(&hex("0123456789abcdef23456789abcdef01456789abcdef0123"));
    let iv = padded(&key[..8]);
    let plain = *b"Tieline 3DES check vector, of 40 octets.";
    let mut content = plain;
    tdes_cbc_encrypt(&key, &iv, &mut content).unwrap();
    assert_eq!(
        content.to_vec(),
        hex("6ba9f1efb3c1e6e017c463d6989fc8940e7ea38b20f2cbfc5f1dc913913dd37ff59581b9ad774a37")
    );
    tdes_cbc_decrypt(&key, &iv, &mut content).unwrap();
    assert_eq!(content, plain);
    assert_eq!(tdes_cbc_encrypt(&key, &iv, &mut [0; 9]), Err(CryptoError::Length));
    assert_eq!(tdes_cbc_decrypt(&key, &iv, &mut [0; 7]), Err(CryptoError::Length));
}

proptest! {
    #[test]
    fn pieces_of_any_lengths_are_the_whole(
        key: [u8; 32], iv: [u8; 12], content in prop::collection::vec(any::<u8>(), 0..400),
        lengths in prop::collection::vec(0usize..70, 1..20),
    ) {
        let mut whole = content.clone();
        let tag = aes256_gcm_seal(&key, &iv, &mut whole).unwrap();
        let in_pieces = |content: &[u8], decrypt: bool| {
            let mut out = content.to_vec();
            let (mut stream, mut rest) = (GcmStream::new(&key, &iv), out.as_mut_slice());
            for length in lengths.iter().copied().chain([400]) {
                let (piece, later) = rest.split_at_mut(length.min(rest.len()));
                if decrypt { stream.decrypt(piece) } else { stream.encrypt(piece) }
                rest = later;
            }
            (out, stream.finish())
        };
        prop_assert_eq!(in_pieces(&content, false), (whole.clone(), tag));
        prop_assert_eq!(in_pieces(&whole, true), (content, tag));
    }
}
