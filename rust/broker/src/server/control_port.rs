//! The control port: each command is a line of JSON, and each answer is another.
//!
//! For example, `{"command": "stop_node", "node": 2}` is answered with `{"ok": null}` or with `{"error": "..."}`. The
//! commands of a connection are carried out one after the other. The port listens on loopback only. A line that is not
//! a command is answered with an error, and the connection is closed: otherwise a web page that posts to every local
//! port could get a command carried out behind its HTTP headers.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::commands;
use super::listener::REST;
use super::shared::Shared;
use crate::BrokerError;
use crate::control::Command;

/// The longest line. The longest commands are those that append records.
const MAX_LINE_BYTES: u64 = 16 * 1024 * 1024;

/// Opens the control port.
pub(super) async fn listen(shared: &Shared, port: u16) -> Result<SocketAddr, BrokerError> {
    let host = Ipv4Addr::LOCALHOST;
    let failed = |source| BrokerError::Listen { host: host.to_string(), port, source };
    let listener = TcpListener::bind((host, port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    log::info!("commands are taken on {address}");
    let shared = shared.clone();
    tokio::task::spawn_local(async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => _ = tokio::task::spawn_local(converse(shared.clone(), stream)),
                // Out of file descriptors: open connections go on, and a later accept may find a free one.
                Err(error) => {
                    log::warn!("the control port cannot accept a connection: {error}");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    });
    Ok(address)
}

async fn converse(shared: Shared, mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    if let Err(error) = answer_all(&shared, &mut stream).await {
        log::info!("a connection to the control port ended: {error}");
    }
}

async fn answer_all(shared: &Shared, stream: &mut TcpStream) -> io::Result<()> {
    let (reader, mut writer) = stream.split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(MAX_LINE_BYTES + 1).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok(());
        }
        let command = if line.len() as u64 > MAX_LINE_BYTES {
            Err(format!("a line has more than {MAX_LINE_BYTES} bytes"))
        } else {
            serde_json::from_slice::<Command>(&line).map_err(|error| format!("this is no command: {error}"))
        };
        let (answer, goes_on) = match command {
            Ok(command) => (outcome(commands::carry_out(shared, command).await), true),
            Err(problem) => (json!({ "error": problem }), false),
        };
        writer.write_all(format!("{answer}\n").as_bytes()).await?;
        if !goes_on {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "what it sent is no command"));
        }
    }
}

fn outcome(result: Result<Value, BrokerError>) -> Value {
    match result {
        Ok(value) => json!({ "ok": value }),
        Err(error) => json!({ "error": error.to_string() }),
    }
}
