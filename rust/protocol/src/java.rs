//! Java's string functions: `String.hashCode`, `String.compareTo`, and the iteration order of a `HashMap` with string
//! keys.
//!
//! Kafka computes a group's partition of `__consumer_offsets` with the hash. Its assignors iterate members in these
//! orders, which decides which of several equal members gets a surplus partition; so they are needed for the same
//! assignments as Kafka's.

use std::cmp::Ordering;

/// Java's `String.hashCode`.
pub fn hash(text: &str) -> i32 {
    text.encode_utf16().fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Java's `String.compareTo`: by UTF-16 units. Rust compares by code point, which differs for characters outside the
/// Basic Multilingual Plane.
pub fn order(one: &str, other: &str) -> Ordering {
    if one.is_ascii() && other.is_ascii() {
        return one.cmp(other);
    }
    one.encode_utf16().cmp(other.encode_utf16())
}

/// Java's `Map.hashCode` of string keys with string values, which may be null.
pub fn map_hash<'a>(entries: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> i32 {
    entries.fold(0, |sum: i32, (key, value)| sum.wrapping_add(hash(key) ^ value.map_or(0, hash)))
}

/// Sorts items into the iteration order of a `HashMap` that was created with its default capacity and then filled. Keys
/// of the same bucket keep their order.
pub fn in_hash_order<T>(items: &mut [T], key: impl Fn(&T) -> &str) {
    in_order_of_hashes(items, |item| hash(key(item)));
}

/// Sorts items like [`in_hash_order`], by the `hashCode` of their keys.
pub fn in_order_of_hashes<T>(items: &mut [T], hash: impl Fn(&T) -> i32) {
    let mut capacity: u32 = 16;
    // The load factor is three quarters.
    while items.len() as u64 * 4 > u64::from(capacity) * 3 {
        capacity *= 2;
    }
    items.sort_by_key(|item| {
        let hash = hash(item).cast_unsigned();
        (hash ^ (hash >> 16)) & (capacity - 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_as_from_a_hash_map() {
        // The expected orders are what a JVM prints for `new HashMap<String, ...>().keySet()` after putting these keys.
        let mut names = vec!["member-1", "member-2", "uniform", "range", "a", "\u{1f426}"];
        in_hash_order(&mut names, |name| name);
        assert_eq!(names, JVM_SIX);
        let mut many: Vec<String> = (0..14).map(|number| format!("consumer-{number}")).collect();
        in_hash_order(&mut many, |name| name);
        assert_eq!(many.join(" "), JVM_FOURTEEN);
    }

    #[test]
    fn strings_compare_by_their_utf16_units() {
        assert_eq!(order("\u{1f426}", "\u{ff5e}"), Ordering::Less);
        assert_eq!(order("a", "b\u{1f426}"), Ordering::Less);
        assert_eq!(order("b", "a"), Ordering::Greater);
    }

    const JVM_SIX: [&str; 6] = ["uniform", "a", "\u{1f426}", "member-1", "member-2", "range"];
    const JVM_FOURTEEN: &str = "consumer-11 consumer-10 consumer-6 consumer-5 consumer-4 consumer-3 consumer-2 consumer-13 \
                                consumer-1 consumer-12 consumer-0 consumer-9 consumer-8 consumer-7";
}
