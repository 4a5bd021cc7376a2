//! Finds where cgroups are mounted, which hierarchy has `perf_event`, the folder of a cgroup that
//! the user names, and this process's rights and CPUs in its cgroup. Creates cgroups for commands
//! ([`TransientCgroup`]).
//!
//! `perf_event` belongs to one hierarchy at a time: if version 1 has it, version 2 doesn't, and the
//! kernel only accepts folders of the hierarchy that has it. Version 2 needs no enabling
//! (`Documentation/admin-guide/cgroup-v2.rst`, "perf_event").

pub(crate) mod members;
mod transient;

use std::path::{Component, Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};
use rustix::io::Errno;

use crate::host::{CpuList, Host};
use crate::mounts::{Mount, mounts};
use crate::pseudo_file;

pub(crate) use transient::move_to;
#[cfg(test)]
pub(crate) use transient::tests::alone;
pub use transient::{CgroupRemoval, CpuTime, TransientCgroup, TransientError, TransientParent};

/// The controller of events on cgroups.
const PERF_EVENT: &str = "perf_event";

/// A hierarchy of cgroups as this process sees it. Paths are the machine's, to be opened through
/// [`Host::path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Where it is mounted.
    pub mount: PathBuf,
    /// The folder of this process's own cgroup. `None` if it isn't below the mount, or the mount
    /// starts above the cgroup namespace: the kernel then hides the name below it.
    pub own: Option<PathBuf>,
}

/// Which version of cgroups has `perf_event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PerfEvent {
    /// A hierarchy of version 1.
    Version1,
    /// The hierarchy of version 2.
    Version2,
    /// No hierarchy: the kernel was built without `CONFIG_CGROUP_PERF`, or booted with
    /// `cgroup_disable=perf_event`.
    Nowhere,
}

/// The cgroups of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroups {
    /// Version 2, if mounted (also beside version 1).
    pub v2: Option<Hierarchy>,
    /// Which version has `perf_event`.
    pub perf_event: PerfEvent,
    /// The hierarchy with `perf_event`; `None` if it isn't mounted.
    pub for_events: Option<Hierarchy>,
}

/// Why a cgroup can't be found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The kernel has no `perf_event` for cgroups.
    #[error("this kernel counts no events per cgroup (CONFIG_CGROUP_PERF is off)")]
    NoPerfEvent,
    /// The hierarchy isn't mounted in this mount namespace.
    #[error("cgroups that can be counted are not mounted here; '{remedy}' mounts them")]
    NotMounted {
        /// The command that mounts it.
        remedy: &'static str,
    },
    /// There is no such folder.
    #[error("no cgroup '{name}' below {}", mount.display())]
    Missing {
        /// The name as given.
        name: String,
        /// The hierarchy's mount, where names start.
        mount: PathBuf,
    },
    /// The name contains `..`.
    #[error("the cgroup '{name}' leads out of the hierarchy; name it from its top")]
    Outside {
        /// The name as given.
        name: String,
    },
}

impl Cgroups {
    /// Reads `/proc/self/mountinfo`, `/proc/self/cgroup` and `/proc/cgroups`. Missing files count
    /// as empty; without `/proc/cgroups` the kernel counts as having `perf_event`.
    #[must_use]
    pub fn read(host: &Host) -> Self {
        let mounts = mounts(host, &["cgroup", "cgroup2"]).unwrap_or_default();
        let memberships = memberships(host);
        let v2 = v2(host, &mounts, &memberships);
        let v1_own = memberships
            .iter()
            .find(|m| m.controllers.iter().any(|name| name == PERF_EVENT))
            .map(|m| m.path.as_path());
        let v1_mounts = mounts
            .iter()
            .filter(|mount| mount.fs_type == "cgroup" && mount.has_fs_option(PERF_EVENT));
        let (perf_event, for_events) = match v1_own {
            Some(own) => (PerfEvent::Version1, hierarchy(host, v1_mounts, Some(own))),
            None if kernel_has_perf_event(host) => (PerfEvent::Version2, v2.clone()),
            None => (PerfEvent::Nowhere, None),
        };
        Self { v2, perf_event, for_events }
    }

    /// Returns the names of all cgroups whose name matches, sorted: paths below the mount of the
    /// hierarchy with `perf_event`, without a leading slash. Folders that can't be read count as
    /// empty.
    #[must_use]
    pub fn matching(&self, host: &Host, is_match: impl Fn(&str) -> bool) -> Vec<String> {
        let Some(Hierarchy { mount, .. }) = &self.for_events else { return Vec::new() };
        let mut found = Vec::new();
        let mut folders = vec![PathBuf::new()];
        while let Some(parent) = folders.pop() {
            let entries = std::fs::read_dir(below(host, &mount.join(&parent)));
            for entry in entries.into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    continue;
                }
                let folder = parent.join(entry.file_name());
                found.extend(folder.to_str().filter(|name| is_match(name)).map(str::to_owned));
                folders.push(folder);
            }
        }
        found.sort();
        found
    }

    /// Returns the folder of the cgroup that the user names for `-G`. Names start at the mount of
    /// the hierarchy with `perf_event`, which is `/`; the folder's absolute path is accepted too.
    ///
    /// # Errors
    /// See [`CgroupError`].
    pub fn find(&self, host: &Host, name: &str) -> Result<PathBuf, CgroupError> {
        let hierarchy = match (&self.for_events, self.perf_event) {
            (Some(hierarchy), _) => hierarchy,
            (None, PerfEvent::Nowhere) => return Err(CgroupError::NoPerfEvent),
            (None, PerfEvent::Version1) => {
                let remedy = "sudo mkdir -p /sys/fs/cgroup/perf_event && sudo mount -t cgroup -o perf_event none /sys/fs/cgroup/perf_event";
                return Err(CgroupError::NotMounted { remedy });
            }
            (None, PerfEvent::Version2) => {
                return Err(CgroupError::NotMounted {
                    remedy: "sudo mount -t cgroup2 none /sys/fs/cgroup",
                });
            }
        };
        let mount = &hierarchy.mount;
        let given = Path::new(name);
        if given.components().any(|part| part == Component::ParentDir) {
            return Err(CgroupError::Outside { name: name.to_owned() });
        }
        let from_top = mount.join(given.strip_prefix("/").unwrap_or(given));
        let candidates = [Some(from_top), given.starts_with(mount).then(|| given.to_owned())];
        let found = candidates.into_iter().flatten().find(|folder| below(host, folder).is_dir());
        found.ok_or_else(|| CgroupError::Missing { name: name.to_owned(), mount: mount.clone() })
    }
}

fn v2(host: &Host, mounts: &[Mount], memberships: &[Membership]) -> Option<Hierarchy> {
    let own = memberships.iter().find(|m| m.controllers.is_empty()).map(|m| m.path.as_path());
    hierarchy(host, mounts.iter().filter(|mount| mount.fs_type == "cgroup2"), own)
}

impl Host {
    /// Returns the CPUs to which its cgroup's cpuset limits this process and its children
    /// (`cpuset.cpus.effective` of version 2, in the nearest cgroup with that controller). `None`
    /// if unknown.
    #[must_use]
    pub fn own_cpuset(&self) -> Option<CpuList> {
        let hierarchy = v2(self, &mounts(self, &["cgroup2"]).ok()?, &memberships(self))?;
        let own = hierarchy.own?;
        let folders = own.ancestors().take_while(|folder| folder.starts_with(&hierarchy.mount));
        let cpus = folders
            .into_iter()
            .find_map(|folder| self.read(folder.join("cpuset.cpus.effective")).ok())?;
        cpus.parse().ok()
    }
}

/// The rights of this user in a cgroup of version 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// Whether a child cgroup can be created: write access to the folder.
    pub create: Result<(), Errno>,
    /// Whether a process of this cgroup can be moved into a child: write access to `cgroup.procs`,
    /// as this cgroup is the common ancestor.
    pub attach: Result<(), Errno>,
    /// `cgroup.type`, unless it is `domain`: a new child of a cgroup of another type takes no
    /// processes until it becomes threaded. `None` also at the top, which has no type.
    pub odd_type: Option<String>,
    /// The children's controllers (`cgroup.subtree_control`).
    pub for_children: Vec<String>,
}

impl Delegation {
    /// Reads the rights of this user in the cgroup at `folder`, a path of the machine.
    #[must_use]
    pub fn read(host: &Host, folder: &Path) -> Self {
        let folder = below(host, folder);
        let words = |file: &str| pseudo_file::read_text(&folder.join(file)).unwrap_or_default();
        Self {
            create: writable(&folder, Access::WRITE_OK | Access::EXEC_OK),
            attach: writable(&folder.join("cgroup.procs"), Access::WRITE_OK),
            odd_type: Some(words("cgroup.type").trim().to_owned())
                .filter(|kind| !kind.is_empty() && kind != "domain"),
            for_children: words("cgroup.subtree_control")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
        }
    }
}

/// Checks access by the effective user and capabilities, like opening the file.
fn writable(path: &Path, access: Access) -> Result<(), Errno> {
    rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS)
}

fn below(host: &Host, path: &Path) -> PathBuf {
    host.path(&path.to_string_lossy())
}

/// A line of `/proc/self/cgroup`: `4:cpu,cpuacct:/user` of version 1, `0::/user` of version 2.
struct Membership {
    controllers: Vec<String>,
    path: PathBuf,
}

fn memberships(host: &Host) -> Vec<Membership> {
    let text = host.read("/proc/self/cgroup").unwrap_or_default();
    let parse = |line: &str| {
        let mut fields = line.splitn(3, ':');
        let number = fields.next()?;
        let controllers: Vec<String> =
            fields.next()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let path = PathBuf::from(fields.next()?);
        (number == "0" || !controllers.is_empty()).then_some(Membership { controllers, path })
    };
    text.lines().filter_map(parse).collect()
}

/// Reads the row `perf_event hierarchy cgroups enabled` of `/proc/cgroups`. Returns true if the
/// file can't be read: opening an event then decides.
fn kernel_has_perf_event(host: &Host) -> bool {
    let Ok(text) = host.read("/proc/cgroups") else { return true };
    let rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.into_iter().any(|row| row.first() == Some(&PERF_EVENT) && row.get(3) != Some(&"0"))
}

/// Returns the mount that shows most of a hierarchy: the one with the highest root, among those
/// that show the process's own cgroup if there are any.
fn hierarchy<'a>(
    host: &Host,
    mounts: impl Iterator<Item = &'a Mount>,
    own: Option<&Path>,
) -> Option<Hierarchy> {
    let seen = mounts.filter(|mount| below(host, &mount.point).is_dir());
    let candidates = seen.map(|mount| {
        let own =
            own.and_then(|own| folder_in(mount, own)).filter(|folder| below(host, folder).is_dir());
        (
            own.is_some(),
            std::cmp::Reverse(mount.root.components().count()),
            Hierarchy { mount: mount.point.clone(), own },
        )
    });
    candidates
        .max_by_key(|(has_own, depth, _)| (*has_own, *depth))
        .map(|(_, _, hierarchy)| hierarchy)
}

/// Returns the folder of the cgroup `own` below a mount. Both `own` and the mount's root are
/// relative to the top of the cgroup namespace. The root of a mount that starts above it begins
/// with `/..`; then only a cgroup beside the namespace has a known name below it.
fn folder_in(mount: &Mount, own: &Path) -> Option<PathBuf> {
    let rest = own.strip_prefix(&mount.root).ok()?;
    let stays_inside = rest.components().all(|part| matches!(part, Component::Normal(_)));
    stays_inside.then(|| {
        if rest.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(rest) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture::{self, FixtureHost};

    const WITH_PERF: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\nperf_event\t0\t1\t1\n";

    /// A machine with these mounts, memberships and cgroups.
    fn machine(mountinfo: &str, own: &str, folders: &[&str]) -> FixtureHost {
        let mut files = vec![
            ("/proc/self/mountinfo".to_owned(), mountinfo.to_owned()),
            ("/proc/self/cgroup".to_owned(), own.to_owned()),
            ("/proc/cgroups".to_owned(), WITH_PERF.to_owned()),
        ];
        files
            .extend(folders.iter().map(|folder| (format!("{folder}/cgroup.procs"), String::new())));
        fixture::machine(&files)
    }

    fn at(path: &str) -> Option<PathBuf> {
        Some(PathBuf::from(path))
    }

    #[test]
    fn version_2_finds_cgroups_by_name_and_by_path() {
        let machine = machine(
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/user.slice/a.scope\n",
            &["/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/b c"],
        );
        let host = machine.host();
        let cgroups = Cgroups::read(&host);
        assert_eq!(cgroups.perf_event, PerfEvent::Version2);
        assert_eq!(cgroups.v2.as_ref().unwrap().own, at("/sys/fs/cgroup/user.slice/a.scope"));
        for name in ["b c", "/b c", "b c/", "/sys/fs/cgroup/b c"] {
            assert!(
                cgroups
                    .find(&host, name)
                    .is_ok_and(|folder| folder == Path::new("/sys/fs/cgroup/b c")),
                "{name}"
            );
        }
        let names = cgroups.matching(&host, |name| name.contains("user"));
        assert_eq!(names, ["user.slice", "user.slice/a.scope"]);
        assert!(cgroups.find(&host, "/").is_ok_and(|folder| folder == Path::new("/sys/fs/cgroup")));
        assert_eq!(
            cgroups.find(&host, "b").unwrap_err().to_string(),
            "no cgroup 'b' below /sys/fs/cgroup"
        );
        assert!(matches!(
            cgroups.find(&host, "user.slice/../b c"),
            Err(CgroupError::Outside { .. })
        ));
    }

    /// Version 1 has some controllers, but not `perf_event`: names start at the mount of version 2,
    /// `unified`.
    #[test]
    fn a_hybrid_machine_uses_version_2_if_version_1_lacks_perf_event() {
        let machine = machine(
            "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            "1:cpu:/x\n0::/\n",
            &["/sys/fs/cgroup/cpu/x", "/sys/fs/cgroup/unified/job"],
        );
        let cgroups = Cgroups::read(&machine.host());
        assert_eq!(cgroups.perf_event, PerfEvent::Version2);
        assert_eq!(
            cgroups.for_events,
            Some(Hierarchy {
                mount: "/sys/fs/cgroup/unified".into(),
                own: at("/sys/fs/cgroup/unified")
            })
        );
        assert_eq!(
            cgroups.find(&machine.host(), "job").unwrap(),
            Path::new("/sys/fs/cgroup/unified/job")
        );
    }

    #[test]
    fn version_1_is_used_if_it_has_perf_event() {
        let mountinfo = "33 31 0:30 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n\
                         41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "3:perf_event:/job\n1:name=systemd:/\n0::/user\n";
        let folders = ["/sys/fs/cgroup/perf_event/job", "/sys/fs/cgroup/unified/user"];
        let seen = machine(mountinfo, own, &folders);
        let cgroups = Cgroups::read(&seen.host());
        assert_eq!(cgroups.perf_event, PerfEvent::Version1);
        assert_eq!(cgroups.v2.as_ref().unwrap().own, at("/sys/fs/cgroup/unified/user"));
        assert_eq!(
            cgroups.find(&seen.host(), "job").unwrap(),
            Path::new("/sys/fs/cgroup/perf_event/job")
        );
        assert!(cgroups.find(&seen.host(), "user").is_err());

        let unseen = machine(mountinfo.lines().nth(1).unwrap(), own, &folders);
        let error = Cgroups::read(&unseen.host()).find(&unseen.host(), "job").unwrap_err();
        assert!(error.to_string().contains("mount -t cgroup -o perf_event"), "{error}");
    }

    /// A container without a cgroup namespace of its own: its part of the tree is bind-mounted at
    /// the usual place.
    #[test]
    fn a_bind_mounted_part_of_the_tree_shows_the_own_cgroup() {
        let machine = machine(
            "500 400 0:26 /docker/4f/nested /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "0::/docker/4f/nested/init\n",
            &["/sys/fs/cgroup/init"],
        );
        assert_eq!(Cgroups::read(&machine.host()).v2.unwrap().own, at("/sys/fs/cgroup/init"));
    }

    /// A mount that shows the own cgroup is chosen, and among several such mounts the one that
    /// shows most.
    #[test]
    fn the_mount_that_shows_most_is_chosen() {
        let machine = machine(
            "1 0 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n\
             2 0 0:26 / /mnt/all rw - cgroup2 cgroup2 rw\n\
             3 0 0:26 /own /mnt/part rw - cgroup2 cgroup2 rw\n",
            "0::/own\n",
            &["/mnt/other", "/mnt/all/own", "/mnt/part"],
        );
        assert_eq!(
            Cgroups::read(&machine.host()).v2,
            Some(Hierarchy { mount: "/mnt/all".into(), own: at("/mnt/all/own") })
        );
    }

    /// In a cgroup namespace, a mount from outside starts above the namespace's top, under a hidden
    /// name.
    #[test]
    fn a_mount_from_outside_of_the_namespace_hides_the_own_cgroup() {
        let inside = |own: &str| {
            machine(
                "1 0 0:26 /.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                own,
                &["/sys/fs/cgroup/beside"],
            )
        };
        assert_eq!(
            Cgroups::read(&inside("0::/\n").host()).v2,
            Some(Hierarchy { mount: "/sys/fs/cgroup".into(), own: None })
        );
        assert_eq!(
            Cgroups::read(&inside("0::/../beside\n").host()).v2.unwrap().own,
            at("/sys/fs/cgroup/beside")
        );
        let moved_out = machine(
            "1 0 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "0::/../beside\n",
            &["/sys/fs/cgroup"],
        );
        assert_eq!(Cgroups::read(&moved_out.host()).v2.unwrap().own, None);
    }

    #[test]
    fn a_missing_mount_and_a_missing_controller_are_distinguished() {
        let empty = fixture::empty();
        let cgroups = Cgroups::read(&empty.host());
        assert_eq!(
            cgroups,
            Cgroups { v2: None, perf_event: PerfEvent::Version2, for_events: None }
        );
        assert!(matches!(cgroups.find(&empty.host(), "x"), Err(CgroupError::NotMounted { .. })));

        let without = fixture::machine(&[(
            "/proc/cgroups",
            "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nperf_event\t0\t1\t0\n",
        )]);
        assert!(matches!(
            Cgroups::read(&without.host()).find(&without.host(), "x"),
            Err(CgroupError::NoPerfEvent)
        ));
    }

    #[test]
    fn delegation_has_the_rights_type_and_controllers() {
        let machine = fixture::machine(&[
            ("/cg/cgroup.procs", ""),
            ("/cg/cgroup.type", "threaded\n"),
            ("/cg/cgroup.subtree_control", "cpu memory\n"),
        ]);
        let delegation = Delegation::read(&machine.host(), Path::new("/cg"));
        assert_eq!((delegation.create, delegation.attach), (Ok(()), Ok(())));
        assert_eq!(delegation.odd_type.as_deref(), Some("threaded"));
        assert_eq!(delegation.for_children, ["cpu", "memory"]);
        assert_eq!(Delegation::read(&machine.host(), Path::new("/none")).create, Err(Errno::NOENT));
    }
}
