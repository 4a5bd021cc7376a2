//! What this machine is and what it lets this user do, as read from `/proc` and `/sys`.
//!
//! Everything is read below a root, so that a test can describe any machine as a folder.

mod attributes;
mod cpus;
#[cfg(test)]
pub(crate) mod fixture;
mod hotplug;
mod pmu;
mod process;
mod topology;
mod virtualization;

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::pseudo_file;

pub use attributes::Attributes;
pub use cpus::{CpuList, CpuListError};
pub use hotplug::{CpuChanges, CpuWatch};
pub use pmu::{ConfigWord, Format, FormatError, Pmu, PmuEvent};
pub use process::{CapabilitySet, Rights, address_space, locked_memory, open_files};
pub use topology::{CpuGroup, Topology};
pub use virtualization::{Container, Engine, Hypervisor};

/// Where each file is an attribute of sysfs, or a setting.
const ATTRIBUTES: [&str; 4] = ["/sys/devices", "/sys/bus", "/sys/class", "/proc/sys"];

/// Names and numbers of the first CPU stand in its first lines, before what it can do.
const FIRST_CPU_BYTES: usize = 1 << 10;

/// The files that describe a machine.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::at("/")
    }
}

impl Host {
    /// The machine whose `/proc` and `/sys` lie below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether it is the running machine, and not one that a folder describes.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Where an absolute path of the machine lies.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// Reads a small text file, without the white space around it.
    ///
    /// # Errors
    /// The file system's own.
    pub fn read(&self, absolute: impl AsRef<Path>) -> std::io::Result<String> {
        let absolute = absolute.as_ref();
        let path = self.root.join(absolute.strip_prefix("/").unwrap_or(absolute));
        let text = if ATTRIBUTES.iter().any(|folder| absolute.starts_with(folder)) {
            pseudo_file::text(pseudo_file::attribute(&File::open(&path)?)?)?
        } else {
            pseudo_file::read_text(&path)?
        };
        Ok(text.trim().to_owned())
    }

    /// The beginning of `/proc/cpuinfo`, which tells of the first CPU: with hundreds of them the
    /// kernel takes milliseconds for all. Empty where nothing is told.
    #[must_use]
    pub fn first_cpu(&self) -> String {
        let text = File::open(self.path("/proc/cpuinfo"))
            .and_then(|file| pseudo_file::beginning(&file, FIRST_CPU_BYTES));
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }

    /// The number in a small file; `None` where it is missing, unreadable or holds none.
    pub(crate) fn number<T: std::str::FromStr>(&self, absolute: &str) -> Option<T> {
        self.read(absolute).ok()?.parse().ok()
    }

    /// A setting of the kernel: `kernel.perf_event_paranoid` is the number in
    /// `/proc/sys/kernel/perf_event_paranoid`.
    ///
    /// # Errors
    /// The file system's own, and [`std::io::ErrorKind::InvalidData`] for a file that holds no
    /// number.
    pub fn sysctl(&self, name: &str) -> std::io::Result<i64> {
        let text = self.read(format!("/proc/sys/{}", name.replace('.', "/")))?;
        text.parse().map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    }

    /// The CPUs that are online. Numbers can have gaps.
    ///
    /// # Errors
    /// The file system's own, and [`std::io::ErrorKind::InvalidData`] for a list that can't be
    /// read.
    pub fn online_cpus(&self) -> std::io::Result<CpuList> {
        self.cpu_list("online")
    }

    /// The CPUs that may ever be online.
    ///
    /// # Errors
    /// As [`Self::online_cpus`].
    pub fn possible_cpus(&self) -> std::io::Result<CpuList> {
        self.cpu_list("possible")
    }

    fn cpu_list(&self, name: &str) -> std::io::Result<CpuList> {
        let text = self.read(format!("/sys/devices/system/cpu/{name}"))?;
        text.parse().map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    }
}
