//! The record of a classic group: one generation with its members and their assignments.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error::WireError;
use monedula_protocol::messages::group_records::{GroupMetadataValue, MemberMetadata};

use super::{ClassicGroup, ClassicMember, ClassicState, Protocol};
use crate::cluster::StoredRecord;
use crate::groups::records;
use crate::planted::{Bug, planted};

impl ClassicGroup {
    /// The record of the group in its present state.
    pub(crate) fn record(&self) -> Result<StoredRecord, WireError> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let metadata: Vec<_> = self.members.values().map(|member| member.metadata(protocol)).collect();
        let members = self.members.iter().zip(&metadata).map(|((id, member), metadata)| MemberMetadata {
            member_id: id,
            group_instance_id: member.instance_id.as_deref(),
            client_id: &member.client_id,
            client_host: &member.client_host,
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: metadata,
            assignment: &member.assignment,
            ..Default::default()
        });
        let value = GroupMetadataValue {
            protocol_type: self.protocol_type.as_deref().unwrap_or_default(),
            generation: self.generation_id,
            protocol: self.protocol_name.as_deref(),
            leader: self.leader.as_deref(),
            current_state_timestamp: self.state_since_ms.unwrap_or(-1),
            members: members.collect(),
            ..Default::default()
        };
        records::classic_group(&self.id, &value)
    }

    /// Reads a group from its record. A rebalance in progress is not stored: its members join again.
    pub(crate) fn from_record(id: Arc<str>, value: &GroupMetadataValue<'_>) -> Self {
        let mut group = Self::new(id);
        group.generation_id = value.generation;
        group.protocol_type = Some(value.protocol_type).filter(|name| !name.is_empty()).map(Into::into);
        group.protocol_name = value.protocol.map(Into::into);
        group.leader = value.leader.map(Into::into);
        group.state_since_ms = Some(value.current_state_timestamp).filter(|&at_ms| at_ms >= 0);
        for stored in value.members.iter().skip(usize::from(planted(Bug::ForgetMember))) {
            let rebalance_timeout_ms =
                if stored.rebalance_timeout < 0 { stored.session_timeout } else { stored.rebalance_timeout };
            // The record has only the metadata for the chosen protocol.
            let protocol = Protocol {
                name: value.protocol.unwrap_or_default().into(),
                metadata: Bytes::copy_from_slice(stored.subscription),
            };
            let member = ClassicMember {
                instance_id: stored.group_instance_id.map(Into::into),
                client_id: stored.client_id.into(),
                client_host: stored.client_host.into(),
                session_timeout_ms: stored.session_timeout,
                rebalance_timeout_ms,
                protocols: [protocol].into(),
                assignment: Bytes::copy_from_slice(stored.assignment),
                joining: None,
                syncing: None,
                is_new: false,
            };
            group.add(stored.member_id.into(), value.protocol_type, member);
        }
        group.state = if group.members.is_empty() { ClassicState::Empty } else { ClassicState::Stable };
        group.read_subscriptions();
        group
    }
}
