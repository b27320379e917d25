//! Replacing ranges of a file and nothing else: what is replaced is verified first, and a file is
//! never decoded.

use std::ops::Range;

use crate::digest::Digest;

/// One replacement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Splice {
    /// The bytes of the source it replaces.
    pub range: Range<usize>,
    /// Digest of the bytes expected there.
    pub expected: Digest,
    /// What comes in their place.
    pub replacement: Vec<u8>,
}

/// Why nothing was replaced.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpliceError {
    /// A range that the source does not have.
    #[error("bytes {start}..{end} are outside of a file of {length} bytes: extract it again")]
    OutOfBounds {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Bytes in the source.
        length: usize,
    },
    /// Other bytes than those that were extracted.
    #[error(
        "bytes {start}..{end} are not those that were extracted ({found} instead of \
         {expected}): the file changed, extract it again"
    )]
    Changed {
        /// First byte.
        start: usize,
        /// One past the last byte.
        end: usize,
        /// Digest of the bytes there.
        found: Digest,
        /// Digest of the bytes that were extracted.
        expected: Digest,
    },
    /// Two replacements of the same bytes.
    #[error("replacements at {first} and {second} overlap: replace a function once")]
    Overlap {
        /// First byte of the one.
        first: usize,
        /// First byte of the other.
        second: usize,
    },
}

/// `source` with every splice done, in any order of `splices`; bytes outside of their ranges stay
/// as they are. All or nothing.
///
/// # Errors
/// A range out of bounds, other bytes than expected, or two ranges that overlap (an empty range
/// overlaps what it is inside of, and another empty range at the same place).
pub fn splice(source: &[u8], splices: &[Splice]) -> Result<Vec<u8>, SpliceError> {
    let mut order: Vec<&Splice> = splices.iter().collect();
    order.sort_by_key(|s| (s.range.start, s.range.end));
    for pair in order.windows(2) {
        let (a, b) = (&pair[0].range, &pair[1].range);
        if a.end > b.start || a == b {
            return Err(SpliceError::Overlap {
                first: a.start,
                second: b.start,
            });
        }
    }
    let mut out = Vec::with_capacity(source.len());
    let mut at = 0;
    for s in order {
        let (start, end) = (s.range.start, s.range.end);
        let Some(original) = source.get(s.range.clone()) else {
            return Err(SpliceError::OutOfBounds {
                start,
                end,
                length: source.len(),
            });
        };
        let found = Digest::of(original);
        if found != s.expected {
            return Err(SpliceError::Changed {
                start,
                end,
                found,
                expected: s.expected,
            });
        }
        out.extend_from_slice(&source[at..start]);
        out.extend_from_slice(&s.replacement);
        at = end;
    }
    out.extend_from_slice(&source[at..]);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Byte by byte: a byte belongs to a splice or stays.
    fn naive(source: &[u8], splices: &[Splice]) -> Vec<u8> {
        let mut out = Vec::new();
        for at in 0..=source.len() {
            for s in splices.iter().filter(|s| s.range.start == at) {
                out.extend_from_slice(&s.replacement);
            }
            if at < source.len() && !splices.iter().any(|s| s.range.contains(&at)) {
                out.push(source[at]);
            }
        }
        out
    }

    proptest! {
        #[test]
        fn splice_is_what_replacing_byte_by_byte_gives(
            source in proptest::collection::vec(any::<u8>(), 1..200),
            cuts in proptest::collection::btree_set(0usize..200, 0..12),
            texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..9), 6),
            backwards in any::<bool>(),
        ) {
            let cuts: Vec<usize> = cuts.into_iter().filter(|c| *c <= source.len()).collect();
            let mut splices: Vec<Splice> = cuts
                .chunks_exact(2)
                .zip(texts)
                .map(|(c, replacement)| Splice {
                    range: c[0]..c[1],
                    expected: Digest::of(&source[c[0]..c[1]]),
                    replacement,
                })
                .collect();
            if backwards {
                splices.reverse();
            }
            prop_assert_eq!(splice(&source, &splices).unwrap(), naive(&source, &splices));
            for s in &mut splices {
                s.replacement = source[s.range.clone()].to_vec();
            }
            prop_assert_eq!(splice(&source, &splices).unwrap(), source);
        }

        #[test]
        fn overlap_is_refused_and_only_overlap(a in 0usize..20, b in 0usize..20, c in 0usize..20, d in 0usize..20) {
            let source: Vec<u8> = (0..20).collect();
            let of = |x: usize, y: usize| x.min(y)..x.max(y) + 1;
            let splices = [of(a, b), of(c, d)].map(|range| Splice {
                expected: Digest::of(&source[range.clone()]),
                replacement: vec![],
                range,
            });
            let shared = splices[0].range.clone().any(|i| splices[1].range.contains(&i));
            let refused = matches!(splice(&source, &splices), Err(SpliceError::Overlap { .. }));
            prop_assert_eq!(refused, shared);
        }
    }

    #[test]
    fn other_bytes_than_expected_are_refused() {
        let one = |range: Range<usize>, text: &[u8]| {
            [Splice {
                range,
                expected: Digest::of(text),
                replacement: b"x".to_vec(),
            }]
        };
        assert_eq!(
            splice(b"a\r\n\xe9", &one(3..4, b"\xe9")).unwrap(),
            b"a\r\nx"
        );
        assert!(matches!(
            splice(b"abc", &one(0..1, b"b")),
            Err(SpliceError::Changed {
                start: 0,
                end: 1,
                ..
            })
        ));
        assert!(matches!(
            splice(b"abc", &one(2..4, b"c")),
            Err(SpliceError::OutOfBounds { length: 3, .. })
        ));
        assert!(matches!(
            splice(b"abc", &one(usize::MAX - 1..usize::MAX, b"")),
            Err(SpliceError::OutOfBounds { .. })
        ));
    }
}
