//! Addresses that name a commit on a git host: GitHub, GitLab, cgit, gitweb, googlesource.

/// The repository and the commit that `url` names; nothing for another address.
///
/// The repository is an address that can be cloned where the form tells; of gitweb it is what the
/// page calls it, below the page's own address.
pub fn commit_of_url(url: &str) -> Option<(String, String)> {
    let url = url.trim().split('#').next()?;
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .or_else(|| url.strip_prefix("git://"))?;
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = place.trim_end_matches('/');
    let (repository, commit) = kernel(place)
        .or_else(|| googlesource(place))
        .or_else(|| by_path(place))
        .or_else(|| by_query(place, query))?;
    let repository = match url.starts_with("http://") && has_port(place) {
        true => repository.replacen("https://", "http://", 1),
        false => repository,
    };
    Some((repository, commit))
}

/// Whether an address without its scheme names a port: what is on one of its own, as on this machine,
/// has no second address.
fn has_port(place: &str) -> bool {
    place
        .split('/')
        .next()
        .is_some_and(|host| host.contains(':'))
}

/// A commit's id, perhaps abbreviated.
pub(super) fn is_id(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// An id at the start of `text`, with what may follow one in an address.
fn id(text: &str) -> Option<String> {
    let end = text
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(text.len());
    let (id, rest) = text.split_at(end);
    let fine = ["", ".patch", ".diff", "^", "^!", "%5E", "%5E%21", "%5E!"];
    (is_id(id) && fine.contains(&rest)).then(|| id.to_lowercase())
}

/// An address as all readers write it, so that one repository has one name.
pub(super) fn repository(address: &str) -> String {
    let address = address.trim().trim_end_matches('/');
    let https = match address.strip_prefix("http://") {
        Some(rest) if !has_port(rest) => format!("https://{rest}"),
        _ => address.to_string(),
    };
    let https = https
        .replacen("git+https://", "https://", 1)
        .replacen("git@github.com:", "https://github.com/", 1)
        .replacen("git://github.com/", "https://github.com/", 1);
    let plain = |part: &str| {
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        !part.is_empty() && !part.starts_with('.') && part.chars().all(good)
    };
    match https.split_once('/') {
        Some((owner, name)) if plain(owner) && plain(name) => {
            format!("https://github.com/{owner}/{name}")
        }
        _ => match https.strip_prefix("https://github.com/") {
            Some(rest) => format!("https://github.com/{}", rest.trim_end_matches(".git")),
            None => https,
        },
    }
}

/// kernel.org's short addresses.
fn kernel(place: &str) -> Option<(String, String)> {
    let rest = place.strip_prefix("git.kernel.org/")?;
    let tree = "https://git.kernel.org/pub/scm/linux/kernel/git";
    let (repository, commit) = if let Some(commit) = rest.strip_prefix("linus/") {
        ("torvalds/linux.git", commit)
    } else {
        ("stable/linux.git", rest.strip_prefix("stable/c/")?)
    };
    Some((format!("{tree}/{repository}"), id(commit)?))
}

/// `HOST/PATH/+/ID`
fn googlesource(place: &str) -> Option<(String, String)> {
    let (repository, rest) = place.split_once("/+/")?;
    let host = repository.split('/').next()?;
    let commit = rest.split('/').next()?;
    host.contains("googlesource")
        .then(|| Some((format!("https://{repository}"), id(commit)?)))?
}

/// `HOST/OWNER/NAME/commit/ID`, also behind `/-/` or a pull request's number.
fn by_path(place: &str) -> Option<(String, String)> {
    let words: Vec<&str> = place.split('/').collect();
    let at = words
        .iter()
        .rposition(|w| matches!(*w, "commit" | "commits" | "patch"))?;
    let commit = id(words.get(at + 1)?)?;
    let mut end = at;
    if end >= 1 && words[end - 1] == "-" {
        end -= 1;
    } else if end >= 2 && matches!(words[end - 2], "pull" | "merge_requests") {
        end -= 2;
        end -= usize::from(end >= 1 && words[end - 1] == "-");
    }
    // The host, and at least an owner and a name, or a name that says it is a repository.
    let named = end >= 3 || (end == 2 && words[1].ends_with(".git"));
    named.then(|| {
        (
            repository(&format!("https://{}", words[..end].join("/"))),
            commit,
        )
    })
}

/// cgit's `PATH/commit/?id=ID` and gitweb's `?p=NAME.git;a=commit;h=ID`.
fn by_query(place: &str, query: &str) -> Option<(String, String)> {
    let value = |name: &str| {
        let mut parts = query.split(['&', ';']);
        parts.find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
    };
    if let Some(commit) = value("id").and_then(id) {
        let words: Vec<&str> = place.split('/').collect();
        let at = words
            .iter()
            .rposition(|w| matches!(*w, "commit" | "patch" | "diff"))?;
        return (at >= 2).then(|| (format!("https://{}", words[..at].join("/")), commit));
    }
    let shows = matches!(value("a"), Some("commit" | "commitdiff" | "patch"));
    let commit = value("h").filter(|_| shows).and_then(id)?;
    let name = match value("p") {
        Some(name) => format!("{place}/{}", name.replace("%2F", "/")),
        None if place.ends_with(".git") => place.to_string(),
        None => return None,
    };
    Some((format!("https://{name}"), commit))
}
