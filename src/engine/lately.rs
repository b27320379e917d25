//! What was at hand lately: values by key, at most so many bytes of them, of which the oldest are
//! forgotten first. It saves work and decides nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// Values by key, the newest of them.
pub struct Lately<K, V> {
    most: usize,
    bytes: usize,
    known: HashMap<K, (V, usize)>,
    /// In the order in which they came.
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, V> Lately<K, V> {
    /// Nothing yet, and never values of more than `most` bytes together.
    pub fn new(most: usize) -> Lately<K, V> {
        Lately {
            most,
            bytes: 0,
            known: HashMap::new(),
            order: VecDeque::new(),
        }
    }

    /// The value of a key, if it is known still.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.known.get(key).map(|(value, _)| value)
    }

    /// Keeps a value of so many bytes, unless the key has one.
    pub fn put(&mut self, key: K, value: V, bytes: usize) {
        if bytes > self.most || self.known.contains_key(&key) {
            return;
        }
        while self.bytes + bytes > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            let (_, less) = self
                .known
                .remove(&oldest)
                .expect("what is in order is known");
            self.bytes -= less;
        }
        self.bytes += bytes;
        self.order.push_back(key.clone());
        self.known.insert(key, (value, bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_when_there_is_no_room() {
        let mut lately = Lately::new(10);
        for (key, bytes) in [("a", 4), ("b", 4), ("a", 9), ("c", 2)] {
            lately.put(key, key.to_uppercase(), bytes);
        }
        let known = |lately: &Lately<&str, String>| {
            let keys = ["a", "b", "c", "d", "e"];
            let known = keys
                .into_iter()
                .filter(|k| lately.get(k) == Some(&k.to_uppercase()));
            known.collect::<String>()
        };
        assert_eq!(known(&lately), "abc");
        lately.put("d", "D".into(), 3);
        assert_eq!(known(&lately), "bcd");
        lately.put("e", "E".into(), 11);
        assert_eq!(known(&lately), "bcd", "too large ones drive nobody out");
        lately.put("e", "E".into(), 10);
        assert_eq!(known(&lately), "e");
    }
}
