//! `[store.keep]`: what `everbench store gc` keeps of old evaluations. Pure.

use std::fmt;

use serde::{Deserialize, Deserializer};

/// The store of the project.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct StoreConfig {
    /// What is kept of evaluations that are neither the last, nor the one before, nor released.
    pub keep: KeepConfig,
}

/// How many old evaluations, and how much of what only these need. There is no budget for replies:
/// they cost money, and are never dropped by one.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct KeepConfig {
    /// Complete evaluations per subject; all when absent.
    pub evaluations: Option<u32>,
    /// Bytes of verdicts, audits, and the metrics of single functions.
    pub verdicts: Option<Size>,
    /// Bytes of test runs with their raw logs.
    pub runs: Option<Size>,
    /// Bytes of builds: bases, programs, what compilers said of units.
    pub builds: Option<Size>,
    /// Bytes of sources.
    pub sources: Option<Size>,
}

impl KeepConfig {
    /// Whether anything is limited.
    pub fn limits(&self) -> bool {
        *self != KeepConfig::default()
    }
}

/// A number of bytes, written as `"2 GiB"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u64);

const UNITS: [(&str, u32); 5] = [("B", 0), ("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];

impl Size {
    fn parse(text: &str) -> Option<Size> {
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = text.split_at(digits);
        let (_, shift) = UNITS.iter().find(|(name, _)| *name == unit.trim())?;
        let number: f64 = number.parse().ok()?;
        let bytes = number * (1u64 << shift) as f64;
        (bytes.is_finite() && bytes < 2f64.powi(60)).then_some(Size(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Size, D::Error> {
        let text = String::deserialize(d)?;
        Size::parse(&text).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "`{}` is no size: write a number and B, KiB, MiB, GiB or TiB, as in \"2 GiB\"",
                text.escape_debug()
            ))
        })
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, shift): &&(&str, u32)| self.0 >> shift > 0;
        match UNITS.iter().rev().find(fits) {
            Some((unit, shift)) if *shift > 0 => {
                write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64)
            }
            _ => write!(f, "{} B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_shown() {
        let read = |text: &str| Size::parse(text).map(|s| s.0);
        assert_eq!(read("2 GiB"), Some(2 << 30));
        assert_eq!(read("1.5KiB"), Some(1536));
        assert_eq!(read("0 B"), Some(0));
        for bad in ["", "2", "GiB", "2 GB", "-1 MiB", "1.2.3 B", "9999999 TiB"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(Size(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(Size(1023).to_string(), "1023 B");
    }
}
