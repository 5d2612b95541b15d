//! The names of keys in tokens (RFC 7512).

use crate::KeyError;
use std::path::PathBuf;

/// What a name begins with.
const SCHEME: &str = "pkcs11:";

/// Which key in which token, and the module that reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUri {
    /// The label of the token.
    pub token: Option<String>,
    /// Its serial number.
    pub serial: Option<String>,
    /// The label of the key (`CKA_LABEL`).
    pub object: Option<String>,
    /// Its identifier (`CKA_ID`).
    pub id: Option<Vec<u8>>,
    /// The library of the token's maker.
    pub module: PathBuf,
}

impl TokenUri {
    /// Whether a text is meant to be such a name.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// Reads a name.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let wrong = |what: String| KeyError::Malformed(format!("PKCS#11 URI: {what}"));
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("\"pkcs11:\" is expected first".into()))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut uri = Self { token: None, serial: None, object: None, id: None, module: PathBuf::new() };
        for (name, value) in pairs(path, ';').chain(pairs(query, '&')) {
            let bytes = decode(value).ok_or_else(|| wrong(format!("{name} has a % without two digits")))?;
            let text = || String::from_utf8(bytes.clone()).map_err(|_| wrong(format!("{name} is not UTF-8")));
            match name {
                "token" => uri.token = Some(text()?),
                "serial" => uri.serial = Some(text()?),
                "object" => uri.object = Some(text()?),
                "id" => uri.id = Some(bytes),
                "module-path" => uri.module = PathBuf::from(text()?),
                "type" if bytes == b"private" => {}
                "pin-value" | "pin-source" => {
                    return Err(wrong(format!("{name} is not taken; give the PIN as the key's password")));
                }
                _ => return Err(wrong(format!("{name:?}, expected token, serial, object, id, type, module-path"))),
            }
        }
        if uri.module.as_os_str().is_empty() {
            return Err(wrong("module-path is missing, as in ?module-path=/usr/lib/softhsm/libsofthsm2.so".into()));
        }
        if uri.object.is_none() && uri.id.is_none() {
            return Err(wrong("object or id is missing: which key?".into()));
        }
        Ok(uri)
    }
}

fn pairs(text: &str, between: char) -> impl Iterator<Item = (&str, &str)> {
    text.split(between).filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
}

/// `%41` is A; none when a % has not two digits.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    let digit = |bytes: &mut std::str::Bytes<'_>| char::from(bytes.next()?).to_digit(16);
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => u8::try_from(digit(&mut bytes)? * 16 + digit(&mut bytes)?).ok()?,
            byte => byte,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_or_say_what_is_wrong() {
        let check = |text: &str, expect: Result<TokenUri, &str>| {
            let found = TokenUri::parse(text).map_err(|error| error.to_string());
            assert_eq!(found, expect.map_err(|what| format!("cannot be read: PKCS#11 URI: {what}")), "{text}");
        };
        let uri = TokenUri {
            token: Some("my bank".into()),
            serial: None,
            object: Some("spb;3".into()),
            id: Some(vec![1, 0xfe]),
            module: "/lib/p11.so".into(),
        };
        check("pkcs11:token=my%20bank;object=spb%3B3;id=%01%FE;type=private?module-path=/lib/p11.so", Ok(uri));
        check(
            "pkcs11:token=a;object=b",
            Err("module-path is missing, as in ?module-path=/usr/lib/softhsm/libsofthsm2.so"),
        );
        check("pkcs11:token=a?module-path=/a", Err("object or id is missing: which key?"));
        check("pkcs11:object=%4?module-path=/a", Err("object has a % without two digits"));
        check("pkcs11:object=%FF?module-path=/a", Err("object is not UTF-8"));
        check(
            "pkcs11:object=a;pin-value=1?module-path=/a",
            Err("pin-value is not taken; give the PIN as the key's password"),
        );
        check("pkcs11:colour=a", Err("\"colour\", expected token, serial, object, id, type, module-path"));
        check("/a/file", Err("\"pkcs11:\" is expected first"));
        assert!(TokenUri::is_one("pkcs11:object=a") && !TokenUri::is_one("a.key"));
    }
}
