//! The words of a command of `tare bench`, with a shell where its line needs one.

use std::ffi::{OsStr, OsString};

use tare_kernel::command::find_in_path;

use super::super::versus::find_shell_operator;
use crate::exit::Refusal;

/// The shell that runs commands whose line needs one, and hooks.
const SHELL: &str = "/bin/sh";

/// Which commands a shell runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShellChoice {
    /// Those with shell syntax, by `/bin/sh`.
    WhereNeeded,
    /// All, by this command line.
    Always(Vec<String>),
    /// None.
    Never,
}

impl ShellChoice {
    /// Resolves `--shell` and `-N`.
    pub(super) fn resolve(shell: Option<&str>, never: bool) -> Result<Self, Refusal> {
        let Some(shell) = shell.filter(|_| !never) else {
            return Ok(if never { Self::Never } else { Self::WhereNeeded });
        };
        match shell {
            "none" => Ok(Self::Never),
            "default" => Ok(Self::Always(vec![SHELL.to_owned()])),
            _ => shlex::split(shell)
                .filter(|words| !words.is_empty())
                .map(Self::Always)
                .ok_or_else(|| Refusal::usage(format!("--shell: '{shell}' is no command line"))),
        }
    }

    /// The words of the shell that runs hooks, and measures its start-up.
    #[must_use]
    pub fn shell(&self) -> Vec<String> {
        match self {
            Self::Always(words) => words.clone(),
            Self::WhereNeeded | Self::Never => vec![SHELL.to_owned()],
        }
    }

    /// The words that run a line, and whether a shell is among them.
    pub(super) fn words(&self, line: &str) -> Result<(Vec<OsString>, bool), Refusal> {
        let split = || {
            let words = shlex::split(line).filter(|words| !words.is_empty());
            words.ok_or_else(|| {
                Refusal::usage(format!("'{line}': a quote is not closed, or there is no command"))
            })
        };
        let in_shell = || {
            let words = self.shell().into_iter().chain(["-c".to_owned(), line.to_owned()]);
            (words.map(OsString::from).collect(), true)
        };
        match self {
            Self::Always(_) => Ok(in_shell()),
            Self::WhereNeeded if line.trim().is_empty() => {
                split().map(|words| (words.into_iter().map(OsString::from).collect(), false))
            }
            Self::WhereNeeded if needs_shell(line) => Ok(in_shell()),
            _ => split().map(|words| (words.into_iter().map(OsString::from).collect(), false)),
        }
    }
}

/// Whether only a shell can run the line: it has shell syntax, or its first word is no program, as
/// a builtin or a function.
fn needs_shell(line: &str) -> bool {
    if find_shell_operator(line.as_bytes()).is_some() || line.contains(['\n', '~', '#', '[', '{']) {
        return true;
    }
    let Some(words) = shlex::split(line) else { return true };
    let first = words.first().map_or("", String::as_str);
    let path = std::env::var_os("PATH");
    let is_program =
        first.contains('/') || find_in_path(OsStr::new(first), path.as_deref()).is_some();
    !is_program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_runs_only_what_needs_one() {
        for (line, needs) in [
            ("sleep 0.1", false),
            ("sh -c 'a; b'", false),
            ("./program --option 'a b'", false),
            ("sleep 0.1; sleep 0.2", true),
            ("echo $HOME", true),
            ("ls *", true),
            ("ls ~", true),
            ("X=1 env", true),
            (". ./script", true),
            ("exit 3", true),
            ("no-such-program-here a", true),
            ("echo 'open", true),
        ] {
            assert_eq!(needs_shell(line), needs, "{line}");
        }
    }

    #[test]
    fn the_choice_of_a_shell_is_followed() {
        let words = |shell: Option<&str>, never, line| {
            ShellChoice::resolve(shell, never).unwrap().words(line).map(|(words, _)| words)
        };
        assert_eq!(
            words(Some("bash --norc"), false, "a b").unwrap(),
            ["bash", "--norc", "-c", "a b"]
        );
        assert_eq!(words(Some("default"), false, "a").unwrap(), [SHELL, "-c", "a"]);
        assert_eq!(words(Some("none"), false, "a; 'b c'").unwrap(), ["a;", "b c"]);
        assert_eq!(words(None, true, "a 'b c'").unwrap(), ["a", "b c"]);
        assert!(words(None, true, "a 'b").is_err());
        assert!(words(None, false, " ").is_err());
        assert!(ShellChoice::resolve(Some("'x"), false).is_err());
    }
}
