//! Carrying out the commands of the user, and assigning partitions of topics that are assigned as a whole.

use std::sync::Arc;

use monedula_engine::TopicPartition;
use monedula_engine::fetch::{Input, Start};
use monedula_protocol::error_code::ErrorCode;

use super::Running;
use crate::fetch::buffer::PendingErrors;
use crate::fetch::command::{FetchCommand, Position};

impl Running {
    pub(super) fn command(&mut self, command: FetchCommand) {
        if !matches!(command, FetchCommand::Pause { .. }) && !self.refusing.is_empty() {
            self.refusing.clear();
            self.update_fatal();
        }
        let (assigns, resumes) = (
            matches!(command, FetchCommand::Assign { .. } | FetchCommand::AssignTopic { .. }),
            matches!(command, FetchCommand::Pause { paused: false, .. }),
        );
        if assigns || resumes {
            self.driver.reach.begin_anew();
        }
        match command {
            FetchCommand::Assign { partitions, is_owned } => {
                // The assignment may have come with a cluster view, which metadata has by now: with that, nothing is
                // looked up.
                if self.adopt(&self.driver.base.metadata.cluster()) {
                    self.grow();
                }
                let cluster = &self.cluster.clone();
                for (partition, reading_id, start, end) in partitions {
                    let waits_for_topic = is_owned;
                    self.handle(Input::Assign {
                        partition: &partition,
                        reading_id,
                        start,
                        end,
                        waits_for_topic,
                        cluster,
                    });
                }
            }
            FetchCommand::AssignTopic { topic, start } => {
                self.topics.insert(topic, (start, false));
                // The assignment had metadata forget earlier errors of the topic.
                self.adopt(&self.driver.base.metadata.cluster());
                self.driver.base.metadata.want();
                self.grow();
            }
            FetchCommand::Unassign { partitions, topics } => {
                for partition in partitions {
                    self.handle(Input::Unassign { partition: &partition });
                }
                for topic in &topics {
                    self.topics.remove(topic);
                    // Some may have been added after the user's call listed the partitions.
                    let of_topic = self.grown.extract_if(.., |partition, _| partition.topic == *topic);
                    for (partition, reading_id) in of_topic.collect::<Vec<_>>() {
                        self.driver.buffer.assignment().remove_reading(&partition, reading_id);
                        self.handle(Input::Unassign { partition: &partition });
                    }
                }
                // The user's call has done that too, but an error may have come in between.
                self.driver.buffer.driver().errors(PendingErrors::forget_topics);
            }
            FetchCommand::Seek { partition, reading_id, start } => {
                let cluster = &self.cluster.clone();
                self.handle(Input::Seek { partition: &partition, reading_id, start, cluster });
            }
            FetchCommand::SeekTopic { topic, start } => self.seek_topic(&topic, start),
            FetchCommand::Pause { partition, paused } => self.handle(Input::Pause { partition: &partition, paused }),
            FetchCommand::Unreadable { partition, reading_id, offset } => {
                self.handle(Input::Unreadable { partition: &partition, reading_id, offset });
            }
        }
    }

    fn seek_topic(&mut self, topic: &Arc<str>, start: Position) {
        match self.topics.get_mut(topic) {
            None => return,
            Some((wanted, false)) => return *wanted = start,
            // The topic's partitions became known after the user's call had looked.
            Some((_, true)) => {}
        }
        let cluster = self.cluster.clone();
        let known = cluster.topics.get(topic).into_iter().flat_map(|topic| topic.partitions.keys());
        for &index in known {
            let partition = TopicPartition::new(topic.clone(), index);
            let reading_id = match start {
                Position::At(_) => self.driver.buffer.assignment().restart(&partition),
                Position::Committed => self.driver.buffer.assignment().wait_for_start(&partition),
            };
            let Some(reading_id) = reading_id else { continue };
            self.grown.insert(partition.clone(), reading_id);
            match start {
                Position::At(start) => {
                    self.handle(Input::Seek { partition: &partition, reading_id, start, cluster: &cluster });
                }
                Position::Committed => self.driver.starts.look_up(vec![(partition, reading_id)]),
            }
        }
    }

    /// Assigns new partitions of whole topics: the first ones at the position that the user gave, later ones at their
    /// smallest offset, so that none of their records is missed (req S084).
    pub(super) fn grow(&mut self) {
        let topics: Vec<(Arc<str>, Position, bool)> =
            self.topics.iter().map(|(topic, &(start, known))| (topic.clone(), start, known)).collect();
        for (name, start, known) in topics {
            self.grow_topic(&name, start, known);
        }
    }

    /// `known`: whether the first partitions of the topic are assigned already.
    fn grow_topic(&mut self, name: &Arc<str>, start: Position, known: bool) {
        let cluster = self.cluster.clone();
        let Some(topic) = cluster.topics.get(name) else { return };
        let first = TopicPartition::new(name.clone(), 0);
        match crate::offsets::missing(&first, &cluster, self.driver.base.config.propagation) {
            // The topic stays of interest: a topic that is created later, or that brokers did not know for too long, is
            // read.
            Err(error) if !known => {
                if !self.driver.buffer.driver().errors(|errors| errors.has_failed_topic(name)) {
                    self.driver.buffer.driver().topic_failed(error);
                }
                return self.driver.base.metadata.want();
            }
            _ if topic.error != ErrorCode::None => return self.driver.base.metadata.want(),
            _ => {}
        }
        self.driver.buffer.driver().errors(|errors| errors.topic_found(name));
        let mut waiting = Vec::new();
        for &index in topic.partitions.keys() {
            let partition = TopicPartition::new(name.clone(), index);
            if self.driver.buffer.status_of(&partition).is_some() {
                continue;
            }
            let start = if known { Start::Earliest.into() } else { start };
            let reading_id = match start {
                Position::At(_) => self.driver.buffer.assignment().add(&partition, None),
                Position::Committed => self.driver.buffer.assignment().add_waiting(&partition, None),
            };
            self.grown.insert(partition.clone(), reading_id);
            match start {
                Position::At(start) => {
                    let (partition, cluster) = (&partition, &*cluster);
                    let (end, waits_for_topic) = (None, false);
                    self.handle(Input::Assign { partition, reading_id, start, end, waits_for_topic, cluster });
                }
                Position::Committed => waiting.push((partition, reading_id)),
            }
        }
        self.driver.starts.look_up(waiting);
        self.topics.insert(name.clone(), (start, true));
    }
}
