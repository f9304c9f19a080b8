//! A registry as a source of the schemas that values were written with.

use std::sync::Arc;

use monedula_client::registry::{RegisteredSchema, SchemaKey, SchemaKind, SchemaRegistry};
use monedula_columns::Lookup;
use monedula_formats::{BadSchema, NoSchema, WriterKey};

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
    ) -> Lookup<Result<S, NoSchema>> {
        let missing = |why: String| Lookup::Ready(Err(NoSchema::Missing(why)));
        let key = match key {
            WriterKey::Id(id) => SchemaKey::Id(id),
            WriterKey::Guid(guid) => SchemaKey::Guid(guid),
            WriterKey::Apicurio(id) => match u32::try_from(id) {
                Ok(id) => SchemaKey::Id(id),
                Err(_) => {
                    return missing(format!("there is no schema with the id {id}: it has more than 32 bits"));
                }
            },
            WriterKey::GlobalId(id) => {
                return missing(format!(
                    "its schema is named by globalId {id}, which the API of Confluent's registry does not know; give its \
                     schema by that among the schemas, or write with contentIds (use-id)"
                ));
            }
            WriterKey::Only | WriterKey::Fingerprint(_) => {
                return missing("a registry knows schemas by id and GUID".into());
            }
        };
        self.0.ask(key, self.1.as_ref(), kind).map(|answer| {
            let schema = answer.map_err(NoSchema::Missing)?;
            parse(&schema).map_err(NoSchema::Unreadable)
        })
    }
}
