//! Connecting a socket to a broker, by the broker's host name.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::{blocking, run_time};

/// Time for which an address may keep the next one waiting (Connection Attempt Delay, RFC 8305); then both are tried.
const HEAD_START: Duration = Duration::from_millis(250);

/// TCP keepalive probes begin after so long without traffic: firewalls and load balancers silently drop connections
/// that are idle for some minutes.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
/// Time between two probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Unanswered probes after which the system ends the connection.
#[cfg(not(windows))]
const KEEPALIVE_PROBES: u32 = 4;

/// Settings of new sockets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dialer {
    /// Time for the DNS lookup, and for each address.
    pub(crate) timeout: Duration,
    pub(crate) receive_buffer_bytes: Option<usize>,
}

impl Dialer {
    /// Connects to one of the addresses of the name.
    ///
    /// # Errors
    /// Failure, by address where there are several.
    pub(crate) async fn dial(self, host: &str, port: u16) -> Result<TcpStream, String> {
        self.dial_any(self.addresses(host, port).await?).await
    }

    /// The addresses of the name: at least one.
    pub(crate) async fn addresses(self, host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let found = run_time::timeout(self.timeout, looked_up(host.to_owned(), port)).await;
        let found =
            found.ok_or_else(|| format!("the name {host} was not found within {} ms", self.timeout.as_millis()))?;
        let addresses = found?;
        match addresses.is_empty() {
            true => Err(format!("the name {host} stands for no address")),
            false => Ok(addresses),
        }
    }

    /// Connects to the address that answers first. The next one is tried as soon as one fails, or has not answered for
    /// a moment: some of a name's addresses may lead nowhere, as those of IPv6 do in many networks.
    pub(crate) async fn dial_any(self, addresses: Vec<SocketAddr>) -> Result<TcpStream, String> {
        let several = addresses.len() > 1;
        let mut left = addresses.into_iter();
        let (mut attempts, mut failures) = (JoinSet::new(), Vec::new());
        loop {
            if let Some(address) = left.next() {
                attempts.spawn(async move {
                    let named = |reason: String| if several { format!("{address}: {reason}") } else { reason };
                    match run_time::timeout(self.timeout, self.connect(address)).await {
                        Some(connected) => connected.map_err(|error| named(error.to_string())),
                        None => Err(named(format!("no connection within {} ms", self.timeout.as_millis()))),
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

/// The addresses of a name, which are looked up on a thread that may block.
async fn looked_up(host: String, port: u16) -> Result<Vec<SocketAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let found = blocking::run(move || (host.as_str(), port).to_socket_addrs().map(Vec::from_iter)).await;
    found.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "dial_tests.rs"]
mod tests;
