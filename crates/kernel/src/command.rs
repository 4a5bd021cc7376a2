//! A command, and the search for its program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode};

/// A command: its program's path and its arguments, as the kernel takes them.
#[derive(Debug)]
pub struct ChildCommand {
    pub(crate) program: CString,
    pub(crate) args: Vec<CString>,
    /// Replacements for stdin, stdout and stderr; `None`: tare's own.
    pub(crate) standard: [Option<OwnedFd>; 3],
    /// `NAME=value` of variables that replace those of tare's environment, or add to it.
    pub(crate) variables: Vec<CString>,
    /// The folder that it runs in; `None`: tare's own.
    pub(crate) folder: Option<CString>,
}

/// Why a command can't be started.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program doesn't exist.
    #[error("'{program}': command not found")]
    NotFound {
        /// The program's name as given.
        program: String,
    },
    /// It exists, but can't be executed.
    #[error("'{program}': {error}")]
    NotExecutable {
        /// The program's name as given.
        program: String,
        /// The kernel's error.
        error: io::Error,
    },
    /// An argument holds a NUL byte.
    #[error("an argument of '{program}' holds a NUL byte")]
    Nul {
        /// The program's name as given.
        program: String,
    },
    /// The process or its channel can't be created, it can't be moved into its cgroup, or waiting
    /// for it fails.
    #[error("cannot start a process: {0}")]
    Fork(#[from] io::Error),
}

impl CommandError {
    /// Returns the exit status for this error: like a shell's 127 for not found and 126 for not
    /// executable; 125 for others, as of env(1).
    #[must_use]
    pub fn status(&self) -> u8 {
        match self {
            Self::NotFound { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::Nul { .. } | Self::Fork(_) => 125,
        }
    }
}

impl ChildCommand {
    /// Finds the program of `words` as a shell does: a name with a slash is a path, others are
    /// searched for in the folders of `path` (`$PATH`).
    ///
    /// # Errors
    /// See [`CommandError`]. With empty `words`, the program '' is not found.
    pub fn find<S: AsRef<OsStr>>(words: &[S], path: Option<&OsStr>) -> Result<Self, CommandError> {
        let word = words.first().map_or(OsStr::new(""), AsRef::as_ref);
        let program = word.to_string_lossy().into_owned();
        let c_string = |bytes: &OsStr| {
            CString::new(bytes.as_bytes())
                .map_err(|_| CommandError::Nul { program: program.clone() })
        };
        let args = words.iter().map(|word| c_string(word.as_ref())).collect::<Result<_, _>>()?;
        let found = if word.as_bytes().contains(&b'/') {
            PathBuf::from(word)
        } else {
            find_in_path(word, path).ok_or(CommandError::NotFound { program: program.clone() })?
        };
        match rustix::fs::access(&found, Access::EXEC_OK) {
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => {
                Err(CommandError::NotFound { program })
            }
            Err(error) => Err(CommandError::NotExecutable { program, error: error.into() }),
            Ok(()) if found.is_dir() => {
                Err(CommandError::NotExecutable { program, error: rustix::io::Errno::ISDIR.into() })
            }
            Ok(()) => Ok(Self {
                program: c_string(found.as_os_str())?,
                args,
                standard: [const { None }; 3],
                variables: Vec::new(),
                folder: None,
            }),
        }
    }

    /// Finds the program like [`ChildCommand::find`], and runs it in a folder: a relative path is
    /// one below that folder.
    ///
    /// # Errors
    /// As [`ChildCommand::find`].
    pub fn find_in<S: AsRef<OsStr>>(
        folder: &Path,
        words: &[S],
        path: Option<&OsStr>,
    ) -> Result<Self, CommandError> {
        let mut words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
        let named = words.first().copied();
        let inside = named
            .filter(|word| word.as_bytes().contains(&b'/'))
            .map(|word| folder.join(word).into_os_string());
        if let (Some(first), Some(inside)) = (words.first_mut(), &inside) {
            *first = inside;
        }
        let mut command = Self::find(&words, path)?;
        let nul = || CommandError::Nul { program: command.name() };
        let folder = CString::new(folder.as_os_str().as_bytes()).map_err(|_| nul())?;
        if let (Some(first), Some(named)) = (command.args.first_mut(), named) {
            *first = CString::new(named.as_bytes()).unwrap_or_default();
        }
        command.folder = Some(folder);
        Ok(command)
    }

    /// Replaces the command's stdin, stdout and stderr by the given files. For `None` the command
    /// inherits tare's.
    #[must_use]
    pub fn with_standard_files(self, standard: [Option<OwnedFd>; 3]) -> Self {
        Self { standard, ..self }
    }

    /// Sets variables, besides or instead of those of tare's environment. A value with a NUL byte is
    /// left out.
    pub fn set_variables(&mut self, variables: &[(&str, &str)]) {
        let assignment =
            |(name, value): &(&str, &str)| CString::new(format!("{name}={value}")).ok();
        self.variables = variables.iter().filter_map(assignment).collect();
    }

    /// Whether the program gains rights at its execve that this user lacks, or isn't readable by
    /// this user. The kernel then removes the task's events (`begin_new_exec` in `fs/exec.c` calls
    /// `perf_event_exit_task` for a process that can't be dumped), except events on cgroups and
    /// CPUs.
    #[must_use]
    pub fn gives_other_rights(&self) -> bool {
        let Ok(found) = rustix::fs::stat(self.program.as_c_str()) else { return false };
        let mode = Mode::from_raw_mode(found.st_mode);
        let uid = rustix::process::geteuid();
        let gid = rustix::process::getegid();
        let sets_user = mode.contains(Mode::SUID) && found.st_uid != uid.as_raw();
        let sets_group = mode.contains(Mode::SGID | Mode::XGRP) && found.st_gid != gid.as_raw();
        let mut capabilities = [0; 64];
        let has_capabilities = rustix::fs::getxattr(
            self.program.as_c_str(),
            c"security.capability",
            &mut capabilities[..],
        )
        .is_ok();
        let program = self.program.as_c_str();
        let is_unreadable = rustix::fs::access(program, Access::READ_OK).is_err();
        sets_user || sets_group || (has_capabilities && !uid.is_root()) || is_unreadable
    }

    pub(crate) fn name(&self) -> String {
        self.args.first().map(|arg| arg.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Finds a program in the folders of `path`: the first executable file of that name, or else the
/// first file of that name.
#[must_use]
pub fn find_in_path(word: &OsStr, path: Option<&OsStr>) -> Option<PathBuf> {
    if word.is_empty() {
        return None;
    }
    let folders = path.map_or_else(|| "/bin:/usr/bin".into(), OsStr::to_os_string);
    let mut not_executable = None;
    for folder in std::env::split_paths(&folders) {
        let file = if folder.as_os_str().is_empty() {
            Path::new(".").join(word)
        } else {
            folder.join(word)
        };
        match rustix::fs::access(&file, Access::EXEC_OK) {
            Ok(()) if file.is_file() => return Some(file),
            Err(rustix::io::Errno::ACCESS) if not_executable.is_none() && file.is_file() => {
                not_executable = Some(file);
            }
            _ => {}
        }
    }
    not_executable
}
