//! JSON whose bytes do not depend on anybody's feature flags: objects keep the order in which they
//! were written, numbers keep their digits, and the canonical form sorts keys.

use std::fmt::Write as _;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Json {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it is written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<Json>),
    /// An object; no name twice.
    Object(Vec<(String, Json)>),
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Json::Text(text.to_string())
    }
}
impl From<bool> for Json {
    fn from(b: bool) -> Self {
        Json::Bool(b)
    }
}
impl From<i64> for Json {
    fn from(n: i64) -> Self {
        Json::Number(n.to_string())
    }
}
impl From<u32> for Json {
    fn from(n: u32) -> Self {
        Json::Number(n.to_string())
    }
}
impl From<Vec<Json>> for Json {
    fn from(list: Vec<Json>) -> Self {
        Json::List(list)
    }
}

/// An object of the fields that are given, in this order.
pub(super) fn object<const N: usize>(fields: [(&str, Json); N]) -> Json {
    Json::Object(fields.map(|(name, value)| (name.to_string(), value)).into())
}

impl Json {
    /// An object of fields in their order.
    pub(super) fn fields(fields: Vec<(&str, Json)>) -> Json {
        Json::Object(
            fields
                .into_iter()
                .map(|(n, v)| (n.to_string(), v))
                .collect(),
        )
    }

    /// A number of thousandths, as the shortest decimal: 700 is `0.7`, 1000 is `1`.
    pub fn thousandths(milli: u32) -> Json {
        let text = format!("{}.{:03}", milli / 1000, milli % 1000);
        Json::Number(text.trim_end_matches('0').trim_end_matches('.').to_string())
    }

    /// Reads a text.
    pub fn parse(text: &str) -> Result<Json, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The text, without white space, objects in their order.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, false);
        out
    }

    /// The text with the names of every object sorted by their bytes: equal values have equal
    /// texts, but for numbers that are written differently.
    pub fn canonical(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, true);
        out
    }

    fn write(&self, out: &mut String, sorted: bool) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::Text(text) => quote(text, out),
            Json::List(values) => {
                out.push('[');
                for (i, value) in values.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    value.write(out, sorted);
                }
                out.push(']');
            }
            Json::Object(fields) => {
                let mut fields: Vec<&(String, Json)> = fields.iter().collect();
                if sorted {
                    fields.sort_by(|a, b| a.0.cmp(&b.0));
                }
                out.push('{');
                for (i, (name, value)) in fields.into_iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    quote(name, out);
                    out.push(':');
                    value.write(out, sorted);
                }
                out.push('}');
            }
        }
    }

    /// The value of a field of an object.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Object(fields) => fields.iter().find(|(n, _)| n == name).map(|(_, v)| v),
            _ => None,
        }
    }

    /// Adds the fields of `more`, objects within objects too. Returns the dotted name of every
    /// field that both have and that is not an object in both; of these the value here stays.
    pub fn merge(&mut self, more: &Json) -> Vec<String> {
        let mut clashes = Vec::new();
        if let (Json::Object(mine), Json::Object(theirs)) = (self, more) {
            for (name, value) in theirs {
                match mine.iter_mut().find(|(n, _)| n == name) {
                    None => mine.push((name.clone(), value.clone())),
                    Some((_, inner @ Json::Object(_))) if matches!(value, Json::Object(_)) => {
                        let inner = inner.merge(value);
                        clashes.extend(inner.into_iter().map(|n| format!("{name}.{n}")));
                    }
                    Some(_) => clashes.push(name.clone()),
                }
            }
        }
        clashes
    }
}

/// `text` as a JSON string: escaped is only what must be.
fn quote(text: &str, out: &mut String) {
    let is_plain = |b: u8| b >= b' ' && b != b'"' && b != b'\\';
    out.reserve(text.len() + 2);
    out.push('"');
    // What needs no escape is copied in runs: prompts are long, and mostly that.
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| !is_plain(b)) {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => {
                let _ = write!(out, "\\u{control:04x}");
            }
        }
        // All that is escaped is one byte long.
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Json;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a value that JSON has")
            }
            fn visit_unit<E>(self) -> Result<Json, E> {
                Ok(Json::Null)
            }
            fn visit_bool<E>(self, b: bool) -> Result<Json, E> {
                Ok(Json::Bool(b))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Json, E> {
                Ok(Json::Number(n.to_string()))
            }
            fn visit_u64<E>(self, n: u64) -> Result<Json, E> {
                Ok(Json::Number(n.to_string()))
            }
            fn visit_f64<E: serde::de::Error>(self, n: f64) -> Result<Json, E> {
                match serde_json::Number::from_f64(n) {
                    Some(n) => Ok(Json::Number(n.to_string())),
                    None => Err(E::custom("JSON has no such number")),
                }
            }
            fn visit_str<E>(self, text: &str) -> Result<Json, E> {
                Ok(Json::Text(text.to_string()))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
                let mut list = Vec::new();
                while let Some(value) = seq.next_element()? {
                    list.push(value);
                }
                Ok(Json::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
                let mut fields: Vec<(String, Json)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Json>()? {
                    if fields.iter().any(|(n, _)| *n == name) {
                        return Err(serde::de::Error::custom(format!("`{name}` stands twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Json::Object(fields))
            }
        }
        d.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Json> {
        let leaf = prop_oneof![
            Just(Json::Null),
            any::<bool>().prop_map(Json::Bool),
            any::<i64>().prop_map(Json::from),
            any::<String>().prop_map(Json::Text),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Json::List),
                proptest::collection::btree_map(any::<String>(), inner, 0..4)
                    .prop_map(|m| Json::Object(m.into_iter().rev().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_the_same_here_and_elsewhere(json in any_json()) {
            let text = json.text();
            prop_assert_eq!(&Json::parse(&text).unwrap(), &json);
            let canonical = json.canonical();
            let elsewhere = |t: &str| serde_json::from_str::<serde_json::Value>(t).unwrap();
            prop_assert_eq!(elsewhere(&text), elsewhere(&canonical));
            prop_assert_eq!(Json::parse(&canonical).unwrap().canonical(), canonical);
        }

        #[test]
        fn thousandths_are_the_same_number(milli in any::<u32>()) {
            let Json::Number(text) = Json::thousandths(milli) else { unreachable!() };
            let number: f64 = text.parse().unwrap();
            prop_assert!((number * 1000.0 - f64::from(milli)).abs() < 1e-3);
        }
    }

    #[test]
    fn what_is_merged_goes_in_deep_and_never_over_what_is_there() {
        let parse = |t| Json::parse(t).unwrap();
        let mut json = parse(r#"{"a":1,"o":{"x":1}}"#);
        let clashes = json.merge(&parse(r#"{"b":2,"o":{"y":2,"x":3},"a":{"z":1}}"#));
        assert_eq!(json.text(), r#"{"a":1,"o":{"x":1,"y":2},"b":2}"#);
        assert_eq!(clashes, ["o.x", "a"]);
        assert!(Json::parse(r#"{"a":1,"a":2}"#).is_err());
    }
}
