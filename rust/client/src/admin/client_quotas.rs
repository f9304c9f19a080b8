//! Client quotas (KIP-546): of users, client ids and addresses.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use monedula_protocol::api::Request;
use monedula_protocol::messages::alter_client_quotas::{
    AlterClientQuotasEntity, AlterClientQuotasEntry, AlterClientQuotasOp, AlterClientQuotasRequest,
};
use monedula_protocol::messages::describe_client_quotas::{
    DescribeClientQuotasComponentData, DescribeClientQuotasEntryData, DescribeClientQuotasRequest,
};

use super::call::{AdminCall, CallResult, ItemCall, Items, Recipient, Refusal, read};
use super::{Admin, AdminContext};
use crate::net::network::NodeId;

/// User of a quota: a name for each of its types (`user`, `client-id`, `ip`), or `None` for the default of a type.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct QuotaEntity(pub BTreeMap<String, Option<String>>);

/// Quotas by name, such as `producer_byte_rate`.
pub type Quotas = BTreeMap<String, f64>;

/// Condition on one type of an entity, for the entity to be described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaMatch {
    /// This name.
    Name(String),
    /// The default of the type.
    Default,
    /// Any name, and the default.
    Any,
}

impl fmt::Display for QuotaEntity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, name)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match name {
                Some(name) => write!(f, "{comma}{kind} {name}")?,
                None => write!(f, "{comma}the default {kind}")?,
            }
        }
        Ok(())
    }
}

impl Admin {
    /// Describes the quotas of the entities whose types match; `strict` leaves out entities that have other types too.
    pub fn describe_client_quotas(
        &self,
        types: Vec<(String, QuotaMatch)>,
        strict: bool,
        timeout: Duration,
    ) -> AdminCall<Vec<(QuotaEntity, Quotas)>> {
        self.run_one(DescribeClientQuotas { types, strict }, (), timeout)
    }

    /// Sets quotas, or removes them (`None`), and leaves the others of the entity; `validate_only` changes none.
    pub fn alter_client_quotas(
        &self,
        changes: BTreeMap<QuotaEntity, BTreeMap<String, Option<f64>>>,
        validate_only: bool,
        timeout: Duration,
    ) -> AdminCall<Items<QuotaEntity, ()>> {
        let entities: Vec<QuotaEntity> = changes.keys().cloned().collect();
        self.run(AlterClientQuotas { changes, validate_only }, entities, timeout)
    }
}

struct DescribeClientQuotas {
    types: Vec<(String, QuotaMatch)>,
    strict: bool,
}

impl ItemCall for DescribeClientQuotas {
    type Key = ();
    type Value = Vec<(QuotaEntity, Quotas)>;
    const RECIPIENT: Recipient = Recipient::InTurn;

    fn what(&self, (): &()) -> String {
        "describing client quotas".into()
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, _: &[()]) -> CallResult<Self> {
        let build = |_| DescribeClientQuotasRequest {
            components: self.types.iter().map(component).collect(),
            strict: self.strict,
            ..Default::default()
        };
        let (frame, version) = context.call(node, DescribeClientQuotasRequest::VERSIONS, build).await?;
        let response = read::<DescribeClientQuotasRequest<'_>>(&frame, version)?;
        let outcome = Refusal::check(response.error_code, response.error_message);
        let entries = response.entries.iter().flatten().map(entry);
        Ok(vec![((), outcome.map(|()| entries.collect()))])
    }
}

fn component((kind, wanted): &(String, QuotaMatch)) -> DescribeClientQuotasComponentData<'_> {
    let (match_type, name) = match wanted {
        QuotaMatch::Name(name) => (0, Some(name.as_str())),
        QuotaMatch::Default => (1, None),
        QuotaMatch::Any => (2, None),
    };
    DescribeClientQuotasComponentData { entity_type: kind, match_type, r#match: name, ..Default::default() }
}

fn entry(entry: &DescribeClientQuotasEntryData<'_>) -> (QuotaEntity, Quotas) {
    let part = entry.entity.iter().map(|part| (part.entity_type.to_owned(), part.entity_name.map(str::to_owned)));
    let values = entry.values.iter().map(|quota| (quota.key.to_owned(), quota.value));
    (QuotaEntity(part.collect()), values.collect())
}

struct AlterClientQuotas {
    changes: BTreeMap<QuotaEntity, BTreeMap<String, Option<f64>>>,
    validate_only: bool,
}

impl AlterClientQuotas {
    fn entry<'a>(&'a self, entity: &'a QuotaEntity) -> AlterClientQuotasEntry<'a> {
        let part = |(kind, name): (&'a String, &'a Option<String>)| AlterClientQuotasEntity {
            entity_type: kind,
            entity_name: name.as_deref(),
            ..Default::default()
        };
        let op = |(key, value): (&'a String, &Option<f64>)| AlterClientQuotasOp {
            key,
            value: value.unwrap_or_default(),
            remove: value.is_none(),
            ..Default::default()
        };
        AlterClientQuotasEntry {
            entity: entity.0.iter().map(part).collect(),
            ops: self.changes.get(entity).into_iter().flatten().map(op).collect(),
            ..Default::default()
        }
    }
}

impl ItemCall for AlterClientQuotas {
    type Key = QuotaEntity;
    type Value = ();

    fn what(&self, entity: &QuotaEntity) -> String {
        format!("changing the quotas of {entity}")
    }

    async fn ask(&self, context: &AdminContext, node: NodeId, entities: &[QuotaEntity]) -> CallResult<Self> {
        let build = |_| AlterClientQuotasRequest {
            entries: entities.iter().map(|entity| self.entry(entity)).collect(),
            validate_only: self.validate_only,
            ..Default::default()
        };
        let (frame, version) = context.call(node, AlterClientQuotasRequest::VERSIONS, build).await?;
        let response = read::<AlterClientQuotasRequest<'_>>(&frame, version)?;
        let answers = response.entries.iter().map(|answer| {
            let parts = answer.entity.iter();
            let parts = parts.map(|part| (part.entity_type.to_owned(), part.entity_name.map(str::to_owned)));
            (QuotaEntity(parts.collect()), Refusal::check(answer.error_code, answer.error_message))
        });
        Ok(answers.collect())
    }
}
