//! What is said to the program of `init/main.rs` on its command line, and what its failures mean.
//! Must agree with that program word for word.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::command::{Command, Limits, SandboxError};
use super::supervise::Host;

/// Checks what the supervisor relies on.
pub(super) fn validate(command: &Command) -> Result<(), SandboxError> {
    let wrong = |what: String| Err(SandboxError::Setup(what));
    if command.argv.is_empty() {
        return wrong("no program given".into());
    }
    if !command.cwd.is_absolute() {
        return wrong(format!(
            "the working directory {} is not absolute",
            command.cwd.display()
        ));
    }
    for name in command.env.keys() {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return wrong(format!("{name:?} is no name of an environment variable"));
        }
    }
    for (what, path) in [("collect", &command.collect), ("make", &command.folders)]
        .into_iter()
        .flat_map(|(what, paths)| paths.iter().map(move |path| (what, path)))
    {
        if path.parent() != Some(Path::new("/tmp")) || path.file_name().is_none() {
            return wrong(format!("can only {what} /tmp/NAME, not {}", path.display()));
        }
    }
    Ok(())
}

/// The arguments of the part before bubblewrap: see `init/main.rs`.
pub(super) fn outer_words(
    host: &Host,
    limits: &Limits,
    fixed: bool,
    doors: &[OwnedFd],
) -> Vec<OsString> {
    let mut words = vec!["outer".to_owned()];
    let (uid, gid) = host
        .drop
        .map_or((-1, -1), |(uid, gid)| (uid.into(), gid.into()));
    words.extend([
        i64::to_string(&uid),
        i64::to_string(&gid),
        u8::from(fixed).to_string(),
    ]);
    words.push(doors.len().to_string());
    words.extend(doors.iter().map(|door| door.as_raw_fd().to_string()));
    // Only for a supervisor that cannot look: the tree's own count has to come first, and that by
    // which the kernel enforces this one goes by ticks, which on a busy virtual machine are some
    // percent ahead. Its signal would be taken for the command's own end.
    let cpu = limits.cpu.as_secs().saturating_mul(2).saturating_add(10);
    let wanted = [
        (libc::RLIMIT_CPU, cpu),
        (libc::RLIMIT_FSIZE, limits.file_size),
        (libc::RLIMIT_STACK, limits.stack),
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_NOFILE, 1024),
    ];
    words.push(wanted.len().to_string());
    for (resource, value) in wanted {
        let mut present = libc::rlimit {
            rlim_cur: 0,
            rlim_max: libc::RLIM_INFINITY,
        };
        // SAFETY: fills the structure it is given; on failure the default stands.
        unsafe { libc::getrlimit(resource, &mut present) };
        let value = value.min(present.rlim_max).to_string();
        words.extend([resource.to_string(), value.clone(), value]);
    }
    words.into_iter().map(OsString::from).collect()
}

/// The arguments of the sandbox's first process: see `init/main.rs`.
pub(super) fn init_words(
    host: &Host,
    command: &Command,
    control: &OwnedFd,
    results: Option<&OwnedFd>,
) -> Vec<OsString> {
    // The first process counts too; the rest is room in which an excess can be seen.
    let processes = match host.sandboxed && host.counts_apart {
        true => i64::from(command.limits.processes) + 5,
        false => -1,
    };
    let mut words: Vec<OsString> = vec![
        "init".into(),
        control.as_raw_fd().to_string().into(),
        results.map_or(-1, AsRawFd::as_raw_fd).to_string().into(),
        processes.to_string().into(),
        command.cwd.clone().into(),
        command.env.len().to_string().into(),
    ];
    for (name, value) in &command.env {
        let mut word = name.clone();
        word.push("=");
        word.push(value);
        words.push(word);
    }
    words.extend(command.argv.iter().cloned());
    words
}

/// Error numbers that say something about the machine at this moment, not about the program.
pub(super) fn is_host_trouble(error: i32) -> bool {
    use libc::{EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, ETXTBSY};
    [EAGAIN, EINTR, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC, ETXTBSY].contains(&error)
}

/// bubblewrap ended before anything of the command ran; its own words say why.
pub(super) fn setup_failed(stderr: &[u8]) -> SandboxError {
    let text = String::from_utf8_lossy(stderr).trim().to_owned();
    let passing = [
        "No space left",
        "Cannot allocate memory",
        "Resource temporarily unavailable",
        "Too many open files",
        "control group",
    ];
    if text.is_empty() || passing.iter().any(|words| text.contains(words)) {
        SandboxError::Transient(format!("the sandbox did not start: {text}"))
    } else {
        SandboxError::Setup(text)
    }
}

/// Whether `RLIMIT_NPROC` counts in each user namespace for itself, which it does since Linux 5.14.
/// Before that it would count what the same user runs elsewhere. Takes the kernel's release.
pub(super) fn counts_apart(release: &str) -> bool {
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map(str::parse::<u32>);
    matches!((parts.next(), parts.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (5, 14))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_before_5_14_count_all_processes_of_a_user() {
        for (release, apart) in [
            ("6.18.44-fc-v509\n", true),
            ("5.14.0", true),
            ("5.10.0-30-amd64", false),
            ("5.4", false),
            ("4.18.0", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(counts_apart(release), apart, "{release:?}");
        }
    }

    #[test]
    fn only_passing_trouble_is_tried_again() {
        let transient =
            |text: &str| matches!(setup_failed(text.as_bytes()), SandboxError::Transient(_));
        assert!(transient(
            "bwrap: Creating new namespace failed: No space left on device"
        ));
        assert!(transient("sandbox: cannot join the control group"));
        assert!(transient(""));
        assert!(!transient(
            "bwrap: Can't find source path /x: No such file or directory"
        ));
        assert!(!transient("bwrap: No permissions to create new namespace"));
    }
}
