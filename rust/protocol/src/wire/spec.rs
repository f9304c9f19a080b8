//! What a table says about one field.

use std::ops::{RangeFrom, RangeInclusive};

use crate::error::{Place, WireError};

/// How a value is laid out: the version, and what it implies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    /// The version of the message.
    pub(crate) version: i16,
    /// Whether lengths are compact and structures end in tagged fields (KIP-482).
    pub(crate) flexible: bool,
    /// Whether the value may be null.
    pub(crate) nullable: bool,
}

impl Format {
    #[inline]
    pub(crate) fn new(version: i16, flexible_from: i16) -> Self {
        Self { version, flexible: version >= flexible_from, nullable: false }
    }

    /// The format of what lies inside an array: never null itself.
    #[inline]
    pub(crate) fn element(self) -> Self {
        Self { nullable: false, ..self }
    }
}

/// `3..` or `0..=12`: versions of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    first: i16,
    last: i16,
}

impl Versions {
    #[inline]
    fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }
}

impl From<RangeFrom<i16>> for Versions {
    #[inline]
    fn from(range: RangeFrom<i16>) -> Self {
        Self { first: range.start, last: i16::MAX }
    }
}

impl From<RangeInclusive<i16>> for Versions {
    #[inline]
    fn from(range: RangeInclusive<i16>) -> Self {
        Self { first: *range.start(), last: *range.end() }
    }
}

/// One row of a table. The attributes of the row are this type's methods, so that the table's macro
/// needs no rule of its own for any of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    pub(crate) name: &'static str,
    versions: Versions,
    nullable: Option<Versions>,
    tag: Option<u32>,
    ignorable: bool,
    inflexible: bool,
}

impl Spec {
    #[inline]
    pub(crate) fn new(name: &'static str, versions: impl Into<Versions>) -> Self {
        Self { name, versions: versions.into(), nullable: None, tag: None, ignorable: false, inflexible: false }
    }

    /// Null is allowed in these versions.
    #[inline]
    pub(crate) fn nullable(self, versions: impl Into<Versions>) -> Self {
        Self { nullable: Some(versions.into()), ..self }
    }

    /// The field travels as a tagged field in all its versions.
    #[inline]
    pub(crate) fn tag(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// In a version without the field its value is dropped, rather than refused.
    #[inline]
    pub(crate) fn ignorable(self) -> Self {
        Self { ignorable: true, ..self }
    }

    /// The field keeps the old length prefix in flexible versions.
    #[inline]
    pub(crate) fn inflexible(self) -> Self {
        Self { inflexible: true, ..self }
    }

    /// Whether the field stands in the body, in declared order.
    #[inline]
    pub(crate) fn in_body(self, version: i16) -> bool {
        self.tag.is_none() && self.versions.contains(version)
    }

    /// The tag under which the field travels.
    #[inline]
    pub(crate) fn tag_in(self, version: i16) -> Option<u32> {
        self.tag.filter(|_| self.versions.contains(version))
    }

    /// Leaves out a value other than the default, in a version without the field.
    pub(crate) fn drop_from(self, version: i16) -> Result<(), WireError> {
        if self.ignorable {
            return Ok(());
        }
        Err(WireError::FieldNotInVersion { place: Place::default(), version })
    }

    /// The format of the field within a structure of `format`.
    #[inline]
    pub(crate) fn format(self, format: Format) -> Format {
        Format {
            nullable: self.nullable.is_some_and(|versions| versions.contains(format.version)),
            flexible: format.flexible && !self.inflexible,
            ..format
        }
    }
}
