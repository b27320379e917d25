//! What tokens cost. A dated table comes with the program (`prices.toml`); a project can add to it and
//! replace what is in it. Money is counted in millionths of a dollar, as integers, rounded up.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::{Request, Usage};

/// Millionths of a US dollar.
pub type Micros = u64;

/// A row of a table of prices as it is written. Prices are dollars per million tokens.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PriceRow {
    /// `PROVIDER/ID`; a `*` at the end stands for anything.
    pub model: String,
    /// Of a question's tokens.
    pub input: f64,
    /// Of those of them that the provider had at hand; the price of `input` where it is not given.
    pub cached_input: Option<f64>,
    /// Of an answer's tokens, thinking included.
    pub output: f64,
    /// What a batch costs of that, such as 0.5; batches cost the same where it is not given.
    pub batch: Option<f64>,
    /// The prices where questions are longer than so many tokens.
    pub long: Option<LongRow>,
    /// The day on which this was read, `YYYY-MM-DD`.
    pub date: Option<String>,
    /// Where, in words.
    pub source: Option<String>,
}

/// See [`PriceRow::long`].
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LongRow {
    /// Questions of more tokens than this.
    pub above: u64,
    /// See [`PriceRow::input`].
    pub input: f64,
    /// See [`PriceRow::cached_input`].
    pub cached_input: Option<f64>,
    /// See [`PriceRow::output`].
    pub output: f64,
}

/// Prices in millionths of a dollar for a million tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rates {
    input: u64,
    cached: u64,
    output: u64,
}

/// What a model costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Price {
    usual: Rates,
    /// Above so many tokens of a question.
    long: Option<(u64, Rates)>,
    batch_milli: u64,
    /// The day on which this was read.
    pub date: Option<String>,
    /// Where, in words.
    pub source: Option<String>,
}

/// Prices by model.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prices {
    /// By name, without the `*` of a pattern.
    exact: BTreeMap<String, Price>,
    patterns: BTreeMap<String, Price>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    price: Vec<PriceRow>,
}

impl Prices {
    /// The table that comes with the program.
    pub fn builtin() -> &'static Prices {
        static TABLE: OnceLock<Prices> = OnceLock::new();
        TABLE.get_or_init(|| {
            let mut prices = Prices::default();
            let added = prices.add_text(include_str!("prices.toml"));
            added.expect("the table is tested");
            prices
        })
    }

    /// Adds the rows of a TOML text (`[[price]]`), which replace those of the same name.
    pub fn add_text(&mut self, text: &str) -> Result<(), String> {
        let table: Table =
            toml::from_str(text).map_err(|e| e.to_string().trim_end().to_string())?;
        self.add(&table.price)
    }

    /// Adds rows, which replace those of the same name.
    pub fn add(&mut self, rows: &[PriceRow]) -> Result<(), String> {
        for row in rows {
            let price = Price::of(row).map_err(|e| format!("price of `{}`: {e}", row.model))?;
            match row.model.strip_suffix('*') {
                Some(start) => self.patterns.insert(start.to_string(), price),
                None => self.exact.insert(row.model.clone(), price),
            };
        }
        Ok(())
    }

    /// The price of a model: of its name, else of its name without a date at the end, else of the
    /// longest pattern that it matches.
    pub fn of(&self, model: &str) -> Option<&Price> {
        let exact = |name: &str| self.exact.get(name);
        exact(model).or_else(|| exact(undated(model)?)).or_else(|| {
            let patterns = self.patterns.iter().rev();
            let mut matching = patterns.filter(|(start, _)| model.starts_with(start.as_str()));
            let first = matching.next()?;
            let longest = matching.fold(first, |a, b| if b.0.len() > a.0.len() { b } else { a });
            Some(longest.1)
        })
    }
}

/// A name without `-2026-11-30` or `-20261130` at its end.
fn undated(model: &str) -> Option<&str> {
    let digits = |text: &str, n| text.len() == n && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, last) = model.rsplit_once('-')?;
    if digits(last, 8) {
        return Some(rest);
    }
    let (rest, month) = rest.rsplit_once('-')?;
    let (rest, year) = rest.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(rest)
}

/// The tokens that a question has at most: one for each of its bytes, and what an API puts around it.
pub fn most_input(request: &Request) -> u64 {
    const FRAME: u64 = 512;
    FRAME + (request.system.len() + request.user.len()) as u64
}

impl Price {
    fn of(row: &PriceRow) -> Result<Price, String> {
        let rate = |dollars: f64| {
            let micros = (dollars * 1e6).round();
            if dollars.is_finite()
                && (0.0..=1e12).contains(&micros)
                && (micros / 1e6 - dollars).abs() < 1e-9
            {
                Ok(micros as u64)
            } else {
                Err(format!(
                    "{dollars} is no price: give dollars for a million tokens, with at most six decimal places"
                ))
            }
        };
        let rates = |input: f64, cached: Option<f64>, output: f64| {
            Ok::<_, String>(Rates {
                input: rate(input)?,
                cached: rate(cached.unwrap_or(input))?,
                output: rate(output)?,
            })
        };
        let batch = row.batch.unwrap_or(1.0);
        let batch_milli = super::request::milli(batch).map_err(|e| format!("`batch`: {e}"))?;
        if let Some(date) = &row.date
            && crate::date::last_day(date).as_ref() != Some(date)
        {
            return Err(format!("`date` is `{date}`: give the day, YYYY-MM-DD"));
        }
        Ok(Price {
            usual: rates(row.input, row.cached_input, row.output)?,
            long: match &row.long {
                Some(long) => Some((
                    long.above,
                    rates(long.input, long.cached_input, long.output)?,
                )),
                None => None,
            },
            batch_milli: batch_milli.into(),
            date: row.date.clone(),
            source: row.source.clone(),
        })
    }

    fn rates(&self, input_tokens: u64) -> Rates {
        match self.long {
            Some((above, rates)) if input_tokens > above => rates,
            _ => self.usual,
        }
    }

    /// What an answer cost; `batch` if it came by one.
    pub fn cost(&self, usage: &Usage, batch: bool) -> Micros {
        let rates = self.rates(usage.input_tokens);
        let cached = usage
            .cached_input_tokens
            .unwrap_or(0)
            .min(usage.input_tokens);
        let fresh = usage.input_tokens - cached;
        let each = [
            (fresh, rates.input),
            (cached, rates.cached),
            (usage.output_tokens, rates.output),
        ];
        self.sum(&each, batch)
    }

    /// The most that a request can cost. A token is at least a byte, a chat's frame around the texts
    /// is small, and an answer ends at the limit of tokens.
    pub fn worst_case(&self, request: &Request, batch: bool) -> Micros {
        let input = most_input(request);
        let output = u64::from(request.sampling.max_tokens);
        // Nothing says that a longer question costs more; the dearer of both bounds it.
        let at = |rates: Rates| {
            let dearest = rates.input.max(rates.cached);
            self.sum(&[(input, dearest), (output, rates.output)], batch)
        };
        match self.long {
            Some((above, long)) if input > above => at(self.usual).max(at(long)),
            _ => at(self.usual),
        }
    }

    /// The sum of tokens at rates, rounded up once.
    fn sum(&self, each: &[(u64, u64)], batch: bool) -> Micros {
        let total: u128 = each
            .iter()
            .map(|(n, rate)| u128::from(*n) * u128::from(*rate))
            .sum();
        let milli = if batch { self.batch_milli } else { 1000 };
        let micros = (total * u128::from(milli)).div_ceil(1_000_000_000);
        u64::try_from(micros).unwrap_or(u64::MAX)
    }
}

/// As people read it: `$1.25`, `$0.0003`; rounded up to a hundredth of a cent.
pub fn dollars(micros: Micros) -> String {
    let parts = micros.div_ceil(100);
    let text = format!("{}.{:04}", parts / 10_000, parts % 10_000);
    format!("${}", text.strip_suffix("00").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Sampling;
    use proptest::prelude::*;

    fn prices(text: &str) -> Prices {
        let mut prices = Prices::default();
        prices.add_text(text).unwrap();
        prices
    }

    fn usage(input: u64, cached: Option<u64>, output: u64) -> Usage {
        Usage {
            input_tokens: input,
            output_tokens: output,
            cached_input_tokens: cached,
            reasoning_tokens: None,
        }
    }

    const TABLE: &str = r#"
        [[price]]
        model = "p/m"
        input = 2.0
        cached-input = 0.5
        output = 8.0
        batch = 0.5
        long = { above = 1000, input = 4.0, output = 16.0 }
        [[price]]
        model = "p/*"
        input = 0.075
        output = 1
        [[price]]
        model = "p/n-*"
        input = 0
        output = 0
    "#;

    #[test]
    fn tokens_cost_what_the_table_says() {
        let prices = prices(TABLE);
        let m = prices.of("p/m").unwrap();
        // 500 fresh at 2, 400 cached at 0.5, 100 at 8 dollars for a million.
        assert_eq!(m.cost(&usage(900, Some(400), 100), false), 1000 + 200 + 800);
        assert_eq!(m.cost(&usage(900, Some(400), 100), true), 1000);
        assert_eq!(m.cost(&usage(2000, None, 1), false), 8000 + 16);
        // A part of a millionth counts as a whole one.
        let other = prices.of("p/x").unwrap();
        assert_eq!(other.cost(&usage(1, None, 0), false), 1);
        assert_eq!(other.cost(&usage(40, None, 0), false), 3);
    }

    #[test]
    fn a_name_is_found_with_its_date_and_by_the_longest_pattern() {
        let prices = prices(TABLE);
        for dated in ["p/m-2026-11-30", "p/m-20261130"] {
            assert_eq!(prices.of(dated), prices.of("p/m"));
        }
        assert_ne!(prices.of("p/m-x"), prices.of("p/m"));
        assert_eq!(
            prices.of("p/n-1").unwrap().cost(&usage(9, None, 9), false),
            0
        );
        assert_eq!(prices.of("q/m"), None);
    }

    #[test]
    fn a_later_row_replaces_and_mistakes_are_named() {
        let mut all = prices(TABLE);
        all.add_text("[[price]]\nmodel = \"p/m\"\ninput = 1\noutput = 1\n")
            .unwrap();
        assert_eq!(
            all.of("p/m")
                .unwrap()
                .cost(&usage(1_000_000, None, 0), true),
            1_000_000
        );
        let wrong = |text: &str| Prices::default().add_text(text).unwrap_err();
        insta::assert_snapshot!(
            [
                wrong("[[price]]\nmodel = \"a\"\ninput = -1\noutput = 1\n"),
                wrong("[[price]]\nmodel = \"a\"\ninput = 1\noutput = 1\ndate = \"2026-13-01\"\n"),
                wrong("[[price]]\nmodel = \"a\"\ninput = 1\n"),
            ]
            .join("\n\n")
        );
    }

    #[test]
    fn the_table_that_comes_along_is_dated_and_knows_the_models_of_today() {
        let text = include_str!("prices.toml");
        let table: Table = toml::from_str(text).unwrap();
        for row in &table.price {
            assert!(row.date.is_some() && row.source.is_some(), "{}", row.model);
            assert!(Price::of(row).is_ok(), "{}", row.model);
            let dearer = row.cached_input.unwrap_or(row.input) <= row.input;
            assert!(dearer, "{}: cached input costs more than fresh", row.model);
        }
        let names: std::collections::BTreeSet<&str> =
            table.price.iter().map(|r| r.model.as_str()).collect();
        assert_eq!(names.len(), table.price.len(), "no model twice");
        let sonnet = Prices::builtin().of("anthropic/claude-sonnet-4-5-20250929");
        assert_eq!(
            sonnet.unwrap().cost(&usage(1_000_000, None, 0), true),
            1_500_000
        );
        let local = Prices::builtin().of("vllm/Qwen/Qwen3").unwrap();
        assert_eq!(local.cost(&usage(1 << 40, None, 1 << 40), false), 0);
    }

    #[test]
    fn sums_are_written_as_money() {
        let written = [0, 1, 99, 100, 12_300, 1_250_000, 40_000_000].map(dollars);
        assert_eq!(
            written,
            [
                "$0.00", "$0.0001", "$0.0001", "$0.0001", "$0.0123", "$1.25", "$40.00"
            ]
        );
    }

    proptest! {
        #[test]
        fn no_answer_costs_more_than_the_worst_case(
            system in ".{0,60}", user in ".{0,900}", most in 1u32..9000,
            tokens in any::<prop::sample::Index>(), cached in any::<prop::sample::Index>(),
            out in any::<prop::sample::Index>(), batch in any::<bool>(),
        ) {
            let request = Request {
                system: system.as_str().into(), user: user.as_str().into(), model: String::new(),
                sampling: Sampling { max_tokens: most, ..Sampling::default() }, sample: 0,
            };
            let input = tokens.index(system.len() + user.len() + 513) as u64;
            let usage = usage(input, Some(cached.index(input as usize + 1) as u64), out.index(most as usize + 1) as u64);
            let prices = prices(TABLE);
            for name in ["p/m", "p/x", "p/n-1"] {
                let price = prices.of(name).unwrap();
                prop_assert!(price.cost(&usage, batch) <= price.worst_case(&request, batch));
            }
        }
    }
}
