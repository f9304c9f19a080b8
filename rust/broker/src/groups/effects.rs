//! What a group leaves to be done after a request or a timer.

use std::sync::Arc;

use bytes::Bytes;
use monedula_protocol::error::WireError;
use monedula_protocol::error_code::ErrorCode;

use crate::cluster::StoredRecord;
use crate::core::Ticket;

/// Answers and records. All records of one change are stored as one batch before anyone is answered.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) records: Vec<StoredRecord>,
    pub(crate) answers: Vec<(Ticket, GroupAnswer)>,
    /// A record could not be made: nothing is stored.
    pub(crate) broken: Option<ErrorCode>,
}

/// An answer that a group may give later.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupAnswer {
    Join(JoinAnswer),
    Sync(SyncAnswer),
}

/// What a JoinGroup answer says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) generation_id: i32,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol_name: Option<Arc<str>>,
    pub(crate) leader: Arc<str>,
    pub(crate) skip_assignment: bool,
    pub(crate) member_id: Arc<str>,
    /// For the leader only.
    pub(crate) members: Vec<JoinedMember>,
}

/// A member, as the leader is told of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JoinedMember {
    pub(crate) member_id: Arc<str>,
    pub(crate) instance_id: Option<Arc<str>>,
    pub(crate) metadata: Bytes,
}

/// What a SyncGroup answer says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SyncAnswer {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<Arc<str>>,
    pub(crate) protocol_name: Option<Arc<str>>,
    pub(crate) assignment: Bytes,
}

impl JoinAnswer {
    /// A refused join.
    pub(crate) fn refused(error: ErrorCode, member_id: Arc<str>) -> Self {
        Self {
            error,
            generation_id: -1,
            protocol_type: None,
            protocol_name: None,
            leader: "".into(),
            skip_assignment: false,
            member_id,
            members: Vec::new(),
        }
    }
}

impl SyncAnswer {
    /// A refused sync.
    pub(crate) fn refused(error: ErrorCode) -> Self {
        Self { error, protocol_type: None, protocol_name: None, assignment: Bytes::new() }
    }
}

impl Effects {
    /// Adds a record. What cannot be encoded has a text beyond 32 kB in it, as newer requests can bring.
    pub(crate) fn store(&mut self, record: Result<StoredRecord, WireError>) {
        match record {
            Ok(record) => self.records.push(record),
            Err(error) => {
                log::error!("a record of a group cannot be encoded: {error}");
                self.broken = Some(ErrorCode::UnknownServerError);
            }
        }
    }

    pub(crate) fn join(&mut self, ticket: Ticket, answer: JoinAnswer) {
        self.answers.push((ticket, GroupAnswer::Join(answer)));
    }

    pub(crate) fn sync(&mut self, ticket: Ticket, answer: SyncAnswer) {
        self.answers.push((ticket, GroupAnswer::Sync(answer)));
    }

    /// The same answers, but all of them saying that it could not be stored.
    pub(crate) fn failed(self, error: ErrorCode) -> Self {
        let failed = |answer| match answer {
            GroupAnswer::Join(answer) => GroupAnswer::Join(JoinAnswer::refused(error, answer.member_id)),
            GroupAnswer::Sync(_) => GroupAnswer::Sync(SyncAnswer::refused(error)),
        };
        let answers = self.answers.into_iter().map(|(ticket, answer)| (ticket, failed(answer))).collect();
        Self { answers, ..Self::default() }
    }
}
