//! The lag of a group.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use monedula_engine::TopicPartition;

use super::call::{AdminCall, Items};
use super::group_offsets::Which;
use super::groups::{GroupDescription, MemberDescription};
use super::offsets::{ListedOffset, OffsetSpec};
use super::share_groups::SHARE;
use super::{Admin, AdminContext};
use crate::coordinator::check_group;
use crate::error::ClientError;

/// The lag of a group.
#[derive(Clone, Debug)]
pub struct GroupLag {
    /// The group's state, such as `Stable`.
    pub state: String,
    /// The lag of each partition.
    pub partitions: Items<TopicPartition, PartitionLag>,
}

/// The lag of a group in one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLag {
    /// The committed offset, that is, of the next record to read; `None` if none is committed.
    pub committed: Option<i64>,
    /// The log start offset.
    pub log_start: i64,
    /// The high watermark: the offset after the last record that consumers can read.
    pub log_end: i64,
    /// The number of records that a share group has not done with, as its broker counts them; `None` for other groups.
    pub lag: Option<i64>,
    /// Member id, client id and host of the member that owns the partition; `None` if several do, in a share group.
    pub owner: Option<(String, String, String)>,
}

impl Admin {
    /// The lag of a group in these partitions; or in all for which it has committed an offset or that a member owns.
    pub fn group_lag(&self, group: String, which: Which, timeout: Duration) -> AdminCall<GroupLag> {
        self.until_closed(move |context| async move { context.group_lag(group, which, timeout).await })
    }
}

impl AdminContext {
    async fn group_lag(&self, group: String, which: Which, timeout: Duration) -> Result<GroupLag, ClientError> {
        check_group(&group)?;
        let until = Instant::now() + timeout;
        let left = || until.saturating_duration_since(Instant::now());
        let described = self.describe_groups(vec![group.clone()], left()).await?;
        let Some((_, described)) = described.into_iter().next() else {
            return Err(ClientError::Internal(format!("group {group} was not described")));
        };
        let described = described?;
        let owners = owners_of(&described);
        let is_share = described.kind == SHARE;
        let mut committed = self.committed_of(&group, is_share, &which, left()).await?;
        if matches!(which, Which::All) {
            for partition in owners.keys() {
                committed.entry((*partition).clone()).or_insert(None);
            }
        }
        let lags = if is_share { self.share_offsets(&group, left()).await? } else { BTreeMap::new() };
        let at = |spec| committed.keys().map(|partition| (partition.clone(), spec)).collect();
        // Both at the same time: a leader that is silent must not use up the time of the second lookup.
        let (starts, ends) = tokio::join!(
            self.list_offsets(at(OffsetSpec::Earliest), false, left()),
            self.list_offsets(at(OffsetSpec::Latest), false, left()),
        );
        let (starts, ends): (Listed, _) = (starts?.into_iter().collect(), ends?);
        let item = |(partition, end): (TopicPartition, Result<ListedOffset, ClientError>)| {
            let lag = end.and_then(|end| {
                let start = starts.get(&partition).cloned().unwrap_or(Ok(end))?;
                let owner = owners.get(&partition).copied().flatten();
                Ok(PartitionLag {
                    committed: committed.get(&partition).and_then(|at| at.as_ref().map(|at| at.offset)),
                    log_start: start.offset.unwrap_or(0),
                    log_end: end.offset.unwrap_or(0),
                    lag: lags.get(&partition).and_then(|found| found.as_ref().ok()?.lag),
                    owner: owner.map(|by| (by.member_id.clone(), by.client_id.clone(), by.host.clone())),
                })
            });
            (partition, lag)
        };
        let partitions = ends.into_iter().map(item).collect();
        Ok(GroupLag { state: described.state.clone(), partitions })
    }
}

type Listed = BTreeMap<TopicPartition, Result<ListedOffset, ClientError>>;

/// The member that owns a partition; `None` if several do.
fn owners_of(group: &GroupDescription) -> BTreeMap<&TopicPartition, Option<&MemberDescription>> {
    let mut owners = BTreeMap::new();
    for member in &group.members {
        for partition in &member.assignment {
            owners.entry(partition).and_modify(|owner| *owner = None).or_insert(Some(member));
        }
    }
    owners
}
