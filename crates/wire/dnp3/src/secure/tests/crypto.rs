use super::*;
use crate::secure::tests::world::hex;

/// RFC 3394 4.1, 4.3 (wrapped whole), 4.5, 4.6.
#[test]
fn key_wrap_vectors() {
    let check = |kek: &str, plain: &str, wrapped: &str| {
        let key = Key::new(&hex(kek)).unwrap();
        assert_eq!(key.wrap(&hex(plain)), hex(wrapped), "{kek}");
        assert_eq!(key.unwrap(&hex(wrapped)).unwrap().as_slice(), hex(plain));
        for at in 0..hex(wrapped).len() {
            let mut wrong = hex(wrapped);
            wrong[at] ^= 1;
            assert!(key.unwrap(&wrong).is_none(), "byte {at}");
        }
    };
    check(
        "000102030405060708090A0B0C0D0E0F",
        "00112233445566778899AABBCCDDEEFF",
        "1FA68B0A8112B447AEF34BD8FB5A7B829D3E862371D2CFE5",
    );
    check(
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF",
        "64E8C3F9CE0F5BA263E9777905818A2A93C8191E7D6E8AE7",
    );
    check(
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF0001020304050607",
        "A8F9BC1612C68B3FF6E6F4FBE30E71E4769C8B80A32CB8958CD5D17D6B254DA1",
    );
    check(
        "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F",
        "00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F",
        "28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21",
    );
}

#[test]
fn what_is_wrapped_is_filled_up() {
    let key = Key::new(&[7; 16]).unwrap();
    let wrapped = key.wrap(&[1; 17]);
    assert_eq!(wrapped.len(), 24 + 8);
    assert_eq!(key.unwrap(&wrapped).unwrap().get(16..), Some(&[1, 0, 0, 0, 0, 0, 0, 0][..]));
    for bytes in 0..24 {
        assert!(key.unwrap(&wrapped[..bytes]).is_none(), "{bytes}");
    }
    assert!(Key::new(&[0; 24]).is_none());
}

/// RFC 4231 4.2, 4.3 and 4.7, RFC 2202 3 (1, 2): over one part and over many.
#[test]
fn hmac_vectors() {
    let check = |key: &str, data: &str, sha1: &str, sha256: &str| {
        let (key, data) = (hex(key), hex(data));
        let (head, tail) = data.split_at(data.len() / 2);
        for parts in [&[data.as_slice()][..], &[head, &[], tail]] {
            if !sha1.is_empty() {
                assert_eq!(hmac_sha1(&key, parts).as_slice(), hex(sha1));
            }
            assert_eq!(hmac_sha256(&key, parts).as_slice(), hex(sha256));
        }
    };
    check(
        "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b",
        "4869205468657265",
        "b617318655057264e28bc0b6fb378c8ef146be00",
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
    );
    check(
        "4a656665",
        "7768617420646f2079612077616e7420666f72206e6f7468696e673f",
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
    );
    check(
        &"aa".repeat(131),
        "54657374205573696e67204c6172676572205468616e20426c6f636b2d53697a65204b6579202d2048617368204b6579204669727374",
        "",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    );
}

/// GCM with additional data only: NIST's test case 1 (no data), and one of the same key as test case 13, AES-256.
#[test]
fn gmac_vectors() {
    let check = |key: &str, vector: &str, data: &str, tag: &str| {
        let (key, data) = (Key::new(&hex(key)).unwrap(), hex(data));
        let vector: [u8; 12] = hex(vector).try_into().unwrap();
        for at in 0..=data.len() {
            let (head, tail) = data.split_at(at);
            assert_eq!(gmac(&key, vector, &[head, tail]).as_slice(), hex(tag), "split at {at}");
        }
    };
    check("00000000000000000000000000000000", "000000000000000000000000", "", "58e2fccefa7e3061367f1d57a4e7455a");
    check(&"00".repeat(32), "000000000000000000000000", "", "530f8afbc74536b9a963b4f1c4cb738b");
    // gcmEncryptExtIV128.rsp: PTlen 0, AADlen 128.
    check(
        "77be63708971c4e240d1cb79e8d77feb",
        "e0e00f19fed7ba0136a797f3",
        "7a43ec1d9c0a5a78a0b16533a6213cab",
        "209fcc8d3675ed938e9c7166709dd946",
    );
    // gcmEncryptExtIV256.rsp: PTlen 0, AADlen 128.
    check(
        "78dc4e0aaf52d935c3c01eea57428f00ca1fd475f5da86a49c8dd73d68c8e223",
        "d79cf22d504cc793c3fb6c8a",
        "b96baa8c1c75a671bfb2d08d06be5f36",
        "3e5d486aa2e30b22e040b85723a06e76",
    );
}

#[test]
fn algorithms_truncate_and_differ() {
    let key = Key::new(&[3; 32]).unwrap();
    for algorithm in MacAlgorithm::ALL {
        let one = mac(*algorithm, &key, MacUse::reply(1, 2), &[b"ab", b"c"]);
        assert_eq!(one.bytes().len(), algorithm.bytes());
        assert!(one.matches(mac(*algorithm, &key, MacUse::reply(1, 2), &[b"abc"]).bytes()));
        assert!(!one.matches(mac(*algorithm, &key, MacUse::reply(1, 2), &[b"abd"]).bytes()));
        assert!(!one.matches(&one.bytes()[1..]));
        assert!(!one.matches(&[]));
    }
    let vectors = [MacUse::reply(1, 2), MacUse::aggressive(1, 2), MacUse::key_status(1, 2), MacUse::reply(2, 2)];
    for (at, one) in vectors.iter().enumerate() {
        assert!(vectors.iter().skip(at + 1).all(|other| one.vector() != other.vector()));
    }
}

#[test]
fn nobody_reads_keys_in_logs() {
    let key = Key::new(&[0xAB; 16]).unwrap();
    assert_eq!(std::format!("{key:?}"), "Key(16 bytes)");
    let keys = SessionKeys { control: key.clone(), monitor: key.clone() };
    let proof = mac(MacAlgorithm::HmacSha256x16, &key, MacUse::reply(1, 1), &[b"x"]);
    let shown = std::format!("{keys:?} {proof:?}").to_lowercase();
    assert!(!shown.contains("ab, ") && !shown.contains("171") && !shown.contains("abab"), "{shown}");
}
