//! Entries of maps: their ranges, and the check that keys are unique.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{BooleanBuffer, NullBuffer};

use super::texts::indexed;
use super::{Bounds, Fault, Ints, Texts, Written};

#[derive(Debug)]
pub(crate) struct Entries<'a> {
    bounds: Bounds<'a>,
    /// Entries without a key; `None` if all have one.
    nulls: Option<NullBuffer>,
    pub(crate) keys: Keys<'a>,
}

#[derive(Debug)]
pub(crate) enum Keys<'a> {
    Texts(Texts<'a>),
    Ints(Ints<'a>),
    Booleans(BooleanBuffer),
    /// Dictionary or run-end encoded: the index of each entry's key, and the keys.
    Indexed(Vec<usize>, Box<Self>),
    /// Types that no format has keys of.
    Others,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key<'k> {
    Text(&'k [u8]),
    Number(i128),
}

pub(crate) struct KeysAndValues<'a> {
    pub(crate) keys: &'a ArrayRef,
    pub(crate) values: &'a ArrayRef,
}

/// Size up to which a map's keys are compared pairwise.
const FEW: usize = 16;

impl<'a> Entries<'a> {
    /// Entries of a column of maps, or of lists of structs with a key and a value, as from polars, which has no maps.
    pub(crate) fn of(array: &'a ArrayRef) -> Option<(Self, KeysAndValues<'a>)> {
        let (bounds, structs, keys, values) = match array.as_map_opt() {
            Some(map) => (Bounds::Short(map.value_offsets()), map.entries(), map.keys(), map.values()),
            None => {
                let (bounds, entries) = Bounds::of(array)?;
                let structs = entries.as_struct_opt().filter(|structs| structs.num_columns() == 2)?;
                (bounds, structs, structs.column_by_name("key")?, structs.column_by_name("value")?)
            }
        };
        let nulls = NullBuffer::union(structs.nulls(), keys.logical_nulls().as_ref());
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        Some((Self { bounds, nulls, keys: Keys::of(keys) }, KeysAndValues { keys, values }))
    }

    pub(crate) fn get(&self, row: usize) -> Written<Range<usize>> {
        let range = self.bounds.get(row);
        if let Some(nulls) = &self.nulls
            && let Some(null) = range.clone().find(|entry| nulls.is_null(*entry))
        {
            let fault =
                Fault::new("the key is null, which no key of a map is; leave such entries out, or fill the keys");
            return Err(fault.at(null - range.start));
        }
        for entry in range.clone() {
            self.keys.check(entry).map_err(|fault| fault.at(entry - range.start))?;
        }
        match self.twice(&range) {
            Some(key) => {
                Err(Fault::new("the map has two entries with this key, of which one would be lost; leave one out")
                    .within(&format!("[{key}]")))
            }
            None => Ok(range),
        }
    }

    /// Text of a key that occurs twice among these entries.
    #[inline]
    fn twice(&self, range: &Range<usize>) -> Option<String> {
        let found = match &self.keys {
            _ if range.len() < 2 => None,
            _ if range.len() > FEW => self.twice_of_many(range),
            // Most keys differ in length or in the last byte, which saves the call to memcmp.
            Keys::Texts(texts) => twice_of_few(range, |entry| {
                let text = texts.bytes(entry);
                (text.len(), text.last(), text)
            }),
            keys => twice_of_few(range, |entry| keys.get(entry)),
        };
        found.map(|entry| self.keys.get(entry).text())
    }

    fn twice_of_many(&self, range: &Range<usize>) -> Option<usize> {
        let mut keys: Vec<_> = range.clone().map(|entry| (self.keys.get(entry), entry)).collect();
        keys.sort_unstable();
        keys.windows(2).find(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1].1)
    }
}

#[inline]
fn twice_of_few<K: PartialEq>(range: &Range<usize>, key: impl Fn(usize) -> K) -> Option<usize> {
    for entry in range.start + 1..range.end {
        let own = key(entry);
        for before in range.start..entry {
            if key(before) == own {
                return Some(entry);
            }
        }
    }
    None
}

impl<'a> Keys<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        if let Some((indices, values)) = indexed(array) {
            return Self::Indexed(indices, Box::new(Self::of(values)));
        }
        let booleans = || array.as_boolean_opt().map(|booleans| Self::Booleans(booleans.values().clone()));
        let found = Texts::of_texts(array).map(Self::Texts).or_else(|| Ints::of(array).map(Self::Ints));
        found.or_else(booleans).unwrap_or(Self::Others)
    }

    pub(crate) fn are_texts(&self) -> bool {
        match self {
            Self::Texts(_) => true,
            Self::Indexed(_, keys) => keys.are_texts(),
            _ => false,
        }
    }

    /// Returns true if the keys can be compared.
    pub(crate) fn are_known(&self) -> bool {
        match self {
            Self::Others => false,
            Self::Indexed(_, keys) => keys.are_known(),
            _ => true,
        }
    }

    /// Refuses a text key that is not UTF-8.
    #[inline]
    fn check(&self, entry: usize) -> Written {
        match self {
            Self::Texts(texts) => texts.get(entry).map(drop),
            Self::Indexed(indices, keys) => keys.check(indices[entry]),
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn text(&self, entry: usize) -> &[u8] {
        match self {
            Self::Texts(texts) => texts.bytes(entry),
            Self::Indexed(indices, keys) => keys.text(indices[entry]),
            _ => &[],
        }
    }

    #[inline]
    fn get(&self, entry: usize) -> Key<'_> {
        match self {
            Self::Texts(texts) => Key::Text(texts.bytes(entry)),
            Self::Ints(ints) => Key::Number(ints.wide(entry)),
            Self::Booleans(values) => Key::Number(values.value(entry).into()),
            Self::Indexed(indices, keys) => keys.get(indices[entry]),
            Self::Others => Key::Number(entry as i128),
        }
    }
}

impl Key<'_> {
    #[cold]
    fn text(&self) -> String {
        match self {
            Self::Text(text) => format!("{:?}", String::from_utf8_lossy(text)),
            Self::Number(number) => number.to_string(),
        }
    }
}
