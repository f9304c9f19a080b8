//! AlterClientQuotas, API key 49, versions 0-1 (KIP-546).
//!
//! Version 1 is flexible. Entities are those of DescribeClientQuotas.

use crate::wire::api;

api! {
    AlterClientQuotas, versions 0..=1, flexible 1..;

    /// Changes the quotas of entities.
    request AlterClientQuotasRequest<'a> {
        /// The entities.
        entries: Vec<AlterClientQuotasEntry<'a>>, 0..;
        /// True to have the request only validated, without changes.
        validate_only: bool, 0..;
    }

    /// The result for each entity.
    response AlterClientQuotasResponse<'a> {
        throttle_time_ms: i32, 0..;
        /// The entities.
        entries: Vec<AlterClientQuotasEntryResponse<'a>>, 0..;
    }

    /// An entity to change.
    struct AlterClientQuotasEntry<'a> {
        entity: Vec<AlterClientQuotasEntity<'a>>, 0..;
        /// The changes.
        ops: Vec<AlterClientQuotasOp<'a>>, 0..;
    }

    /// The name of an entity for one entity type, in the request and in the response.
    struct AlterClientQuotasEntity<'a> {
        entity_type: &'a str, 0..;
        /// The name; `None` for the default entity.
        entity_name: Option<&'a str>, 0.., nullable 0..;
    }

    /// The change of one quota.
    struct AlterClientQuotasOp<'a> {
        /// The quota's name.
        key: &'a str, 0..;
        /// The new value.
        value: f64, 0..;
        /// True to remove the quota.
        remove: bool, 0..;
    }

    /// The result for one entity.
    struct AlterClientQuotasEntryResponse<'a> {
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        entity: Vec<AlterClientQuotasEntity<'a>>, 0..;
    }
}
