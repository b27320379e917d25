//! Asks the machine which Debian packages are installed. Installs nothing.

use std::process::Command;

use super::toolchain::find;

/// Those of `packages` that are not installed, in their order; none where the system does not
/// have Debian's packages and it cannot be told.
pub fn missing(packages: &[String]) -> Option<Vec<String>> {
    if packages.is_empty() {
        return Some(Vec::new());
    }
    let query = find("dpkg-query")?;
    let installed = |package: &String| {
        // Asked one by one: for a package it has never heard of, it says so and fails.
        let answer = Command::new(&query)
            .args(["-W", "-f", "${Status}\\n", package])
            .env_clear()
            .env("LC_ALL", "C")
            .output()
            .ok()?;
        let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
        Some(answer.lines().any(|line| line == "install ok installed"))
    };
    let mut missing = Vec::new();
    for package in packages {
        if !installed(package)? {
            missing.push(package.clone());
        }
    }
    Some(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_missing() {
        let packages = ["no-such-package", "dpkg", "another-one"].map(String::from);
        let told = missing(&packages);
        // On a system of another kind there is nothing to ask.
        let expected =
            find("dpkg-query").map(|_| vec!["no-such-package".into(), "another-one".into()]);
        assert_eq!(told, expected);
        assert_eq!(missing(&[]), Some(Vec::new()));
    }
}
