//! AddOffsetsToTxn, versions 0-4: adds a group's partition of `__consumer_offsets` to a transaction.
//!
//! Not implemented: nothing known, besides what [`super`] lists.

use monedula_protocol::messages::add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{Handled, code, fenced_for};
use crate::cluster::Coordinated;
use crate::core::Core;
use crate::request::{Call, Mentions};
use crate::security::{Operation, Resource};

/// Clients know PRODUCER_FENCED from this version on (KIP-588).
const PRODUCER_FENCED_FROM: i16 = 2;

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &AddOffsetsToTxnRequest<'_>) -> Handled {
    core.authorize(call, Operation::Write, Resource::TransactionalId(request.transactional_id))?;
    core.authorize(call, Operation::Read, Resource::Group(request.group_id))?;
    let partition = core.coordinator_partition(Coordinated::Groups, request.group_id);
    let partitions = [(Coordinated::Groups.topic().into(), partition)].into();
    let producer = (request.producer_id, request.producer_epoch);
    let outcome = core.add_to_transaction(call.node, request.transactional_id, producer, &partitions);
    let error_code = code(outcome.map_err(|error| fenced_for(call.version, PRODUCER_FENCED_FROM, error)));
    Ok(call.answer::<AddOffsetsToTxnRequest<'_>>(&AddOffsetsToTxnResponse { error_code, ..Default::default() }))
}

pub(super) fn mentions<'a>(request: &AddOffsetsToTxnRequest<'a>) -> Mentions<'a> {
    let transactional_id = Some(request.transactional_id);
    Mentions { transactional_id, groups: vec![request.group_id], ..Default::default() }
}
