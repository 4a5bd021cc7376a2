//! Facts about this machine and the rights of this process, most of them from `/proc` and `/sys`.
//!
//! Files are read below a root, so that a test can describe any machine as a folder.

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

/// Folders whose files are sysfs attributes or settings.
const ATTRIBUTES: [&str; 4] = ["/sys/devices", "/sys/bus", "/sys/class", "/proc/sys"];

/// Bytes of `/proc/cpuinfo` that hold the first CPU's names and numbers, before its flags.
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
    /// Creates the machine whose `/proc` and `/sys` are below `root`.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running machine, not one described by a folder.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Returns the path below the root of an absolute path of the machine.
    #[must_use]
    pub fn path(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// Reads a small text file and trims white space.
    ///
    /// # Errors
    /// Fails if the file can't be read or isn't UTF-8.
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

    /// Returns the beginning of `/proc/cpuinfo`, which describes the first CPU: with hundreds of
    /// CPUs the kernel takes milliseconds for all of it. Empty if unreadable.
    #[must_use]
    pub fn first_cpu(&self) -> String {
        let text = File::open(self.path("/proc/cpuinfo"))
            .and_then(|file| pseudo_file::beginning(&file, FIRST_CPU_BYTES));
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }

    /// Returns the number in a small file; `None` if it is missing, unreadable or not a number.
    pub(crate) fn number<T: std::str::FromStr>(&self, absolute: &str) -> Option<T> {
        self.read(absolute).ok()?.parse().ok()
    }

    /// Returns a kernel setting: `kernel.perf_event_paranoid` is the number in
    /// `/proc/sys/kernel/perf_event_paranoid`.
    ///
    /// # Errors
    /// Fails if the file can't be read, and with [`std::io::ErrorKind::InvalidData`] if it holds no
    /// number.
    pub fn sysctl(&self, name: &str) -> std::io::Result<i64> {
        let text = self.read(format!("/proc/sys/{}", name.replace('.', "/")))?;
        text.parse().map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    }

    /// Returns the online CPUs. Numbers can have gaps.
    ///
    /// # Errors
    /// Fails if the file can't be read, and with [`std::io::ErrorKind::InvalidData`] if it isn't a
    /// CPU list.
    pub fn online_cpus(&self) -> std::io::Result<CpuList> {
        self.cpu_list("online")
    }

    /// Returns the CPUs that can ever be online.
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
