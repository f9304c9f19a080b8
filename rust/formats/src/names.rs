//! Lookup of the field names in JSON objects.
//!
//! Objects of one topic mostly have their fields in the same order, including those that are not selected. So each name
//! remembers its last successor, and the next bytes are compared with that one first, before any parsing.

/// Limits on the number and length of remembered names that are not selected: objects may be maps, whose keys do not
/// recur.
const MAX_OTHERS: usize = 256;
const MAX_OTHER_BYTES: usize = 64;

/// Known names, each at an index (its place). Two places hold no name: [`Names::START`], and [`Names::ELSEWHERE`] for
/// all names that are not remembered.
pub(crate) struct Names {
    places: Vec<NamedField>,
    /// Place of each name, sorted by name.
    by_name: Vec<(Box<[u8]>, usize)>,
    others: usize,
}

struct NamedField {
    token: Token,
    field: Option<usize>,
    /// Place of the name that followed this one last time.
    next: usize,
}

impl Names {
    /// Place of the start of an object.
    pub(crate) const START: usize = 0;
    /// Place of every name that is not remembered.
    pub(crate) const ELSEWHERE: usize = 1;

    /// Makes a table of the fields' names, in their order.
    pub(crate) fn new<'n>(fields: impl Iterator<Item = &'n str>) -> Self {
        let nowhere = |next| NamedField { token: Token::default(), field: None, next };
        let mut names = Self { places: vec![nowhere(2), nowhere(Self::ELSEWHERE)], by_name: Vec::new(), others: 0 };
        for (field, name) in fields.enumerate() {
            let place = names.push(name.as_bytes(), Some(field));
            names.by_name.push((name.as_bytes().into(), place));
        }
        names.by_name.sort_unstable();
        names
    }

    fn push(&mut self, name: &[u8], field: Option<usize>) -> usize {
        self.places.push(NamedField { token: Token::new(name), field, next: self.places.len() + 1 });
        self.places.len() - 1
    }

    /// Field of the name at a place; `None` if it is not selected.
    #[inline(always)]
    pub(crate) fn field(&self, place: usize) -> Option<usize> {
        self.places.get(place).and_then(|place| place.field)
    }

    /// Matches the text against the expected successor of a place. Returns the successor's place, and the length of its
    /// token: the name in quotes and the colon.
    #[inline(always)]
    pub(crate) fn expected(&self, place: usize, text: &[u8]) -> Option<(usize, usize)> {
        let next = self.places.get(place)?.next;
        let token = &self.places.get(next)?.token;
        token.begins(text).then_some((next, token.bytes.len()))
    }

    /// Looks up a name that followed the place `before`, and expects it there from now on.
    #[inline(never)]
    pub(crate) fn look_up(&mut self, before: usize, name: &[u8]) -> usize {
        let place = match self.by_name.binary_search_by(|(known, _)| (**known).cmp(name)) {
            Ok(found) => self.by_name[found].1,
            Err(_) if self.others == MAX_OTHERS || name.len() > MAX_OTHER_BYTES => Self::ELSEWHERE,
            Err(at) => {
                let place = self.push(name, None);
                self.by_name.insert(at, (name.into(), place));
                self.others += 1;
                place
            }
        };
        if let Some(before) = self.places.get_mut(before) {
            before.next = place;
        }
        place
    }
}

/// Encoded form of a name in an object: in quotes, with the colon. Empty if it needs escapes, which can be written in
/// several ways.
#[derive(Default)]
struct Token {
    bytes: Box<[u8]>,
    /// Bytes of a token of at most sixteen bytes; `mask` covers them.
    short: u128,
    mask: u128,
}

impl Token {
    fn new(name: &[u8]) -> Self {
        if name.iter().any(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
            return Self::default();
        }
        let bytes: Box<[u8]> = [b"\"", name, b"\":"].concat().into();
        let mut short = [0; 16];
        let Some(room) = short.get_mut(..bytes.len()) else { return Self { bytes, short: 0, mask: 0 } };
        room.copy_from_slice(&bytes);
        let mask = u128::MAX >> (8 * (16 - bytes.len()));
        Self { bytes, short: u128::from_le_bytes(short), mask }
    }

    #[inline(always)]
    fn begins(&self, text: &[u8]) -> bool {
        if let Some(sixteen) = text.first_chunk()
            && self.mask != 0
        {
            return u128::from_le_bytes(*sixteen) & self.mask == self.short;
        }
        !self.bytes.is_empty() && text.starts_with(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of the names in the text, as a decoder looks them up.
    fn walk(names: &mut Names, text: &[&str]) -> Vec<(Option<usize>, bool)> {
        let mut place = Names::START;
        let mut found = Vec::new();
        for name in text {
            let expected = names.expected(place, format!("\"{name}\":1").as_bytes());
            place = match expected {
                Some((place, length)) => {
                    assert_eq!(length, name.len() + 3);
                    place
                }
                None => names.look_up(place, name.as_bytes()),
            };
            found.push((names.field(place), expected.is_some()));
        }
        found
    }

    #[test]
    fn an_order_is_known_when_it_comes_again() {
        let mut names = Names::new(["id", "a name of more than sixteen bytes", "é"].into_iter());
        let order = ["x", "id", "y", "a name of more than sixteen bytes", "é", "z"];
        let fields = [None, Some(0), None, Some(1), Some(2), None];
        let first: Vec<_> = walk(&mut names, &order).into_iter().map(|(field, _)| field).collect();
        assert_eq!(first, fields);
        assert_eq!(walk(&mut names, &order), fields.map(|field| (field, true)));
        // After an omission, only the name behind the gap is looked up.
        let expected: Vec<_> =
            walk(&mut names, &["x", "id", "é", "z"]).into_iter().map(|(_, expected)| expected).collect();
        assert_eq!(expected, [true, true, false, true]);
    }

    #[test]
    fn a_name_that_goes_on_is_another_name() {
        let mut names = Names::new(["id"].into_iter());
        for other in ["i", "id2", "ID", ""] {
            assert_eq!(walk(&mut names, &[other])[0].0, None, "{other}");
            assert_eq!(walk(&mut names, &["id"])[0].0, Some(0), "{other}");
        }
        assert!(names.expected(Names::START, b"\"id\"").is_none());
        assert!(names.expected(Names::START, b"\"id\":").is_some());
    }

    #[test]
    fn names_that_never_come_again_take_little_memory() {
        let mut names = Names::new(["id"].into_iter());
        for number in 0..10_000 {
            let other = number.to_string().repeat(1 + number % 20);
            assert_eq!(walk(&mut names, &[&other, "id"]).last().map(|(field, _)| *field), Some(Some(0)));
        }
        assert!(names.places.len() <= MAX_OTHERS + 3);
        assert!(names.by_name.iter().all(|(name, _)| name.len() <= MAX_OTHER_BYTES));
    }

    #[test]
    fn names_with_characters_that_need_escapes_are_never_compared_with_the_text() {
        let mut names = Names::new(["a\"b", "a\\b", "a\nb"].into_iter());
        for (field, name) in ["a\"b", "a\\b", "a\nb"].into_iter().enumerate() {
            assert!(names.expected(Names::START, format!("\"{name}\":").as_bytes()).is_none());
            let place = names.look_up(Names::START, name.as_bytes());
            assert_eq!(names.field(place), Some(field));
        }
    }
}
