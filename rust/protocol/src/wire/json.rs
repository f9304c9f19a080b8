//! Conversion of messages to and from the JSON of Apache Kafka's `*DataJsonConverter` classes. For tests only.
//!
//! Unknown tagged fields are not part of that JSON. One difference: for records, Kafka writes an empty string, and this
//! module base64, as for all other bytes.

use serde_json::Value as JsonValue;

use crate::base64;
use crate::types::{SecretBytes, Uuid};
use crate::wire::Value as _;

/// JSON that does not describe the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {expected} expected")]
pub struct JsonError {
    place: String,
    expected: &'static str,
}

impl JsonError {
    pub(crate) fn missing() -> Self {
        Self::expected("a value")
    }

    fn expected(expected: &'static str) -> Self {
        Self { place: String::new(), expected }
    }

    pub(crate) fn at(mut self, message: &str, field: &str) -> Self {
        if self.place.is_empty() {
            self.place = format!("{message}.{field}");
        }
        self
    }
}

/// A message, or a part of one, as JSON.
pub trait Json<'a>: Sized {
    /// The default message with one default item in every array, so that it contains the defaults of all structures.
    fn specimen() -> Self;

    /// The JSON that Kafka's converter writes.
    fn to_json(&self, version: i16) -> JsonValue;

    /// Reads the JSON that Kafka's converter reads. Bytes decoded from base64 are leaked, so that messages can
    /// borrow them as from a frame.
    ///
    /// # Errors
    /// JSON that does not describe the message.
    fn from_json(value: &'a JsonValue, version: i16) -> Result<Self, JsonError>;
}

/// A field's name in camel case, as in Kafka's JSON; `r#match` is `match`.
pub(crate) fn key(field: &str) -> String {
    let mut words = field.trim_start_matches("r#").split('_');
    let mut key = words.next().unwrap_or_default().to_owned();
    for word in words {
        let (initial, rest) = word.split_at(1);
        key.push_str(&initial.to_ascii_uppercase());
        key.push_str(rest);
    }
    key
}

macro_rules! scalar {
    ($life:lifetime, $type:ty, $expected:expr, $value:ident => $read:expr, $own:ident => $written:expr) => {
        impl<$life> Json<$life> for $type {
            fn specimen() -> Self {
                Self::DEFAULT
            }

            fn to_json(&self, _version: i16) -> JsonValue {
                let $own = self;
                JsonValue::from($written)
            }

            fn from_json($value: &$life JsonValue, _version: i16) -> Result<Self, JsonError> {
                $read.ok_or(JsonError::expected($expected))
            }
        }
    };
    ($($integer:ident),*) => {
        $(
            scalar!(
                'a,
                $integer,
                concat!("a number of type ", stringify!($integer)),
                value => value.as_i64().and_then(|number| Self::try_from(number).ok()),
                number => *number
            );
        )*
    };
}

scalar!(i8, i16, u16, i32, i64);
scalar!('a, f64, "a number", value => value.as_f64(), number => *number);
scalar!('a, bool, "true or false", value => value.as_bool(), flag => *flag);
scalar!('a, &'a str, "text", value => value.as_str(), text => *text);
scalar!(
    'a,
    Uuid,
    "the text of a UUID",
    value => value.as_str().and_then(|text| text.parse().ok()),
    uuid => uuid.to_string()
);
scalar!(
    'a,
    &'a [u8],
    "base64 text",
    value => value.as_str().and_then(base64::decode).map(|bytes| &*bytes.leak()),
    bytes => base64::encode(bytes)
);

impl<'a> Json<'a> for SecretBytes<'a> {
    fn specimen() -> Self {
        Self::DEFAULT
    }

    fn to_json(&self, version: i16) -> JsonValue {
        self.expose().to_json(version)
    }

    fn from_json(value: &'a JsonValue, version: i16) -> Result<Self, JsonError> {
        <&[u8]>::from_json(value, version).map(Self::new)
    }
}

impl<'a, T: Json<'a>> Json<'a> for Vec<T> {
    fn specimen() -> Self {
        vec![T::specimen()]
    }

    fn to_json(&self, version: i16) -> JsonValue {
        self.iter().map(|item| item.to_json(version)).collect()
    }

    fn from_json(value: &'a JsonValue, version: i16) -> Result<Self, JsonError> {
        let items = value.as_array().ok_or(JsonError::expected("an array"))?;
        items.iter().map(|item| T::from_json(item, version)).collect()
    }
}

impl<'a, T: Json<'a>> Json<'a> for Option<T> {
    fn specimen() -> Self {
        Some(T::specimen())
    }

    fn to_json(&self, version: i16) -> JsonValue {
        self.as_ref().map_or(JsonValue::Null, |value| value.to_json(version))
    }

    fn from_json(value: &'a JsonValue, version: i16) -> Result<Self, JsonError> {
        if value.is_null() { Ok(None) } else { T::from_json(value, version).map(Some) }
    }
}
