//! Partitions assigned by hand, and seeking.

use std::collections::BTreeSet;
use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::Start;

use super::{Consumer, Partitions, membership};
use crate::error::ClientError;
use crate::fetch::buffer::PendingErrors;
use crate::fetch::command::{FetchCommand, Position};
use crate::lock::lock;
use crate::topic_name;

impl Consumer {
    /// Replaces the assignment by these partitions. `end` bounds each for a read that ends.
    ///
    /// # Errors
    /// If the consumer is closed, no topic can have one of the names, or a partition is to start at its committed
    /// offset and there is no `group.id`.
    pub fn assign<P: Into<Position>>(
        &self,
        partitions: Vec<(TopicPartition, P, Option<i64>)>,
    ) -> Result<(), ClientError> {
        self.assign_known(partitions, None)
    }

    /// As [`Self::assign`]. `cluster` is a view that has these partitions, from another client: with it, nothing is
    /// looked up before the first fetch, and metadata only if the view is out of date.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn assign_known<P: Into<Position>>(
        &self,
        partitions: Vec<(TopicPartition, P, Option<i64>)>,
        cluster: Option<&Cluster>,
    ) -> Result<(), ClientError> {
        let at = partitions.into_iter().map(|(partition, position, end)| (partition, position.into(), end));
        let partitions: Vec<(TopicPartition, Position, Option<i64>)> = at.collect();
        partitions.iter().try_for_each(|(_, position, _)| self.check_position(*position))?;
        let names = distinct(partitions.iter().map(|(partition, _, _)| partition));
        names.iter().try_for_each(|name| topic_name::check_read(name))?;
        self.refuse_if_subscribed()?;
        let _changing = self.changing();
        self.unassign()?;
        self.base.metadata.hold(names);
        if let Some(cluster) = cluster {
            self.base.metadata.learn(cluster);
        }
        let (mut known, mut waiting) = (Vec::new(), Vec::new());
        for (partition, position, end) in partitions {
            match position {
                Position::At(start) => {
                    let reading_id = self.buffer.assignment().add(&partition, end);
                    self.buffer.assignment().aim(&partition, reading_id, start);
                    known.push((partition, reading_id, start, end));
                }
                Position::Committed => {
                    waiting.push((partition.clone(), self.buffer.assignment().add_waiting(&partition, end)));
                }
            }
        }
        if cluster.is_none() {
            self.base.metadata.want();
        }
        self.send(FetchCommand::Assign { partitions: known, is_owned: false })?;
        self.buffer.assignment().pause_later_turns();
        self.starts.look_up(waiting);
        Ok(())
    }

    /// Has partitions that are assigned later, in their order and each with its end, handed out one after another.
    pub(crate) fn read_in_order(&self) {
        self.buffer.assignment().read_in_order();
    }

    /// Replaces the assignment by all partitions of these topics, present and future. Future ones start at their
    /// smallest offset.
    ///
    /// # Errors
    /// As [`Self::assign`].
    pub fn assign_topics(&self, topics: Vec<String>, start: impl Into<Position>) -> Result<(), ClientError> {
        let start = start.into();
        self.check_position(start)?;
        topics.iter().try_for_each(|name| topic_name::check_read(name))?;
        self.refuse_if_subscribed()?;
        let _changing = self.changing();
        self.unassign()?;
        let topics: BTreeSet<Arc<str>> = topics.into_iter().map(Arc::from).collect();
        self.base.metadata.hold(topics.iter().cloned());
        self.base.metadata.want();
        for topic in &topics {
            self.send(FetchCommand::AssignTopic { topic: topic.clone(), start })?;
        }
        *lock(&self.topics) = topics;
        Ok(())
    }

    /// Removes every partition that was assigned by hand.
    ///
    /// # Errors
    /// If the consumer subscribes to topics, or is closed.
    pub fn unassign(&self) -> Result<(), ClientError> {
        self.refuse_if_subscribed()?;
        let topics = std::mem::take(&mut *lock(&self.topics));
        self.buffer.driver().errors(PendingErrors::forget_topics);
        // Partitions of a group that is still being left are the group's to release.
        let partitions = self.buffer.look(|state| state.partitions().assigned_by_hand());
        let single = distinct(partitions.iter()).into_iter().filter(|topic| !topics.contains(topic));
        self.base.metadata.release(single.collect::<Vec<_>>());
        self.base.metadata.release(topics.iter().cloned());
        // The driver first: it adds partitions of whole topics, and must not do so after they were removed here.
        self.send(FetchCommand::Unassign { partitions, topics: topics.into_iter().collect() })?;
        for partition in self.buffer.look(|state| state.partitions().assigned_by_hand()) {
            self.buffer.assignment().remove(&partition);
        }
        Ok(())
    }

    /// The assigned partitions.
    pub fn assignment(&self) -> Partitions {
        self.buffer.status().into_keys().collect()
    }

    /// Reads on elsewhere. What was fetched of the partition is dropped; a partition that stopped is read again.
    ///
    /// # Errors
    /// If the partition is not assigned, the consumer is closed, or the partition is to go on at its committed offset
    /// and there is no `group.id`.
    pub fn seek(&self, partition: &TopicPartition, start: impl Into<Position>) -> Result<(), ClientError> {
        if self.is_closed() {
            return Err(ClientError::Closed);
        }
        let start = start.into();
        self.check_position(start)?;
        let sought = match start {
            Position::At(start) => self.buffer.assignment().seek(partition, start),
            Position::Committed => self
                .buffer
                .assignment()
                .wait_for_start(partition)
                .map(|reading_id| self.starts.look_up(vec![(partition.clone(), reading_id)])),
        };
        sought.ok_or_else(|| self.not_assigned(partition))
    }

    /// Reads all partitions on elsewhere, those too that are not known yet of topics assigned as a whole.
    ///
    /// # Errors
    /// If the consumer is closed.
    pub fn seek_all(&self, start: impl Into<Position>) -> Result<(), ClientError> {
        let start = start.into();
        self.check_position(start)?;
        // The topics first: one whose partitions become known now must not be missed by both.
        for topic in self.unresolved() {
            self.send(FetchCommand::SeekTopic { topic, start })?;
        }
        for partition in self.assignment() {
            self.seek(&partition, start)?;
        }
        Ok(())
    }

    /// Topics assigned as a whole whose partitions are not known yet.
    pub fn unresolved(&self) -> Vec<Arc<str>> {
        let known = distinct(self.assignment().iter());
        let topics = lock(&self.topics);
        topics
            .iter()
            .filter(|topic| {
                !known.contains(*topic) && !self.buffer.driver().errors(|errors| errors.has_failed_topic(topic))
            })
            .cloned()
            .collect()
    }

    /// Default start of an assignment: the committed offsets, if there is a `group.id`, as for a member of the group.
    pub fn default_position(&self) -> Position {
        match self.base.config.group_id {
            Some(_) => Position::Committed,
            None => Position::At(Start::Policy),
        }
    }

    fn check_position(&self, position: Position) -> Result<(), ClientError> {
        match position {
            Position::Committed if self.base.config.group_id.is_none() => Err(membership::no_group()),
            Position::Committed | Position::At(_) => Ok(()),
        }
    }

    pub(super) fn refuse_if_subscribed(&self) -> Result<(), ClientError> {
        match self.is_subscribed() {
            _ if self.is_closed() => Err(ClientError::Closed),
            true => Err(ClientError::Argument(
                "this consumer subscribes to topics, and its group assigns partitions: call unsubscribe() first".into(),
            )),
            false => Ok(()),
        }
    }

    pub(super) fn not_assigned(&self, partition: &TopicPartition) -> ClientError {
        if self.is_closed() {
            return ClientError::Closed;
        }
        ClientError::Argument(match self.unresolved().contains(&partition.topic) {
            true => format!(
                "the partitions of {} are not known yet: poll first, or assign {partition} itself with its position",
                partition.topic
            ),
            false if self.is_subscribed() => {
                format!("{partition} is not among what the group assigned to this consumer")
            }
            false => format!("{partition} is not assigned to this consumer; assign() it first"),
        })
    }
}

fn distinct<'p>(partitions: impl Iterator<Item = &'p TopicPartition>) -> BTreeSet<Arc<str>> {
    partitions.map(|partition| partition.topic.clone()).collect()
}
