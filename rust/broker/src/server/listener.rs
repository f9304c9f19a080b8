//! The listening sockets of the nodes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::shared::{Entrance, Shared};
use super::{connection, tls};
use crate::BrokerError;
use crate::cluster::NodeId;
use crate::security::{Principal, SecurityProtocol};

/// The pause of a listener after a failed accept, which happens if there are no file descriptors left.
pub(super) const REST: Duration = Duration::from_millis(100);

/// Opens the ports of all nodes. Returns those of the first listener of each.
pub(super) async fn listen_all(shared: &Shared) -> Result<Vec<(NodeId, SocketAddr)>, BrokerError> {
    let (nodes, protocols, first_port) = shared.with(|core, _| {
        let nodes: Vec<NodeId> = core.nodes.all().map(|node| node.id).collect();
        let protocols: Vec<SecurityProtocol> = core.settings.security.protocols().collect();
        (nodes, protocols, core.settings.port)
    });
    let mut addresses = Vec::new();
    let mut ports = first_port..=u16::MAX;
    for protocol in protocols {
        for &node in &nodes {
            let port = if first_port == 0 { 0 } else { ports.next().unwrap_or(u16::MAX) };
            addresses.push((node, listen(shared, node, protocol, port).await?));
        }
    }
    addresses.truncate(nodes.len());
    Ok(addresses)
}

/// Opens the port of a node's listener, and sets the node's address in the core.
pub(super) async fn listen(
    shared: &Shared,
    node: NodeId,
    protocol: SecurityProtocol,
    port: u16,
) -> Result<SocketAddr, BrokerError> {
    let host = shared.with(|core, _| core.settings.host.clone());
    let failed = |source| BrokerError::Listen { host: host.clone(), port, source };
    let listener = TcpListener::bind((host.as_str(), port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    shared.with(|core, _| {
        let is_first = protocol == core.settings.security.protocol;
        if let Some(node) = core.nodes.get_mut(node) {
            // The address, not the host name: a client might resolve the name to another address, which has no
            // listener.
            node.host = address.ip().to_string().into();
            match is_first {
                true => node.port = address.port(),
                false => drop(node.other_ports.insert(protocol, address.port())),
            }
        }
    });
    log::info!("node {node} listens on {address} for {}", protocol.name());
    let accepting: JoinHandle<()> = tokio::task::spawn_local(accept(shared.clone(), node, protocol, listener));
    shared.accepts(node, accepting);
    Ok(address)
}

/// True if the node runs. It may have been stopped since a connection was accepted, which nobody would ever close then.
fn is_alive(shared: &Shared, node: NodeId) -> bool {
    shared.with(|core, _| core.nodes.get(node).is_some_and(|node| node.alive))
}

/// Begins a connection and serves it.
async fn enter(shared: Shared, node: NodeId, protocol: SecurityProtocol, stream: TcpStream, host: String) {
    if !is_alive(&shared, node) {
        return;
    }
    let acceptor = match shared.entrance(protocol) {
        Entrance::Plain => return connection::serve(shared, node, protocol, stream, host, None).await,
        Entrance::Tls(acceptor) => acceptor,
        Entrance::Silent => return connection::stay_silent(shared, node, protocol, stream, host).await,
    };
    // A client that never ends its handshake holds the connection no longer than an idle one.
    let accepting = acceptor.accept(stream);
    let accepted = tokio::select! {
        accepted = accepting => accepted,
        () = connection::idle(connection::max_idle(&shared)) => return log::info!("a TLS handshake of {host} took too long"),
    };
    match accepted {
        Ok(_) if !is_alive(&shared, node) => {}
        Ok(stream) => {
            let subject = tls::client_subject(&stream);
            let mapped = |subject: &String| {
                shared.with(|core, _| core.settings.security.principal_mapping.apply(subject)).ok_or(())
            };
            match subject.as_ref().map(mapped).transpose() {
                Ok(name) => {
                    let principal = name.map(|name| Principal::user(&name));
                    connection::serve(shared, node, protocol, stream, host, principal).await;
                }
                Err(()) => log::info!("no rule of ssl.principal.mapping.rules matches {subject:?} of {host}"),
            }
        }
        Err(error) => log::info!("the TLS handshake of {host} with node {node} failed: {error}"),
    }
}

async fn accept(shared: Shared, node: NodeId, protocol: SecurityProtocol, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are written whole, so Nagle's algorithm would only delay them.
                let _ = stream.set_nodelay(true);
                tokio::task::spawn_local(enter(shared.clone(), node, protocol, stream, peer.ip().to_string()));
            }
            // Out of file descriptors: open connections go on, and a later accept may find a free one.
            Err(error) => {
                log::warn!("node {node} cannot accept a connection: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}
