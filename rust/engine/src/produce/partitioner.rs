//! The partition of a key, as in Java's producer and in librdkafka.
//!
//! All producers of a topic must agree on it: `tests/golden/partitions.jsonl` has their results for the same keys.
//! Records without a key are drawn by `sticky`.

/// The function that computes the partition of a key. Names and results are librdkafka's; `murmur2_random` is Java's
/// default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partitioner {
    /// CRC-32 of the key; records without a key are all in one partition.
    Consistent,
    /// CRC-32 of the key; drawn for null and empty keys.
    ConsistentRandom,
    /// Java's murmur2 of the key; records without a key are all in one partition.
    Murmur2,
    /// Java's murmur2 of the key; drawn without one.
    #[default]
    Murmur2Random,
    /// FNV-1a of the key as Sarama takes it; records without a key are all in one partition.
    Fnv1a,
    /// FNV-1a of the key as Sarama takes it; drawn without one.
    Fnv1aRandom,
    /// Drawn for every record.
    Random,
}

impl Partitioner {
    /// All of them, by librdkafka's names.
    pub const NAMES: [(&'static str, Self); 7] = [
        ("consistent", Self::Consistent),
        ("consistent_random", Self::ConsistentRandom),
        ("murmur2", Self::Murmur2),
        ("murmur2_random", Self::Murmur2Random),
        ("fnv1a", Self::Fnv1a),
        ("fnv1a_random", Self::Fnv1aRandom),
        ("random", Self::Random),
    ];

    /// The partitioner with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, partitioner)| *partitioner)
    }

    /// The hash that decides about the partition, whatever their number. `None` if the partition is to be drawn.
    pub fn hash(self, key: Option<&[u8]>) -> Option<u32> {
        let is_drawn = match self {
            Self::Random => true,
            Self::ConsistentRandom => key.is_none_or(<[u8]>::is_empty),
            Self::Murmur2Random | Self::Fnv1aRandom => key.is_none(),
            Self::Consistent | Self::Murmur2 | Self::Fnv1a => false,
        };
        if is_drawn {
            return None;
        }
        let key = key.unwrap_or_default();
        Some(match self {
            Self::Consistent | Self::ConsistentRandom | Self::Random => crc32(key),
            // Java's `Utils.toPositive`.
            Self::Murmur2 | Self::Murmur2Random => murmur2(key) & 0x7fff_ffff,
            Self::Fnv1a | Self::Fnv1aRandom => fnv1a(key).cast_signed().unsigned_abs(),
        })
    }

    /// The partition of a key in a topic of `partitions` partitions. `None` if it is to be drawn, or if there are none.
    pub fn partition(self, key: Option<&[u8]>, partitions: u32) -> Option<i32> {
        self.hash(key).and_then(|hash| partition_of(hash, partitions))
    }
}

/// The partition of a hash in a topic of `partitions` partitions.
pub fn partition_of(hash: u32, partitions: u32) -> Option<i32> {
    i32::try_from(hash.checked_rem(partitions)?).ok()
}

/// MurmurHash2 with Kafka's seed.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MIX: u32 = 0x5bd1_e995;
    let (blocks, tail) = data.as_chunks::<4>();
    // A record has no key that is longer than `i32::MAX`.
    let mut hash = SEED ^ data.len() as u32;
    for block in blocks {
        let mut word = u32::from_le_bytes(*block).wrapping_mul(MIX);
        word ^= word >> 24;
        hash = hash.wrapping_mul(MIX) ^ word.wrapping_mul(MIX);
    }
    if !tail.is_empty() {
        for (place, byte) in tail.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(MIX);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MIX);
    hash ^ (hash >> 15)
}

fn fnv1a(data: &[u8]) -> u32 {
    data.iter().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// The CRC-32 of zlib. Record batches have CRC-32C.
fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, byte| (crc >> 8) ^ CRC32[usize::from(crc.to_le_bytes()[0] ^ byte)])
}

const CRC32: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < table.len() {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};
