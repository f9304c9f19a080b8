//! A test member of a consumer group, which sends its heartbeats one by one and keeps the state of its answers.

use std::collections::BTreeSet;

use monedula_protocol::messages::consumer_group_describe::{
    ConsumerGroupDescribeRequest, DescribedGroup, Member as DescribedMember,
};
use monedula_protocol::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, TopicPartitions,
};
use monedula_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use monedula_protocol::types::Uuid;
use serde_json::json;

use crate::support::{World, make_coordinators};

pub(crate) const GROUP: &str = "readers";

/// Partitions by topic id.
pub(crate) type Owned = BTreeSet<(Uuid, i32)>;

/// A member of a consumer group.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) node: i32,
    pub(crate) epoch: i32,
    pub(crate) instance_id: Option<String>,
    pub(crate) names: Option<Vec<&'static str>>,
    pub(crate) regex: Option<&'static str>,
    pub(crate) assignor: Option<&'static str>,
    /// Its last assignment, which it owns.
    pub(crate) owned: Owned,
    pub(crate) rebalance_timeout_ms: i32,
}

impl Client {
    pub(crate) fn new(id: &str, topics: &[&'static str]) -> Self {
        Self {
            id: id.to_owned(),
            node: 1,
            epoch: 0,
            instance_id: None,
            names: Some(topics.to_vec()),
            regex: None,
            assignor: None,
            owned: Owned::new(),
            rebalance_timeout_ms: 60_000,
        }
    }

    pub(crate) fn named(id: &str, instance_id: &str, topics: &[&'static str]) -> Self {
        Self { instance_id: Some(instance_id.to_owned()), ..Self::new(id, topics) }
    }

    pub(crate) fn matching(id: &str, regex: &'static str) -> Self {
        Self { names: None, regex: Some(regex), ..Self::new(id, &[]) }
    }

    /// A full heartbeat, with all fields.
    pub(crate) fn full(&self) -> ConsumerGroupHeartbeatRequest<'_> {
        ConsumerGroupHeartbeatRequest {
            instance_id: self.instance_id.as_deref(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            subscribed_topic_names: self.names.clone(),
            subscribed_topic_regex: self.regex,
            server_assignor: self.assignor,
            topic_partitions: Some(as_topics(&self.owned)),
            ..self.short()
        }
    }

    /// A heartbeat without changes.
    pub(crate) fn short(&self) -> ConsumerGroupHeartbeatRequest<'_> {
        ConsumerGroupHeartbeatRequest {
            group_id: GROUP,
            member_id: &self.id,
            member_epoch: self.epoch,
            instance_id: self.instance_id.as_deref(),
            ..Default::default()
        }
    }

    /// Sends a heartbeat. Its answer does not change the client.
    pub(crate) fn ask(
        &self,
        world: &mut World,
        request: &ConsumerGroupHeartbeatRequest<'_>,
    ) -> ConsumerGroupHeartbeatResponse<'static> {
        world.call(self.node, request, 1)
    }

    /// Joins, or rejoins, in epoch 0.
    pub(crate) fn join(&mut self, world: &mut World) {
        make_coordinators(world);
        self.epoch = 0;
        self.owned.clear();
        let answer = self.ask(world, &self.full());
        assert_eq!((answer.error_code, answer.error_message), (0, None), "{}", self.id);
        self.take(&answer);
    }

    /// Sends a heartbeat with the owned partitions, and applies the answer.
    pub(crate) fn beat(&mut self, world: &mut World) {
        let request = ConsumerGroupHeartbeatRequest { topic_partitions: Some(as_topics(&self.owned)), ..self.short() };
        let answer = self.ask(world, &request);
        assert_eq!((answer.error_code, answer.error_message), (0, None), "{}", self.id);
        self.take(&answer);
    }

    /// Applies an answer.
    pub(crate) fn take(&mut self, answer: &ConsumerGroupHeartbeatResponse<'_>) {
        self.epoch = answer.member_epoch;
        if let Some(assignment) = &answer.assignment {
            self.owned = of_topics(&assignment.topic_partitions);
        }
    }

    pub(crate) fn leave(&mut self, world: &mut World, epoch: i32) -> ConsumerGroupHeartbeatResponse<'static> {
        self.epoch = epoch;
        self.ask(world, &self.short())
    }
}

pub(crate) fn as_topics<'a>(owned: &Owned) -> Vec<TopicPartitions<'a>> {
    let topics: BTreeSet<Uuid> = owned.iter().map(|(topic, _)| *topic).collect();
    let partitions = |topic: Uuid| owned.iter().filter(move |(id, _)| *id == topic).map(|(_, partition)| *partition);
    let topic =
        |topic_id| TopicPartitions { topic_id, partitions: partitions(topic_id).collect(), ..Default::default() };
    topics.into_iter().map(topic).collect()
}

pub(crate) fn of_topics(topics: &[TopicPartitions<'_>]) -> Owned {
    let topics = topics.iter();
    topics.flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic_id, *partition))).collect()
}

/// Creates a topic. Returns its id.
pub(crate) fn create(world: &mut World, topic: &str, partitions: i32) -> Uuid {
    make_coordinators(world);
    world.control(json!({"command": "create_topic", "topic": topic, "partitions": partitions}));
    topic_id(world, topic)
}

pub(crate) fn topic_id(world: &mut World, topic: &str) -> Uuid {
    let topic = MetadataRequestTopic { name: Some(topic), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    world.call(1, &request, 12).topics[0].topic_id
}

pub(crate) fn describe(world: &mut World, node: i32) -> DescribedGroup<'static> {
    let request = ConsumerGroupDescribeRequest { group_ids: vec![GROUP], ..Default::default() };
    world.call(node, &request, 1).groups.remove(0)
}

pub(crate) fn member<'a>(group: &'a DescribedGroup<'static>, id: &str) -> &'a DescribedMember<'static> {
    group.members.iter().find(|member| member.member_id == id).unwrap_or_else(|| panic!("{id} is not there: {group:?}"))
}

/// Sends heartbeats of all clients until nothing changes. Patterns are resolved after an answer, so one round without
/// changes is not enough.
pub(crate) fn settle(world: &mut World, clients: &mut [&mut Client]) {
    let mut quiet = 0;
    for _ in 0..32 {
        let before: Vec<_> = clients.iter().map(|client| (client.epoch, client.owned.clone())).collect();
        clients.iter_mut().for_each(|client| client.beat(world));
        let same = clients.iter().map(|client| (client.epoch, client.owned.clone())).eq(before);
        quiet = if same { quiet + 1 } else { 0 };
        if quiet == 2 {
            return;
        }
    }
    panic!("the group does not settle: {clients:#?}");
}
