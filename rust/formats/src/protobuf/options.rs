//! The options of a decoder, by the names that Spark's `from_protobuf` has for them.

use crate::json::{BadOption, Mode};

/// The options of a decoder. [`ProtobufOptions::set`] takes them by Spark's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtobufOptions {
    /// What becomes of a bad value: no row and an error, or a row that is null. Default permissive.
    pub mode: Mode,
    /// How often a message may be in itself as columns; 0 is not at all, and such a schema is refused. Default 0.
    pub recursive_fields_max_depth: usize,
    /// Unsigned numbers become int64 and decimal128(20, 0). Default false: they are unsigned columns.
    pub upcast_unsigned_ints: bool,
    /// Unsigned numbers become signed ones of the same bits, unless they are upcast. Default false; true is as in Spark.
    pub unsigned_as_signed: bool,
    /// Enums become their numbers. Default false: their names.
    pub enums_as_ints: bool,
    /// A missing field without presence, as most of proto3, has its type's zero. Default true; null without, as in Spark.
    pub emit_default_values: bool,
    /// Messages such as `google.protobuf.Int32Value` become the values in them. Default true; structs without, as in Spark.
    pub unwrap_primitive_wrapper_types: bool,
    /// Messages without fields are structs without fields. Default true; they have no column without, as in Spark.
    pub retain_empty_message_types: bool,
    /// Which fields become columns, as `items.price`, in this order. Default empty: all do.
    pub fields: Vec<String>,
    /// How much one row may take as columns, in bytes. Default 64 MiB.
    pub max_row_bytes: usize,
}

impl Default for ProtobufOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            recursive_fields_max_depth: 0,
            upcast_unsigned_ints: false,
            unsigned_as_signed: false,
            enums_as_ints: false,
            emit_default_values: true,
            unwrap_primitive_wrapper_types: true,
            retain_empty_message_types: true,
            fields: Vec::new(),
            max_row_bytes: 64 << 20,
        }
    }
}

impl ProtobufOptions {
    /// Sets options by their names in Spark, in any case of letters. `unsigned.as.signed` is of ours alone.
    ///
    /// # Errors
    /// An option that is unknown, not supported, or has a bad value.
    pub fn set(&mut self, given: &[(String, String)]) -> Result<(), BadOption> {
        for (name, value) in given {
            let refused = |reason: &str| BadOption { name: name.clone(), reason: reason.to_owned() };
            let flag = || value.to_ascii_lowercase().parse().map_err(|_| refused("expected true or false"));
            match &*name.to_ascii_lowercase() {
                "recursive.fields.max.depth" => match value.parse() {
                    Ok(-1) => self.recursive_fields_max_depth = 0,
                    Ok(depth @ 0..=10) => self.recursive_fields_max_depth = depth as usize,
                    _ => return Err(refused("expected a number of at most 10")),
                },
                "upcast.unsigned.ints" => self.upcast_unsigned_ints = flag()?,
                "unsigned.as.signed" => self.unsigned_as_signed = flag()?,
                "enums.as.ints" => self.enums_as_ints = flag()?,
                "emit.default.values" => self.emit_default_values = flag()?,
                "unwrap.primitive.wrapper.types" => self.unwrap_primitive_wrapper_types = flag()?,
                "convert.any.fields.to.json" if flag()? => {
                    return Err(refused("is not supported: google.protobuf.Any is a struct of type_url and value"));
                }
                "convert.any.fields.to.json" => {}
                "retain.empty.message.types" => self.retain_empty_message_types = flag()?,
                "envelope" => return Err(refused("is of Json alone")),
                _ => return Err(refused("there is no such option of from_protobuf")),
            }
        }
        Ok(())
    }
}
