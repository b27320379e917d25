//! The machine's own apt sources, turned into sources of source packages: what `deb` entries there
//! are, in both formats, as `deb-src` with all their options. Text in, text out.

/// What stands in a machine's apt sources for source packages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Derived {
    /// One-line entries.
    pub lines: Vec<String>,
    /// Stanzas of the newer format.
    pub stanzas: Vec<String>,
}

impl Derived {
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.stanzas.is_empty()
    }

    /// Adds the entries of a `.list` file.
    pub fn add_list(&mut self, text: &str) {
        for line in text.lines() {
            let line = line.split('#').next().unwrap_or_default().trim();
            let rest = match line.split_once(char::is_whitespace) {
                Some(("deb" | "deb-src", rest)) => rest.trim(),
                _ => continue,
            };
            push(&mut self.lines, format!("deb-src {rest}"));
        }
    }

    /// Adds the stanzas of a `.sources` file.
    pub fn add_sources(&mut self, text: &str) {
        let mut stanza: Vec<&str> = Vec::new();
        for line in text.lines().chain([""]) {
            if !line.trim().is_empty() {
                stanza.push(line);
            } else if let Some(derived) = source_stanza(&std::mem::take(&mut stanza)) {
                push(&mut self.stanzas, derived);
            }
        }
    }
}

/// `deb` and `deb-src` of one archive would be the same entry twice, of which apt complains.
fn push(entries: &mut Vec<String>, entry: String) {
    if !entries.contains(&entry) {
        entries.push(entry);
    }
}

fn source_stanza(lines: &[&str]) -> Option<String> {
    let mut out = String::from("Types: deb-src\n");
    let mut types = false;
    let mut dropping = false;
    for line in lines.iter().filter(|l| !l.starts_with('#')) {
        // A line that begins with white space goes on with the field before it.
        if !line.starts_with([' ', '\t']) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            dropping = name.eq_ignore_ascii_case("types");
            if dropping {
                types = value.split_whitespace().any(|t| t.starts_with("deb"));
            }
            let off = ["no", "false", "0", "off", "without", "disable"];
            if name.eq_ignore_ascii_case("enabled")
                && off.contains(&value.to_ascii_lowercase().as_str())
            {
                return None;
            }
        }
        if !dropping {
            out.push_str(line);
            out.push('\n');
        }
    }
    types.then_some(out)
}

/// One package as apt's index of source packages describes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The version.
    pub version: String,
    /// The format of its files.
    pub format: String,
    /// SHA-256 of the `.dsc` file, if the index has it.
    pub dsc: Option<String>,
}

/// The records of `package` in what `apt-cache showsrc` prints, each once.
pub fn records(printed: &str, package: &str) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    for stanza in printed.split("\n\n") {
        let field = |name: &str| {
            let mut lines = stanza.lines();
            lines.find_map(|l| l.strip_prefix(name)?.strip_prefix(": ").map(str::trim))
        };
        if field("Package") != Some(package) {
            continue;
        }
        let record = Record {
            version: field("Version").unwrap_or_default().to_string(),
            format: field("Format").unwrap_or("1.0").to_string(),
            dsc: dsc(stanza),
        };
        if !found.contains(&record) {
            found.push(record);
        }
    }
    found
}

/// The checksum of the `.dsc` file in a record: of the lines below `Checksums-Sha256`, the last word is
/// the file's name.
fn dsc(stanza: &str) -> Option<String> {
    let mut lines = stanza
        .lines()
        .skip_while(|l| !l.starts_with("Checksums-Sha256:"));
    lines.next()?;
    let own = lines.take_while(|l| l.starts_with(' '));
    let mut found = own.filter(|l| l.ends_with(".dsc"));
    found.next()?.split_whitespace().next().map(str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_become_sources_of_source_packages_with_their_options() {
        let mut derived = Derived::default();
        derived.add_list(
            "# deb http://a.example/off stable main\n\
             deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian stable main contrib # why\n\
             deb-src [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian stable main contrib\n\
             debug http://a.example x y\n\
             \tdeb   http://b.example/debian ./\n",
        );
        derived.add_sources(
            "Types: deb\nURIs: http://c.example/debian\n# a comment\nSuites: stable\n stable-updates\n\
             Components: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mQIN\n\n\n\
             Types: deb\nEnabled: no\nURIs: http://d.example\nSuites: x\n\n\
             types: deb deb-src\nURIs: http://e.example\nSuites: ./\n",
        );
        insta::assert_snapshot!(format!("{}\n\n{}", derived.lines.join("\n"), derived.stanzas.join("\n")), @"
        deb-src [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] http://a.example/debian stable main contrib
        deb-src http://b.example/debian ./

        Types: deb-src
        URIs: http://c.example/debian
        Suites: stable
         stable-updates
        Components: main
        Signed-By:
         -----BEGIN PGP PUBLIC KEY BLOCK-----
         .
         mQIN

        Types: deb-src
        URIs: http://e.example
        Suites: ./
        ");
        let mut none = Derived::default();
        none.add_list("");
        none.add_sources("Types: other\nURIs: x\n\nno field at all\n");
        assert!(none.is_empty());
    }

    #[test]
    fn records_are_those_of_the_package_itself() {
        let printed = "Package: x\nVersion: 1-1\nFormat: 3.0 (quilt)\n\nPackage: x\nVersion: 1-1\n\
                       Format: 3.0 (quilt)\n\nPackage: y\nBinary: x\nVersion: 9\n\nPackage: x\nVersion: 2\n\
                       Files:\n 11 5 x_2.dsc\nChecksums-Sha256:\n aa 9 x_2.tar.gz\n bb 5 x_2.dsc\nHomepage: h\n";
        let found = records(printed, "x");
        let all: Vec<(&str, &str)> = found
            .iter()
            .map(|r| (r.version.as_str(), r.format.as_str()))
            .collect();
        assert_eq!(all, [("1-1", "3.0 (quilt)"), ("2", "1.0")]);
        let sums: Vec<Option<&str>> = found.iter().map(|r| r.dsc.as_deref()).collect();
        assert_eq!(sums, [None, Some("bb")]);
    }
}
