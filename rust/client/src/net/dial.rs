//! A socket to a broker, by the name that the broker goes by.

use std::net::SocketAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// How long an address may keep the next one waiting (the Connection Attempt Delay of RFC 8305). Both are tried from then on.
const HEAD_START: Duration = Duration::from_millis(250);

/// After so long without a word the system asks whether the other side is there: firewalls and load balancers forget what is
/// silent for some minutes, and tell nobody.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Then so often,
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// and so many times, until the connection is given up.
#[cfg(not(windows))]
const KEEPALIVE_PROBES: u32 = 4;

/// How sockets are made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialer {
    /// For the lookup of the name, and for each of its addresses.
    pub(crate) timeout: Duration,
    pub(crate) receive_buffer_bytes: Option<usize>,
}

impl Dialer {
    /// A connection to one of the addresses that the name stands for.
    ///
    /// # Errors
    /// What happened, at each address where there are several.
    pub(crate) async fn dial(self, host: &str, port: u16) -> Result<TcpStream, String> {
        let found = tokio::time::timeout(self.timeout, tokio::net::lookup_host((host, port))).await;
        let found =
            found.map_err(|_| format!("the name {host} was not found within {} ms", self.timeout.as_millis()))?;
        let addresses: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.collect();
        match addresses.is_empty() {
            true => Err(format!("the name {host} stands for no address")),
            false => self.dial_any(addresses).await,
        }
    }

    /// A connection to the first address that takes one. The next one is tried as soon as one fails or keeps waiting for a
    /// moment: of a name's addresses some may lead nowhere, as those of IPv6 do in many networks.
    pub(crate) async fn dial_any(self, addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
        let several = addresses.len() > 1;
        let mut left = addresses.into_iter();
        let (mut attempts, mut failures) = (JoinSet::new(), Vec::new());
        loop {
            if let Some(address) = left.next() {
                attempts.spawn(async move {
                    let named = |reason: String| if several { format!("{address}: {reason}") } else { reason };
                    match tokio::time::timeout(self.timeout, self.connect(address)).await {
                        Ok(connected) => connected.map_err(|error| named(error.to_string())),
                        Err(_) => Err(named(format!("no connection within {} ms", self.timeout.as_millis()))),
                    }
                });
            }
            tokio::select! {
                attempt = attempts.join_next() => match attempt {
                    Some(Ok(Ok(stream))) => return Ok(stream),
                    Some(Ok(Err(reason))) => failures.push(reason),
                    Some(Err(error)) => failures.push(error.to_string()),
                    None => return Err(failures.join("; ")),
                },
                () = tokio::time::sleep(HEAD_START), if left.len() > 0 => {}
            }
        }
    }

    async fn connect(self, address: SocketAddr) -> std::io::Result<TcpStream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(u32::try_from(bytes).unwrap_or(u32::MAX))?;
        }
        socket.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        #[cfg(not(windows))]
        let keepalive = keepalive.with_retries(KEEPALIVE_PROBES);
        SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
        socket.connect(address).await
    }
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
