//! Acknowledgements of a share partition's records, as a request has them.

use monedula_protocol::error_code::ErrorCode;

/// What a member says of a record.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum AcknowledgeType {
    /// There is no record at the offset.
    Gap,
    Accept,
    Release,
    Reject,
    /// The member needs the record for longer (KIP-1222).
    Renew,
}

impl AcknowledgeType {
    fn from_code(code: i8) -> Option<Self> {
        match code {
            0 => Some(Self::Gap),
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            4 => Some(Self::Renew),
            _ => None,
        }
    }
}

/// Consecutive offsets that are acknowledged in the same way.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) first: i64,
    /// The last offset, inclusive.
    pub(crate) last: i64,
    pub(crate) kind: AcknowledgeType,
}

impl Acknowledgement {
    /// The acknowledgements in the batches of a partition: first offset, last offset, types.
    ///
    /// # Errors
    /// INVALID_REQUEST for offsets that do not ascend, a wrong number of types, and a renewal in a request that does
    /// not say that it has any.
    pub(crate) fn parse<'a>(
        batches: impl Iterator<Item = (i64, i64, &'a [i8])>,
        renews: bool,
    ) -> Result<Vec<Self>, ErrorCode> {
        let mut all: Vec<Self> = Vec::new();
        let mut end = -1;
        for (first, last, types) in batches {
            // As in Kafka, an offset that ends one batch and begins the next is refused later, by its state.
            let ascends = end <= first && first <= last;
            let has_types = types.len() == 1
                || !types.is_empty() && types.len() as i64 == last.saturating_sub(first).saturating_add(1);
            if !ascends || !has_types {
                return Err(ErrorCode::InvalidRequest);
            }
            end = last;
            let mut offset = first;
            for same in types.chunk_by(|left, right| left == right) {
                let kind = AcknowledgeType::from_code(same[0]).filter(|kind| renews || *kind != AcknowledgeType::Renew);
                let kind = kind.ok_or(ErrorCode::InvalidRequest)?;
                let last = if types.len() == 1 { last } else { offset + same.len() as i64 - 1 };
                all.push(Self { first: offset, last, kind });
                offset = last.saturating_add(1);
            }
        }
        Ok(all)
    }
}
