//! The cheapest reading over TLS that rustls allows: ciphertext comes in large pieces and is decrypted where it lies.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::unbuffered::ConnectionState;
use rustls::{ClientConfig, RootCertStore};

const CIPHERTEXT_BYTES: usize = 256 << 10;
/// What rustls may say that a piece of a handshake takes: a record, and room for several of them.
const OUTGOING_BYTES: usize = 64 << 10;

/// An encrypted socket.
pub(crate) struct TlsSocket {
    socket: TcpStream,
    connection: UnbufferedClientConnection,
    /// Ciphertext that is not decrypted yet stands in `start..end`.
    ciphertext: Vec<u8>,
    start: usize,
    end: usize,
    /// What was decrypted and nobody has asked for yet, from `taken` on.
    rest: Vec<u8>,
    taken: usize,
}

impl TlsSocket {
    /// Encrypts a connection to the broker of this name, whose certificate one of the file's authorities issued.
    pub(crate) fn connect(socket: TcpStream, host: &str, authorities: &Path) -> Result<Self, Box<dyn Error>> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_file_iter(authorities)? {
            roots.add(certificate?)?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned())?;
        let connection = UnbufferedClientConnection::new(Arc::new(config), name)?;
        let ciphertext = vec![0; CIPHERTEXT_BYTES];
        let mut connected = Self { socket, connection, ciphertext, start: 0, end: 0, rest: Vec::new(), taken: 0 };
        connected.advance(&mut [], true)?;
        Ok(connected)
    }

    /// Goes on until something was decrypted, and returns how much of it is in `into`; during the handshake, until
    /// requests may be sent.
    fn advance(&mut self, into: &mut [u8], in_handshake: bool) -> io::Result<usize> {
        let (mut outgoing, mut filled) = (vec![0; if in_handshake { OUTGOING_BYTES } else { 0 }], 0);
        loop {
            let status = self.connection.process_tls_records(&mut self.ciphertext[self.start..self.end]);
            let mut wants_more = false;
            let mut decrypted = None;
            match status.state.map_err(io::Error::other)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    if let Some(record) = traffic.next_record() {
                        let payload = record.map_err(io::Error::other)?.payload;
                        let fits = payload.len().min(into.len());
                        into[..fits].copy_from_slice(&payload[..fits]);
                        self.rest.clear();
                        self.rest.extend_from_slice(&payload[fits..]);
                        self.taken = 0;
                        decrypted = Some(fits);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    filled += data.encode(&mut outgoing[filled..]).map_err(io::Error::other)?;
                }
                ConnectionState::TransmitTlsData(data) => {
                    self.socket.write_all(&outgoing[..filled])?;
                    filled = 0;
                    data.done();
                }
                ConnectionState::BlockedHandshake => wants_more = true,
                ConnectionState::WriteTraffic(_) if in_handshake => decrypted = Some(0),
                ConnectionState::WriteTraffic(_) => wants_more = true,
                other => return Err(io::Error::other(format!("the connection is {other:?}"))),
            }
            self.start += status.discard;
            if let Some(bytes) = decrypted {
                return Ok(bytes);
            }
            if wants_more {
                self.receive()?;
            }
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        self.ciphertext.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match self.socket.read(&mut self.ciphertext[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            more => {
                self.end += more;
                Ok(())
            }
        }
    }
}

impl Read for TlsSocket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.taken < self.rest.len() {
            let bytes = into.len().min(self.rest.len() - self.taken);
            into[..bytes].copy_from_slice(&self.rest[self.taken..self.taken + bytes]);
            self.taken += bytes;
            return Ok(bytes);
        }
        self.advance(into, false)
    }
}

impl Write for TlsSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut encrypted = vec![0; bytes.len() + OUTGOING_BYTES];
        let status = self.connection.process_tls_records(&mut self.ciphertext[self.start..self.end]);
        let written = match status.state.map_err(io::Error::other)? {
            ConnectionState::WriteTraffic(mut traffic) => {
                traffic.encrypt(bytes, &mut encrypted).map_err(io::Error::other)?
            }
            other => return Err(io::Error::other(format!("the connection is {other:?}"))),
        };
        self.start += status.discard;
        self.socket.write_all(&encrypted[..written])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
