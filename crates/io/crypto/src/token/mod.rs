//! Keys that stay in a token (PKCS#11): a hardware security module, a smart card, SoftHSM.
//!
//! A token is asked for one thing, number^d mod n (`CKM_RSA_X_509`): padding is put on and taken off here, in constant
//! time, as for keys in memory, so that no token's own words about a wrong padding reach anyone.
//!
//! ```text
//! pkcs11:token=bank;object=spb-3?module-path=/usr/lib/softhsm/libsofthsm2.so        a URI of RFC 7512
//! ```

mod uri;

pub use uri::TokenUri;

use crate::content::fill_random;
use crate::padding::pad_digest;
use crate::{Certificate, CryptoError, KeyError, MODULUS_BYTES, PublicKey};
use cryptoki::context::{CInitializeArgs, CInitializeFlags, Pkcs11};
use cryptoki::error::{Error, RvError};
use cryptoki::mechanism::Mechanism;
use cryptoki::object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle};
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use cryptoki::types::AuthPin;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use zeroize::Zeroizing;

/// Sessions that are kept for the next operation; more are closed.
const IDLE_MAX: usize = 16;

/// Each module is initialized once in a process and stays so.
static MODULES: Mutex<Option<HashMap<PathBuf, Pkcs11>>> = Mutex::new(None);

/// A private key inside a token.
pub(crate) struct TokenKey {
    context: Pkcs11,
    slot: Slot,
    key: ObjectHandle,
    pin: Option<Zeroizing<String>>,
    idle: Mutex<Vec<Session>>,
}

/// What a URI led to.
pub(crate) struct Found {
    pub(crate) key: TokenKey,
    /// The certificate that lies beside the key, with the same identifier.
    pub(crate) certificate: Option<Certificate>,
}

impl TokenKey {
    /// Finds the one key that a URI names.
    pub(crate) fn find(uri: &TokenUri, pin: Option<&str>) -> Result<Found, KeyError> {
        let context = module(&uri.module)?;
        let slot = slot(&context, uri)?;
        let pin = pin.map(|pin| Zeroizing::new(pin.to_owned()));
        let session = open(&context, slot, pin.as_ref())?;
        let mut named = vec![Attribute::Class(ObjectClass::PRIVATE_KEY), Attribute::KeyType(KeyType::RSA)];
        named.extend(uri.object.as_ref().map(|label| Attribute::Label(label.clone().into_bytes())));
        named.extend(uri.id.as_ref().map(|id| Attribute::Id(id.clone())));
        let found = session.find_objects(&named).map_err(|error| of_token(&error))?;
        let [key] = found[..] else { return Err(KeyError::Keys(found.len())) };
        let certificate = certificate_beside(&session, key);
        let key = Self { context, slot, key, pin, idle: Mutex::new(vec![session]) };
        Ok(Found { key, certificate })
    }

    /// Whether this is the private half of `public`: by a signature of something nobody chose.
    pub(crate) fn belongs_to(&self, public: &PublicKey) -> Result<bool, KeyError> {
        let mut digest = [0; 32];
        fill_random(&mut digest).map_err(|_| KeyError::Inconsistent)?;
        let signature = self.raw(&pad_digest(&digest)).map_err(|_| KeyError::Token(REFUSED.to_owned()))?;
        Ok(public.verify(&digest, &*signature))
    }

    /// number^d mod n. A session that failed is replaced once: tokens forget sessions when they are reset.
    pub(crate) fn raw(&self, number: &[u8; MODULUS_BYTES]) -> Result<Zeroizing<[u8; MODULUS_BYTES]>, CryptoError> {
        let kept = self.idle().pop();
        let attempt = kept.map(|session| self.raw_in(session, number));
        match attempt {
            Some(Ok(done)) => Ok(done),
            Some(Err(_)) | None => {
                let session = open(&self.context, self.slot, self.pin.as_ref()).map_err(|_| CryptoError::Token)?;
                self.raw_in(session, number).map_err(|_| CryptoError::Token)
            }
        }
    }

    fn raw_in(&self, session: Session, number: &[u8; MODULUS_BYTES]) -> Result<Zeroizing<[u8; MODULUS_BYTES]>, Error> {
        let bytes = Zeroizing::new(session.decrypt(&Mechanism::RsaX509, self.key, number)?);
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(session);
        }
        drop(idle);
        let mut out = Zeroizing::new([0; MODULUS_BYTES]);
        // Some tokens leave zeros in front away.
        let start = MODULUS_BYTES.checked_sub(bytes.len()).ok_or(Error::InvalidValue)?;
        out[start..].copy_from_slice(&bytes);
        Ok(out)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Session>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenKey in slot {}", self.slot.id())
    }
}

const REFUSED: &str = "the token does not decrypt with this key by CKM_RSA_X_509";

fn of_token(error: &Error) -> KeyError {
    KeyError::Token(error.to_string())
}

fn module(path: &Path) -> Result<Pkcs11, KeyError> {
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let modules = modules.get_or_insert_default();
    if let Some(known) = modules.get(path) {
        return Ok(known.clone());
    }
    let named = |error: &Error| KeyError::Token(format!("{}: {error}", path.display()));
    let context = Pkcs11::new(path).map_err(|error| named(&error))?;
    match context.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(named(&error)),
    }
    modules.insert(path.to_owned(), context.clone());
    Ok(context)
}

/// The one token that a URI names.
fn slot(context: &Pkcs11, uri: &TokenUri) -> Result<Slot, KeyError> {
    let slots = context.get_slots_with_initialized_token().map_err(|error| of_token(&error))?;
    let named = |slot: &Slot| {
        let Ok(info) = context.get_token_info(*slot) else { return false };
        uri.token.as_ref().is_none_or(|token| token == info.label())
            && uri.serial.as_ref().is_none_or(|serial| serial == info.serial_number())
    };
    let found: Vec<_> = slots.into_iter().filter(named).collect();
    match found[..] {
        [slot] => Ok(slot),
        _ => Err(KeyError::Token(format!("{} tokens of that name; name one by token and serial", found.len()))),
    }
}

/// A session that may use private keys. Logging in is for all sessions of a process together.
fn open(context: &Pkcs11, slot: Slot, pin: Option<&Zeroizing<String>>) -> Result<Session, KeyError> {
    let session = context.open_ro_session(slot).map_err(|error| of_token(&error))?;
    let Some(pin) = pin else { return Ok(session) };
    match session.login(UserType::User, Some(&AuthPin::new(pin.as_str().into()))) {
        Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
        Err(Error::Pkcs11(RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange, _)) => {
            Err(KeyError::Password)
        }
        Err(error) => Err(of_token(&error)),
    }
}

fn certificate_beside(session: &Session, key: ObjectHandle) -> Option<Certificate> {
    let id = session.get_attributes(key, &[AttributeType::Id]).ok()?;
    let id = id.into_iter().find(|attribute| matches!(attribute, Attribute::Id(id) if !id.is_empty()))?;
    let found = session.find_objects(&[Attribute::Class(ObjectClass::CERTIFICATE), id]).ok()?;
    let values = session.get_attributes(*found.first()?, &[AttributeType::Value]).ok()?;
    values.iter().find_map(|value| match value {
        Attribute::Value(der) => Certificate::from_der(der).ok(),
        _ => None,
    })
}
