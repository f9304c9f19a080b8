//! The topics of an assignment, from cluster metadata.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Topics;
use crate::cluster::{Cluster, Topic};

/// The topics in `names` that the cluster has, with the racks of their replicas. All replicas count, whether in sync or
/// not: a replica that is behind catches up, and no rebalance follows then.
pub fn topics_of<'a>(cluster: &Cluster, names: impl IntoIterator<Item = &'a Arc<str>>) -> Topics {
    let brokers = cluster.brokers.iter();
    let racks: BTreeMap<i32, Arc<str>> =
        brokers.filter_map(|(&id, broker)| Some((id, broker.rack.as_deref()?.into()))).collect();
    let known = names.into_iter().filter_map(|name| cluster.topics.get_key_value(name));
    known
        .filter(|(_, topic)| !topic.partitions.is_empty())
        .map(|(name, topic)| (name.clone(), replica_racks(topic, &racks)))
        .collect()
}

fn replica_racks(topic: &Topic, racks: &BTreeMap<i32, Arc<str>>) -> Vec<Vec<Arc<str>>> {
    let count = topic.partitions.last_key_value().map_or(0, |(&last, _)| last + 1);
    let of_partition = |index| {
        let nodes = topic.replicas.get(&index).map_or(&[][..], |nodes| nodes);
        let mut found: Vec<_> = nodes.iter().filter_map(|node| racks.get(node).cloned()).collect();
        found.sort();
        found.dedup();
        found
    };
    (0..count).map(of_partition).collect()
}

#[cfg(test)]
mod tests {
    use monedula_protocol::messages::metadata::{
        MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };

    use super::*;
    use crate::Now;

    #[test]
    fn replicas_bring_the_racks_of_their_brokers() {
        let broker = |node_id, rack| MetadataResponseBroker { node_id, host: "h", port: 1, rack, ..Default::default() };
        let partition = |partition_index, nodes: &[i32]| MetadataResponsePartition {
            partition_index,
            replica_nodes: nodes.to_vec(),
            ..Default::default()
        };
        let topic = |name, partitions| MetadataResponseTopic { name: Some(name), partitions, ..Default::default() };
        let mut cluster = Cluster::default();
        cluster.update(
            &MetadataResponse {
                brokers: vec![broker(1, Some("b")), broker(2, Some("a")), broker(3, None), broker(4, Some("b"))],
                topics: vec![
                    topic("t", vec![partition(0, &[1, 2, 4]), partition(1, &[3, 9])]),
                    topic("empty", vec![]),
                    topic("unasked", vec![partition(0, &[1])]),
                ],
                ..Default::default()
            },
            Now::ZERO,
        );
        let names: [Arc<str>; 3] = ["t".into(), "empty".into(), "ghost".into()];
        let racks = vec![vec!["a".into(), "b".into()], vec![]];
        assert_eq!(topics_of(&cluster, &names), Topics::from([("t".into(), racks)]));
    }
}
