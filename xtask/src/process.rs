//! Running other programs, with a line before and after, so that somebody who waits knows for what.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Prints what begins now and gives back a clock for [`done`].
pub fn begin(what: &str) -> Instant {
    eprintln!("\n==> {what}");
    Instant::now()
}

/// Prints that it ended and how long it took.
pub fn done(what: &str, since: Instant) {
    eprintln!("    {what}: {}", short(since.elapsed()));
}

/// `3.2 s`, `4 min 05 s`.
pub fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 60.0 { format!("{seconds:.1} s") } else { format!("{} min {:02} s", time.as_secs() / 60, time.as_secs() % 60) }
}

/// The command as one would type it.
pub fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy().into_owned()));
    words.join(" ")
}

/// Runs with the terminal's output; a status other than 0 is an error that names the command.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", shown(command));
    }
    Ok(())
}

/// Runs quietly and gives back stdout; on failure the error carries stderr.
pub fn output(command: &mut Command) -> Result<String> {
    let result = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !result.status.success() {
        bail!("`{}` ended with {}:\n{}", shown(command), result.status, String::from_utf8_lossy(&result.stderr).trim_end());
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// The first file of that name on `PATH` that is executable.
pub fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program.as_ref()))
        .find(|file| file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0))
}

/// Asks on the terminal; without one the answer is no.
pub fn confirm(question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("{question} [Y/n] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "" | "y" | "Y" | "yes"))
}

/// `LD_LIBRARY_PATH` without what `cargo run` put there, so that a program is started as a user would start it.
pub fn library_path_of_the_user() -> Option<std::ffi::OsString> {
    let path = std::env::var_os("LD_LIBRARY_PATH")?;
    let kept: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|folder| {
            let text = folder.to_string_lossy();
            !(text.contains("/.rustup/")
                || text.contains("/target/debug")
                || text.contains("/target/release")
                || text.contains("/rustlib/"))
        })
        .collect();
    if kept.is_empty() { None } else { std::env::join_paths(kept).ok() }
}

/// Applies [`library_path_of_the_user`] to a command.
pub fn as_a_user(command: &mut Command) -> &mut Command {
    match library_path_of_the_user() {
        Some(path) => command.env("LD_LIBRARY_PATH", path),
        None => command.env_remove("LD_LIBRARY_PATH"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_a_person_says_them() {
        assert_eq!(short(Duration::from_millis(3_210)), "3.2 s");
        assert_eq!(short(Duration::from_secs(245)), "4 min 05 s");
    }

    #[test]
    fn a_failing_command_is_named_with_its_words() {
        let error = output(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
    }
}
