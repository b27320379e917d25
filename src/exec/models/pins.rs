//! Which model answered under a name. The first answer pins the name that the provider gives to what
//! answered; another name is another revision, whose replies have other keys. What was pinned is
//! kept beside the store's facts, by the model's name in the project.

use serde::{Deserialize, Serialize};

/// What has answered so far under one name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Pins {
    /// The revision that the project names, without what the provider says.
    base: String,
    /// What answered, the last one at the end.
    served: Vec<Served>,
}

/// A revision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Served {
    /// As the provider called it; nothing if it did not say.
    model: Option<String>,
    /// What it last said of its configuration.
    fingerprint: Option<String>,
}

/// What an answer says of who gave it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    /// The pinned one.
    Same,
    /// The first answer of all: pinned, and the revision is what it was assumed to be.
    First,
    /// The pinned one, with another fingerprint.
    Fingerprint { before: String, now: String },
    /// Another one: from now on the revision is this.
    New { before: String, now: String },
    /// One that was pinned before the one that is pinned now.
    Old { revision: String },
}

impl Pins {
    /// What was pinned as `text` notes it; nothing if that was for another `base`.
    pub fn read(text: Option<&[u8]>, base: &str) -> Pins {
        let pins: Option<Pins> = text.and_then(|text| serde_json::from_slice(text).ok());
        let pins = pins.filter(|pins| pins.base == base);
        pins.unwrap_or_else(|| Pins {
            base: base.to_string(),
            served: Vec::new(),
        })
    }

    /// To be kept.
    pub fn text(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts are always JSON")
    }

    /// Whether nothing is known yet.
    pub(super) fn is_open(&self) -> bool {
        self.served.is_empty()
    }

    /// The revision of what is asked now: part of its replies' keys. Before the first answer it is
    /// what it will be if the provider has no other name than `asked` for what answers.
    pub fn revision(&self, asked: &str) -> String {
        self.named(asked, self.served.last().and_then(|s| s.model.as_deref()))
    }

    /// The revision under which what calls itself `served` is kept.
    pub(super) fn named(&self, asked: &str, served: Option<&str>) -> String {
        match served {
            Some(served) if served != asked => format!("{}@{served}", self.base),
            _ => self.base.clone(),
        }
    }

    /// Takes in what an answer says. `asked` is the model's name in the request.
    pub(super) fn see(
        &mut self,
        asked: &str,
        served: Option<&str>,
        fingerprint: Option<&str>,
    ) -> Seen {
        let before = self.revision(asked);
        let now = self.named(asked, served);
        let first = self.is_open();
        let entry = Served {
            model: served.map(str::to_string),
            fingerprint: fingerprint.map(str::to_string),
        };
        if now == before {
            let Some(last) = self.served.last_mut() else {
                self.served.push(entry);
                return Seen::First;
            };
            let (Some(new), Some(old)) = (fingerprint, last.fingerprint.as_deref()) else {
                if last.fingerprint.is_none() {
                    last.fingerprint = fingerprint.map(str::to_string);
                }
                return Seen::Same;
            };
            if new == old {
                return Seen::Same;
            }
            let before = old.to_string();
            last.fingerprint = Some(new.to_string());
            return Seen::Fingerprint {
                before,
                now: new.to_string(),
            };
        }
        let known = |s: &Served| self.named(asked, s.model.as_deref()) == now;
        if !first && self.served.iter().any(known) {
            return Seen::Old { revision: now };
        }
        self.served.push(entry);
        Seen::New { before, now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_answer_pins_and_another_name_is_another_revision() {
        let mut pins = Pins::read(None, "m");
        assert_eq!(pins.revision("m"), "m");
        assert_eq!(pins.see("m", Some("m"), None), Seen::First);
        assert_eq!(pins.see("m", Some("m"), None), Seen::Same);
        let new = Seen::New {
            before: "m".into(),
            now: "m@m-2".into(),
        };
        assert_eq!(pins.see("m", Some("m-2"), None), new);
        let old = Seen::Old {
            revision: "m".into(),
        };
        assert_eq!(pins.see("m", Some("m"), None), old);
        assert_eq!(pins.revision("m"), "m@m-2");
        // Kept, and forgotten when the project means something else.
        assert_eq!(Pins::read(Some(&pins.text()), "m"), pins);
        assert!(Pins::read(Some(&pins.text()), "n").is_open());
    }

    #[test]
    fn an_alias_is_pinned_to_what_stands_behind_it() {
        let mut pins = Pins::read(None, "latest");
        let new = Seen::New {
            before: "latest".into(),
            now: "latest@m-1".into(),
        };
        assert_eq!(pins.see("latest", Some("m-1"), None), new);
        assert_eq!(pins.see("latest", Some("m-1"), None), Seen::Same);
    }

    #[test]
    fn a_fingerprint_alone_is_told_and_no_revision() {
        let mut pins = Pins::read(None, "m");
        pins.see("m", Some("m"), Some("a"));
        assert_eq!(pins.see("m", Some("m"), None), Seen::Same);
        let changed = Seen::Fingerprint {
            before: "a".into(),
            now: "b".into(),
        };
        assert_eq!(pins.see("m", Some("m"), Some("b")), changed);
        assert_eq!(pins.see("m", Some("m"), Some("b")), Seen::Same);
        assert_eq!(pins.revision("m"), "m");
    }
}
