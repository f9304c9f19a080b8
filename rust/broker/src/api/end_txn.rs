//! EndTxn, versions 0-5: commits or aborts a transaction. From version 5 on, every end raises the producer epoch
//! (KIP-890).
//!
//! Differs from Kafka: the markers are written within the request where the partitions allow it, in Kafka after the
//! response.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::messages::end_txn::{EndTxnRequest, EndTxnResponse};

use super::{Handled, fenced_for};
use crate::core::Core;
use crate::request::{Call, Mentions};
use crate::security::{Operation, Resource};
use crate::transactions::End;

/// Clients know PRODUCER_FENCED from this version on (KIP-588).
const PRODUCER_FENCED_FROM: i16 = 2;
const RAISES_EPOCH_FROM: i16 = 5;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &EndTxnRequest<'_>) -> Handled {
    core.authorize(call, Operation::Write, Resource::TransactionalId(request.transactional_id))?;
    let producer = (request.producer_id, request.producer_epoch);
    let end = End { commit: request.committed, raises_epoch: call.version >= RAISES_EPOCH_FROM };
    let ended = core.end_transaction(call.node, request.transactional_id, producer, end);
    let (producer_id, producer_epoch) = ended.map_err(|error| fenced_for(call.version, PRODUCER_FENCED_FROM, error))?;
    Ok(call.answer::<EndTxnRequest<'_>>(&EndTxnResponse { producer_id, producer_epoch, ..Default::default() }))
}

pub(super) fn mentions<'a>(request: &EndTxnRequest<'a>) -> Mentions<'a> {
    Mentions { transactional_id: Some(request.transactional_id), ..Default::default() }
}
