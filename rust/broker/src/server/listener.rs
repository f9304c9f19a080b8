//! The ports of the nodes.

use std::net::SocketAddr;

use tokio::net::TcpListener;

use super::connection;
use super::shared::Shared;
use crate::BrokerError;
use crate::cluster::NodeId;

/// Makes every node listen.
pub(super) async fn listen_all(shared: &Shared) -> Result<Vec<(NodeId, SocketAddr)>, BrokerError> {
    let (nodes, host, port) = shared.with(|core, _| {
        let nodes: Vec<NodeId> = core.nodes.all().map(|node| node.id).collect();
        (nodes, core.settings.host.clone(), core.settings.port)
    });
    let mut addresses = Vec::new();
    for (index, node) in nodes.into_iter().enumerate() {
        let port = if port == 0 { 0 } else { port.saturating_add(index as u16) };
        addresses.push((node, listen(shared, node, &host, port).await?));
    }
    Ok(addresses)
}

/// Makes a node listen, and tells the core where.
async fn listen(shared: &Shared, node: NodeId, host: &str, port: u16) -> Result<SocketAddr, BrokerError> {
    let failed = |source| BrokerError::Listen { host: host.to_owned(), port, source };
    let listener = TcpListener::bind((host, port)).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    shared.with(|core, _| {
        if let Some(node) = core.nodes.get_mut(node) {
            node.port = address.port();
        }
    });
    log::info!("node {node} listens on {address}");
    tokio::task::spawn_local(accept(shared.clone(), node, listener));
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
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}
