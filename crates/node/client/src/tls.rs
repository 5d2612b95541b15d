//! HTTP over TLS, with the same certificates as MQTT, and what a user can do about a handshake that fails.

use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConnection, StreamOwned};
use std::fmt;
use std::io::{self, Read, Write};
use tieline_net::tls::ClientTls;
use ureq::Error;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout, Transport, TransportAdapter,
};

/// Puts TLS on connections of `https`.
#[derive(Debug)]
pub(crate) struct Tls(pub(crate) ClientTls);

impl<In: Transport> Connector<In> for Tls {
    type Out = Either<In, Records>;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else { return Ok(None) };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let host = details.uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let name = ServerName::try_from(host).map_err(|_| Error::Tls("the address names no host"))?;
        let wrong = |error| Error::Io(explained(io::Error::new(io::ErrorKind::InvalidData, error)));
        let mut records = ClientConnection::new(self.0.config(), name).map_err(wrong)?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        records.complete_io(&mut socket).map_err(|error| Error::Io(explained(error)))?;
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(Either::B(Records { buffers, stream: StreamOwned { conn: records, sock: socket } })))
    }
}

/// A connection inside TLS.
pub(crate) struct Records {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

impl Transport for Records {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        let output = self.buffers.output().get(..amount).unwrap_or_default();
        self.stream.write_all(output).map_err(|error| Error::Io(explained(error)))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let read = self.stream.read(self.buffers.input_append_buf());
        let amount = match read {
            // Many peers close without a goodbye; HTTP notices what was cut.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            other => other.map_err(|error| Error::Io(explained(error)))?,
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}

/// Says what a user can do about it, where there is something.
pub(crate) fn explained(error: io::Error) -> io::Error {
    use rustls::{Error, InvalidMessage};
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let advice = match cause {
        // What is not of an authority at all, as most self-signed certificates are not, is one of the others.
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::Other(_))) => {
            "its certificate is not trusted here; --ca names a file with the certificate of its authority, or with its own"
        }
        Some(Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "its certificate is for other names than that of the address; --ca with a file of this very certificate trusts \
             it under any name"
        }
        Some(Error::InvalidMessage(InvalidMessage::InvalidContentType)) => "it does not speak TLS at this address",
        Some(Error::AlertReceived(AlertDescription::CertificateRequired)) => {
            "it wants a certificate; --cert and --key name one"
        }
        Some(Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError)) => {
            "it does not trust the certificate of --cert"
        }
        Some(Error::AlertReceived(alert)) if CERTIFICATE_ALERTS.contains(alert) => {
            "it refuses the certificate of --cert"
        }
        Some(_) | None => return error,
    };
    io::Error::new(error.kind(), format!("{advice} ({error})"))
}

/// Alerts about the other side's certificate (RFC 8446 section 6.2), besides that there has to be one.
const CERTIFICATE_ALERTS: [AlertDescription; 8] = [
    AlertDescription::UnknownCA,
    AlertDescription::DecryptError,
    AlertDescription::BadCertificate,
    AlertDescription::UnsupportedCertificate,
    AlertDescription::CertificateRevoked,
    AlertDescription::CertificateExpired,
    AlertDescription::CertificateUnknown,
    AlertDescription::AccessDenied,
];

/// What a connection that seemed to be made was ended by. In TLS 1.3 a client is through with the handshake before the
/// server has looked at its certificate, and hears of it with its first read.
pub(crate) fn refused(alert: &str) -> io::Error {
    let mut about_ours = CERTIFICATE_ALERTS.into_iter().chain([AlertDescription::CertificateRequired]);
    match about_ours.find(|known| known.as_str() == Some(alert)) {
        Some(known) => explained(io::Error::new(io::ErrorKind::InvalidData, rustls::Error::AlertReceived(known))),
        None => io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {alert}")),
    }
}

/// An error that somebody else keeps, with its cause where that is one of TLS.
pub(crate) fn copied(error: &io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(cause) => io::Error::new(error.kind(), cause.clone()),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{Error, OtherError};
    use std::sync::Arc;

    #[test]
    fn a_certificate_that_is_not_trusted_says_what_to_do() {
        let check = |error: CertificateError, expect: &str| {
            let error = io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(error));
            let told = explained(error).to_string();
            assert!(told.starts_with(expect), "{told}");
        };
        let untrusted = "its certificate is not trusted here; --ca names a file";
        check(CertificateError::UnknownIssuer, untrusted);
        // As a self-signed certificate of OpenSSL is refused: it is one of an authority, and shown by a server.
        let other = io::Error::other("CaUsedAsEndEntity");
        check(CertificateError::Other(OtherError(Arc::new(other))), untrusted);
        check(CertificateError::NotValidForName, "its certificate is for other names");
        check(CertificateError::Revoked, "invalid peer certificate");
    }
}
