//! Random values from a seed: the same calls return the same values.

use monedula_protocol::types::Uuid;

/// A random number generator (SplitMix64): small, seeded, and good enough for ids and the probabilities of faults.
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    /// A random UUID (version 4) for a topic, member or directory. Like Kafka's, it never starts with a dash in base64,
    /// because tools would take it for an option.
    pub(crate) fn uuid(&mut self) -> Uuid {
        loop {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&self.next().to_be_bytes());
            bytes[8..].copy_from_slice(&self.next().to_be_bytes());
            bytes[6] = bytes[6] & 0x0f | 0x40;
            bytes[8] = bytes[8] & 0x3f | 0x80;
            let id = Uuid(bytes);
            if !id.is_zero() && !id.to_string().starts_with('-') {
                return id;
            }
        }
    }
}

/// A UUID in the text form of member ids: `xxxxxxxx-xxxx-4xxx-xxxx-xxxxxxxxxxxx`.
pub(crate) fn hyphenated(id: Uuid) -> String {
    let hex: String = id.0.iter().map(|byte| format!("{byte:02x}")).collect();
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_repeat_with_the_seed() {
        let mut draw = Draw::new(7);
        let (first, second) = (draw.uuid(), hyphenated(draw.uuid()));
        let mut again = Draw::new(7);
        assert_eq!((again.uuid(), hyphenated(again.uuid())), (first, second.clone()));
        assert_ne!(Draw::new(8).uuid(), first);
        assert_eq!(second.len(), 36);
        assert_eq!(&second[14..15], "4");
    }
}
