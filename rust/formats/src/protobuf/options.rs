//! Options of the Protobuf decoder, by the names of Spark's `from_protobuf`.

use crate::json::{BadOption, Mode};

/// Options of the decoder. [`ProtobufOptions::set`] takes them by Spark's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtobufOptions {
    /// Treatment of bad values: no row and an error, or a null row. Default permissive.
    pub mode: Mode,
    /// Limit on how often a message may recur within itself as columns; with 0, recursive schemas are refused. Default
    /// 0.
    pub recursive_fields_max_depth: usize,
    /// Turns unsigned numbers into int64 and decimal128(20, 0). Default false: unsigned columns.
    pub upcast_unsigned_ints: bool,
    /// Turns unsigned numbers into signed ones with the same bits, unless they are upcast. Default false; Spark behaves
    /// like true.
    pub unsigned_as_signed: bool,
    /// Turns enums into their numbers. Default false: their names.
    pub enums_as_ints: bool,
    /// Fills missing fields without presence (most of proto3) with the type's zero. Default true; false gives null, as
    /// in Spark.
    pub emit_default_values: bool,
    /// Replaces messages such as `google.protobuf.Int32Value` by the value in them. Default true; false gives structs,
    /// as in Spark.
    pub unwrap_primitive_wrapper_types: bool,
    /// Keeps messages without fields as empty structs. Default true; false gives them no column, as in Spark.
    pub retain_empty_message_types: bool,
    /// Fields that become columns, like `items.price`, in this order. Default empty: all of them.
    pub fields: Vec<String>,
    /// Limit on the memory of one row's columns, in bytes. Default 64 MiB.
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
    /// Sets options by their names in Spark, case-insensitively. `unsigned.as.signed` is monedula's own.
    ///
    /// # Errors
    /// Option that is unknown, not supported, or has a bad value.
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
