//! The records of the project's benchmarks.

/// One record, by its number.
pub(crate) struct Event {
    pub(crate) id: i64,
    pub(crate) user: String,
    /// Before and behind the point, two digits.
    pub(crate) amount: (u64, u64),
    pub(crate) city: &'static str,
    pub(crate) session: String,
}

impl Event {
    pub(crate) const NAMES: [&'static str; 5] = ["id", "user", "amount", "city", "session"];

    pub(crate) fn new(offset: u64) -> Self {
        let noise = offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            id: 10_000_000 + offset as i64,
            user: format!("user-{:05}", noise >> 47),
            amount: (noise >> 20 & 0xfffff, noise % 100),
            city: ["Praha", "Brno", "Ostrava", "Plzen"][(noise >> 8 & 3) as usize],
            session: format!("{:016x}", noise.rotate_left(17)),
        }
    }

    pub(crate) fn amount(&self) -> f64 {
        self.amount.0 as f64 + self.amount.1 as f64 / 100.0
    }
}

/// A number of seven bits a byte, as Avro and Protobuf write it.
pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
