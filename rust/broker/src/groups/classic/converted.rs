//! Making a classic group from a consumer group (the downgrade of KIP-848).

use std::sync::Arc;

use bytes::Bytes;

use super::{ClassicGroup, ClassicMember, ClassicState, JoinRules, Protocol, protocols};
use crate::groups::Effects;

/// A member of the former consumer group.
#[derive(Debug)]
pub(crate) struct ConvertedMember {
    pub(crate) id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) session_timeout_ms: i32,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) protocols: Vec<(Arc<str>, Bytes)>,
    pub(crate) assignment: Bytes,
}

impl ClassicGroup {
    /// Makes a stable group of these members.
    pub(crate) fn converted(id: Arc<str>, now_ms: i64, generation_id: i32, members: Vec<ConvertedMember>) -> Self {
        let mut group = Self::new(id);
        (group.state, group.state_since_ms, group.generation_id) = (ClassicState::Stable, Some(now_ms), generation_id);
        for converted in members {
            let protocols = converted.protocols.into_iter().map(|(name, metadata)| Protocol { name, metadata });
            let member = ClassicMember {
                instance_id: converted.instance_id,
                client_id: converted.client_id,
                client_host: converted.client_host,
                session_timeout_ms: converted.session_timeout_ms,
                rebalance_timeout_ms: converted.rebalance_timeout_ms,
                protocols: protocols.collect(),
                assignment: converted.assignment,
                joining: None,
                syncing: None,
                is_new: false,
            };
            group.add(Arc::clone(&converted.id), protocols::CONSUMER, member);
            group.renew_session(now_ms, &converted.id);
        }
        group.protocol_name = group.select_protocol();
        group.read_subscriptions();
        group
    }

    /// Begins a rebalance: all members must join again.
    pub(crate) fn rebalance(&mut self, now_ms: i64, reason: &str, effects: &mut Effects) {
        self.prepare_rebalance(now_ms, JoinRules::NONE, reason, effects);
    }
}
