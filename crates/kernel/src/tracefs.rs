//! The kernel's tracepoints, as tracefs describes them.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::host::Host;
use crate::{mounts, pseudo_file};

/// The mount point that the kernel creates for tracefs (Linux 4.1).
const USUAL_PLACE: &str = "/sys/kernel/tracing";

/// The folder of the kernel's tracepoints.
#[derive(Clone, Debug)]
pub struct Tracefs {
    events: PathBuf,
}

/// Why tracepoints can't be looked up.
#[derive(Debug, thiserror::Error)]
pub enum TracefsError {
    /// tracefs is not mounted in this mount namespace.
    #[error("tracefs is not mounted (as root: mount -t tracefs tracefs /sys/kernel/tracing)")]
    NotMounted,
    /// This user may not read it.
    #[error(
        "{path} is not readable for this user (run as root, or let a group in, as root: mount -o remount,gid=GROUP,mode=750 {mount})"
    )]
    NotReadable {
        /// The path.
        path: String,
        /// Where tracefs is mounted.
        mount: String,
    },
    /// The kernel has no system, tracepoint, field or file of this name.
    #[error("the kernel has no tracepoint {0}")]
    NoSuch(String),
    /// The file can't be read, or has unexpected content.
    #[error("{path}: {source}")]
    Io {
        /// The path.
        path: String,
        /// The file system's error.
        source: io::Error,
    },
}

impl Tracefs {
    /// Finds the mount: at the usual place, else by the mount table, as tracefs itself or below
    /// debugfs.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NotMounted`], or with [`TracefsError::NotReadable`] if the user
    /// may not enter the folder.
    pub fn find(host: &Host) -> Result<Self, TracefsError> {
        match Self::at(host, USUAL_PLACE) {
            Err(TracefsError::NoSuch(_)) => {}
            found => return found,
        }
        let mounts = mounts::mounts(host, &["tracefs", "debugfs"]).unwrap_or_default();
        let of = |kind: &'static str| {
            mounts.iter().filter(move |mount| mount.fs_type == kind && mount.root == Path::new("/"))
        };
        let places = of("tracefs")
            .map(|mount| mount.point.clone())
            .chain(of("debugfs").map(|mount| mount.point.join("tracing")));
        let mut reason = TracefsError::NotMounted;
        for place in places {
            match Self::at(host, &place.to_string_lossy()) {
                Err(TracefsError::NoSuch(_)) => {}
                Err(other) => reason = other,
                found => return found,
            }
        }
        Err(reason)
    }

    fn at(host: &Host, place: &str) -> Result<Self, TracefsError> {
        let events = host.path(place).join("events");
        // Reading the metadata of `events` needs the right to enter the folder above it, which
        // tracefs by default gives to root alone.
        match std::fs::metadata(&events) {
            Ok(_) => Ok(Self { events }),
            Err(error) => Err(reason(&events, place, error)),
        }
    }

    /// Returns the systems, sorted.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub fn systems(&self) -> Result<Vec<String>, TracefsError> {
        folders(&self.events).map_err(|error| self.reason(&self.events, error))
    }

    /// Returns the tracepoints of a system, sorted.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] for an unknown system, and if the folder can't be read.
    pub fn events(&self, system: &str) -> Result<Vec<String>, TracefsError> {
        let folder = self.events.join(plain(system)?);
        folders(&folder).map_err(|error| self.reason(&folder, error))
    }

    /// Returns a tracepoint's id, for `perf_event_attr.config`.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] for an unknown name, and if the file can't be read.
    pub fn id(&self, system: &str, event: &str) -> Result<u64, TracefsError> {
        let path = self.events.join(plain(system)?).join(plain(event)?).join("id");
        let text = std::fs::read_to_string(&path).map_err(|error| self.reason(&path, error))?;
        text.trim()
            .parse()
            .map_err(|error| self.reason(&path, io::Error::new(ErrorKind::InvalidData, error)))
    }

    /// Returns the names of a tracepoint's fields, including those that all have (`common_pid`).
    /// Filters can also use the kernel's generic fields (`CPU`, `COMM`), which aren't listed.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] for an unknown name, and if the file can't be read.
    pub fn fields(&self, system: &str, event: &str) -> Result<Vec<String>, TracefsError> {
        let path = self.events.join(plain(system)?).join(plain(event)?).join("format");
        let text = std::fs::read_to_string(&path).map_err(|error| self.reason(&path, error))?;
        Ok(text.lines().filter_map(field_name).map(str::to_owned).collect())
    }

    /// Returns the kernel's text on how a tracepoint's records are laid out and printed.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] for an unknown name, and if the file can't be read.
    pub fn format(&self, system: &str, event: &str) -> Result<Vec<u8>, TracefsError> {
        self.read_path(&self.events.join(plain(system)?).join(plain(event)?).join("format"))
    }

    /// Reads a file that describes all tracepoints: `events/header_page`, `events/header_event`,
    /// `printk_formats`, `saved_cmdlines`.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] if this kernel has no file of this name, and if the file
    /// can't be read.
    pub fn file(&self, name: &str) -> Result<Vec<u8>, TracefsError> {
        let path = name.split('/').map(plain).collect::<Result<PathBuf, _>>()?;
        self.read_path(&self.events.parent().unwrap_or(&self.events).join(path))
    }

    fn read_path(&self, path: &Path) -> Result<Vec<u8>, TracefsError> {
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| pseudo_file::read_into(&file, &mut bytes));
        read.map(|()| bytes).map_err(|error| self.reason(path, error))
    }

    /// Returns a field's offset and size in a tracepoint's raw data, in bytes.
    ///
    /// # Errors
    /// Fails with [`TracefsError::NoSuch`] for an unknown tracepoint or field, and if the file
    /// can't be read.
    pub fn field_place(
        &self,
        system: &str,
        event: &str,
        field: &str,
    ) -> Result<(usize, usize), TracefsError> {
        let path = self.events.join(plain(system)?).join(plain(event)?).join("format");
        let text = std::fs::read_to_string(&path).map_err(|error| self.reason(&path, error))?;
        let line = text.lines().find(|line| field_name(line) == Some(field));
        let number = |name: &str| {
            line?.split(';').find_map(|part| part.trim().strip_prefix(name)?.parse().ok())
        };
        number("offset:")
            .zip(number("size:"))
            .ok_or_else(|| TracefsError::NoSuch(format!("field {system}:{event} {field}")))
    }

    fn reason(&self, path: &Path, error: io::Error) -> TracefsError {
        let mount = self.events.parent().unwrap_or(&self.events).display().to_string();
        reason(path, &mount, error)
    }
}

fn reason(path: &Path, mount: &str, error: io::Error) -> TracefsError {
    let shown = path.display().to_string();
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => TracefsError::NoSuch(shown),
        // Root is refused by a security module or a locked-down kernel.
        ErrorKind::PermissionDenied if !rustix::process::geteuid().is_root() => {
            TracefsError::NotReadable { path: shown, mount: mount.to_owned() }
        }
        _ => TracefsError::Io { path: shown, source: error },
    }
}

/// Checks that a name stays inside its folder.
fn plain(name: &str) -> Result<&str, TracefsError> {
    let outside = name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']);
    if outside { Err(TracefsError::NoSuch(name.to_owned())) } else { Ok(name) }
}

fn folders(of: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(of)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Returns a field's name: `field:char comm[16]; offset:8; size:16; signed:0;` -> `comm`.
fn field_name(line: &str) -> Option<&str> {
    let declaration = line.trim_start().strip_prefix("field:")?.split(';').next()?;
    let name = declaration.trim_end().rsplit([' ', '*']).next()?;
    name.split('[').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::machine;

    #[test]
    fn field_names_are_found_in_declarations() {
        assert_eq!(
            field_name("\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;"),
            Some("common_type")
        );
        assert_eq!(
            field_name("\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;"),
            Some("prev_comm")
        );
        assert_eq!(
            field_name("\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;"),
            Some("name")
        );
        assert_eq!(
            field_name("\tfield:const char *filename;\toffset:8;\tsize:8;\tsigned:0;"),
            Some("filename")
        );
        assert_eq!(field_name("print fmt: \"x\""), None);
    }

    #[test]
    fn places_of_fields_come_from_the_format() {
        let format = "name: nmi_handler\nformat:\n\tfield:void * handler;\toffset:8;\tsize:8;\tsigned:0;\n\tfield:s64 delta_ns;\toffset:16;\tsize:8;\tsigned:1;\n";
        let machine = machine(&[("/sys/kernel/tracing/events/nmi/nmi_handler/format", format)]);
        let tracefs = Tracefs::find(&machine.host()).unwrap();
        assert_eq!(tracefs.field_place("nmi", "nmi_handler", "delta_ns").unwrap(), (16, 8));
        assert!(matches!(
            tracefs.field_place("nmi", "nmi_handler", "delta"),
            Err(TracefsError::NoSuch(_))
        ));
    }

    #[test]
    fn tracefs_is_found_by_the_mount_table_if_it_is_not_at_its_usual_place() {
        let event = "events/sched/sched_switch/id";
        let below_debugfs = machine(&[
            ("/proc/self/mountinfo", "30 20 0:7 / /mnt/my\\040debug rw - debugfs none rw\n"),
            (&*format!("/mnt/my debug/tracing/{event}"), "316\n"),
        ]);
        assert_eq!(
            Tracefs::find(&below_debugfs.host()).unwrap().id("sched", "sched_switch").unwrap(),
            316
        );
        let elsewhere = machine(&[
            ("/proc/self/mountinfo", "30 20 0:7 / /mnt/trace rw - tracefs none rw\n"),
            (&*format!("/mnt/trace/{event}"), "316\n"),
        ]);
        let tracefs = Tracefs::find(&elsewhere.host()).unwrap();
        assert_eq!(
            (tracefs.systems().unwrap(), tracefs.events("sched").unwrap()),
            (vec!["sched".to_owned()], vec!["sched_switch".to_owned()])
        );
        assert!(matches!(tracefs.id("sched", "sched_swich"), Err(TracefsError::NoSuch(_))));
        let nowhere = machine(&[("/proc/self/mountinfo", "1 0 0:1 / / rw - ext4 /dev/sda rw\n")]);
        assert!(matches!(Tracefs::find(&nowhere.host()), Err(TracefsError::NotMounted)));
    }

    #[test]
    fn names_stay_inside_their_folder() {
        for bad in ["", "..", ".", "a/b"] {
            assert!(plain(bad).is_err(), "{bad}");
        }
    }
}
