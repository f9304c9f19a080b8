//! ListGroups, versions 0-5: lists the groups that the node coordinates, filtered by state and type.
//!
//! Not implemented: streams groups (KIP-1071), of which there are none.

use monedula_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::Handled;
use crate::core::Core;
use crate::request::Call;
use crate::security::{Operation, Resource};

pub(super) fn handle(core: &mut Core, call: &Call<'_>, request: &ListGroupsRequest<'_>) -> Handled {
    let partitions = core.group_partitions_of(call.node)?;
    let passes = |filter: &[&str], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.trim().eq_ignore_ascii_case(value))
    };
    // A client that may describe the cluster sees all groups, others see those that they may describe.
    let sees_all = core.allows(call, Operation::Describe, Resource::Cluster);
    let slots = partitions.into_iter().flat_map(|partition| core.groups.slots(partition));
    let groups = slots.filter_map(|slot| {
        let group = slot.group.as_ref()?;
        let wanted = passes(&request.states_filter, group.state()) && passes(&request.types_filter, group.kind());
        let seen = sees_all || core.allows(call, Operation::Describe, Resource::Group(&slot.id));
        (wanted && seen).then(|| ListedGroup {
            group_id: &slot.id,
            protocol_type: group.protocol_type(),
            group_state: group.state(),
            group_type: group.kind(),
            ..Default::default()
        })
    });
    Ok(call.answer::<ListGroupsRequest<'_>>(&ListGroupsResponse { groups: groups.collect(), ..Default::default() }))
}
