//! The description of one field in a message's table: its versions, tag and attributes.

use std::ops::{RangeFrom, RangeInclusive};

use crate::error::{Place, WireError};

/// Encoding of a value: the message's version, and what depends on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Format {
    pub(crate) version: i16,
    /// True if lengths are compact and structures end in tagged fields (KIP-482).
    pub(crate) flexible: bool,
    pub(crate) nullable: bool,
}

impl Format {
    #[inline]
    pub(crate) fn new(version: i16, flexible_from: i16) -> Self {
        Self { version, flexible: version >= flexible_from, nullable: false }
    }

    /// The format of an array's elements, which are never null.
    #[inline]
    pub(crate) fn element(self) -> Self {
        Self { nullable: false, ..self }
    }
}

/// A range of message versions, such as `3..` or `0..=12`.
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

/// One row of a table. The row's attributes are this type's methods, so that the macro needs no
/// separate rule for each attribute.
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

    #[inline]
    pub(crate) fn nullable(self, versions: impl Into<Versions>) -> Self {
        Self { nullable: Some(versions.into()), ..self }
    }

    /// Makes the field a tagged field in all its versions.
    #[inline]
    pub(crate) fn tag(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Makes the encoder drop the field's value in a version without the field, instead of failing.
    #[inline]
    pub(crate) fn ignorable(self) -> Self {
        Self { ignorable: true, ..self }
    }

    /// Keeps the old length prefix in flexible versions.
    #[inline]
    pub(crate) fn inflexible(self) -> Self {
        Self { inflexible: true, ..self }
    }

    /// Returns true if this version has the field in the body, not as a tagged field.
    #[inline]
    pub(crate) fn in_body(self, version: i16) -> bool {
        self.tag.is_none() && self.versions.contains(version)
    }

    /// The field's tag, if this version has it as a tagged field.
    #[inline]
    pub(crate) fn tag_in(self, version: i16) -> Option<u32> {
        self.tag.filter(|_| self.versions.contains(version))
    }

    /// Checks that a value other than the default may be dropped in a version without the field: if it is ignorable.
    pub(crate) fn drop_from(self, version: i16) -> Result<(), WireError> {
        if self.ignorable {
            return Ok(());
        }
        Err(WireError::FieldNotInVersion { place: Place::default(), version })
    }

    /// The format of the field in a structure with this format.
    #[inline]
    pub(crate) fn format(self, format: Format) -> Format {
        Format {
            nullable: self.nullable.is_some_and(|versions| versions.contains(format.version)),
            flexible: format.flexible && !self.inflexible,
            ..format
        }
    }
}
