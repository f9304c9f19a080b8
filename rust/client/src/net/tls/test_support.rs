//! Fixtures of the tests of TLS: certificates made on the spot, and a server that has them.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::material::Problem;
use super::*;
use crate::config::ClientConfig;
use crate::error::ClientError;

pub(super) struct Authority(pub(super) CertifiedIssuer<'static, KeyPair>);

pub(super) struct Certified {
    pub(super) chain: String,
    pub(super) key: String,
}

impl Authority {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self::named(&format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed"))
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn sign(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
        let mut params =
            CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("names");
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let chain = params.signed_by(&key, &self.0).expect("signed").pem();
        Certified { chain, key: key.serialize_pem() }
    }

    pub(super) fn server(&self) -> Certified {
        self.sign(&["localhost", "127.0.0.1"], |_| {})
    }
}

pub(super) fn self_signed(names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Certified {
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).expect("names");
    change(&mut params);
    let key = KeyPair::generate().expect("a key");
    Certified { chain: params.self_signed(&key).expect("signed").pem(), key: key.serialize_pem() }
}

/// A directory for the test's files, removed with it.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("monedula-tls-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub(super) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).expect("is written");
        path.to_str().expect("text").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub(super) fn server_config(
    certified: &Certified,
    clients: Option<&Authority>,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> ServerConfig {
    let material = material::read(format!("{}{}", certified.chain, certified.key).as_bytes(), None, Default::default());
    let material = material.map_err(|Problem(what)| what).expect("material");
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_protocol_versions(versions).expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = rustls::RootCertStore::empty();
            roots.add(authority.0.der().clone()).expect("a root");
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().expect("verifier");
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder.with_single_cert(material.certificates, material.key.expect("a key")).expect("a certificate with its key")
}

pub(super) const BOTH: &[&rustls::SupportedProtocolVersion] = &[&rustls::version::TLS12, &rustls::version::TLS13];

/// Serves connections that echo what they get.
pub(super) async fn serve(config: ServerConfig) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut bytes = [0; 64];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

/// A server that answers whatever comes with these bytes.
pub(in crate::net) async fn answering(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 16];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(bytes).await;
        }
    });
    port
}

pub(super) fn parse(settings: &[(&str, &str)]) -> Result<ClientConfig, ConfigError> {
    let needed = [("bootstrap.servers", "localhost:1"), ("security.protocol", "SSL")];
    ClientConfig::parse(needed.iter().chain(settings).copied())
}

pub(super) fn tls(settings: &[(&str, &str)]) -> Arc<Tls> {
    parse(settings).expect("settings").tls.expect("TLS")
}

pub(super) async fn reach(tls: &Arc<Tls>, host: &str, port: u16) -> Result<(), String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("connects");
    let log = Log::default();
    let mut stream = tls.connect((host, port), stream, 4096, &log).await.map_err(|error| text(&error))?;
    let late = |error: std::io::Error| {
        alert_after_handshake("broker:1", &error).map_or_else(|| format!("not refused: {error}"), |error| text(&error))
    };
    stream.write_all(b"x").await.map_err(late)?;
    stream.flush().await.map_err(late)?;
    let mut byte = [0];
    stream.read_exact(&mut byte).await.map_err(late)?;
    assert_eq!(&byte, b"x");
    Ok(())
}

pub(super) fn text(error: &RequestError) -> String {
    match error {
        RequestError::Fatal(fatal) if matches!(**fatal, ClientError::Authentication(_)) => format!("refused: {fatal}"),
        other => format!("not refused: {other}"),
    }
}
