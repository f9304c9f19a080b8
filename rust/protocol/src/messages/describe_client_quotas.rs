//! DescribeClientQuotas, API key 48, versions 0-1 (KIP-546).
//!
//! Version 1 is flexible.
//!
//! Types of entities are `user`, `client-id` and `ip` (KIP-612). An entity is one of these, or a user and a client id
//! together; a name of `None` is the default entity of that type.

use crate::wire::api;

api! {
    DescribeClientQuotas, versions 0..=1, flexible 1..;

    /// Describes the quotas of the entities that a filter matches.
    request DescribeClientQuotasRequest<'a> {
        /// The conditions, one for each entity type.
        components: Vec<DescribeClientQuotasComponentData<'a>>, 0..;
        /// True to match only entities without other types than the ones in `components`.
        strict: bool, 0..;
    }

    /// The quotas.
    response DescribeClientQuotasResponse<'a> {
        throttle_time_ms: i32, 0..;
        error_code: i16, 0..;
        error_message: Option<&'a str>, 0.., nullable 0..;
        /// The entities; `None` where there is an error.
        entries: Option<Vec<DescribeClientQuotasEntryData<'a>>>, 0.., nullable 0..;
    }

    /// The condition for one entity type.
    struct DescribeClientQuotasComponentData<'a> {
        entity_type: &'a str, 0..;
        /// 0: the name in `r#match`; 1: the default entity; 2: any entity with a name or the default.
        match_type: i8, 0..;
        /// The name, or `None`.
        r#match: Option<&'a str>, 0.., nullable 0..;
    }

    /// The quotas of one entity.
    struct DescribeClientQuotasEntryData<'a> {
        entity: Vec<DescribeClientQuotasEntityData<'a>>, 0..;
        /// The entity's quotas.
        values: Vec<DescribeClientQuotasValueData<'a>>, 0..;
    }

    /// A component of an entity: its type and name.
    struct DescribeClientQuotasEntityData<'a> {
        entity_type: &'a str, 0..;
        /// The name; `None` for the default entity.
        entity_name: Option<&'a str>, 0.., nullable 0..;
    }

    /// A quota.
    struct DescribeClientQuotasValueData<'a> {
        /// The quota's name, such as `producer_byte_rate`.
        key: &'a str, 0..;
        value: f64, 0..;
    }
}
