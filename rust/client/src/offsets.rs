//! ListOffsets and OffsetForLeaderEpoch: offsets by time and by leader epoch, asked of the partitions' leaders.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::backoff::Jitter;
use monedula_engine::cluster::Cluster;
use monedula_engine::fetch::Fault;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use monedula_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use tokio::task::JoinSet;

use crate::config::ClientConfig;
use crate::error::{ClientError, RequestError};
use crate::lock::lock;
use crate::metrics::Metrics;
use crate::net::metadata::{Metadata, View};
use crate::net::network::{Network, NodeId, Owed, Purpose};
use crate::run_time::RunInstant;
use crate::topic_name;

/// ListOffsets' name for the end of the log (for read_committed, the last stable offset).
pub(crate) const LATEST: i64 = -1;
/// ListOffsets' name for the smallest offset of the log.
pub(crate) const EARLIEST: i64 = -2;
/// ListOffsets' name for the record with the largest timestamp (KIP-734).
pub(crate) const MAX_TIMESTAMP: i64 = -3;
/// The first version of ListOffsets that knows [`MAX_TIMESTAMP`]: an older one takes it for a time.
pub(crate) const MAX_TIMESTAMP_SINCE: i16 = 7;

/// Time for which a request that changes something is repeated where its broker does not know the topic: brokers hear
/// of a new one within moments. Short, because other calls wait behind it, and the topic may be deleted.
pub(crate) const UNKNOWN_TO_SOME: Duration = Duration::from_secs(2);

/// Time after which a leader without an answer is looked up again.
const LATE: Duration = Duration::from_secs(3);

/// An offset that ListOffsets or OffsetForLeaderEpoch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FoundOffset {
    /// The offset.
    pub offset: i64,
    /// The timestamp in ms, -1 where the lookup was not by time.
    pub timestamp: i64,
    /// The leader epoch, -1 unknown.
    pub leader_epoch: i32,
}

/// The outcome for one partition: `None` where no record is that young.
pub(crate) type LookupResult = Result<Option<FoundOffset>, ErrorCode>;

type LookupResults = Vec<(TopicPartition, LookupResult)>;

#[derive(Clone)]
pub(crate) struct Offsets {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) network: Arc<Network>,
    pub(crate) metadata: Arc<Metadata>,
    pub(crate) metrics: Metrics,
}

/// One partition's question to its leader.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) partition: TopicPartition,
    /// Question: for `list` a timestamp in ms, [`LATEST`], [`EARLIEST`] or [`MAX_TIMESTAMP`], for `epoch_ends` the
    /// leader epoch.
    pub(crate) what: i64,
}

/// The questions to one leader, or those that have none.
#[derive(Clone)]
pub(crate) struct OfLeader {
    leader: Option<i32>,
    pub(crate) questions: Vec<Question>,
    /// Metadata when they were put together.
    cluster: Arc<Cluster>,
}

/// Next step of a lookup at several leaders.
enum LookupStep {
    /// Leaders are to be asked.
    Ask { questions: Vec<Question>, attempt: u32 },
    /// A leader has answered, or will not.
    Answered { questions: Vec<Question>, answers: LookupResults, attempt: u32 },
}

impl Offsets {
    /// The same, under read_uncommitted: lookups by time then find records of transactions that are not ended, too.
    pub(crate) fn uncommitted(&self) -> Self {
        let config = ClientConfig { read_committed: false, ..(*self.config).clone() };
        Self { config: Arc::new(config), ..self.clone() }
    }

    /// One attempt of ListOffsets at one leader.
    pub(crate) async fn list_once(self, asked: OfLeader) -> LookupResults {
        self.ask(asked, |offsets, node, questions, cluster| async move {
            offsets.list_from(node, &questions, &cluster).await
        })
        .await
    }

    /// One attempt of OffsetForLeaderEpoch at one leader: the end of each epoch.
    pub(crate) async fn epoch_ends_once(self, asked: OfLeader) -> LookupResults {
        self.ask(asked, |offsets, node, questions, cluster| async move {
            offsets.epochs_from(node, &questions, &cluster).await
        })
        .await
    }

    /// The questions by leader, as metadata has these now. Each leader is asked by itself, so that a slow one delays
    /// its own partitions alone.
    pub(crate) fn by_leader(&self, questions: Vec<Question>) -> Vec<OfLeader> {
        let cluster = self.metadata.cluster();
        let mut leaders: BTreeMap<Option<i32>, Vec<Question>> = BTreeMap::new();
        for question in questions {
            let leader = cluster.partition(&question.partition).and_then(|partition| partition.leader);
            leaders.entry(leader).or_default().push(question);
        }
        let of_leader = |(leader, questions)| OfLeader { leader, questions, cluster: cluster.clone() };
        leaders.into_iter().map(of_leader).collect()
    }

    /// ListOffsets until each partition is answered. One that is named again is asked for once, as first named.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] past `timeout`, naming the last failure; at once on errors that no retry mends.
    pub(crate) async fn list(
        &self,
        mut questions: Vec<Question>,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Option<FoundOffset>>, ClientError> {
        // Brokers refuse a partition that is asked for twice in one request.
        let mut asked = BTreeSet::new();
        questions.retain(|question| asked.insert(question.partition.clone()));
        let topics: Vec<Arc<str>> = questions.iter().map(|question| question.partition.topic.clone()).collect();
        self.metadata.hold(topics.iter().cloned());
        let last_error = Arc::new(LastError::default());
        let outcome = self.network.within(timeout, self.list_all(questions, &last_error)).await;
        self.metadata.release(topics);
        outcome.unwrap_or_else(|owed| Err(self.timed_out("the offset lookup", timeout, &last_error, owed)))
    }

    fn timed_out(&self, what: &str, after: Duration, last_error: &LastError, owed: Owed) -> ClientError {
        let failing = || self.metadata.watch().borrow().failing.as_ref().map(|(_, error)| error.clone());
        let last_error = owed.explain(lock(last_error).take().or_else(failing));
        ClientError::TimedOut { what: what.into(), after, last_error }
    }

    /// Every partition of the topics, each once, as soon as metadata has the topics.
    ///
    /// # Errors
    /// If a topic cannot exist, does not exist or may not be read, or nothing is known within `timeout`.
    pub(crate) async fn partitions_of(
        &self,
        topics: Vec<String>,
        timeout: Duration,
    ) -> Result<Vec<TopicPartition>, ClientError> {
        topics.iter().try_for_each(|name| topic_name::check_read(name))?;
        let mut named = BTreeSet::new();
        let names = topics.into_iter().map(Arc::<str>::from).filter(|name| named.insert(name.clone()));
        let names: Vec<Arc<str>> = names.collect();
        self.metadata.hold(names.iter().cloned());
        let firsts: Vec<Question> = names
            .iter()
            .map(|name| Question { partition: TopicPartition::new(name.clone(), 0), what: LATEST })
            .collect();
        let last_error = LastError::default();
        let known = self.network.within(timeout, self.know(&firsts, Known::Partitions, &last_error)).await;
        let cluster = self.metadata.cluster();
        self.metadata.release(names.iter().cloned());
        known.unwrap_or_else(|owed| Err(self.timed_out("the lookup of partitions", timeout, &last_error, owed)))?;
        let partitions = names.iter().flat_map(|name| {
            let topic = cluster.topics.get(name);
            let indexes = topic.into_iter().flat_map(|topic| topic.partitions.keys().copied()).collect::<Vec<_>>();
            indexes.into_iter().map(|index| TopicPartition::new(name.clone(), index))
        });
        Ok(partitions.collect())
    }

    /// Each leader's answer counts when it comes. What it leaves open is asked again after a backoff of its own,
    /// whatever the other leaders do.
    async fn list_all(
        &self,
        questions: Vec<Question>,
        last_error: &Arc<LastError>,
    ) -> Result<BTreeMap<TopicPartition, Option<FoundOffset>>, ClientError> {
        self.know(&questions, Known::Leaders, last_error).await?;
        let (mut found, mut steps) = (BTreeMap::new(), JoinSet::new());
        let first = LookupStep::Ask { questions, attempt: 0 };
        steps.spawn(std::future::ready(Ok(first)));
        while let Some(joined) = steps.join_next().await {
            let step: Result<LookupStep, ClientError> =
                joined.map_err(|error| ClientError::Internal(error.to_string()))?;
            match step? {
                LookupStep::Ask { questions, attempt } => {
                    for asked in self.by_leader(questions) {
                        steps.spawn(self.clone().answers_of(asked, attempt));
                    }
                }
                LookupStep::Answered { mut questions, answers, attempt } => {
                    self.take_answers(answers, &mut found, last_error)?;
                    questions.retain(|question| !found.contains_key(&question.partition));
                    if let Some(refusal) = self.network.refusal().filter(|_| !questions.is_empty()) {
                        return Err(refusal);
                    }
                    if !questions.is_empty() {
                        steps.spawn(self.clone().backed_off(questions, attempt, last_error.clone()));
                    }
                }
            }
        }
        Ok(found)
    }

    /// Asks one leader, for as long as metadata names it.
    async fn answers_of(self, asked: OfLeader, attempt: u32) -> Result<LookupStep, ClientError> {
        let questions = asked.questions.clone();
        let mut view = self.metadata.watch();
        let leader_of = |cluster: &Cluster, question: &Question| {
            cluster.partition(&question.partition).and_then(|partition| partition.leader)
        };
        let has_moved =
            |view: &View| questions.iter().any(|question| leader_of(&view.cluster, question) != asked.leader);
        let answers = tokio::select! {
            biased;
            answers = self.clone().list_once(asked.clone()) => answers,
            // An old leader may never answer.
            Ok(_) = view.wait_for(has_moved) => fail_all(&questions, ErrorCode::NotLeaderOrFollower),
        };
        Ok(LookupStep::Answered { questions, answers, attempt })
    }

    /// Waits until the questions may be asked again, with newer metadata.
    async fn backed_off(
        self,
        questions: Vec<Question>,
        attempt: u32,
        last_error: Arc<LastError>,
    ) -> Result<LookupStep, ClientError> {
        let mut jitter = Jitter::new(self.metadata.started.elapsed().as_nanos() as u64);
        tokio::time::sleep(self.config.retry_backoff.delay(attempt, &mut jitter)).await;
        self.metadata.refreshed().await?;
        self.know(&questions, Known::Leaders, &last_error).await?;
        Ok(LookupStep::Ask { questions, attempt: attempt + 1 })
    }

    fn take_answers(
        &self,
        answers: LookupResults,
        found: &mut BTreeMap<TopicPartition, Option<FoundOffset>>,
        last_error: &LastError,
    ) -> Result<(), ClientError> {
        for (partition, answer) in answers {
            match answer {
                Ok(offset) => {
                    found.insert(partition, offset);
                }
                Err(code) if code.is_retriable() || code == ErrorCode::FencedLeaderEpoch => {
                    self.metrics.retriable_error(code.name());
                    note(last_error, &partition, code);
                }
                Err(ErrorCode::TopicAuthorizationFailed) => {
                    return Err(ClientError::Partition(Fault::TopicDenied { partition }));
                }
                Err(code) => return Err(ClientError::Partition(Fault::Refused { partition, code })),
            }
        }
        Ok(())
    }

    /// Waits until the partitions, or their leaders, are known.
    async fn know(&self, questions: &[Question], wanted: Known, last_error: &LastError) -> Result<(), ClientError> {
        let mut cluster = self.metadata.cluster();
        let began = RunInstant::now();
        loop {
            let mut known = true;
            for question in questions {
                match missing(&question.partition, &cluster, self.config.propagation) {
                    Ok(Missing::Nothing) => {}
                    Ok(Missing::Leader) => match cluster.partition(&question.partition) {
                        // The partition exists, whether it has a leader or not.
                        Some(_) if wanted == Known::Partitions => {}
                        Some(_) => {
                            known = false;
                            note(last_error, &question.partition, ErrorCode::LeaderNotAvailable);
                        }
                        None => {
                            known = false;
                            if let Some(trouble) = self.metadata.trouble_of(&question.partition.topic) {
                                *lock(last_error) = Some(trouble);
                            }
                        }
                    },
                    // The view may be older than the partition, and so may that of the broker that answers next.
                    Err(ClientError::Partition(Fault::UnknownTopicOrPartition { what: "partition", .. }))
                        if began.elapsed() < self.config.propagation =>
                    {
                        known = false;
                        note(last_error, &question.partition, ErrorCode::UnknownTopicOrPartition);
                    }
                    Err(error) => return Err(error),
                }
            }
            if known {
                return Ok(());
            }
            cluster = self.metadata.refreshed().await?;
        }
    }

    /// Asks one leader. Each of its partitions gets one answer.
    async fn ask<F, T>(self, asked: OfLeader, ask: F) -> LookupResults
    where
        F: FnOnce(Self, i32, Vec<Question>, Arc<Cluster>) -> T,
        T: Future<Output = LookupResults>,
    {
        let OfLeader { leader, questions, cluster } = asked;
        let Some(leader) = leader else { return fail_all(&questions, ErrorCode::LeaderNotAvailable) };
        // A partition that a broker leaves out of its answer has failed too, or it would wait for ever.
        let mut open: BTreeSet<TopicPartition> = questions.iter().map(|question| question.partition.clone()).collect();
        let metadata = self.metadata.clone();
        let mut asking = std::pin::pin!(ask(self, leader, questions, cluster));
        let mut answers = loop {
            match tokio::time::timeout(LATE, asking.as_mut()).await {
                Ok(answers) => break answers,
                // The broker may not lead any more: newer metadata says so long before the request times out.
                Err(_) => metadata.want(),
            }
        };
        answers.retain(|(partition, _)| open.remove(partition));
        answers.extend(open.into_iter().map(|partition| (partition, Err(ErrorCode::NetworkException))));
        answers
    }

    async fn list_from(&self, node: i32, questions: &[Question], cluster: &Cluster) -> LookupResults {
        let partition = |question: &Question, current_leader_epoch| ListOffsetsPartition {
            partition_index: question.partition.partition,
            current_leader_epoch,
            timestamp: question.what,
            ..Default::default()
        };
        let topic = |(name, partitions)| ListOffsetsTopic { name, partitions, ..Default::default() };
        let build = |version| ListOffsetsRequest {
            replica_id: -1,
            isolation_level: if version >= 2 { i8::from(self.config.read_committed) } else { 0 },
            topics: by_topic(questions, cluster, partition).into_iter().map(topic).collect(),
            timeout_ms: i32::try_from(self.config.request_timeout.as_millis()).unwrap_or(i32::MAX),
            ..Default::default()
        };
        let all = ListOffsetsRequest::VERSIONS;
        let by_max = questions.iter().any(|question| question.what == MAX_TIMESTAMP);
        let versions = if by_max { MAX_TIMESTAMP_SINCE..=*all.end() } else { all };
        let call = self.network.call(NodeId::Broker(node), Purpose::Control, versions, Duration::ZERO, build).await;
        let (answer, version) = match call {
            Ok(answered) => answered,
            Err(error) => return self.all_failed(questions, &error),
        };
        let response = match frame::decode_response::<ListOffsetsRequest<'_>>(answer.as_slice(), version) {
            Ok(response) => response,
            Err(_) => return fail_all(questions, ErrorCode::UnknownServerError),
        };
        let mut answers = Vec::with_capacity(questions.len());
        for topic in &response.topics {
            for partition in &topic.partitions {
                let found = (partition.offset >= 0).then_some(FoundOffset {
                    offset: partition.offset,
                    timestamp: partition.timestamp,
                    leader_epoch: partition.leader_epoch,
                });
                let answer = ErrorCode::check(partition.error_code).map(|()| found);
                answers.push((TopicPartition::new(topic.name, partition.partition_index), answer));
            }
        }
        answers
    }

    async fn epochs_from(&self, node: i32, questions: &[Question], cluster: &Cluster) -> LookupResults {
        let partition = |question: &Question, current_leader_epoch| OffsetForLeaderPartition {
            partition: question.partition.partition,
            current_leader_epoch,
            leader_epoch: i32::try_from(question.what).unwrap_or(-1),
            ..Default::default()
        };
        let topic = |(topic, partitions)| OffsetForLeaderTopic { topic, partitions, ..Default::default() };
        let build = |_| OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: by_topic(questions, cluster, partition).into_iter().map(topic).collect(),
            ..Default::default()
        };
        let versions = OffsetForLeaderEpochRequest::VERSIONS;
        let call = self.network.call(NodeId::Broker(node), Purpose::Control, versions, Duration::ZERO, build).await;
        let (answer, version) = match call {
            Ok(answered) => answered,
            Err(error) => return self.all_failed(questions, &error),
        };
        let response = match frame::decode_response::<OffsetForLeaderEpochRequest<'_>>(answer.as_slice(), version) {
            Ok(response) => response,
            Err(_) => return fail_all(questions, ErrorCode::UnknownServerError),
        };
        let mut answers = Vec::with_capacity(questions.len());
        for topic in &response.topics {
            for partition in &topic.partitions {
                let known = partition.leader_epoch >= 0 && partition.end_offset >= 0;
                let end =
                    FoundOffset { offset: partition.end_offset, timestamp: -1, leader_epoch: partition.leader_epoch };
                let answer = ErrorCode::check(partition.error_code).map(|()| known.then_some(end));
                answers.push((TopicPartition::new(topic.topic, partition.partition), answer));
            }
        }
        answers
    }

    /// A request without an answer: repeated, unless the broker speaks no common version.
    fn all_failed(&self, questions: &[Question], error: &RequestError) -> LookupResults {
        let code = match error {
            RequestError::Fatal(error) if matches!(**error, ClientError::UnsupportedVersion { .. }) => {
                ErrorCode::UnsupportedVersion
            }
            _ => ErrorCode::NetworkException,
        };
        self.metrics.retriable_error(code.name());
        fail_all(questions, code)
    }
}

/// Last error of a lookup, for the message of one that times out.
type LastError = std::sync::Mutex<Option<String>>;

fn note(last_error: &LastError, partition: &TopicPartition, code: ErrorCode) {
    *lock(last_error) = Some(format!("{partition}: {}", code.name()));
}

/// Knowledge about partitions that a lookup needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Partitions,
    Leaders,
}

/// Knowledge about a partition that metadata lacks.
pub(crate) enum Missing {
    Nothing,
    Leader,
}

/// True if the partition's leader is known. A topic that answers have not known for `propagation` does not exist.
///
/// # Errors
/// If the topic or partition does not exist or may not be read.
pub(crate) fn missing(
    partition: &TopicPartition,
    cluster: &Cluster,
    propagation: Duration,
) -> Result<Missing, ClientError> {
    let Some(topic) = cluster.topics.get(&partition.topic) else { return Ok(Missing::Leader) };
    let partition = partition.clone();
    match topic.error {
        ErrorCode::None => {}
        ErrorCode::UnknownTopicOrPartition if topic.unknown_for() < propagation => {
            return Ok(Missing::Leader);
        }
        ErrorCode::UnknownTopicOrPartition => {
            return Err(Fault::UnknownTopicOrPartition { partition, what: "topic" }.into());
        }
        ErrorCode::TopicAuthorizationFailed => return Err(Fault::TopicDenied { partition }.into()),
        code if code.is_retriable() => return Ok(Missing::Leader),
        code => return Err(Fault::Refused { partition, code }.into()),
    }
    match topic.partitions.get(&partition.partition) {
        Some(known) if known.leader.is_some() => Ok(Missing::Nothing),
        Some(_) => Ok(Missing::Leader),
        None => Err(Fault::UnknownTopicOrPartition { partition, what: "partition" }.into()),
    }
}

fn fail_all(questions: &[Question], code: ErrorCode) -> LookupResults {
    questions.iter().map(|question| (question.partition.clone(), Err(code))).collect()
}

/// Groups the questions by topic. `partition` makes each from a question and the leader epoch that is known: an old
/// leader then answers FENCED_LEADER_EPOCH instead of a wrong offset.
fn by_topic<'q, P>(
    questions: &'q [Question],
    cluster: &Cluster,
    partition: impl Fn(&'q Question, i32) -> P,
) -> BTreeMap<&'q str, Vec<P>> {
    let mut topics: BTreeMap<&str, Vec<P>> = BTreeMap::new();
    for question in questions {
        let epoch = cluster.partition(&question.partition).map_or(-1, |known| known.leader_epoch);
        topics.entry(&question.partition.topic).or_default().push(partition(question, epoch));
    }
    topics
}
