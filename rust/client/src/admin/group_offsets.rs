//! Committed offsets of groups, and start offsets of share groups: listing, changing, resetting and deleting them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;
use monedula_engine::fetch::Fault;
use monedula_engine::group::CommitOffset;
use monedula_protocol::api::Request;
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, Subject, by_topic, read, refuse_all};
use super::offsets::{ListedOffset, OffsetSpec};
use super::share_groups::{SHARE, ShareOffset};
use super::{Admin, AdminContext};
use crate::coordinator::check_group;
use crate::error::{ClientError, Refused};
use crate::net::network::NodeId;

/// Partitions that an operation concerns.
#[derive(Clone, Debug)]
pub enum Which {
    /// All for which the group has committed an offset; for log directories, all replicas.
    All,
    /// All partitions of these topics.
    Topics(Vec<String>),
    /// The listed partitions.
    Partitions(Vec<TopicPartition>),
}

/// The new position of a group.
#[derive(Clone, Debug)]
pub enum ResetTarget {
    /// The offset of this spec in each partition; the log end if no record is that young.
    At(OffsetSpec),
    /// The committed offset plus this many records (may be negative), within the log.
    Shift(i64),
    /// The listed offsets, which must be within the log.
    Offsets(BTreeMap<TopicPartition, i64>),
}

/// The effect of a reset in one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetReset {
    /// The offset committed before; `None` if there was none.
    pub before: Option<i64>,
    /// The offset committed by the reset; in a dry run, the one that it would commit.
    pub after: i64,
}

impl Admin {
    /// Lists the offsets that a group has committed for these partitions, or for all: `None` for a
    /// partition without one.
    pub fn list_group_offsets(
        &self,
        group: String,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, Option<CommitOffset>>> {
        self.until_closed(move |context| async move {
            let started = Instant::now();
            let committed = context.base.coordinators.committed(group.clone(), partitions.clone(), timeout).await?;
            let left = timeout.saturating_sub(started.elapsed());
            if committed.values().all(|found| matches!(found, Ok(None))) && context.is_share_group(&group, left).await?
            {
                return context.list_share_offsets(&group, partitions, timeout.saturating_sub(started.elapsed())).await;
            }
            let item = |(partition, found): (_, Result<_, Fault>)| (partition, found.map_err(ClientError::from));
            Ok(committed.into_iter().map(item).collect())
        })
    }

    /// Commits offsets for a group that has no members.
    pub fn alter_group_offsets(
        &self,
        group: String,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, i64>> {
        self.until_closed(move |context| async move {
            let started = Instant::now();
            let is_share = context.is_share_group(&group, timeout).await?;
            context.alter_group_offsets(group, is_share, offsets, timeout.saturating_sub(started.elapsed())).await
        })
    }

    /// Resets the committed offsets of a group that has no members; a dry run commits nothing.
    pub fn reset_group_offsets(
        &self,
        group: String,
        which: Which,
        target: ResetTarget,
        dry_run: bool,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, OffsetReset>> {
        self.until_closed(move |context| async move {
            let reset = Reset { context, group, until: Instant::now() + timeout };
            reset.run(which, target, dry_run).await
        })
    }

    /// Deletes the offsets that a group has committed for these partitions.
    pub fn delete_group_offsets(
        &self,
        group: String,
        partitions: Vec<TopicPartition>,
        timeout: Duration,
    ) -> AdminCall<Items<TopicPartition, ()>> {
        self.until_closed(move |context| async move {
            check_group(&group)?;
            let started = Instant::now();
            let is_share = context.is_share_group(&group, timeout).await?;
            let left = timeout.saturating_sub(started.elapsed());
            match is_share {
                true => context.delete_share_offsets(group, partitions, left).await,
                false => context.run(DeleteOffsets { group }, partitions, left).await,
            }
        })
    }
}

impl AdminContext {
    async fn alter_group_offsets(
        &self,
        group: String,
        is_share: bool,
        offsets: BTreeMap<TopicPartition, CommitOffset>,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, i64>, ClientError> {
        if is_share {
            return self.alter_share_offsets(group, offsets, timeout).await;
        }
        let wanted: BTreeMap<TopicPartition, i64> =
            offsets.iter().map(|(partition, at)| (partition.clone(), at.offset)).collect();
        let committed = self.base.coordinators.commit(group, offsets, timeout).await?;
        let item = |(partition, outcome): (TopicPartition, Result<(), Fault>)| {
            let offset = wanted.get(&partition).copied().unwrap_or(-1);
            (partition, outcome.map(|()| offset).map_err(ClientError::from))
        };
        Ok(committed.into_iter().map(item).collect())
    }

    /// The start offsets of a share group in these partitions, or in all that it reads.
    async fn list_share_offsets(
        &self,
        group: &str,
        partitions: Option<Vec<TopicPartition>>,
        timeout: Duration,
    ) -> Result<Items<TopicPartition, Option<CommitOffset>>, ClientError> {
        let mut found = self.share_offsets(group, timeout).await?;
        let partitions = partitions.unwrap_or_else(|| found.keys().cloned().collect());
        let item = |partition: TopicPartition| {
            let start = found.remove(&partition).map_or(Ok(None), |found| found.map(ShareOffset::committed));
            (partition, start)
        };
        Ok(partitions.into_iter().map(item).collect())
    }

    /// The partitions of `which` with the offsets that the group has committed for them; of a share group, with those
    /// where they start.
    pub(super) async fn committed_of(
        &self,
        group: &str,
        is_share: bool,
        which: &Which,
        timeout: Duration,
    ) -> Result<BTreeMap<TopicPartition, Option<CommitOffset>>, ClientError> {
        let started = Instant::now();
        let partitions = match which {
            Which::All => None,
            Which::Topics(topics) => Some(self.base.offsets.partitions_of(topics.clone(), timeout).await?),
            Which::Partitions(partitions) => Some(partitions.clone()),
        };
        let left = timeout.saturating_sub(started.elapsed());
        if is_share {
            let listed = self.list_share_offsets(group, partitions, left).await?;
            return listed.into_iter().map(|(partition, found)| Ok((partition, found?))).collect();
        }
        let committed = self.base.coordinators.committed(group.to_owned(), partitions, left).await?;
        committed.into_iter().map(|(partition, found)| Ok((partition, found?))).collect()
    }
}

struct Reset {
    context: AdminContext,
    group: String,
    until: Instant,
}

impl Reset {
    async fn run(
        &self,
        which: Which,
        target: ResetTarget,
        dry_run: bool,
    ) -> Result<Items<TopicPartition, OffsetReset>, ClientError> {
        check_group(&self.group)?;
        let which = match &target {
            ResetTarget::Offsets(offsets) => Which::Partitions(offsets.keys().cloned().collect()),
            _ => which,
        };
        let is_share = self.check_unused(matches!(which, Which::All)).await?;
        let committed = self.context.committed_of(&self.group, is_share, &which, self.left()).await?;
        let before: BTreeMap<TopicPartition, Option<i64>> =
            committed.into_iter().map(|(partition, at)| (partition, at.map(|at| at.offset))).collect();
        let mut outcomes = self.targets(&before, &target).await?;
        if !dry_run {
            let moved = outcomes.iter().filter_map(|(partition, outcome)| {
                let offset = outcome.as_ref().ok()?.after;
                let at = CommitOffset { offset, leader_epoch: -1, metadata: String::new() };
                Some((partition.clone(), at))
            });
            let done =
                self.context.alter_group_offsets(self.group.clone(), is_share, moved.collect(), self.left()).await?;
            for (partition, outcome) in done {
                if let Err(error) = outcome {
                    outcomes.insert(partition, Err(error));
                }
            }
        }
        Ok(outcomes.into_iter().collect())
    }

    fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// Fails if the group has members. The coordinator refuses such a commit too, but not in a dry
    /// run, and with a less specific error. Returns whether it is a share group.
    async fn check_unused(&self, must_exist: bool) -> Result<bool, ClientError> {
        for (group, described) in self.context.describe_groups(vec![self.group.clone()], self.left()).await? {
            match described {
                Ok(described) if described.members.is_empty() => return Ok(described.kind == SHARE),
                Ok(_) => return Err(ClientError::GroupInUse { group, code: ErrorCode::NonEmptyGroup }),
                // Offsets may be committed for a group before it has its first member.
                Err(ClientError::Refused(refused)) if refused.code == ErrorCode::GroupIdNotFound && !must_exist => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    async fn targets(
        &self,
        before: &BTreeMap<TopicPartition, Option<i64>>,
        target: &ResetTarget,
    ) -> Result<BTreeMap<TopicPartition, Result<OffsetReset, ClientError>>, ClientError> {
        let spec = match target {
            ResetTarget::At(spec) => *spec,
            ResetTarget::Shift(_) | ResetTarget::Offsets(_) => OffsetSpec::Earliest,
        };
        // Both at the same time: a leader that is silent must not use up the time of the second lookup.
        let (ends, wanted) = tokio::join!(self.list(before.keys(), OffsetSpec::Latest), async {
            match spec {
                OffsetSpec::Latest => None,
                spec => Some(self.list(before.keys(), spec).await),
            }
        });
        let ends = ends?;
        let wanted = wanted.transpose()?.unwrap_or_else(|| ends.clone());
        let mut outcomes = BTreeMap::new();
        for (partition, &committed) in before {
            let (end, found) = match (offset_of(&ends, partition), offset_of(&wanted, partition)) {
                (Ok(end), Ok(found)) => (end.unwrap_or(0), found),
                (Err(error), _) | (_, Err(error)) => {
                    outcomes.insert(partition.clone(), Err(error));
                    continue;
                }
            };
            let start = found.unwrap_or(0);
            let after = match target {
                ResetTarget::At(_) => Ok(found.unwrap_or(end)),
                ResetTarget::Shift(by) => match committed {
                    Some(from) => Ok(from.saturating_add(*by).clamp(start.min(end), end)),
                    None => Err(self.nothing_to_shift(partition)),
                },
                ResetTarget::Offsets(offsets) => within(partition, offsets, start, end),
            };
            outcomes.insert(partition.clone(), after.map(|after| OffsetReset { before: committed, after }));
        }
        Ok(outcomes)
    }

    async fn list(
        &self,
        partitions: impl Iterator<Item = &TopicPartition>,
        spec: OffsetSpec,
    ) -> Result<BTreeMap<TopicPartition, Result<ListedOffset, ClientError>>, ClientError> {
        let specs = partitions.map(|partition| (partition.clone(), spec)).collect();
        Ok(self.context.list_offsets(specs, false, self.left()).await?.into_iter().collect())
    }

    fn nothing_to_shift(&self, partition: &TopicPartition) -> ClientError {
        ClientError::Argument(format!(
            "{partition}: group {} has committed nothing there to shift from; reset it to an offset or to an end first",
            self.group
        ))
    }
}

type Listed = BTreeMap<TopicPartition, Result<ListedOffset, ClientError>>;

fn offset_of(listed: &Listed, partition: &TopicPartition) -> Result<Option<i64>, ClientError> {
    match listed.get(partition) {
        Some(Ok(found)) => Ok(found.offset),
        Some(Err(error)) => Err(error.clone()),
        None => Ok(None),
    }
}

/// The offset for a partition, if it is within the log. A group whose offset is outside would start where its
/// `auto.offset.reset` says, not at the requested offset.
fn within(
    partition: &TopicPartition,
    offsets: &BTreeMap<TopicPartition, i64>,
    start: i64,
    end: i64,
) -> Result<i64, ClientError> {
    let offset = offsets.get(partition).copied().unwrap_or(end);
    match (start..=end).contains(&offset) {
        true => Ok(offset),
        false => Err(ClientError::Refused(Box::new(Refused {
            what: format!("resetting {partition} to offset {offset}"),
            code: ErrorCode::OffsetOutOfRange,
            detail: Some(format!("the log holds {start}..{end}")),
            topic: Some(partition.topic.to_string()),
            partition: Some(partition.partition),
            group: None,
        }))),
    }
}

struct DeleteOffsets {
    group: String,
}

impl ItemCall for DeleteOffsets {
    type Key = TopicPartition;
    type Value = ();

    fn what(&self, partition: &TopicPartition) -> String {
        format!("deleting the offset of group {} for {partition}", self.group)
    }

    fn subject(&self, partition: &TopicPartition) -> Subject {
        Subject { group: Some(self.group.clone()), ..Subject::partition(partition) }
    }

    fn recipient(&self, _: &TopicPartition) -> Recipient {
        Recipient::Coordinator(self.group.clone())
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, partitions: &[TopicPartition]) -> CallResult<Self> {
        let index = |partition_index: i32| OffsetDeleteRequestPartition { partition_index, ..Default::default() };
        let topic = |(name, indexes): (_, Vec<i32>)| OffsetDeleteRequestTopic {
            name,
            partitions: indexes.into_iter().map(index).collect(),
            ..Default::default()
        };
        let build = |_| OffsetDeleteRequest {
            group_id: &self.group,
            topics: by_topic(partitions).into_iter().map(topic).collect(),
            ..Default::default()
        };
        let (frame, version) = context.call(node, OffsetDeleteRequest::VERSIONS, build).await?;
        let response = read::<OffsetDeleteRequest<'_>>(&frame, version)?;
        if let Err(refusal) = Refusal::check(response.error_code, None) {
            return Ok(refuse_all(partitions, &refusal));
        }
        let answers = response.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|answer| {
                let partition = TopicPartition::new(topic.name, answer.partition_index);
                (partition, Refusal::check(answer.error_code, None))
            })
        });
        Ok(answers.collect())
    }
}
