use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};

use crate::client::BuildError;

/// More than any public certificate authority needs.
const MAX_INTERMEDIATES: usize = 4;
const MAX_CHAIN_BYTES: usize = 64_000;

#[derive(Debug, thiserror::Error)]
#[error(
    "the receiver sent more than {MAX_INTERMEDIATES} intermediate certificates, or more than {MAX_CHAIN_BYTES} bytes of them"
)]
struct ChainTooLong;

/// Verifies certificates as usual, but only short chains: the ways in which a receiver's certificates can be put in order are all tried,
/// and each is parsed again each time, while the thread does nothing else. Eleven certificates can take seconds.
#[derive(Debug)]
pub(crate) struct ShortChains(Arc<WebPkiServerVerifier>);

impl ShortChains {
    pub(crate) fn new(
        roots: RootCertStore,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ShortChains, BuildError> {
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        Ok(ShortChains(verifier.build().map_err(|_| BuildError::Roots)?))
    }
}

impl ServerCertVerifier for ShortChains {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let bytes: usize = intermediates.iter().map(|certificate| certificate.len()).sum();
        if intermediates.len() > MAX_INTERMEDIATES || bytes > MAX_CHAIN_BYTES {
            let error = OtherError(Arc::new(ChainTooLong));
            return Err(Error::InvalidCertificate(CertificateError::Other(error)));
        }
        self.0.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
