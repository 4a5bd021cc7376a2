//! `--compare REV`: builds two revisions of a git checkout, and lets their runs share one path.
//!
//! Both are built in the folder `work` below a temporary folder, so that paths in their builds are
//! the same, and then renamed to `old` and `new`. `work` is then a link to the one that runs.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use anyhow::Context;

use crate::exit::{Exit, Refusal, say};

/// First bytes of a program or library.
const ELF: &[u8] = b"\x7fELF";

/// Names of the folders of both revisions, of one length.
const SIDES: [&str; 2] = ["old", "new"];

/// Lines of a failed build's output that are shown.
const SHOWN_LINES: usize = 20;

/// Two built revisions. Dropping them removes their folders.
#[derive(Debug)]
pub(super) struct Revisions {
    /// The temporary folder.
    folder: PathBuf,
    /// The checkout that they come from.
    checkout: PathBuf,
    /// Short names: the revision as typed, and HEAD, each with its commit.
    pub(super) names: [String; 2],
}

impl Revisions {
    /// Checks both revisions out and builds them.
    pub(super) fn build(revision: &str, commands: &[String]) -> anyhow::Result<Self> {
        let refuse = |message: String| Refusal::usage(format!("--compare: {message}"));
        let checkout = git(Path::new("."), &["rev-parse", "--show-toplevel"])
            .map_err(|error| refuse(format!("this is no git checkout: {error}")))?;
        let checkout = PathBuf::from(checkout);
        let commit = |name: &str| {
            let wanted = format!("{name}^{{commit}}");
            git(&checkout, &["rev-parse", "--verify", "--quiet", "--end-of-options", &wanted])
                .map_err(|_| refuse(format!("there is no revision '{name}'")))
        };
        let commits = [commit(revision)?, commit("HEAD")?];
        let changes = git(&checkout, &["status", "--porcelain", "--untracked-files=no"]);
        if changes.is_ok_and(|changes| !changes.is_empty()) {
            say("--compare: uncommitted changes aren't part of HEAD, so they are not compared");
        }
        let folder = std::env::temp_dir().join(format!("tare-bench-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let short = |commit: &str| commit.get(..10).unwrap_or(commit).to_owned();
        let names = [
            format!("{revision} ({})", short(&commits[0])),
            format!("HEAD ({})", short(&commits[1])),
        ];
        let revisions = Self { folder, checkout, names };
        for (side, commit) in commits.iter().enumerate() {
            revisions.build_side(side, commit, commands)?;
        }
        Ok(revisions)
    }

    fn build_side(&self, side: usize, commit: &str, commands: &[String]) -> anyhow::Result<()> {
        let work = self.work();
        let path = work.to_string_lossy().into_owned();
        git(&self.checkout, &["worktree", "add", "--quiet", "--force", "--detach", &path, commit])
            .map_err(|error| anyhow::anyhow!("git worktree add: {error}"))?;
        for command in commands {
            let output = Process::new("/bin/sh")
                .args(["-c", command])
                .current_dir(&work)
                .stdin(Stdio::null())
                .output()
                .with_context(|| format!("--build '{command}'"))?;
            if !output.status.success() {
                let text = [output.stdout, output.stderr].concat();
                let text = String::from_utf8_lossy(&text).into_owned();
                let lines: Vec<&str> = text.lines().collect();
                let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n");
                let name = &self.names[side];
                let message =
                    format!("--build '{command}' failed for {name} ({})\n{shown}", output.status);
                return Err(Refusal { exit: Exit::Failure, message }.into());
            }
        }
        let renamed = self.side(side);
        fs::rename(&work, &renamed).with_context(|| format!("cannot rename {path}"))
    }

    /// The folder in which both are built and run.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn side(&self, side: usize) -> PathBuf {
        self.folder.join(SIDES[side])
    }

    /// Makes the folder `work` that of a side: 0 the revision, 1 HEAD.
    pub(super) fn switch_to(&self, side: usize) -> anyhow::Result<()> {
        let next = self.folder.join("next");
        symlink(SIDES[side], &next)
            .and_then(|()| fs::rename(&next, self.work()))
            .context("cannot switch to the other revision")
    }

    /// Whether a command runs the same programs in both: its own is an ELF file of the checkout,
    /// all ELF files of both builds have the same bytes, and so have all files that it names.
    pub(super) fn are_identical(&self, words: &[std::ffi::OsString]) -> bool {
        let folders = [self.side(0), self.side(1)];
        let is_elf = |path: &Path| {
            use std::io::Read;
            let mut start = [0; 4];
            let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
            read.is_ok() && start == ELF
        };
        let Some(program) = words.first() else { return false };
        if Path::new(program).is_absolute() || !is_elf(&folders[0].join(program)) {
            return false;
        }
        let same = |path: &Path| {
            fs::read(folders[0].join(path)).ok() == fs::read(folders[1].join(path)).ok()
        };
        let named = words.iter().map(Path::new).filter(|path| {
            path.is_relative() && folders.iter().any(|folder| folder.join(path).is_file())
        });
        let mut programs = Vec::new();
        for folder in &folders {
            let mut files = Vec::new();
            list_files(folder, &mut files);
            let relative = files.iter().filter(|path| is_elf(path));
            programs.extend(
                relative.filter_map(|path| path.strip_prefix(folder).ok().map(Path::to_owned)),
            );
        }
        named.map(Path::to_owned).chain(programs).all(|path| same(&path))
    }
}

impl Drop for Revisions {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
        let _ = git(&self.checkout, &["worktree", "prune"]);
    }
}

/// Adds all regular files below a folder, except those of git. Links are not followed.
fn list_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && entry.file_name() != ".git" {
            list_files(&entry.path(), files);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
}

/// Runs git in a folder; returns its first line of output, or its message.
fn git(folder: &Path, args: &[&str]) -> Result<String, String> {
    let output = Process::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("git: {error}"))?;
    let first =
        |text: &[u8]| String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned();
    if output.status.success() { Ok(first(&output.stdout)) } else { Err(first(&output.stderr)) }
}
