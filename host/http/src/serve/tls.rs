//! TLS in front of the TCP listeners: one certificate, read again when its files change. Connections that are open keep the one they have.
//!
//! Both files must fit each other. While they are being replaced one after the other they do not; then the old pair goes on until they do.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ServeError;
use crate::config::TlsFiles;
use crate::reload::{Reloaded, Watch};

/// What turns a connection into one that others cannot read.
#[derive(Debug, Clone)]
pub(crate) struct Tls(Arc<Reloaded<ServerConfig>>);

impl Tls {
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, ServeError> {
        let TlsFiles { cert, key } = files.clone();
        let paths = vec![cert.clone(), key.clone()];
        Ok(Self(Reloaded::open("tls_cert", paths, move |_| config(&cert, &key))?))
    }

    pub(crate) fn watched(&self) -> Arc<dyn Watch> {
        Arc::clone(&self.0) as Arc<dyn Watch>
    }

    /// The handshake. Whoever calls it bounds its time.
    pub(super) async fn accept<S: AsyncRead + AsyncWrite + Unpin>(&self, stream: S) -> std::io::Result<TlsStream<S>> {
        TlsAcceptor::from(self.0.get()).accept(stream).await
    }
}

fn config(cert: &Path, key: &Path) -> Result<ServerConfig, ServeError> {
    let wrong = |path: &Path, reason: &str| ServeError::Tls { path: path.to_owned(), reason: reason.to_owned() };
    let text = read(cert, "certificate")?;
    let certificates = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(cert, &format!("is not PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(wrong(cert, "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key, "private key")?).map_err(|error| match error {
        pem::Error::NoItemsFound => wrong(key, "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)"),
        error => wrong(key, &format!("is not PEM: {error}")),
    })?;
    // Named here, because a program that embeds the server may not have chosen one for the process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| wrong(cert, &format!("cannot be used: {error}")))?.with_no_client_auth();
    let mut config = builder.with_single_cert(certificates, private).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => wrong(key, &format!("does not belong to the certificate {}", cert.display())),
        error => wrong(cert, &format!("cannot be used with the key {}: {error}", key.display())),
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

fn read(path: &Path, what: &'static str) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|error| ServeError::File { what, path: path.to_owned(), error })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_used_say_which_and_why() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let made = |name: &str| {
            let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            (file(&format!("{name}.pem"), &made.cert.pem()), file(&format!("{name}.key"), &made.signing_key.serialize_pem()))
        };
        let ((cert, key), (_, other)) = (made("one"), made("other"));
        let (nothing, none) = (file("nothing", "hello\n"), dir.path().join("none"));
        let broken = file("broken", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
        assert!(config(&cert, &key).is_ok());
        for (cert, key, parts) in [
            (&cert, &other, ["other.key", "does not belong"]),
            (&nothing, &key, ["nothing", "no certificate"]),
            (&broken, &key, ["broken", "not PEM"]),
            (&cert, &nothing, ["nothing", "no private key"]),
            (&cert, &cert, ["one.pem", "no private key"]),
            (&none, &key, ["none", "No such file"]),
            (&cert, &none, ["none", "No such file"]),
        ] {
            let error = config(cert, key).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{parts:?}: {error}");
        }
    }
}
