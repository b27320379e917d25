//! Tasks and prompt templates. A template is a text file with two sections:
//!
//! ```text
//! Remarks, up to the first section.
//! === system ===
//! Text for the system role; may be empty.
//! === user ===
//! Text for the user role, with {{function}} and other placeholders.
//! ```
//!
//! A placeholder is `{{word}}`; a `{{` with anything else behind it is an error, since a slip
//! would otherwise reach the model as text. Values are put in as they are and never looked into.
//! A line that holds nothing but one placeholder vanishes when the value is empty. Line ends of a
//! section's first and last line are not part of it. Nothing here reads files: a template's bytes
//! come from the caller, the defaults are compiled in.

use std::collections::BTreeMap;

use crate::digest::Digest;

/// What of a function a task shows the model as `{{function}}`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shows {
    /// Its text.
    Original,
    /// A faulty version of it.
    Faulty,
    /// Its comment and its signature; the body is hidden.
    Signature,
}

/// What a model can be asked to do with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Task {
    /// As in a command line and in reports.
    pub name: &'static str,
    /// Raised when the task comes to mean something else: rows of different versions are told
    /// apart. What is asked is in a completion's key by its text alone.
    pub version: u32,
    /// What it shows.
    pub shows: Shows,
    /// Placeholders a template of this task may use.
    pub placeholders: &'static [&'static str],
    /// Placeholders it must use, or the model cannot know what is asked.
    pub required: &'static [&'static str],
    /// The default template's text.
    pub default: &'static str,
}

impl Task {
    /// The default template.
    ///
    /// # Panics
    /// Never: a test parses the default of every task.
    pub fn template(&self) -> Template {
        Template::parse(self.name, self, self.default.as_bytes()).expect("defaults are tested")
    }
}

/// The tasks there are. Another task is one more entry and its template.
pub fn tasks() -> &'static [Task] {
    const PLACEHOLDERS: &[&str] = &["function", "name", "context", "language", "label"];
    &[
        Task {
            name: "improve",
            version: 1,
            shows: Shows::Original,
            placeholders: PLACEHOLDERS,
            required: &["function"],
            default: include_str!("templates/improve.txt"),
        },
        Task {
            name: "repair",
            version: 1,
            shows: Shows::Faulty,
            placeholders: PLACEHOLDERS,
            required: &["function"],
            default: include_str!("templates/repair.txt"),
        },
        Task {
            name: "synthesise",
            version: 1,
            shows: Shows::Signature,
            placeholders: PLACEHOLDERS,
            required: &["function"],
            default: include_str!("templates/synthesise.txt"),
        },
    ]
}

/// The task called `name`.
pub fn task(name: &str) -> Option<&'static Task> {
    tasks().iter().find(|t| t.name == name)
}

/// A prompt with its gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Template {
    /// What people call it: a task's name or a file's.
    pub name: String,
    /// Of the file's bytes. Part of every request made with it.
    pub digest: Digest,
    system: Vec<Piece>,
    user: Vec<Piece>,
}

/// Both texts of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rendered {
    /// For the system role; may be empty.
    pub system: String,
    /// For the user role.
    pub user: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    Gap {
        name: String,
        /// The line holds nothing else: it goes if the value is empty.
        alone: bool,
    },
}

/// What is wrong with a template, or with the values for it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TemplateError {
    /// Prompts are text.
    #[error("template `{name}` is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// The template.
        name: String,
        /// Where.
        at: usize,
    },
    /// A section is not there, or is there twice.
    #[error(
        "template `{name}`: section `=== {section} ===` must occur once, it occurs {count} times"
    )]
    Section {
        /// The template.
        name: String,
        /// `system` or `user`.
        section: &'static str,
        /// How often it is there.
        count: usize,
    },
    /// A placeholder the task does not have.
    #[error(
        "template `{name}`, line {line}: unknown placeholder `{{{{{found}}}}}`; the task has {known}"
    )]
    Unknown {
        /// The template.
        name: String,
        /// The line in the file, from 1.
        line: usize,
        /// What stands between the braces.
        found: String,
        /// Those there are.
        known: String,
    },
    /// `{{` without `}}` on the same line.
    #[error("template `{name}`, line {line}: `{{{{` is not closed by `}}}}` on the same line")]
    Open {
        /// The template.
        name: String,
        /// The line in the file, from 1.
        line: usize,
    },
    /// A template that does not show what it asks about.
    #[error("template `{name}` never uses `{{{{{missing}}}}}`, which the task needs")]
    Unused {
        /// The template.
        name: String,
        /// The placeholder.
        missing: String,
    },
    /// No value for a placeholder.
    #[error("template `{name}` needs a value for `{{{{{missing}}}}}`")]
    NoValue {
        /// The template.
        name: String,
        /// The placeholder.
        missing: String,
    },
}

impl Template {
    /// Reads the text of a template for `task`; `name` is for messages and reports.
    pub fn parse(name: &str, task: &Task, bytes: &[u8]) -> Result<Self, TemplateError> {
        let text = std::str::from_utf8(bytes).map_err(|e| TemplateError::NotUtf8 {
            name: name.to_string(),
            at: e.valid_up_to(),
        })?;
        let section = |heading: &str| match heading.trim_end() {
            "=== system ===" => Some("system"),
            "=== user ===" => Some("user"),
            _ => None,
        };
        let lines: Vec<&str> = text.lines().collect();
        for wanted in ["system", "user"] {
            let count = lines.iter().filter(|l| section(l) == Some(wanted)).count();
            if count != 1 {
                return Err(TemplateError::Section {
                    name: name.to_string(),
                    section: wanted,
                    count,
                });
            }
        }
        let mut sections: BTreeMap<&str, Vec<Piece>> = BTreeMap::new();
        let mut current = None;
        for (i, line) in lines.iter().enumerate() {
            if let Some(next) = section(line) {
                current = Some(next);
            } else if let Some(current) = current {
                let pieces = sections.entry(current).or_default();
                if !pieces.is_empty() {
                    pieces.push(Piece::Text("\n".into()));
                }
                pieces.extend(gaps(name, task, i + 1, line)?);
            }
        }
        let template = Template {
            name: name.to_string(),
            digest: Digest::of(bytes),
            system: sections.remove("system").unwrap_or_default(),
            user: sections.remove("user").unwrap_or_default(),
        };
        let uses = |wanted: &str| {
            let mut pieces = template.system.iter().chain(&template.user);
            pieces.any(|p| matches!(p, Piece::Gap { name, .. } if name == wanted))
        };
        match task.required.iter().find(|r| !uses(r)) {
            Some(missing) => Err(TemplateError::Unused {
                name: name.to_string(),
                missing: (*missing).to_string(),
            }),
            None => Ok(template),
        }
    }

    /// Fills the gaps. Every placeholder the template uses needs a value, if an empty one.
    pub fn render(&self, values: &BTreeMap<&str, &str>) -> Result<Rendered, TemplateError> {
        Ok(Rendered {
            system: self.fill(&self.system, values)?,
            user: self.fill(&self.user, values)?,
        })
    }

    fn fill(
        &self,
        pieces: &[Piece],
        values: &BTreeMap<&str, &str>,
    ) -> Result<String, TemplateError> {
        let mut out = String::new();
        let mut drop_line_end = false;
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    let text = if std::mem::take(&mut drop_line_end) {
                        text.strip_prefix('\n').unwrap_or(text)
                    } else {
                        text
                    };
                    out.push_str(text);
                }
                Piece::Gap { name, alone } => {
                    let value =
                        values
                            .get(name.as_str())
                            .ok_or_else(|| TemplateError::NoValue {
                                name: self.name.clone(),
                                missing: name.clone(),
                            })?;
                    out.push_str(value);
                    drop_line_end = *alone && value.is_empty();
                }
            }
        }
        Ok(out)
    }
}

fn gaps(name: &str, task: &Task, line: usize, text: &str) -> Result<Vec<Piece>, TemplateError> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find("{{") {
        let inside = &rest[open + 2..];
        let Some(close) = inside.find("}}") else {
            return Err(TemplateError::Open {
                name: name.to_string(),
                line,
            });
        };
        let found = &inside[..close];
        if !task.placeholders.contains(&found) {
            return Err(TemplateError::Unknown {
                name: name.to_string(),
                line,
                found: found.to_string(),
                known: task.placeholders.join(", "),
            });
        }
        if open > 0 {
            pieces.push(Piece::Text(rest[..open].to_string()));
        }
        pieces.push(Piece::Gap {
            name: found.to_string(),
            alone: text.trim() == format!("{{{{{found}}}}}"),
        });
        rest = &inside[close + 2..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_string()));
    }
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Template, TemplateError> {
        Template::parse("t", task("improve").unwrap(), text.as_bytes())
    }

    fn values<'a>(function: &'a str, context: &'a str) -> BTreeMap<&'a str, &'a str> {
        BTreeMap::from([
            ("function", function),
            ("name", "f"),
            ("context", context),
            ("language", "C"),
            ("label", "c"),
        ])
    }

    #[test]
    fn every_default_template_renders() {
        for task in tasks() {
            let all: BTreeMap<_, _> = task.placeholders.iter().map(|p| (*p, "VALUE")).collect();
            let rendered = task.template().render(&all).unwrap();
            assert!(rendered.user.contains("VALUE") && !rendered.user.contains("{{"));
        }
    }

    #[test]
    fn the_improve_prompt_is_pinned() {
        let rendered = task("improve")
            .unwrap()
            .template()
            .render(&values("int f(void) { return 0; }", ""))
            .unwrap();
        insta::assert_snapshot!(format!("{}\n-----\n{}", rendered.system, rendered.user));
    }

    #[test]
    fn values_are_not_looked_into() {
        let t = parse("=== system ===\n=== user ===\n{{function}} {{name}}").unwrap();
        let rendered = t.render(&values("int a[] = {{name}};", "")).unwrap();
        assert_eq!(rendered.user, "int a[] = {{name}}; f");
        assert_eq!(rendered.system, "");
    }

    #[test]
    fn an_empty_value_takes_its_own_line_with_it_and_no_other() {
        let t = parse("=== system ===\n=== user ===\na\n{{context}}\nb {{context}}c\n{{function}}")
            .unwrap();
        assert_eq!(t.render(&values("F", "")).unwrap().user, "a\nb c\nF");
        assert_eq!(t.render(&values("F", "X")).unwrap().user, "a\nX\nb Xc\nF");
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("=== system ===\n=== user ===\n{{function}}\n{{ name}}"),
            "template `t`, line 4: unknown placeholder `{{ name}}`; the task has function, name, context, language, label"
        );
        assert_eq!(
            error("=== system ===\n{{name}\n=== user ===\n{{function}}"),
            "template `t`, line 2: `{{` is not closed by `}}` on the same line"
        );
        assert!(
            error("=== user ===\n{{function}}")
                .contains("`=== system ===` must occur once, it occurs 0")
        );
        assert!(error("=== system ===\n=== user ===\nx").contains("never uses `{{function}}`"));
        let t = parse("=== system ===\n=== user ===\n{{function}}").unwrap();
        assert!(matches!(
            t.render(&BTreeMap::new()),
            Err(TemplateError::NoValue { .. })
        ));
        let bytes = b"=== system ===\n\xff";
        assert!(matches!(
            Template::parse("t", task("improve").unwrap(), bytes),
            Err(TemplateError::NotUtf8 { at: 15, .. })
        ));
    }

    #[test]
    fn another_text_is_another_template() {
        let one = parse("=== system ===\n=== user ===\n{{function}}").unwrap();
        let two = parse("remark\n=== system ===\n=== user ===\n{{function}}").unwrap();
        assert_ne!(one.digest, two.digest);
    }
}
