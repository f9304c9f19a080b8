//! The order in which a Java `HashMap` with strings for keys is walked.
//!
//! Kafka's assignors take members in that order, so it decides which of several equal members gets the odd partition. Targets
//! that are to be equal to Kafka's need the same order.

use crate::cluster::java_hash;

/// Sorts as a `HashMap` that was made with its default capacity and then filled would be walked. Keys that share a bucket stay
/// in the order in which they come.
pub(crate) fn in_hash_order<T>(items: &mut [T], key: impl Fn(&T) -> &str) {
    let mut capacity: u32 = 16;
    // The load factor is three quarters.
    while items.len() as u64 * 4 > u64::from(capacity) * 3 {
        capacity *= 2;
    }
    items.sort_by_key(|item| {
        let hash = java_hash(key(item)).cast_unsigned();
        (hash ^ (hash >> 16)) & (capacity - 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_come_as_from_a_hash_map() {
        // What a JVM prints of `new HashMap<String, ...>().keySet()` after putting these.
        let mut names = vec!["member-1", "member-2", "uniform", "range", "a", "\u{1f426}"];
        in_hash_order(&mut names, |name| name);
        assert_eq!(names, JVM_SIX);
        let mut many: Vec<String> = (0..14).map(|number| format!("consumer-{number}")).collect();
        in_hash_order(&mut many, |name| name);
        assert_eq!(many.join(" "), JVM_FOURTEEN);
    }

    const JVM_SIX: [&str; 6] = ["uniform", "a", "\u{1f426}", "member-1", "member-2", "range"];
    const JVM_FOURTEEN: &str = "consumer-11 consumer-10 consumer-6 consumer-5 consumer-4 consumer-3 consumer-2 consumer-13 \
                                consumer-1 consumer-12 consumer-0 consumer-9 consumer-8 consumer-7";
}
