//! Similarity by embeddings in place of shared tokens: which texts are compared, and what their vectors
//! mean. Where a block stands, and which of the added lines are there, is still found by aligning tokens.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::edit::Edit;
use super::measure::Measure;
use super::walk::{Trail, Visit, Walk};

/// A text is cut to so many bytes: models embed no more.
pub const MOST: usize = 16_000;

/// The texts that are compared for a walk, each once. Numbers are places among them; what is empty has
/// none.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Texts {
    /// The texts.
    pub texts: Vec<String>,
    /// By trail and block: its side before the patch, and after it.
    pub sides: Vec<Vec<Pair>>,
    /// By trail, visit and block: what was compared with the one, and with the other.
    pub seen: Vec<Vec<Vec<Pair>>>,
}

/// A patch measured where the truth is known: each trail is visited at the base, from which the patch is
/// absent, and at the base with the patch, in which it is present.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Planted {
    /// The two visits of each site; their positions are [`ABSENT`] and [`PRESENT`].
    pub walk: Walk,
    /// What is compared for them.
    pub texts: Texts,
}

/// The position of the base in a [`Planted`] walk.
pub const ABSENT: usize = 0;
/// The position of the base with the patch.
pub const PRESENT: usize = 1;

impl Planted {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts and numbers are JSON")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Planted, serde_json::Error> {
        serde_json::from_slice(bytes)
    }

    /// What was measured, and whether the block is there.
    pub fn pairs(walk: &Walk) -> Vec<(Measure, bool)> {
        let visits = walk.trails.iter().flat_map(|trail| &trail.visits);
        let pairs = visits.flat_map(|visit| {
            let there = visit.at == PRESENT;
            visit.seen.blocks.iter().map(move |m| (m.clone(), there))
        });
        pairs.collect()
    }
}

/// Of a side before and one after.
pub type Pair = [Option<u32>; 2];

/// The texts of a walk of `edit`. `bytes` gives the file that a visit saw.
///
/// # Errors
/// Those of `bytes`.
pub fn texts<E>(
    edit: &Edit,
    trails: &[Trail],
    mut bytes: impl FnMut(usize, &Visit) -> Result<Option<Vec<u8>>, E>,
) -> Result<Texts, E> {
    let mut known: HashMap<String, u32> = HashMap::new();
    let mut all = Texts::default();
    let mut place = |text: &str, texts: &mut Vec<String>| -> Option<u32> {
        let end = text.floor_char_boundary(MOST);
        let text = text[..end].trim();
        if text.is_empty() {
            return None;
        }
        let next = texts.len() as u32;
        let at = *known.entry(text.to_string()).or_insert(next);
        if at == next {
            texts.push(text.to_string());
        }
        Some(at)
    };
    for (number, (site, trail)) in edit.sites.iter().zip(trails).enumerate() {
        let sides = site.blocks.iter();
        let sides = sides.map(|b| [0, 1].map(|side| place(&b.says[side], &mut all.texts)));
        let sides = sides.collect();
        all.sides.push(sides);
        let mut visits = Vec::with_capacity(trail.visits.len());
        for visit in &trail.visits {
            let file = match visit.seen.blocks.is_empty() {
                true => None,
                false => bytes(number, visit)?,
            };
            let file = file.unwrap_or_default();
            let mut pair = |measure: &Measure| -> Pair {
                [0, 1].map(|side| {
                    let there = file.get(measure.regions[side].clone()).unwrap_or_default();
                    place(&String::from_utf8_lossy(there), &mut all.texts)
                })
            };
            visits.push(visit.seen.blocks.iter().map(&mut pair).collect());
        }
        all.seen.push(visits);
    }
    Ok(all)
}

impl Texts {
    /// The stored form.
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("texts and numbers have a form")
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// Other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Texts, postcard::Error> {
        postcard::from_bytes(bytes)
    }

    /// The walk with similarities of vectors (one for each text, in their order) in place of those of
    /// tokens. A side that is empty keeps what the tokens say.
    pub fn measured(&self, walk: &Walk, vectors: &[Vec<f32>]) -> Walk {
        let mut walk = walk.clone();
        let vector = |at: u32| &vectors[at as usize][..];
        for (number, trail) in walk.trails.iter_mut().enumerate() {
            for (at, visit) in trail.visits.iter_mut().enumerate() {
                for (block, measure) in visit.seen.blocks.iter_mut().enumerate() {
                    let sides = self.sides[number][block];
                    let seen = self.seen[number][at][block];
                    let alike = |side: usize| {
                        let (own, there) = sides[side].zip(seen[side])?;
                        Some(cosine(vector(own), vector(there)))
                    };
                    measure.before = alike(0).unwrap_or(measure.before);
                    measure.after = alike(1).unwrap_or(measure.after);
                }
            }
        }
        walk
    }
}

/// The vector that a reply's text is.
///
/// # Errors
/// What is wrong with it.
pub fn vector(text: &str) -> Result<Vec<f32>, String> {
    let vector: Vec<f32> = serde_json::from_str(text).map_err(|e| format!("no vector: {e}"))?;
    match vector.iter().any(|x| *x != 0.0) && vector.iter().all(|x| x.is_finite()) {
        true => Ok(vector),
        false => Err("a vector without a direction".into()),
    }
}

/// The cosine of the angle between two vectors, from 0 to 1 (what points away is not alike either) and
/// to four places, so that what is decided is the same everywhere. 0 for vectors of different lengths.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        let products = a.iter().zip(b).map(|(x, y)| f64::from(*x) * f64::from(*y));
        products.sum()
    };
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    let cosine = if lengths > 0.0 {
        dot(a, b) / lengths
    } else {
        0.0
    };
    (cosine.clamp(0.0, 1.0) * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::diff::read;
    use super::super::edit::edit;
    use super::super::measure::measure;
    use super::super::source::Source;
    use super::super::walk::Head;
    use super::*;

    const BEFORE: &str = "int f(int a)\n{\n    int b = a;\n    use(b);\n    return b;\n}\n";
    const PATCH: &str = "--- a/m.c\n+++ b/m.c\n@@ -3,3 +3,4 @@\n     int b = a;\n+    if (b < 0) return 0;\n     use(b);\n     return b;\n";

    fn walked() -> (Walk, Texts) {
        let diff = read(PATCH.as_bytes());
        let edit = edit(&diff, |_| Some(BEFORE.as_bytes().to_vec())).unwrap();
        let after = diff.files[0].apply(BEFORE.as_bytes()).unwrap();
        let files = [BEFORE.as_bytes().to_vec(), after];
        let visit = |(at, file): (usize, &Vec<u8>)| Visit {
            at,
            path: "m.c".into(),
            object: String::new(),
            seen: measure(&edit.sites[0], &Source::read("m.c", file)),
        };
        let trails = vec![Trail {
            head: Head::of(&edit.sites[0]),
            visits: files.iter().enumerate().map(visit).collect(),
        }];
        let bytes = |_: usize, visit: &Visit| Ok::<_, ()>(Some(files[visit.at].clone()));
        let texts = texts(&edit, &trails, bytes).unwrap();
        let walk = Walk {
            trails,
            ..Walk::default()
        };
        (walk, texts)
    }

    #[test]
    fn each_text_is_there_once_and_sides_know_themselves() {
        let (walk, texts) = walked();
        let mut once = texts.texts.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), texts.texts.len());
        let [sides] = &texts.sides[0][..] else {
            panic!()
        };
        // At the base stands the side before, after the patch the side after.
        assert_eq!(texts.seen[0][0][0][0], sides[0]);
        assert_eq!(texts.seen[0][1][0][1], sides[1]);
        assert!(texts.texts[sides[1].unwrap() as usize].contains("if (b < 0) return 0;"));
        assert!(!texts.texts[sides[0].unwrap() as usize].contains("if"));
        assert_eq!(Texts::decode(&texts.encode()).unwrap(), texts);
        // With vectors that are equal for equal texts only, similarities are 1 there and 0 elsewhere.
        let vectors: Vec<Vec<f32>> = (0..texts.texts.len())
            .map(|at| {
                (0..texts.texts.len())
                    .map(|i| f32::from(u8::from(i == at)))
                    .collect()
            })
            .collect();
        let measured = texts.measured(&walk, &vectors);
        let of = |at: usize| {
            let m = &measured.trails[0].visits[at].seen.blocks[0];
            (m.before, m.after)
        };
        assert_eq!(of(0).0, 1.0);
        assert_eq!(of(1).1, 1.0);
        assert!(of(0).1 < 1.0 && of(1).0 < 1.0);
    }

    #[test]
    fn what_is_no_vector_is_told() {
        for wrong in ["", "[]", "[0.0, 0]", "{}", "[\"a\"]"] {
            assert!(vector(wrong).is_err(), "{wrong}");
        }
        assert_eq!(vector("[1, -0.5]").unwrap(), [1.0, -0.5]);
    }

    proptest! {
        #[test]
        fn a_cosine_is_a_share(a in prop::collection::vec(-9.0_f32..9.0, 3), b in prop::collection::vec(-9.0_f32..9.0, 3), k in 0.1_f32..9.0) {
            let c = cosine(&a, &b);
            prop_assert!((0.0..=1.0).contains(&c));
            prop_assert_eq!(c, cosine(&b, &a));
            let scaled: Vec<f32> = a.iter().map(|x| x * k).collect();
            prop_assume!(a.iter().any(|x| x.abs() > 0.01));
            prop_assert_eq!(cosine(&a, &scaled), 1.0);
            prop_assert_eq!(cosine(&a, &b[..2]), 0.0);
        }
    }
}
