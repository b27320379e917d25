//! The functions that are asked about: the whole population or a stratified sample of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Function, population};
use crate::digest::Digest;
use crate::engine::{Db, Hold};
use crate::oss::inputs::{Settings, Subject};
use crate::stats::mix;

/// The functions that are asked about: the whole population, or a sample of it. A sample has from
/// each source file its share, and there the functions with the smallest keyed mix of seed and
/// identity: a larger sample contains a smaller one's functions of each file but for the last.
#[salsa::tracked(returns(clone))]
pub fn sample(
    db: &dyn Db,
    settings: Settings,
    subject: Subject,
) -> Result<Arc<Vec<Arc<Function>>>, Hold> {
    let population = population(db, settings, subject)?;
    if population.functions.is_empty() {
        let counts: Vec<String> = population
            .excluded
            .iter()
            .map(|(k, v)| format!("{k} {v}"))
            .collect();
        return Err(Hold::broken(
            format!(
                "subject `{}` has no function to ask about",
                subject.rules(db).name
            ),
            format!(
                "check `[functions] include` and the window of tokens in the manifest; not compiled: {}; excluded: {}",
                population.unrelated.len(),
                if counts.is_empty() {
                    "none".to_string()
                } else {
                    counts.join(", ")
                }
            ),
        ));
    }
    let all = &population.functions;
    let limit = settings.limit(db).map_or(all.len(), |n| n as usize);
    if limit >= all.len() {
        return Ok(Arc::new(all.clone()));
    }
    Ok(Arc::new(stratified(all, limit, settings.seed(db))))
}

/// The digest of the functions that are asked about.
#[salsa::tracked(returns(clone))]
pub fn sample_digest(db: &dyn Db, settings: Settings, subject: Subject) -> Result<Digest, Hold> {
    Ok(identity(&sample(db, settings, subject)?))
}

/// The digest of a list of functions: of everything their cases depend on.
pub(in crate::oss) fn identity(functions: &[Arc<Function>]) -> Digest {
    let bytes = postcard::to_stdvec(functions).expect("functions have lengths");
    Digest::of(&bytes)
}

/// `limit` of `all`, by file in proportion (largest remainders), by keyed mix within a file.
fn stratified(all: &[Arc<Function>], limit: usize, seed: u64) -> Vec<Arc<Function>> {
    const SAMPLE: u64 = 0x7361_6d70_6c65;
    let key = |id: &str| mix::keyed(seed, SAMPLE, id.as_bytes());
    let mut by_path: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, f) in all.iter().enumerate() {
        by_path.entry(&f.path).or_default().push(i);
    }
    let mut quotas: Vec<(&str, usize, usize)> = by_path
        .iter()
        .map(|(path, members)| {
            let share = members.len() * limit;
            (*path, share / all.len(), share % all.len())
        })
        .collect();
    let given: usize = quotas.iter().map(|q| q.1).sum();
    quotas.sort_by_key(|(path, _, rest)| (std::cmp::Reverse(*rest), key(path)));
    for quota in quotas.iter_mut().take(limit - given) {
        quota.1 += 1;
    }
    let mut chosen = Vec::new();
    for (path, quota, _) in quotas {
        let mut members = by_path[path].clone();
        members.sort_by_key(|i| key(&all[*i].id));
        chosen.extend(members.into_iter().take(quota));
    }
    chosen.sort_unstable();
    chosen.into_iter().map(|i| all[i].clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::LanguageId;
    use proptest::prelude::*;

    fn functions(sizes: &[usize]) -> Vec<Arc<Function>> {
        let mut all = Vec::new();
        for (file, n) in sizes.iter().enumerate() {
            for i in 0..*n {
                all.push(Arc::new(Function {
                    id: format!("f{file}_{i}"),
                    path: format!("{file}.c"),
                    language: LanguageId::C,
                    queries: None,
                    name: String::new(),
                    ordinal: 0,
                    text: Digest::of(b""),
                    contexts: vec![],
                }));
            }
        }
        all
    }

    proptest! {
        /// A sample has its size, its order and, within one, each file's share; and a function
        /// that is added changes at most as many members as files can change their quota.
        #[test]
        fn a_sample_is_stratified(sizes in prop::collection::vec(1usize..30, 1..8), percent in 1usize..100, seed: u64) {
            let all = functions(&sizes);
            let limit = (all.len() * percent / 100).max(1);
            let chosen = stratified(&all, limit, seed);
            prop_assert_eq!(chosen.len(), limit);
            let mut sorted = chosen.clone();
            sorted.sort_by_key(|f| all.iter().position(|g| g.id == f.id));
            sorted.dedup();
            prop_assert_eq!(&sorted, &chosen);
            for (file, n) in sizes.iter().enumerate() {
                let exact = (*n * limit) as f64 / all.len() as f64;
                let got = chosen.iter().filter(|f| f.path == format!("{file}.c")).count() as f64;
                prop_assert!((got - exact).abs() < 1.0, "{} for {}", got, exact);
            }
        }
    }
}
