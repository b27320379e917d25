//! Which upstream repository a tree's own files name.

use serde::Deserialize;

use crate::contamination::File;

/// Keys under which a Python project names its repository, the surest first, in lower case.
const KEYS: [&str; 7] = [
    "source",
    "repository",
    "source code",
    "code",
    "github",
    "homepage",
    "home",
];

/// Whether a file can name the upstream repository.
pub(super) fn says(path: &str) -> bool {
    matches!(
        path,
        "Cargo.toml" | "pyproject.toml" | "PKG-INFO" | "debian/upstream/metadata"
    )
}

/// The upstream repository that the files name.
pub(super) fn of(files: &[File]) -> Option<String> {
    let text = |path: &str| {
        let file = files.iter().find(|f| f.path == path)?;
        std::str::from_utf8(&file.bytes).ok()
    };
    let found = text("Cargo.toml")
        .and_then(krate)
        .or_else(|| text("pyproject.toml").and_then(pyproject))
        .or_else(|| text("PKG-INFO").and_then(pkg_info))
        .or_else(|| text("debian/upstream/metadata").and_then(debian));
    found.filter(|url| url.contains("://") || url.contains('@'))
}

fn krate(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Manifest {
        package: Package,
    }
    #[derive(Deserialize)]
    struct Package {
        repository: Option<String>,
    }
    let manifest: Manifest = toml::from_str(text).ok()?;
    manifest.package.repository
}

fn pyproject(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Manifest {
        project: Project,
    }
    #[derive(Deserialize)]
    struct Project {
        urls: std::collections::BTreeMap<String, String>,
    }
    let manifest: Manifest = toml::from_str(text).ok()?;
    let urls = manifest.project.urls.into_iter();
    best(urls.map(|(key, url)| (key.to_lowercase(), url)))
}

fn pkg_info(text: &str) -> Option<String> {
    let header = text.split("\n\n").next()?;
    let urls = header.lines().filter_map(|line| {
        let (key, value) = line.split_once(": ")?;
        match key {
            "Home-page" => Some(("homepage".to_string(), value.trim().to_string())),
            "Project-URL" => {
                let (key, url) = value.split_once(',')?;
                Some((key.trim().to_lowercase(), url.trim().to_string()))
            }
            _ => None,
        }
    });
    best(urls)
}

fn best(urls: impl Iterator<Item = (String, String)>) -> Option<String> {
    let rank = |key: &str| KEYS.iter().position(|k| *k == key);
    let ranked = urls.filter_map(|(key, url)| Some((rank(&key)?, url)));
    ranked.min().map(|(_, url)| url)
}

fn debian(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let line = lines.find_map(|l| l.strip_prefix("Repository: "))?;
    Some(line.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(path: &str, text: &str) -> Option<String> {
        let file = File {
            path: path.into(),
            bytes: text.as_bytes().into(),
        };
        of(&[file])
    }

    #[test]
    fn every_kind_of_package_says_where_its_repository_is() {
        let url = Some("https://example.com/o/n".to_string());
        let cases = [
            (
                "Cargo.toml",
                "[package]\nname = \"n\"\nrepository = \"https://example.com/o/n\"\n",
            ),
            (
                "pyproject.toml",
                "[project.urls]\nHomepage = \"https://n.example.com\"\nSource = \"https://example.com/o/n\"\n",
            ),
            (
                "PKG-INFO",
                "Name: n\nHome-page: https://n.example.com\nProject-URL: Repository, https://example.com/o/n\n\nSource: no\n",
            ),
            (
                "debian/upstream/metadata",
                "Name: n\nRepository: https://example.com/o/n\n",
            ),
        ];
        for (path, text) in cases {
            assert_eq!(named(path, text), url, "{path}");
        }
        for (path, text) in [
            ("Cargo.toml", "[package]\nname = \"n\"\n"),
            ("Cargo.toml", "[package"),
            ("PKG-INFO", "Home-page: UNKNOWN\n"),
            ("README.md", "Repository: https://example.com/o/n"),
        ] {
            assert_eq!(named(path, text), None, "{path}");
        }
    }
}
