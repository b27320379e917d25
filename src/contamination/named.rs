//! OSS-Bench's own probe: does a model, shown a function, name the project it is from?
//!
//! Both texts are the instrument and stand as the paper's appendix has them. A model that names the
//! project is said to know it. That can be for reasons other than memory: the function may say the
//! name itself. So there are arms: the function as it is; with the project's names taken out of
//! its identifiers; and functions of other projects, where naming this one is a false alarm.

use std::collections::BTreeMap;
use std::fmt;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::ask::{Reply, Request, Sampling, Stop};
use crate::stats::interval::{Interval, wilson};

/// The system text.
pub const SYSTEM: &str = "You are an expert on open-source software";

/// The question about a function.
pub fn question(function: &str) -> String {
    format!(
        "Could you recognize the following C function snippet and provide the name of the open-source \
         software it belongs to using the format \u{2018}Yes. It belongs to \u{2026}\u{2019}? If you are unsure, please \
         respond with \u{2018}I dont know\u{2019}. The code snippet is: {function}"
    )
}

/// The request about a function.
pub fn request(function: &str, model: &str, own_system: &str, sampling: &Sampling) -> Request {
    let system = match own_system {
        "" => SYSTEM.to_string(),
        own => format!("{SYSTEM}\n\n{own}"),
    };
    Request {
        system: system.into(),
        user: question(function).into(),
        model: model.to_string(),
        sampling: sampling.clone(),
        sample: 0,
    }
}

/// Which function is shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// One of the project, as it is.
    AsIs,
    /// The same without the project's names in its identifiers.
    Redacted,
    /// One of another project.
    Control,
}

impl Arm {
    /// All of them.
    pub const ALL: [Arm; 3] = [Arm::AsIs, Arm::Redacted, Arm::Control];

    /// As in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Arm::AsIs => "as_is",
            Arm::Redacted => "redacted",
            Arm::Control => "control",
        }
    }
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Arm::AsIs => "as is",
            Arm::Redacted => "names redacted",
            Arm::Control => "other projects",
        })
    }
}

/// What stands in the place of a word that is taken out.
const X: &str = "x";

/// What a project is called, and what its identifiers say of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Project {
    /// Names of which one in an answer is enough, in any case: `php`.
    pub names: Vec<String>,
    /// What is taken out of identifiers, in any case: `php`, `zend`. The names are among it.
    pub words: Vec<String>,
}

impl Project {
    /// A project of these names, with further words that give it away.
    pub fn new(names: &[&str], further: &[&str]) -> Project {
        let texts = |words: &[&str]| {
            let words = words.iter().map(|w| w.trim().to_lowercase());
            words
                .filter(|w| !w.is_empty() && w != X)
                .collect::<Vec<String>>()
        };
        let names = texts(names);
        let mut words = names.clone();
        words.extend(texts(further));
        // A longer word first: `sqlite3` leaves no `3` behind.
        words.sort_by_key(|word| (std::cmp::Reverse(word.len()), word.clone()));
        words.dedup();
        Project { names, words }
    }

    /// The function with every identifier that holds one of the words renamed: the word becomes
    /// `x`. Equal identifiers stay equal, and different ones stay different.
    pub fn redacted(&self, function: &str) -> String {
        let identifier = Regex::new(r"[A-Za-z_][A-Za-z0-9_]*").expect("a good pattern");
        let all: Vec<&str> = identifier.find_iter(function).map(|m| m.as_str()).collect();
        let mut taken: Vec<String> = all.iter().map(|name| name.to_string()).collect();
        let mut renamed: BTreeMap<&str, String> = BTreeMap::new();
        for name in all {
            if renamed.contains_key(name) {
                continue;
            }
            let plain = self.without_words(name);
            if plain == name {
                continue;
            }
            let mut free = plain.clone();
            let mut n = 2;
            while taken.contains(&free) {
                free = format!("{plain}{n}");
                n += 1;
            }
            taken.push(free.clone());
            renamed.insert(name, free);
        }
        identifier
            .replace_all(function, |found: &regex::Captures<'_>| {
                let name = &found[0];
                renamed.get(name).cloned().unwrap_or_else(|| name.into())
            })
            .into_owned()
    }

    fn without_words(&self, name: &str) -> String {
        let mut name = name.to_string();
        for word in &self.words {
            // ASCII case only: offsets of the lower-case text are those of the text.
            while let Some(at) = name.to_ascii_lowercase().find(word.as_str()) {
                let upper = name[at..at + word.len()].chars().any(char::is_uppercase);
                name.replace_range(at..at + word.len(), if upper { "X" } else { X });
            }
        }
        name
    }

    /// Whether an answer names the project.
    pub fn named_in(&self, answer: &str) -> bool {
        let answer = answer.to_lowercase();
        self.names.iter().any(|name| answer.contains(name.as_str()))
    }
}

/// What a model said of a function.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// The project's name.
    Named,
    /// That it does not know.
    Unsure,
    /// Something else: another project, or no project.
    Other,
    /// Nothing, or not within the limit of tokens.
    Nothing,
    /// That it will not say.
    Refused,
}

/// Reads an answer. As in the paper, the name anywhere in it is enough.
pub fn read(reply: &Reply, project: &Project) -> Said {
    if project.named_in(&reply.text) {
        return Said::Named;
    }
    if matches!(reply.stop, Stop::Refusal | Stop::Context) {
        return Said::Refused;
    }
    if reply.text.trim().is_empty() {
        return Said::Nothing;
    }
    let text = reply.text.to_lowercase().replace(['\'', '\u{2019}'], "");
    let unsure = ["dont know", "do not know", "unsure", "not sure"];
    match unsure.iter().any(|words| text.contains(words)) {
        true => Said::Unsure,
        false => Said::Other,
    }
}

/// How often the project was named in one arm.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Rate {
    /// The arm.
    pub arm: Arm,
    /// Functions that were asked.
    pub functions: u64,
    /// Of them, by what was said.
    pub said: BTreeMap<Said, u64>,
    /// Those that named the project.
    pub named: u64,
    /// Their share with a 95 % interval by Wilson.
    pub share: Option<(f64, f64, f64)>,
}

/// The rate of one arm.
pub fn rate(arm: Arm, said: &[Said]) -> Rate {
    let mut by: BTreeMap<Said, u64> = BTreeMap::new();
    for one in said {
        *by.entry(*one).or_default() += 1;
    }
    let functions = said.len() as u64;
    let named = by.get(&Said::Named).copied().unwrap_or(0);
    let interval: Option<Interval> = wilson(named, functions, 0.95).ok();
    Rate {
        arm,
        functions,
        said: by,
        named,
        share: interval
            .filter(|_| functions > 0)
            .map(|i| (named as f64 / functions as f64, i.lo, i.hi)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FUNCTION: &str =
        "PHP_FUNCTION(zend_shelf) {\n\tphp_shelf *x = ZEND_GET(php_x, x);\n\treturn x;\n}\n";

    fn php() -> Project {
        Project::new(&["php"], &["zend"])
    }

    /// The instrument, word for word.
    #[test]
    fn the_question_is_the_papers() {
        let request = request("int f(void);", "m@1", "", &Sampling::default());
        assert_eq!(
            &*request.system,
            "You are an expert on open-source software"
        );
        assert_eq!(
            &*request.user,
            "Could you recognize the following C function snippet and provide the name of the open-source software it belongs to using the format ‘Yes. It belongs to …’? If you are unsure, please respond with ‘I dont know’. The code snippet is: int f(void);"
        );
    }

    #[test]
    fn redacting_takes_the_projects_words_out_and_keeps_names_apart() {
        assert_eq!(
            php().redacted(FUNCTION),
            "X_FUNCTION(x_shelf) {\n\tx_shelf2 *x = X_GET(x_x, x);\n\treturn x;\n}\n"
        );
        let sqlite = Project::new(&["sqlite"], &["sqlite3"]);
        assert_eq!(
            sqlite.redacted("sqlite3_free(sqlite3BtreeX(sqliteY));"),
            "x_free(xBtreeX(xY));"
        );
        assert_eq!(sqlite.redacted("free(p);"), "free(p);");
    }

    #[test]
    fn answers_are_read() {
        let said = |text: &str| read(&Reply::complete(text), &php());
        assert_eq!(said("Yes. It belongs to PHP."), Said::Named);
        assert_eq!(said("It is from php-src, I think."), Said::Named);
        assert_eq!(said("I dont know"), Said::Unsure);
        assert_eq!(said("I don’t know."), Said::Unsure);
        assert_eq!(said("Yes. It belongs to SQLite."), Said::Other);
        assert_eq!(said(" \n"), Said::Nothing);
        let refused = Reply::ended(Stop::Refusal, "");
        assert_eq!(read(&refused, &php()), Said::Refused);
    }

    #[test]
    fn rates_have_intervals() {
        let rate = rate(
            Arm::Control,
            &[Said::Named, Said::Other, Said::Unsure, Said::Other],
        );
        assert_eq!((rate.named, rate.functions), (1, 4));
        let (share, low, high) = rate.share.unwrap();
        assert!(low < share && share < high && share == 0.25);
        assert_eq!(super::rate(Arm::AsIs, &[]).share, None);
    }

    proptest! {
        #[test]
        fn nothing_of_the_projects_words_is_left(text in "(php|PHP|Zend|zphpend|x|_|[a-z]{0,3}|\\(|;| ){0,30}") {
            let redacted = php().redacted(&text);
            prop_assert!(!php().named_in(&redacted), "{redacted}");
            prop_assert!(!redacted.to_lowercase().contains("zend"), "{redacted}");
        }
    }
}
