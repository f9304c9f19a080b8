//! A registry as a source of the schemas that values were written with.

use std::sync::Arc;

use monedula_client::registry::{Answer, RegisteredSchema, SchemaKey, SchemaKind, SchemaRegistry};
use monedula_formats::{Asked, BadSchema, WriterKey};

/// A registry as a source of schemas, and a subject of their context.
#[derive(Debug)]
pub(crate) struct Registry(pub(crate) Arc<SchemaRegistry>, pub(crate) Option<Arc<str>>);

impl Registry {
    /// The schema with this key, of this kind, as `parse` reads it.
    pub(crate) fn ask<S>(
        &self,
        key: WriterKey,
        kind: SchemaKind,
        parse: impl FnOnce(&RegisteredSchema) -> Result<S, BadSchema>,
    ) -> Asked<Result<S, BadSchema>> {
        let key = match key {
            WriterKey::Id(id) => SchemaKey::Id(id),
            WriterKey::Guid(guid) => SchemaKey::Guid(guid),
            WriterKey::Apicurio(id) => match u32::try_from(id) {
                Ok(id) => SchemaKey::Id(id),
                Err(_) => {
                    return Asked::Refused(format!("there is no schema with the id {id}: it has more than 32 bits"));
                }
            },
            WriterKey::GlobalId(id) => {
                return Asked::Refused(format!(
                    "its schema is named by globalId {id}, which the API of Confluent's registry does not know; it can be \
                     given among the schemas by that, or values be written with contentIds (use-id)"
                ));
            }
            WriterKey::Only | WriterKey::Fingerprint(_) => {
                return Asked::Refused("a registry knows schemas by id and GUID".into());
            }
        };
        match self.0.ask(key, self.1.as_ref(), kind) {
            Answer::Awaits(awaited) => Asked::Awaits(awaited),
            Answer::Missing(why) => Asked::Refused(why),
            Answer::Failed(why) => Asked::Failed(why),
            Answer::Known(schema) => Asked::Known(parse(&schema)),
        }
    }
}
