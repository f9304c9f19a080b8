//! The tagged fields at the end of every structure in a flexible version (KIP-482).

use crate::error::{Place, WireError};
use crate::wire::{Format, Reader, Writer};

pub(crate) struct TagReader {
    left: u32,
    previous: Option<u32>,
}

impl TagReader {
    /// Reads the number of tagged fields. A number that the remaining bytes cannot hold is an error.
    #[inline]
    pub(crate) fn new(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let offset = reader.position();
        let left = reader.unsigned_varint()?;
        // A tag and a size take at least one byte each.
        if left as usize > reader.remaining() / 2 {
            return Err(WireError::LengthBeyondFrame {
                place: Place::default(),
                offset,
                length: left as usize,
                remaining: reader.remaining(),
            });
        }
        Ok(Self { left, previous: None })
    }

    /// The next tag, with a reader of only its content.
    #[inline]
    pub(crate) fn next<'a>(&mut self, reader: &mut Reader<'a>) -> Result<Option<(u32, Reader<'a>)>, WireError> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        let offset = reader.position();
        let tag = reader.unsigned_varint()?;
        if let Some(previous) = self.previous.replace(tag)
            && tag <= previous
        {
            let place = Place::default();
            return Err(WireError::TagOrder { place, offset, tag, previous });
        }
        let size = reader.unsigned_varint()? as usize;
        Ok(Some((tag, reader.section(size)?)))
    }
}

/// A writer of tagged fields, which collects them and writes them in the order of their tags.
#[derive(Default)]
pub(crate) struct TagWriter {
    known: Vec<(u32, Vec<u8>)>,
}

impl TagWriter {
    /// Adds a field with the content that `write` writes.
    pub(crate) fn add(
        &mut self,
        tag: u32,
        write: impl FnOnce(&mut Writer) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let mut content = Writer::new();
        write(&mut content)?;
        self.known.push((tag, content.into_bytes()));
        Ok(())
    }

    /// Writes the section: the added fields and the `unknown` ones. Refuses a tag that occurs twice, and unknown fields
    /// in a version without tagged fields.
    pub(crate) fn finish(self, unknown: &[(u32, &[u8])], writer: &mut Writer, format: Format) -> Result<(), WireError> {
        let place = Place::default();
        if !format.flexible {
            return match unknown {
                [] => Ok(()),
                _ => Err(WireError::FieldNotInVersion { place, version: format.version }),
            };
        }
        if self.known.is_empty() && unknown.is_empty() {
            writer.unsigned_varint(0);
            return Ok(());
        }
        let known = self.known.iter().map(|(tag, content)| (*tag, content.as_slice()));
        let mut fields: Vec<_> = known.chain(unknown.iter().copied()).collect();
        fields.sort_by_key(|(tag, _)| *tag);
        if let Some(twins) = fields.array_windows().find(|[(one, _), (other, _)]| one == other) {
            let [(previous, _), (tag, _)] = *twins;
            let offset = writer.len();
            return Err(WireError::TagOrder { place, offset, tag, previous });
        }
        writer.unsigned_varint(fields.len() as u32);
        for (tag, content) in fields {
            let size = u32::try_from(content.len()).map_err(|_| WireError::TooLong {
                place,
                length: content.len(),
                limit: u32::MAX as usize,
            })?;
            writer.unsigned_varint(tag);
            writer.unsigned_varint(size);
            writer.bytes(content);
        }
        Ok(())
    }
}
