//! The commands about nodes, leaders, coordinators, in-sync replicas and connections.

use monedula_protocol::base64;
use serde_json::{Map, Value, json};

use super::logs::refused;
use crate::BrokerError;
use crate::cluster::{Coordinated, Node, NodeId};
use crate::core::Core;
use crate::security::SecurityProtocol;

impl Core {
    pub(super) fn describe_client_metrics(&self) -> Value {
        let described = self.client_metrics.pushes().map(|push| {
            json!({
                "node": push.node.0,
                "client_id": push.client_id,
                "client_instance_id": push.client_instance_id.to_string(),
                "subscription_id": push.subscription_id,
                "terminating": push.terminating,
                "compression": push.compression,
                "metrics": base64::encode(&push.metrics),
            })
        });
        described.collect()
    }

    pub(super) fn move_leader(&mut self, topic: &str, partition: i32, node: NodeId) -> Result<Value, BrokerError> {
        self.check_alive(node)?;
        self.give_replica(topic, partition, node)
            .and_then(|()| self.set_leader(topic, partition, Some(node)))
            .map_err(refused(topic, partition))?;
        let epoch = self.topics.partition(topic, partition).map(|partition| partition.leader_epoch);
        Ok(json!({ "leader_epoch": epoch }))
    }

    pub(super) fn move_coordinator(
        &mut self,
        group: Option<&str>,
        transactional_id: Option<&str>,
        node: NodeId,
    ) -> Result<Value, BrokerError> {
        let (kind, key) = match (group, transactional_id) {
            (Some(group), None) => (Coordinated::Groups, group),
            (None, Some(id)) => (Coordinated::Transactions, id),
            _ => {
                let problem = "move_coordinator takes either a group or a transactional id";
                return Err(BrokerError::Command(problem.to_owned()));
            }
        };
        self.ensure_internal_topic(kind);
        let partition = self.coordinator_partition(kind, key);
        self.move_leader(kind.topic(), partition, node)?;
        Ok(json!({ "topic": kind.topic(), "partition": partition }))
    }

    pub(super) fn stop_node(&mut self, node: NodeId) -> Result<Value, BrokerError> {
        self.check_alive(node)?;
        self.node_stopped(node);
        self.close_connections_at(node, "the node stops");
        Ok(Value::Null)
    }

    pub(super) fn start_node(&mut self, node: NodeId) -> Result<Value, BrokerError> {
        self.stopped_ports(node)?;
        self.node_started(node);
        Ok(Value::Null)
    }

    /// The ports of a stopped node, by the security protocols of their listeners.
    pub(crate) fn stopped_ports(&self, id: NodeId) -> Result<Vec<(SecurityProtocol, u16)>, BrokerError> {
        match self.nodes.get(id) {
            Some(node) if !node.alive => {
                let protocols = self.settings.security.protocols();
                Ok(protocols.map(|protocol| (protocol, node.port(protocol))).collect())
            }
            Some(_) => Err(BrokerError::Command(format!("node {id} runs already"))),
            None => Err(self.no_node(id)),
        }
    }

    pub(super) fn set_rack(&mut self, id: NodeId, rack: Option<String>) -> Result<Value, BrokerError> {
        let missing = self.no_node(id);
        self.nodes.get_mut(id).ok_or(missing)?.rack = rack.map(Into::into);
        Ok(Value::Null)
    }

    pub(super) fn set_isr_on_command(
        &mut self,
        topic: &str,
        partition: i32,
        isr: &[NodeId],
    ) -> Result<Value, BrokerError> {
        let wrong = |problem: String| Err(BrokerError::Command(format!("{topic}-{partition}: {problem}")));
        let Some(found) = self.topics.partition(topic, partition) else {
            return wrong("there is no such partition".to_owned());
        };
        if let Some(stranger) = isr.iter().find(|node| !found.replicas.contains(node)) {
            return wrong(format!("node {stranger} has no replica of it"));
        }
        if found.leader.is_some_and(|leader| !isr.contains(&leader)) {
            return wrong("its leader is always in sync; move the leader first".to_owned());
        }
        self.set_isr(topic, partition, isr.to_vec());
        Ok(Value::Null)
    }

    fn check_alive(&self, id: NodeId) -> Result<(), BrokerError> {
        match self.nodes.get(id) {
            Some(node) if node.alive => Ok(()),
            Some(_) => Err(BrokerError::Command(format!("node {id} is not alive; start it first"))),
            None => Err(self.no_node(id)),
        }
    }

    fn no_node(&self, id: NodeId) -> BrokerError {
        let nodes: Vec<String> = self.nodes.all().map(|node| node.id.to_string()).collect();
        BrokerError::Command(format!("there is no node {id}; there are {}", nodes.join(", ")))
    }

    pub(super) fn describe_listeners(&self) -> Value {
        let address = |node: &Node, port: u16| match node.host.contains(':') {
            true => format!("[{}]:{port}", node.host),
            false => format!("{}:{port}", node.host),
        };
        let listener = |protocol: SecurityProtocol| {
            let nodes = self.nodes.all();
            let addresses: Map<String, Value> =
                nodes.map(|node| (node.id.to_string(), address(node, node.port(protocol)).into())).collect();
            (protocol.name().to_owned(), addresses.into())
        };
        self.settings.security.protocols().map(listener).collect::<Map<String, Value>>().into()
    }
}
