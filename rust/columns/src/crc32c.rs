//! CRC-32C of record batches, with the processor's widest carry-less multiplication.
//!
//! The `crc32c` crate feeds the processor's CRC instruction, eight bytes at a time in three streams. Processors with
//! AVX-512 and VPCLMULQDQ multiply 64 bytes at a time, which is more than twice as fast. All others use the crate, and
//! so do the embedded broker and the protocol crate everywhere: they check what this module computes.

/// Continues `crc`, which is 0 at first, over more bytes.
pub fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= wide::MIN_BYTES && wide::is_supported() {
        // SAFETY: the processor's features were checked.
        return unsafe { wide::crc32c(crc, bytes) };
    }
    ::crc32c::crc32c_append(crc, bytes)
}

/// A CRC is the remainder of the bytes, as a polynomial over GF(2), by a polynomial P. It does not change if 128 bits of
/// them are multiplied by x^d modulo P and added to those d bits further on, which is called folding. So four vectors
/// of 64 bytes are folded over the bytes, then into one vector, and that one into 128 bits, whose remainder the
/// processor's CRC instruction computes (Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
/// Instruction", Intel 2009).
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::*;

    /// P without its highest bit, bit-reversed: a byte's lowest bit stands for the highest power.
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    const VECTOR_BYTES: usize = 64;
    const VECTORS: usize = 4;
    const BLOCK_BYTES: usize = VECTORS * VECTOR_BYTES;

    /// Shorter inputs go to the crate: the folding of the last vectors would cost more than it saves.
    pub(super) const MIN_BYTES: usize = BLOCK_BYTES;

    pub(super) fn is_supported() -> bool {
        is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
    }

    /// x to this power modulo P, bit-reversed. The shift by one bit corrects the product: a product of two bit-reversed
    /// registers is one bit shorter than two registers.
    const fn power(exponent: usize) -> i64 {
        let (mut power, mut at) = (1_u32 << 31, 0);
        while at < exponent {
            power = (power >> 1) ^ (POLYNOMIAL & (power & 1).wrapping_neg());
            at += 1;
        }
        (power as i64) << 1
    }

    /// Factors that fold the first and the second half of 128 bits over a distance in bytes. The first half is 64 bits
    /// further away. The product of 64 and 32 bits ends 32 bits before the end of the 128 bits.
    const fn factors(distance_bytes: usize) -> [i64; 2] {
        [power(distance_bytes * 8 + 32), power(distance_bytes * 8 - 32)]
    }

    const BLOCK_FACTORS: [i64; 2] = factors(BLOCK_BYTES);
    const VECTOR_FACTORS: [i64; 2] = factors(VECTOR_BYTES);
    /// Factors of a vector's first three lanes, each of which is folded into the last lane.
    const LANE_FACTORS: [[i64; 2]; 3] = [factors(48), factors(32), factors(16)];

    /// Requires at least [`MIN_BYTES`].
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    pub(super) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        let Some((first, blocks)) = blocks.split_first() else { return ::crc32c::crc32c_append(crc, bytes) };
        let mut vectors: [__m512i; VECTORS] = load(first);
        let start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!crc as i32));
        vectors[0] = _mm512_xor_si512(vectors[0], start);
        let factors = every_lane(BLOCK_FACTORS);
        for block in blocks {
            let next: [__m512i; VECTORS] = load(block);
            for index in 0..VECTORS {
                vectors[index] = fold(vectors[index], factors, next[index]);
            }
        }
        let factors = every_lane(VECTOR_FACTORS);
        let [mut vector, others @ ..] = vectors;
        for next in others {
            vector = fold(vector, factors, next);
        }
        let (blocks, rest) = rest.as_chunks::<VECTOR_BYTES>();
        for block in blocks {
            let [next] = load(block);
            vector = fold(vector, factors, next);
        }
        let [low, high] = halves(fold_lanes(vector));
        let remainder = _mm_crc32_u64(_mm_crc32_u64(0, low), high) as u32;
        // The rest is shorter than a vector. The crate inverts a CRC before and after, as this function does.
        ::crc32c::crc32c_append(!remainder, rest)
    }

    /// Folds each lane of 128 bits into the same lane of `next`.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(vector: __m512i, factors: __m512i, next: __m512i) -> __m512i {
        let first = _mm512_clmulepi64_epi128::<0x00>(vector, factors);
        let second = _mm512_clmulepi64_epi128::<0x11>(vector, factors);
        // 0x96 is the truth table of a sum of three bits.
        _mm512_ternarylogic_epi64::<0x96>(first, second, next)
    }

    /// Folds the first three lanes of a vector into the last.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold_lanes(vector: __m512i) -> __m128i {
        let [[a, b], [c, d], [e, f]] = LANE_FACTORS;
        let factors = _mm512_setr_epi64(a, b, c, d, e, f, 0, 0);
        let last = _mm512_maskz_mov_epi64(0b1100_0000, vector);
        let lanes = fold(vector, factors, last);
        let pair = _mm256_xor_si256(_mm512_castsi512_si256(lanes), _mm512_extracti64x4_epi64::<1>(lanes));
        _mm_xor_si128(_mm256_castsi256_si128(pair), _mm256_extracti128_si256::<1>(pair))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn halves(lane: __m128i) -> [u64; 2] {
        [_mm_extract_epi64::<0>(lane) as u64, _mm_extract_epi64::<1>(lane) as u64]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn every_lane([first, second]: [i64; 2]) -> __m512i {
        _mm512_setr_epi64(first, second, first, second, first, second, first, second)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load<const BYTES: usize, const COUNT: usize>(block: &[u8; BYTES]) -> [__m512i; COUNT] {
        const { assert!(COUNT * VECTOR_BYTES == BYTES) };
        let mut vectors = [_mm512_setzero_si512(); COUNT];
        // Loop without a closure: its callers in the standard library are not compiled for AVX-512, so they and the
        // closure would not be inlined here.
        for (index, vector) in vectors.iter_mut().enumerate() {
            // SAFETY: the block has `COUNT` vectors. The load needs no alignment.
            *vector = unsafe { _mm512_loadu_si512(block.as_ptr().add(index * VECTOR_BYTES).cast()) };
        }
        vectors
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn powers_are_remainders() {
            // x^32 modulo P is P without its highest bit.
            assert_eq!(power(32), i64::from(POLYNOMIAL) << 1);
            assert_eq!(power(0), 1 << 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CRC by its definition, bit by bit.
    fn slow(crc: u32, bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!crc, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 })
        })
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn known_answers() {
        // Vectors of RFC 3720, B.4, and the check value of the catalogue of CRCs.
        let ascending: Vec<u8> = (0..32).collect();
        let descending: Vec<u8> = (0..32).rev().collect();
        assert_eq!(crc32c(0, b""), 0);
        assert_eq!(crc32c(0, b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(0, &[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(0, &[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(0, &ascending), 0x46dd_794e);
        assert_eq!(crc32c(0, &descending), 0x113f_db5c);
    }

    #[test]
    fn every_length_and_alignment_agrees_with_the_crate() {
        let bytes = noise(4096 + 64);
        let lengths = if cfg!(miri) { (0..600).step_by(97) } else { (0..4097).step_by(1) };
        for length in lengths {
            for start in [0, 1, 3, 8, 31, 63] {
                let bytes = &bytes[start..start + length];
                assert_eq!(crc32c(0, bytes), ::crc32c::crc32c(bytes), "{length} bytes from {start}");
            }
        }
    }

    #[test]
    fn lengths_around_blocks_and_vectors_agree_with_the_definition() {
        let bytes = noise(1100);
        for length in (0..1100).filter(|length| (length + 1) % 64 < 3).step_by(if cfg!(miri) { 5 } else { 1 }) {
            assert_eq!(crc32c(0, &bytes[..length]), slow(0, &bytes[..length]), "{length} bytes");
        }
    }

    #[test]
    fn parts_in_a_row_are_the_whole() {
        bolero::check!().with_type::<(u32, u8, Vec<u8>)>().for_each(|(crc, times, seed)| {
            let bytes = seed.repeat(usize::from(*times));
            let whole = crc32c(*crc, &bytes);
            assert_eq!(whole, ::crc32c::crc32c_append(*crc, &bytes));
            let (first, second) = bytes.split_at(seed.len().min(bytes.len()));
            assert_eq!(crc32c(crc32c(*crc, first), second), whole);
        });
    }

    #[test]
    fn a_changed_bit_is_seen_wherever_it_is() {
        let mut bytes = noise(700);
        let crc = crc32c(0, &bytes);
        for bit in (0..bytes.len() * 8).step_by(if cfg!(miri) { 397 } else { 1 }) {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(crc32c(0, &bytes), crc, "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
