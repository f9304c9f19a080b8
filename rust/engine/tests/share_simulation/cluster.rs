//! What the simulation itself asks the embedded broker: topics, metadata, lags.

use std::collections::BTreeMap;

use bytes::Bytes;
use monedula_broker::NodeId;
use monedula_broker::control::Command;
use monedula_broker::core::Action;
use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_protocol::api::Request;
use monedula_protocol::frame::{decode_response, encode_request};
use monedula_protocol::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use monedula_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use monedula_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::records::Batches;

use crate::plan::{DEAD_LETTERS, GROUP, TOPICS};
use crate::world::World;

/// Kafka's number of a group's configs.
const GROUP_CONFIGS: i8 = 32;
const FETCH: i16 = 12;
const LIST_OFFSETS: i16 = 7;
const METADATA: i16 = 12;

impl World {
    /// Sends a request on a connection of its own to a node, and returns the answer without its length.
    fn ask<'q, R: Request<'q>>(&mut self, node: i32, request: &R, version: i16) -> Vec<u8> {
        let ms = self.ms();
        let connection = self.core.connected(ms, NodeId(node), "127.0.0.1");
        let frame = Bytes::from(encode_request(request, version, 1, Some("simulation")).unwrap()).slice(4..);
        self.core.request(ms, connection, &frame);
        let (mut answer, mut others) = (None, Vec::new());
        for reply in self.core.drain() {
            match reply.action {
                Action::Send(pieces) if reply.connection == connection => answer = Some(pieces.concat()),
                _ => others.push(reply),
            }
        }
        self.postponed.extend(others);
        self.core.disconnected(ms, connection);
        answer.expect("it answers at once").split_off(4)
    }

    fn living_node(&self) -> i32 {
        (1..=self.plan.nodes).find(|node| !self.stopped_nodes.contains(node)).unwrap_or(1)
    }

    pub(crate) fn make_topics(&mut self) {
        let nodes = self.plan.nodes as i16;
        let dead = self.plan.dead_letters;
        for (topic, partitions) in
            TOPICS.map(|topic| (topic, self.plan.partitions)).into_iter().chain([(DEAD_LETTERS, 1)])
        {
            let mut config = BTreeMap::new();
            if topic == DEAD_LETTERS {
                config.insert("errors.deadletterqueue.group.enable".to_owned(), "true".to_owned());
            }
            let (topic, partitions) = (topic.to_owned(), Some(partitions));
            let create = Command::CreateTopic { topic, partitions, replicas: Some(nodes), config };
            assert!(self.control(create));
        }
        let mut configs = vec![("share.auto.offset.reset", "earliest")];
        if dead {
            configs.push(("errors.deadletterqueue.topic.name", DEAD_LETTERS));
        }
        let configs =
            configs.into_iter().map(|(name, value)| AlterableConfig { name, value: Some(value), ..Default::default() });
        let resource = AlterConfigsResource {
            resource_type: GROUP_CONFIGS,
            resource_name: GROUP,
            configs: configs.collect(),
            ..Default::default()
        };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let answer = self.ask(1, &request, 1);
        let answer = decode_response::<IncrementalAlterConfigsRequest<'_>>(&answer, 1).unwrap();
        assert_eq!(answer.responses[0].error_code, 0, "{:?}", answer.responses[0].error_message);
    }

    pub(crate) fn ask_metadata(&mut self, cluster: &mut Cluster) {
        let topic = |name| MetadataRequestTopic { name: Some(name), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(TOPICS.map(topic).to_vec()),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let answer = self.ask(self.living_node(), &request, METADATA);
        cluster.update(&decode_response::<MetadataRequest<'_>>(&answer, METADATA).unwrap(), self.now);
    }

    /// The broker's lag of each partition that the group has read.
    pub(crate) fn lags(&mut self) -> Vec<(TopicPartition, i64)> {
        let groups =
            vec![DescribeShareGroupOffsetsRequestGroup { group_id: GROUP, topics: None, ..Default::default() }];
        let request = DescribeShareGroupOffsetsRequest { groups, ..Default::default() };
        for node in 1..=self.plan.nodes {
            let answer = self.ask(node, &request, 1);
            let answer = decode_response::<DescribeShareGroupOffsetsRequest<'_>>(&answer, 1).unwrap();
            let group = &answer.groups[0];
            if group.error_code == 0 {
                let topics = group.topics.iter();
                let each = topics.flat_map(|topic| topic.partitions.iter().map(move |it| (topic.topic_name, it)));
                return each.map(|(topic, it)| (TopicPartition::new(topic, it.partition_index), it.lag)).collect();
            }
        }
        Vec::new()
    }

    /// The first and last offsets of the batches in a partition's log.
    pub(crate) fn batches(&mut self, at: &TopicPartition) -> Vec<(i64, i64)> {
        let leader = self.leaders.partitions.get(at).and_then(|known| known.leader).unwrap_or(1);
        let partitions =
            vec![FetchPartition { partition: at.partition, partition_max_bytes: i32::MAX, ..Default::default() }];
        let topics = vec![FetchTopic { topic: &at.topic, partitions, ..Default::default() }];
        let request = FetchRequest { max_bytes: i32::MAX, topics, ..Default::default() };
        let answer = self.ask(leader, &request, FETCH);
        let answer = decode_response::<FetchRequest<'_>>(&answer, FETCH).unwrap();
        let records = answer.responses[0].partitions[0].records.unwrap_or_default();
        let headers = Batches::new(records).map(|batch| batch.unwrap().header);
        headers.map(|header| (header.base_offset, header.last_offset())).collect()
    }

    /// The number of dead letters that were written.
    pub(crate) fn dead_letters(&mut self) -> usize {
        let partitions = vec![ListOffsetsPartition { timestamp: -1, current_leader_epoch: -1, ..Default::default() }];
        let topics = vec![ListOffsetsTopic { name: DEAD_LETTERS, partitions, ..Default::default() }];
        let request = ListOffsetsRequest { replica_id: -1, topics, ..Default::default() };
        let offsets = (1..=self.plan.nodes).map(|node| {
            let answer = self.ask(node, &request, LIST_OFFSETS);
            let answer = decode_response::<ListOffsetsRequest<'_>>(&answer, LIST_OFFSETS).unwrap();
            answer.topics[0].partitions[0].offset
        });
        offsets.max().unwrap_or_default().max(0) as usize
    }
}
