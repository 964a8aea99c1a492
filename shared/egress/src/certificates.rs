use std::collections::HashMap;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use webpki::EndEntityCert;

use crate::client::BuildError;

/// More than any public certificate authority needs.
const MAX_INTERMEDIATES: usize = 4;
/// With the receiver's own certificate. Chains of public authorities have 3,000 to 8,000 bytes.
const MAX_CHAIN_BYTES: usize = 16_000;
/// One certificate, and another one with which a second authority vouches for the same name.
const MAX_OF_ONE_NAME: usize = 2;

#[derive(Debug, thiserror::Error)]
#[error(
    "the receiver sent more than {MAX_INTERMEDIATES} intermediate certificates, or more than {MAX_CHAIN_BYTES} bytes of certificates"
)]
struct ChainTooLong;

/// Verifies certificates as usual, but only short chains that can be put in order in few ways: all ways are tried, and each is parsed and
/// verified again each time, while the thread does nothing else. Eleven certificates can take seconds, and four that are all issued in the
/// name of one authority 50 ms.
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

/// Without those that lead nowhere: a certificate that vouches for its own name, such as that of an authority, is trusted or not without
/// the receiver's copy.
pub(crate) fn useful<'a>(intermediates: &[CertificateDer<'a>]) -> Vec<CertificateDer<'a>> {
    let mut of_name: HashMap<Vec<u8>, Vec<&CertificateDer<'a>>> = HashMap::new();
    let mut useful = Vec::new();
    for certificate in intermediates {
        let Ok(parsed) = EndEntityCert::try_from(certificate) else { continue };
        if parsed.subject() == parsed.issuer() {
            continue;
        }
        let same = of_name.entry(parsed.subject().to_vec()).or_default();
        if same.len() < MAX_OF_ONE_NAME && !same.contains(&certificate) {
            same.push(certificate);
            useful.push(certificate.clone());
        }
    }
    useful
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
        let bytes = end_entity.len() + intermediates.iter().map(|sent| sent.len()).sum::<usize>();
        if intermediates.len() > MAX_INTERMEDIATES || bytes > MAX_CHAIN_BYTES {
            let error = OtherError(Arc::new(ChainTooLong));
            return Err(Error::InvalidCertificate(CertificateError::Other(error)));
        }
        self.0.verify_server_cert(end_entity, &useful(intermediates), server_name, ocsp_response, now)
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, Issuer, KeyPair};

    use super::*;

    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    fn issued(name: &str, by: &str) -> CertificateDer<'static> {
        let key = || KeyPair::generate().expect("a key");
        let issuer = Issuer::new(params(by), key());
        params(name).signed_by(&key(), &issuer).expect("a certificate").der().clone()
    }

    #[test]
    fn few_ways_lead_from_a_receiver_to_an_authority() {
        let [first, second, third] = ["X", "Y", "Z"].map(|by| issued("A", by));
        let next = issued("X", "root");
        let own = issued("root", "root");
        let sent = [&first, &first, &own, &second, &third, &next].map(Clone::clone);
        assert_eq!(useful(&sent), [first, second, next]);
        assert_eq!(useful(&[CertificateDer::from(vec![0x30, 0])]), []);
    }
}
