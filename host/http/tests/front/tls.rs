//! TLS: a client that trusts the certificate is served, others are let go, and a new certificate is taken over.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use onebit_http::{HttpConfig, Listen, ServeError, Server, TlsFiles};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use super::client::{Answer, parse, request};
use super::script::{Script, config, greeting, serve_with};

/// A certificate for `localhost` and its key, in files.
struct Pair {
    dir: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let pair = Self { dir: tempfile::tempdir().unwrap() };
        pair.renew();
        pair
    }

    fn renew(&self) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(self.file("cert.pem"), made.cert.pem()).unwrap();
        std::fs::write(self.file("key.pem"), made.signing_key.serialize_pem()).unwrap();
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> HttpConfig {
        HttpConfig { tls: Some(TlsFiles { cert: self.file("cert.pem"), key: self.file("key.pem") }), ..config() }
    }

    /// A client that trusts the certificate as it is now, and nothing else.
    fn client(&self) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.file("cert.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        TlsConnector::from(Arc::new(config))
    }
}

async fn ask(client: &TlsConnector, port: u16, bytes: &[u8]) -> std::io::Result<Answer> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = client.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    stream.write_all(bytes).await?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await?;
    Ok(parse(&all))
}

#[tokio::test]
async fn whole_answers_and_streams_come_through_and_a_stranger_is_refused() {
    let pair = Pair::new();
    let server = serve_with(&Script::new(greeting), pair.config()).await;
    let client = pair.client();
    for stream in [true, false] {
        let body = json!({"model": "demo", "prompt": "x", "stream": stream}).to_string();
        let answer = ask(&client, server.port(), &request("POST", "/v1/completions", &[], body.as_bytes())).await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.text().contains("漢"), "{}", answer.text());
    }
    assert!(ask(&Pair::new().client(), server.port(), &request("GET", "/healthz", &[], b"")).await.is_err(), "another certificate");
    assert_eq!(ask(&client, server.port(), &request("GET", "/healthz", &[], b"")).await.unwrap().status, 200, "the server lives");
}

#[tokio::test]
async fn plain_http_gets_no_answer_and_a_slow_handshake_is_let_go() {
    let pair = Pair::new();
    let server = serve_with(&Script::new(greeting), HttpConfig { header_timeout: Duration::from_millis(300), ..pair.config() }).await;
    for bytes in [&b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], b"\x16\x03\x01"] {
        let mut client = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
        client.write_all(bytes).await.unwrap();
        let mut all = Vec::new();
        // A reset is an end, too.
        let _ = tokio::time::timeout(Duration::from_secs(5), client.read_to_end(&mut all)).await.expect("closed");
        assert!(!all.starts_with(b"HTTP"), "{}", String::from_utf8_lossy(&all));
    }
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_a_handshake() {
    let pair = Pair::new();
    let server = serve_with(&Script::new(greeting), pair.config()).await;
    let _silent = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    tokio::time::timeout(Duration::from_secs(2), server.stop()).await.expect("nothing is left to wait for").unwrap();
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_over_once_both_files_fit() {
    let pair = Pair::new();
    let server = serve_with(&Script::new(greeting), pair.config()).await;
    let (old, head) = (pair.client(), request("GET", "/readyz", &[], b""));
    let key = std::fs::read(pair.file("key.pem")).unwrap();
    pair.renew();
    let (new, new_key) = (pair.client(), std::fs::read(pair.file("key.pem")).unwrap());
    // Between the two files: the new certificate with the old key.
    std::fs::write(pair.file("key.pem"), key).unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let ready = ask(&old, server.port(), &head).await.expect("the old one still holds").json();
    assert_eq!(ready["not_reloaded"][0]["setting"], "tls_cert");
    assert!(ready["not_reloaded"][0]["problem"].as_str().unwrap().contains("does not belong"), "{ready}");
    std::fs::write(pair.file("key.pem"), new_key).unwrap();
    for _ in 0..100 {
        if let Ok(answer) = ask(&new, server.port(), &head).await {
            assert!(answer.json().get("not_reloaded").is_none());
            assert!(ask(&old, server.port(), &head).await.is_err());
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the new certificate is not in use");
}

#[tokio::test]
async fn a_socket_file_stays_plain() {
    let pair = Pair::new();
    let path = pair.file("s.sock");
    let _server = serve_with(&Script::new(greeting), HttpConfig { listen: vec![Listen::Unix(path.clone())], ..pair.config() }).await;
    let mut client = UnixStream::connect(&path).await.unwrap();
    client.write_all(&request("GET", "/healthz", &[], b"")).await.unwrap();
    let mut all = Vec::new();
    client.read_to_end(&mut all).await.unwrap();
    assert_eq!(parse(&all).status, 200);
}

#[tokio::test]
async fn a_server_does_not_start_with_files_that_do_not_fit() {
    let (pair, other) = (Pair::new(), Pair::new());
    let start = async |cert: PathBuf, key: PathBuf| {
        let config = HttpConfig { tls: Some(TlsFiles { cert, key }), ..config() };
        Server::bind(Arc::new(Script::new(greeting)), &config).await.map(drop)
    };
    let error = start(pair.file("cert.pem"), other.file("key.pem")).await.unwrap_err();
    assert!(matches!(error, ServeError::Tls { .. }) && error.to_string().contains("does not belong"), "{error}");
    assert!(matches!(start(pair.file("none"), pair.file("key.pem")).await, Err(ServeError::File { .. })));
}
