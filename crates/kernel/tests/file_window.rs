//! Windows of real files, on the available file systems.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tare_kernel::file_window::{FileWindow, WindowError, WindowStep};

fn page() -> usize {
    rustix::param::page_size()
}

fn create(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
}

/// Minor and major page faults of this thread.
fn faults() -> i64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<i64> = stat[stat.rfind(')').unwrap()..]
        .split_whitespace()
        .filter_map(|field| field.parse().ok())
        .collect();
    // After the name and the state: ppid pgrp session tty tpgid flags minflt cminflt majflt
    // (proc(5)).
    fields[6] + fields[8]
}

/// Writes a window that begins within a file and extends it: earlier content stays, written bytes
/// arrive, and writing causes few page faults.
fn a_window_works(path: &Path) {
    let file = create(path);
    file.write_all_at(&vec![1; page() + 10], 0).unwrap();
    // The recorder opens windows on another thread.
    let mut window = std::thread::scope(|scope| {
        scope.spawn(|| FileWindow::open(&file, page() as u64, 256 * page())).join()
    })
    .unwrap()
    .unwrap();
    assert_eq!((window.offset(), window.len()), (page() as u64, 256 * page()));
    assert_eq!(file.metadata().unwrap().len(), 257 * page() as u64);
    let bytes = vec![2; window.len()];
    let before = faults();
    assert_eq!(window.write(10, &bytes), window.len() - 10);
    assert!(faults() - before < 16, "{} page faults", faults() - before);
    assert_eq!(window.write(window.len(), b"beyond"), 0);
    drop(window);

    let mut text = Vec::new();
    File::open(path).unwrap().read_to_end(&mut text).unwrap();
    let (old, new) = text.split_at(page() + 10);
    assert!(old.iter().all(|&byte| byte == 1) && new.iter().all(|&byte| byte == 2));
    assert_eq!(new.len(), 256 * page() - 10);
}

#[test]
fn a_window_of_a_file_can_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    match FileWindow::open(create(&path), 0, page()) {
        Err(WindowError::NotSupported { step, error }) => {
            println!("skipped: {step} is not possible here: {error}");
        }
        _ => a_window_works(&path),
    }
}

/// A tmpfs that is unmounted on drop.
struct MountGuard(tempfile::TempDir);

impl MountGuard {
    fn tmpfs(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .output();
        if !mount.is_ok_and(|output| output.status.success()) {
            println!("skipped: a tmpfs can't be mounted, which takes root");
            return None;
        }
        Some(Self(folder))
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("file")
    }
}

impl Drop for MountGuard {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0.path()).status();
        assert!(std::thread::panicking() || unmounted.is_ok_and(|status| status.success()));
    }
}

#[test]
fn a_full_tmpfs_is_reported() {
    let Some(tmpfs) = MountGuard::tmpfs("4m") else { return };
    a_window_works(&tmpfs.file());
    let file = create(&tmpfs.file());
    let len = 1 << 20;
    let mut windows = Vec::new();
    let error = loop {
        match FileWindow::open(&file, windows.len() as u64 * len as u64, len) {
            Ok(window) => windows.push(window),
            Err(error) => break error,
        }
    };
    assert_eq!(error, WindowError::NoSpace { len });
    assert!(windows.len() >= 3, "{} windows", windows.len());
    // Every opened window can be written to its last byte.
    assert!(windows.iter_mut().all(|window| window.write(0, &vec![3; len]) == len));
}

#[test]
fn special_files_are_refused() {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null").unwrap();
    let refused = FileWindow::open(&null, 0, page()).unwrap_err();
    assert!(
        matches!(refused, WindowError::NotSupported { step: WindowStep::Allocate, .. }),
        "{refused}"
    );

    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
    let refused = FileWindow::open(create(&fifo), 0, page()).unwrap_err();
    assert!(
        matches!(refused, WindowError::NotSupported { step: WindowStep::Allocate, .. }),
        "{refused}"
    );

    let odd = FileWindow::open(tempfile::tempfile().unwrap(), 0, page() + 1).unwrap_err();
    assert_eq!(odd, WindowError::NotPages { offset: 0, len: page() + 1 });
}

#[test]
fn a_file_size_limit_is_reported() {
    // SAFETY: ignoring a signal installs no handler. No other test here expects SIGXFSZ.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
    // Far above the other tests' files: the limit applies to the whole process.
    let most: u64 = 1 << 30;
    let before = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(most), maximum: before.maximum }).unwrap();
    let file = tempfile::tempfile().unwrap();
    file.set_len(most).unwrap();
    let refused = FileWindow::open(file, most, page());
    setrlimit(Resource::Fsize, before).unwrap();
    match refused.unwrap_err() {
        WindowError::NotSupported { step, error } => {
            println!("skipped: {step} is not possible here: {error}");
        }
        error => assert_eq!(error, WindowError::TooLong { end: most + page() as u64 }),
    }
}

#[test]
fn truncating_a_file_tears_its_window_without_killing_the_process() {
    tare_kernel::file_window::catch_bus_errors();
    let file = tempfile::tempfile().unwrap();
    let (mut window, mut other) = match (
        FileWindow::open(&file, 0, 4 * page()),
        FileWindow::open(&file, 4 * page() as u64, page()),
    ) {
        (Ok(window), Ok(other)) => (window, other),
        (Err(error), _) | (_, Err(error)) => return println!("skipped: {error}"),
    };
    let bytes = vec![7; 4 * page()];
    assert_eq!(window.write(0, &bytes), bytes.len());
    assert!(!window.is_torn());
    file.set_len(page() as u64 + 10).unwrap();
    assert_eq!(window.write(0, &bytes[..page()]), page());
    assert!(!window.is_torn(), "this page is there");
    assert_eq!(window.write(0, &bytes), bytes.len());
    assert!(window.is_torn() && !other.is_torn());
    assert_eq!(other.write(0, &bytes), page());
    assert!(other.is_torn());
    drop((window, other));
    let mut held = vec![0; page() + 10];
    file.read_exact_at(&mut held, 0).unwrap();
    assert!(
        held.iter().all(|&byte| byte == 7) && file.metadata().unwrap().len() == 10 + page() as u64
    );
}
