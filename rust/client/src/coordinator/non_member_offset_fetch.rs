//! OffsetFetch by a client that is no member of the group.

use std::time::Duration;

use monedula_engine::TopicPartition;
use monedula_engine::group::{TopicIds, committed_offsets, offset_fetch_request};
use monedula_protocol::error_code::ErrorCode;
use monedula_protocol::frame;
use monedula_protocol::messages::offset_fetch::OffsetFetchRequest;

use super::{CommittedOffsets, Failure, GroupCall, again, fault, refused, unanswered, unreadable};
use crate::net::network::{Network, NodeId, Purpose};

/// A lookup of committed offsets, of these partitions or of all.
pub(super) struct CommittedOffsetsCall {
    pub(super) group: String,
    pub(super) partitions: Option<Vec<TopicPartition>>,
    /// True if offsets that an open transaction may still change are refused (KIP-447).
    pub(super) stable: bool,
}

impl GroupCall for CommittedOffsetsCall {
    type Outcome = CommittedOffsets;

    fn group(&self) -> &str {
        &self.group
    }

    fn what(&self) -> String {
        format!("the lookup of offsets of group {}", self.group)
    }

    async fn ask(&mut self, network: &Network, node: i32) -> Result<CommittedOffsets, Failure> {
        let (partitions, topic_ids) = (self.partitions.as_deref(), TopicIds::new());
        // `require_stable` came with version 7.
        let build = |version| OffsetFetchRequest {
            require_stable: self.stable && version >= 7,
            ..offset_fetch_request(&self.group, None, partitions, &topic_ids, version)
        };
        let call = network.call(NodeId::Broker(node), Purpose::Control, 2..=9, Duration::ZERO, build).await;
        let (answer, version) = call.map_err(unanswered)?;
        let response = frame::decode_response::<OffsetFetchRequest<'_>>(answer.as_slice(), version)
            .map_err(|error| unreadable(&error))?;
        let found = committed_offsets(&response, &self.group, partitions, &topic_ids, version);
        let (code, found) = found.ok_or_else(|| again(ErrorCode::CoordinatorNotAvailable, true))?;
        match code {
            ErrorCode::None => {}
            code if code.is_retriable() => return Err(again(code, true)),
            code => return Err(Failure::Final(refused(&self.group, self.what(), code))),
        }
        let asked = self.partitions.iter().flatten();
        let mut committed: CommittedOffsets = asked.map(|partition| (partition.clone(), Ok(None))).collect();
        committed.extend(found.into_iter().map(|(partition, outcome)| {
            let outcome = outcome.map_err(|code| fault(partition.clone(), code));
            (partition, outcome)
        }));
        Ok(committed)
    }
}
