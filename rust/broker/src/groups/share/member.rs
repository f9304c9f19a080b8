//! A member of a share group.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::groups::consumer::{JOIN_EPOCH, Partitions};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ShareMember {
    pub(crate) id: Arc<str>,
    pub(crate) epoch: i32,
    /// The epoch before this one. A member that missed the answer with the new epoch still sends it.
    pub(crate) previous_epoch: i32,
    pub(crate) rack_id: Option<Arc<str>>,
    pub(crate) client_id: Arc<str>,
    pub(crate) client_host: Arc<str>,
    pub(crate) subscribed_names: BTreeSet<Arc<str>>,
    pub(crate) assigned: Partitions,
}

impl ShareMember {
    pub(super) fn new(id: Arc<str>) -> Self {
        Self {
            id,
            epoch: JOIN_EPOCH,
            previous_epoch: -1,
            rack_id: None,
            client_id: "".into(),
            client_host: "".into(),
            subscribed_names: BTreeSet::new(),
            assigned: Partitions::default(),
        }
    }
}
