//! Builder of the headers column: `list<element: struct<key: utf8, value: binary>>`.

use arrow_buffer::NullBuffer;
use monedula_protocol::records::HeaderReader;

use crate::pool::{BufferPool, PooledVec};
use crate::records::WalkStop;
use crate::write::{ByteColumn, ByteParts, Growing, Validity};

/// Growth of a header key at worst: an invalid UTF-8 byte becomes U+FFFD, which is three bytes long.
const MAX_LOSSY_GROWTH: usize = 3;

/// The encoding of a record without headers: the count 0.
const NO_HEADERS: [u8; 1] = [0];

pub(crate) struct HeadersColumn {
    list_offsets: Growing,
    validity: Validity,
    keys: ByteColumn,
    values: ByteColumn,
    children: usize,
}

pub(crate) struct HeaderParts {
    pub(crate) list_offsets: PooledVec,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) keys: ByteParts,
    pub(crate) values: ByteParts,
    pub(crate) children: usize,
}

impl HeadersColumn {
    pub(crate) fn new(pool: &BufferPool) -> Self {
        Self {
            list_offsets: Growing::new(pool),
            validity: Validity::default(),
            keys: ByteColumn::new(pool),
            values: ByteColumn::new(pool),
            children: 0,
        }
    }

    /// An upper bound on the bytes that a record's headers take in the column.
    pub(crate) fn cost(headers: &[u8]) -> usize {
        // Each header of at least two bytes takes two offsets and two validity bits.
        4 + headers.len().saturating_mul(MAX_LOSSY_GROWTH + 5)
    }

    /// Appends the headers of one record, null if it has none. On an error nothing is appended.
    #[inline(always)]
    pub(crate) fn append(&mut self, row: usize, headers: &[u8]) -> Result<(), WalkStop> {
        if *headers != NO_HEADERS {
            return self.append_some(row, headers);
        }
        self.validity.set_null(row);
        self.end(row + 1);
        Ok(())
    }

    #[inline(never)]
    fn append_some(&mut self, row: usize, headers: &[u8]) -> Result<(), WalkStop> {
        let mut check = HeaderReader::new(headers)?;
        while check.read()?.is_some() {}
        let most = headers.len().saturating_mul(MAX_LOSSY_GROWTH);
        let fits = |used: usize| used.saturating_add(most) <= i32::MAX as usize;
        if !fits(self.keys.data_len()) || !fits(self.values.data_len()) {
            return Err(WalkStop::HeadersTooLarge);
        }
        let mut reader = HeaderReader::new(headers)?;
        if reader.remaining() == 0 {
            self.validity.set_null(row);
        }
        while let Some(header) = reader.read()? {
            let key = String::from_utf8_lossy(header.key);
            self.keys.append(self.children, Some(key.as_bytes()));
            self.values.append(self.children, header.value);
            self.children += 1;
        }
        self.end(row + 1);
        Ok(())
    }

    /// Writes the list offset between row `row` and the row before it.
    #[inline(always)]
    fn end(&mut self, row: usize) {
        self.list_offsets.reserve(row * 4, 4);
        let bytes = self.list_offsets.bytes_mut();
        if row <= 1 {
            bytes[..4].fill(0);
        }
        bytes[row * 4..row * 4 + 4].copy_from_slice(&(self.children as i32).to_ne_bytes());
    }

    pub(crate) fn finish(&mut self, rows: usize, pool: &BufferPool) -> HeaderParts {
        if rows == 0 {
            self.end(0);
        }
        let children = std::mem::take(&mut self.children);
        HeaderParts {
            list_offsets: self.list_offsets.finish((rows + 1) * 4, pool),
            nulls: self.validity.finish(rows),
            keys: self.keys.finish(children, pool),
            values: self.values.finish(children, pool),
            children,
        }
    }
}
