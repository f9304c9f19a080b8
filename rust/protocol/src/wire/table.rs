//! The macros that generate message structures from tables of fields.
//!
//! A table follows Kafka's own message definition (a JSON file of its repository) row by row:
//!
//! ```text
//! api! {
//!     Fetch, versions 4..=18, flexible 12..;
//!
//!     /// Reads records.
//!     request FetchRequest<'a> {
//!         /// The id of the cluster.
//!         cluster_id: Option<&'a str> = None, 12.., nullable 12.., tag 0, ignorable;
//!         topics: Vec<FetchTopic<'a>>, 0..;
//!     }
//!     /// The response.
//!     response FetchResponse<'a> { ... }
//!     /// A topic, used in one of the two.
//!     struct FetchTopic<'a> { ... }
//! }
//! ```
//!
//! A row is `name: type = default, versions, attributes;`. Without a default, Kafka's applies: zero, empty or false.
//! Versions are `3..` or `0..=12`. The attributes are methods of [`Spec`](super::Spec): `nullable 1..` (with a type of
//! `Option`), `tag 0`, `ignorable`, `inflexible`. Rows are in the order of the fields on the wire. Every structure also
//! gets the field `unknown_tagged_fields`. An API without flexible versions omits `flexible`.
//!
//! The documentation of each field ends with its versions. A row has a comment where its name does not say it all.

/// Generates all messages of one API.
macro_rules! api {
    (
        $key:ident, versions $first:literal ..= $last:literal $(, flexible $flexible:literal ..)?;

        $(#[$request_meta:meta])*
        request $request:ident<$request_life:lifetime> { $($request_row:tt)* }

        $(#[$response_meta:meta])*
        response $response:ident<$response_life:lifetime> { $($response_row:tt)* }

        $(
            $(#[$part_meta:meta])*
            struct $part:ident<$part_life:lifetime> { $($part_row:tt)* }
        )*
    ) => {
        $crate::wire::message! {
            $(#[$request_meta])*
            $request<$request_life>, versions $first ..= $last $(, flexible $flexible ..)?;
            $($request_row)*
        }

        impl<$request_life> $crate::api::Request<$request_life> for $request<$request_life> {
            const API_KEY: $crate::api::ApiKey = $crate::api::ApiKey::$key;
            const VERSIONS: std::ops::RangeInclusive<i16> = $first ..= $last;
            const FLEXIBLE_FROM: i16 = $crate::wire::message!(@flexible $($flexible)?);
            type Response<'r> = $response<'r>;
        }

        $crate::wire::message! {
            $(#[$response_meta])*
            $response<$response_life>, versions $first ..= $last $(, flexible $flexible ..)?;
            $($response_row)*
        }

        $(
            $crate::wire::structure! { $(#[$part_meta])* $part<$part_life> { $($part_row)* } }
        )*
    };
}

/// Generates one message: a structure with a range of versions.
macro_rules! message {
    (@flexible) => { i16::MAX };
    (@flexible $flexible:literal) => { $flexible };
    (
        $(#[$meta:meta])*
        $name:ident<$life:lifetime>,
        versions $first:literal ..= $last:literal $(, flexible $flexible:literal ..)?;
        $($row:tt)*
    ) => {
        $crate::wire::structure! { $(#[$meta])* $name<$life> { $($row)* } }

        impl<$life> $crate::api::Message<$life> for $name<$life> {
            const NAME: &'static str = stringify!($name);

            fn decode(
                reader: &mut $crate::wire::Reader<$life>,
                version: i16,
            ) -> Result<Self, $crate::error::WireError> {
                $crate::api::check_version(Self::NAME, version, $first, $last)?;
                let flexible_from = $crate::wire::message!(@flexible $($flexible)?);
                $crate::wire::Value::read(reader, $crate::wire::Format::new(version, flexible_from))
            }

            fn encode(
                &self,
                writer: &mut $crate::wire::Writer,
                version: i16,
            ) -> Result<(), $crate::error::WireError> {
                $crate::api::check_version(Self::NAME, version, $first, $last)?;
                let flexible_from = $crate::wire::message!(@flexible $($flexible)?);
                let format = $crate::wire::Format::new(version, flexible_from);
                $crate::wire::Value::write(self, writer, format)
            }

            fn error_codes(&self) -> Vec<i16> {
                let mut found = Vec::new();
                $crate::wire::Value::error_codes(self, "", &mut found);
                found
            }
        }
    };
}

/// Generates a structure that is part of a message, or a message itself.
macro_rules! structure {
    (@default $type:ty) => { <$type as $crate::wire::Value<'_>>::DEFAULT };
    (@default $type:ty, $default:expr) => { $default };
    (@specimen $type:ty) => { <$type as $crate::wire::json::Json<'_>>::specimen() };
    (@specimen $type:ty, $default:expr) => { $default };
    (@spec $field:ident, $versions:expr, $($attribute:ident $($argument:expr)?),*) => {
        $crate::wire::Spec::new(stringify!($field), $versions) $(.$attribute($($argument)?))*
    };
    (
        $(#[$meta:meta])*
        $name:ident<$life:lifetime> {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(= $default:expr)?,
                $versions:expr $(, $attribute:ident $($argument:expr)?)*;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name<$life> {
            $(
                $(#[$field_meta])*
                #[doc = concat!("In versions `", stringify!($versions), "`.")]
                pub $field: $type,
            )*
            /// Tagged fields that this crate does not know, by ascending tag (KIP-482).
            pub unknown_tagged_fields: Vec<(u32, &$life [u8])>,
        }

        impl Default for $name<'_> {
            fn default() -> Self {
                <Self as $crate::wire::Value<'_>>::DEFAULT
            }
        }

        impl<$life> $crate::wire::Value<$life> for $name<$life> {
            const DEFAULT: Self = Self {
                $($field: $crate::wire::structure!(@default $type $(, $default)?),)*
                unknown_tagged_fields: Vec::new(),
            };

            fn min_bytes(format: $crate::wire::Format) -> usize {
                let mut total = usize::from(format.flexible);
                $({
                    let spec = $crate::wire::structure!(
                        @spec $field, $versions, $($attribute $($argument)?),*
                    );
                    if spec.in_body(format.version) {
                        total += <$type as $crate::wire::Value<'_>>::min_bytes(spec.format(format));
                    }
                })*
                total
            }

            fn read(
                reader: &mut $crate::wire::Reader<$life>,
                format: $crate::wire::Format,
            ) -> Result<Self, $crate::error::WireError> {
                let mut this = <Self as $crate::wire::Value<'_>>::DEFAULT;
                $({
                    let spec = $crate::wire::structure!(
                        @spec $field, $versions, $($attribute $($argument)?),*
                    );
                    if spec.in_body(format.version) {
                        this.$field = $crate::wire::Value::read(reader, spec.format(format))
                            .map_err(|error| error.at(stringify!($name), spec.name))?;
                    }
                })*
                if format.flexible {
                    let in_tags = |error: $crate::error::WireError| {
                        error.at(stringify!($name), "tagged fields")
                    };
                    let mut tags = $crate::wire::TagReader::new(reader).map_err(in_tags)?;
                    while let Some((tag, mut content)) = tags.next(reader).map_err(in_tags)? {
                        $({
                            let spec = $crate::wire::structure!(
                                @spec $field, $versions, $($attribute $($argument)?),*
                            );
                            if spec.tag_in(format.version) == Some(tag) {
                                this.$field =
                                    $crate::wire::Value::read(&mut content, spec.format(format))
                                        .and_then(|value| content.finish().map(|()| value))
                                        .map_err(|error| error.at(stringify!($name), spec.name))?;
                                continue;
                            }
                        })*
                        this.unknown_tagged_fields.push((tag, content.take_rest()));
                    }
                }
                Ok(this)
            }

            fn write(
                &self,
                writer: &mut $crate::wire::Writer,
                format: $crate::wire::Format,
            ) -> Result<(), $crate::error::WireError> {
                let mut tags = $crate::wire::TagWriter::default();
                $({
                    let spec = $crate::wire::structure!(
                        @spec $field, $versions, $($attribute $($argument)?),*
                    );
                    let format = spec.format(format);
                    let default: $type = $crate::wire::structure!(@default $type $(, $default)?);
                    let written = if spec.in_body(format.version) {
                        $crate::wire::Value::write(&self.$field, writer, format)
                    } else if self.$field == default {
                        Ok(())
                    } else if let Some(tag) = spec.tag_in(format.version) {
                        tags.add(tag, |content| {
                            $crate::wire::Value::write(&self.$field, content, format)
                        })
                    } else {
                        spec.drop_from(format.version)
                    };
                    written.map_err(|error| error.at(stringify!($name), spec.name))?;
                })*
                tags.finish(&self.unknown_tagged_fields, writer, format)
                    .map_err(|error| error.at(stringify!($name), "unknown_tagged_fields"))
            }

            fn error_codes(&self, _field: &str, found: &mut Vec<i16>) {
                $($crate::wire::Value::error_codes(&self.$field, stringify!($field), found);)*
            }
        }

        impl<$life> $crate::wire::Nullable<$life> for $name<$life> {
            fn min_nullable_bytes(_format: $crate::wire::Format) -> usize {
                1
            }

            fn read_nullable(
                reader: &mut $crate::wire::Reader<$life>,
                format: $crate::wire::Format,
            ) -> Result<Option<Self>, $crate::error::WireError> {
                if reader.i8()? < 0 {
                    return Ok(None);
                }
                $crate::wire::Value::read(reader, format).map(Some)
            }

            fn write_null(writer: &mut $crate::wire::Writer, _format: $crate::wire::Format) {
                writer.i8(-1);
            }

            fn write_present(writer: &mut $crate::wire::Writer) {
                writer.i8(1);
            }
        }

        #[cfg(feature = "json")]
        impl<$life> $crate::wire::json::Json<$life> for $name<$life> {
            fn specimen() -> Self {
                Self {
                    $($field: $crate::wire::structure!(@specimen $type $(, $default)?),)*
                    unknown_tagged_fields: Vec::new(),
                }
            }

            fn to_json(&self, version: i16) -> serde_json::Value {
                let mut object = serde_json::Map::new();
                $({
                    let spec = $crate::wire::structure!(
                        @spec $field, $versions, $($attribute $($argument)?),*
                    );
                    let default: $type = $crate::wire::structure!(@default $type $(, $default)?);
                    let tagged = spec.tag_in(version).is_some() && self.$field != default;
                    if spec.in_body(version) || tagged {
                        let value = $crate::wire::json::Json::to_json(&self.$field, version);
                        object.insert($crate::wire::json::key(spec.name), value);
                    }
                })*
                serde_json::Value::Object(object)
            }

            fn from_json(
                value: &$life serde_json::Value,
                version: i16,
            ) -> Result<Self, $crate::wire::json::JsonError> {
                let mut this = <Self as $crate::wire::Value<'_>>::DEFAULT;
                $({
                    let spec = $crate::wire::structure!(
                        @spec $field, $versions, $($attribute $($argument)?),*
                    );
                    match value.get($crate::wire::json::key(spec.name)) {
                        Some(value) => {
                            this.$field = $crate::wire::json::Json::from_json(value, version)
                                .map_err(|error| error.at(stringify!($name), spec.name))?;
                        }
                        None if spec.in_body(version) => {
                            return Err($crate::wire::json::JsonError::missing()
                                .at(stringify!($name), spec.name));
                        }
                        None => {}
                    }
                })*
                Ok(this)
            }
        }
    };
}

pub(crate) use {api, message, structure};
