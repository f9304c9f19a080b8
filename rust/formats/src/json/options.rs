//! Options of JSON decoders and encoders, by the names of Spark's `from_json` and `to_json`.

use super::time::{Pattern, TimeZone};
use crate::avro::Framing;

/// Treatment of bad values: Spark's `mode` of `from_json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Keep the row. A field with a bad value is null; if the value is no JSON object, all fields are.
    #[default]
    Permissive,
    /// Append no row; [`JsonDecoder::append`](crate::JsonDecoder::append) returns the error.
    FailFast,
}

/// Envelope around the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Envelope {
    /// No envelope: a value is the object.
    #[default]
    None,
    /// Debezium's `{before, after, source, op, ts_ms}`, alone or as the `payload` beside a `schema`. The object is
    /// `before` for a deletion, else `after`. Top-level fields named `__op` (utf8), `__deleted` (boolean or utf8) and
    /// `__ts_ms` (int64) receive the operation and its time, as with Debezium's ExtractNewRecordState.
    Debezium,
}

/// The options of a decoder, with the defaults of Spark's `from_json`. [`JsonOptions::set`] takes them by Spark's names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonOptions {
    /// Treatment of bad values. Default permissive.
    pub mode: Mode,
    /// Name of the field for the text of bad values, used if there is a top-level utf8 field of this name. Default
    /// `_corrupt_record`.
    pub corrupt_record_field: String,
    /// Zone of timestamps that name none. Default UTC.
    pub time_zone: TimeZone,
    /// Pattern of dates. By default they are parsed as by Spark's cast.
    pub date_format: Option<Pattern>,
    /// Pattern of timestamps with a zone. By default they are parsed as by Spark's cast.
    pub timestamp_format: Option<Pattern>,
    /// Pattern of timestamps without a zone. By default they are parsed as by Spark's cast.
    pub timestamp_ntz_format: Option<Pattern>,
    /// Parse texts that do not match the pattern as if there were none. Default false.
    pub datetime_fallback: bool,
    /// Keep the other fields of a nested object if one is bad. Default true. If false, the top-level field is null, and
    /// the text after the fault, up to the next end of an object, is read as top-level fields, as by Spark's parser.
    pub partial_results: bool,
    /// Omit null fields from encoded rows. Default true.
    pub ignore_null_fields: bool,
    /// Permitted extensions of JSON.
    pub syntax: Syntax,
    /// Envelope around the objects. Default none.
    pub envelope: Envelope,
    /// Framing before each value. The schema that it names is not checked. Default none.
    pub framing: Framing,
    /// Limit on the memory of one row's columns, in bytes: three bytes of text, as in a list of empty objects, can add
    /// a row of many fields. Default 64 MiB.
    pub max_row_bytes: usize,
}

/// Permitted extensions of JSON. Spark's defaults: single quotes, and numbers that are not finite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syntax {
    /// Comments, `/* */` and `//`.
    pub comments: bool,
    /// Field names without quotes.
    pub unquoted_field_names: bool,
    /// Texts and names in single quotes.
    pub single_quotes: bool,
    /// Leading zeros, as in 007.
    pub leading_zeros: bool,
    /// NaN, Infinity and the like, with quotes and without.
    pub non_numeric_numbers: bool,
    /// Backslashes before any character.
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
    /// Name of the option, as given.
    pub name: String,
    /// Fault, and how to correct it.
    pub reason: String,
}

/// Spark's options for files, or for writing.
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
    /// Sets an option by its name in Spark, case-insensitively. The names are those of `from_json`, of `to_json`
    /// (`ignoreNullFields`), `enablePartialResults` (in Spark `spark.sql.json.enablePartialResults`), and this crate's
    /// own `envelope` (none or debezium). Options of schema inference are accepted without effect.
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
