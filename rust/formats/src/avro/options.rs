//! Options of the Avro decoder, by the names of Spark's `from_avro`.

use crate::json::{BadOption, Mode};

/// Options of the decoder, with the defaults of Spark's `from_avro`, except for the mode. [`AvroOptions::set`] takes
/// them by Spark's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvroOptions {
    /// Treatment of bad values: no row and an error, or a row of nulls. Default permissive.
    pub mode: Mode,
    /// Limit on how often a record may recur within itself as columns; with 0, recursive schemas are refused. Default
    /// 0.
    pub recursive_field_max_depth: usize,
    /// Prefix for naming the fields of a union's struct by their types; without it they are `member0` and so on.
    pub stable_union_prefix: Option<String>,
    /// Limit on the memory of one row's columns, in bytes. Default 64 MiB.
    pub max_row_bytes: usize,
}

impl Default for AvroOptions {
    fn default() -> Self {
        Self { mode: Mode::default(), recursive_field_max_depth: 0, stable_union_prefix: None, max_row_bytes: 64 << 20 }
    }
}

const PREFIX: &str = "member_";

impl AvroOptions {
    /// Sets options by their names in Spark, case-insensitively.
    ///
    /// # Errors
    /// Option that is unknown, not supported, or has a bad value.
    pub fn set(&mut self, given: &[(String, String)]) -> Result<(), BadOption> {
        let (mut is_stable, mut prefix) = (false, PREFIX);
        for (name, value) in given {
            let refused = |reason: &str| Err(BadOption { name: name.clone(), reason: reason.to_owned() });
            match (&*name.to_ascii_lowercase(), &*value.to_ascii_lowercase()) {
                ("recursivefieldmaxdepth", depth) => match depth.parse() {
                    Ok(-1) => self.recursive_field_max_depth = 0,
                    Ok(depth @ 0..=15) => self.recursive_field_max_depth = depth as usize,
                    _ => return refused("expected a number of at most 15"),
                },
                ("enablestableidentifiersforuniontype", "true") => is_stable = true,
                ("enablestableidentifiersforuniontype", "false") => is_stable = false,
                ("enablestableidentifiersforuniontype", _) => return refused("expected true or false"),
                ("stableidentifierprefixforuniontype", _) => prefix = value,
                ("envelope", _) => {
                    return refused(
                        "is of Json alone; name after and op in the reader's schema, which leaves out the rest",
                    );
                }
                ("avroschema", _) => return refused("is an argument of its own, the reader's schema"),
                ("datetimerebasemode", "corrected" | "exception") => {}
                ("datetimerebasemode", _) => return refused("only CORRECTED is supported: dates are Gregorian"),
                _ => return refused("there is no such option of from_avro"),
            }
        }
        self.stable_union_prefix = is_stable.then(|| prefix.to_owned());
        Ok(())
    }
}
