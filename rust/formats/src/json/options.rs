//! The options of a decoder, by the names that Spark's `from_json` has for them.

use super::time::{Pattern, TimeZone};
use crate::avro::Framing;

/// What becomes of a bad value: Spark's `mode` of `from_json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The row stays. A field whose value is bad is null, and of a value that is no JSON object, all fields are.
    #[default]
    Permissive,
    /// There is no row; [`JsonDecoder::append`](crate::JsonDecoder::append) returns the error.
    FailFast,
}

/// What stands around the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Envelope {
    /// Nothing: a value is the object.
    #[default]
    None,
    /// Debezium's `{before, after, source, op, ts_ms}`, alone or as the `payload` beside a `schema`: `before` of a deletion
    /// and else `after` is the object. Fields at the top named `__op` (utf8), `__deleted` (boolean or utf8) and `__ts_ms`
    /// (int64) say what was done and when, as those of Debezium's ExtractNewRecordState do.
    Debezium,
}

/// The options of a decoder, with the defaults of Spark's `from_json`. [`JsonOptions::set`] takes them by Spark's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// What becomes of a bad value. Default permissive.
    pub mode: Mode,
    /// The field that gets the text of bad values, if the fields have a utf8 one of this name at the top. Default
    /// `_corrupt_record`.
    pub corrupt_record_field: String,
    /// The zone of timestamps that name none. Default UTC.
    pub time_zone: TimeZone,
    /// How texts of dates are read. Default as Spark casts texts to dates.
    pub date_format: Option<Pattern>,
    /// How texts of timestamps with a zone are read. Default as Spark casts texts to timestamps.
    pub timestamp_format: Option<Pattern>,
    /// How texts of timestamps without a zone are read. Default as Spark casts texts to them.
    pub timestamp_ntz_format: Option<Pattern>,
    /// Whether texts that a pattern does not fit are read as without one. Default no.
    pub datetime_fallback: bool,
    /// Whether the other fields of a nested object stay if one is bad. Default yes. If not, the field at the top is null, and
    /// what Spark's parser reads next is read as fields at the top, up to the next end of an object.
    pub partial_results: bool,
    /// Whether rows that are written leave out fields that are null. Default yes.
    pub ignore_null_fields: bool,
    /// What is taken beyond JSON.
    pub syntax: Syntax,
    /// What stands around the objects. Default nothing.
    pub envelope: Envelope,
    /// What stands before each value. Any schema will do. Default nothing.
    pub framing: Framing,
    /// How much one row may take as columns, in bytes: a list of empty objects grows by the width of its fields with every
    /// three bytes. Default 64 MiB.
    pub max_row_bytes: usize,
}

/// What is taken beyond JSON, with Spark's defaults: single quotes, and numbers that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// `/* */` and `//`.
    pub comments: bool,
    /// Names of fields without quotes.
    pub unquoted_field_names: bool,
    /// Texts and names in single quotes.
    pub single_quotes: bool,
    /// Numbers such as 007.
    pub leading_zeros: bool,
    /// NaN, Infinity and so on, with quotes and without.
    pub non_numeric_numbers: bool,
    /// A backslash before any character.
    pub any_escape: bool,
    /// Control characters in texts.
    pub control_characters: bool,
}

impl Default for Syntax {
    fn default() -> Self {
        Self {
            comments: false,
            unquoted_field_names: false,
            single_quotes: true,
            leading_zeros: false,
            non_numeric_numbers: true,
            any_escape: false,
            control_characters: false,
        }
    }
}

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            corrupt_record_field: "_corrupt_record".to_owned(),
            time_zone: TimeZone::UTC,
            date_format: None,
            timestamp_format: None,
            timestamp_ntz_format: None,
            datetime_fallback: false,
            partial_results: true,
            ignore_null_fields: true,
            syntax: Syntax::default(),
            envelope: Envelope::default(),
            framing: Framing::Bare,
            max_row_bytes: 64 << 20,
        }
    }
}

/// An option that is unknown, not supported, or has a bad value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("option {name}: {reason}")]
pub struct BadOption {
    /// The option, as it was given.
    pub name: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

/// Options that Spark has for files, or for writing.
const ELSEWHERE: [&str; 9] = [
    "compression",
    "linesep",
    "multiline",
    "pretty",
    "sortkeys",
    "writenonasciicharacterascodepoint",
    "samplingratio",
    "charset",
    "encoding",
];

impl JsonOptions {
    /// Sets an option by its name in Spark, in any case of letters: those of `from_json`, and `enablePartialResults`, which
    /// is `spark.sql.json.enablePartialResults` there; `envelope`, none or debezium, is of this crate alone. `ignoreNullFields` is of
    /// `to_json`. Options of the inference of a schema are taken too, and have no effect.
    ///
    /// # Errors
    /// An option that is unknown, not supported, or has a bad value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), BadOption> {
        self.set_checked(name, value).map_err(|reason| BadOption { name: name.to_owned(), reason })
    }

    fn set_checked(&mut self, name: &str, value: &str) -> Result<(), String> {
        let pattern = || Pattern::new(value).map(Some);
        match &*name.to_ascii_lowercase() {
            "mode" => {
                self.mode = match &*value.to_ascii_uppercase() {
                    "PERMISSIVE" => Mode::Permissive,
                    "FAILFAST" => Mode::FailFast,
                    _ => return Err(format!("{value:?} is not supported; use PERMISSIVE or FAILFAST")),
                }
            }
            "envelope" => {
                self.envelope = match value {
                    "none" => Envelope::None,
                    "debezium" => Envelope::Debezium,
                    _ => return Err(format!("{value:?} is not supported; use none or debezium")),
                }
            }
            "columnnameofcorruptrecord" => self.corrupt_record_field = value.to_owned(),
            "timezone" => {
                self.time_zone = TimeZone::named(value)
                    .ok_or_else(|| format!("the system's database of time zones has no {value:?}"))?;
            }
            "dateformat" => self.date_format = pattern()?,
            "timestampformat" => self.timestamp_format = pattern()?,
            "timestampntzformat" => self.timestamp_ntz_format = pattern()?,
            "enabledatetimeparsingfallback" => self.datetime_fallback = boolean(value)?,
            "enablepartialresults" => self.partial_results = boolean(value)?,
            "ignorenullfields" => self.ignore_null_fields = boolean(value)?,
            "allowcomments" => self.syntax.comments = boolean(value)?,
            "allowunquotedfieldnames" => self.syntax.unquoted_field_names = boolean(value)?,
            "allowsinglequotes" => self.syntax.single_quotes = boolean(value)?,
            "allownumericleadingzeros" => self.syntax.leading_zeros = boolean(value)?,
            "allownonnumericnumbers" => self.syntax.non_numeric_numbers = boolean(value)?,
            "allowbackslashescapinganycharacter" => self.syntax.any_escape = boolean(value)?,
            "allowunquotedcontrolchars" => self.syntax.control_characters = boolean(value)?,
            "primitivesasstring" | "prefersdecimal" | "dropfieldifallnull" | "infertimestamp" => {
                boolean(value)?;
            }
            "locale" if value.eq_ignore_ascii_case("en-US") => {}
            "locale" => return Err("only en-US is supported".to_owned()),
            name if ELSEWHERE.contains(&name) => {
                return Err(
                    "is an option for files or for writing; a record's value is one JSON text in UTF-8".to_owned()
                );
            }
            "timeformat" => return Err("there is no type of times without a date; use a string".to_owned()),
            "singlevariantcolumn" => return Err("the variant type is not supported; name the fields".to_owned()),
            "maxnestingdepth" | "maxnumlen" | "maxstringlen" => {
                return Err(
                    "is not supported; values may be nested 1000 deep, and numbers have 1000 characters".to_owned()
                );
            }
            _ => return Err("there is no such option of from_json".to_owned()),
        }
        Ok(())
    }
}

fn boolean(value: &str) -> Result<bool, String> {
    match &*value.to_ascii_lowercase() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("{value:?} is neither true nor false")),
    }
}
