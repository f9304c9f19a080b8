//! The ports of the nodes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::connection;
use super::shared::Shared;
use crate::BrokerError;
use crate::cluster::NodeId;

/// How long a listener rests that got no connection, because there are no file descriptors left.
const REST: Duration = Duration::from_millis(100);

/// Makes every node listen.
pub(super) async fn listen_all(shared: &Shared) -> Result<Vec<(NodeId, SocketAddr)>, BrokerError> {
    let (nodes, port) = shared.with(|core, _| {
        let nodes: Vec<NodeId> = core.nodes.all().map(|node| node.id).collect();
        (nodes, core.settings.port)
    });
    let mut addresses = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let port = if port == 0 { 0 } else { port.saturating_add(index as u16) };
        addresses.push((node, listen(shared, node, port).await?));
    }
    Ok(addresses)
}

/// Makes a node listen, and tells the core where.
pub(super) async fn listen(shared: &Shared, node: NodeId, port: u16) -> Result<SocketAddr, BrokerError> {
    let host = shared.with(|core, _| core.settings.host.clone());
    let failed = |source| BrokerError::Listen { host: host.clone(), port, source };
    let listener = TcpListener::bind((host.as_str(), port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    shared.with(|core, _| {
        if let Some(node) = core.nodes.get_mut(node) {
            // The address and not the name: a client might find another address under it, where nobody listens.
            node.host = address.ip().to_string().into();
            node.port = address.port();
        }
    });
    log::info!("node {node} listens on {address}");
    let accepting: JoinHandle<()> = tokio::task::spawn_local(accept(shared.clone(), node, listener));
    shared.accepts(node, accepting);
    Ok(address)
}

async fn accept(shared: Shared, node: NodeId, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // Answers are written whole: there is nothing to wait for.
                let _ = stream.set_nodelay(true);
                tokio::task::spawn_local(connection::serve(shared.clone(), node, stream, peer.ip().to_string()));
            }
            // Out of file descriptors: those who are connected go on, and the next one may find a free one.
            Err(error) => {
                log::warn!("node {node} cannot accept a connection: {error}");
                tokio::time::sleep(REST).await;
            }
        }
    }
}
