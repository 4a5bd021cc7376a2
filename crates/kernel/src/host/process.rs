//! The rights of this process: capabilities, user namespace, seccomp, limits.

use std::io;

use rustix::process::Rlimit;
pub use rustix::thread::CapabilitySet;

use super::Host;

/// The initial user namespace (`PROC_USER_INIT_INO`, `include/linux/proc_ns.h`).
const INITIAL_USER_NAMESPACE: u32 = 0xEFFF_FFFD;

/// The rights of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Effective capabilities, from `/proc/self/status`.
    pub effective: CapabilitySet,
    /// The effective user.
    pub uid: u32,
    /// Whether capabilities apply to the machine, not only to a user namespace (rootless
    /// containers); `None` if unknown.
    pub machine_wide: Option<bool>,
    /// Whether a seccomp filter applies to this process; `None` if unknown.
    pub seccomp_filter: Option<bool>,
}

impl Rights {
    /// Whether perf considers this process privileged in this respect: it only respects the initial
    /// user namespace, and accepts `CAP_SYS_ADMIN` in place of `CAP_PERFMON` and `CAP_BPF`
    /// (`include/linux/capability.h`).
    #[must_use]
    pub fn has(&self, capability: CapabilitySet) -> bool {
        let split_off = CapabilitySet::PERFMON | CapabilitySet::BPF;
        let admin = if capability.intersects(split_off) {
            CapabilitySet::SYS_ADMIN
        } else {
            CapabilitySet::empty()
        };
        self.machine_wide != Some(false) && self.effective.intersects(capability | admin)
    }
}

impl Host {
    /// Reads the rights of this process (`/proc/self/status` and `/proc/self/ns/user`).
    ///
    /// # Errors
    /// Fails if the file can't be read, and with [`io::ErrorKind::InvalidData`] if it has no
    /// `CapEff` or `Uid`.
    pub fn rights(&self) -> io::Result<Rights> {
        let status = self.read("/proc/self/status")?;
        let field = |name: &str| {
            status
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
                .map(str::trim)
        };
        let lacks = |name: &str| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/self/status has no {name}"))
        };
        let bits = field("CapEff")
            .and_then(|hex| u64::from_str_radix(hex, 16).ok())
            .ok_or_else(|| lacks("CapEff"))?;
        let uid = field("Uid")
            .and_then(|ids| ids.split_whitespace().nth(1)?.parse().ok())
            .ok_or_else(|| lacks("Uid"))?;
        Ok(Rights {
            effective: CapabilitySet::from_bits_retain(bits),
            uid,
            machine_wide: self.namespace("user").map(|inode| inode == INITIAL_USER_NAMESPACE),
            seccomp_filter: field("Seccomp").map(|mode| mode == "2"),
        })
    }

    /// Returns the inode of one of this process's namespaces, from the link `pid:[4026531836]`.
    pub(crate) fn namespace(&self, kind: &str) -> Option<u32> {
        let link = std::fs::read_link(self.path(&format!("/proc/self/ns/{kind}"))).ok()?;
        link.to_str()?.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']')?.parse().ok()
    }
}

/// Returns the limit on this process's open files.
#[must_use]
pub fn open_files() -> Rlimit {
    limit(libc::RLIMIT_NOFILE)
}

/// Returns the limit on memory that this process may lock, in bytes.
#[must_use]
pub fn locked_memory() -> Rlimit {
    limit(libc::RLIMIT_MEMLOCK)
}

/// Returns the limit on this process's address space, in bytes.
#[must_use]
pub fn address_space() -> Rlimit {
    limit(libc::RLIMIT_AS)
}

/// Reads a limit. Returns no limit if a seccomp filter refuses the call, as
/// `SystemCallFilter=~@resources` of systemd does; `rustix` assumes that the call can't fail.
fn limit(resource: libc::__rlimit_resource_t) -> Rlimit {
    let mut limits = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the pointer is to a local of the type that the call takes.
    #[allow(unsafe_code)]
    unsafe {
        libc::getrlimit(resource, &raw mut limits);
    }
    let [current, maximum] = [limits.rlim_cur, limits.rlim_max]
        .map(|bytes| (bytes != libc::RLIM_INFINITY).then_some(bytes));
    Rlimit { current, maximum }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture;

    fn rights(status: &str, namespace: Option<&str>) -> io::Result<Rights> {
        let machine = fixture::machine(&[("/proc/self/status", status)]);
        if let Some(target) = namespace {
            let link = machine.host().path("/proc/self/ns/user");
            std::fs::create_dir_all(link.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, link).unwrap();
        }
        machine.host().rights()
    }

    #[test]
    fn root_of_a_user_namespace_is_not_privileged() {
        let status = "Name:\ttare\nUid:\t1000\t0\t0\t0\nCapEff:\t000001ffffffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let inside = rights(status, Some("user:[4026532600]")).unwrap();
        assert!(!inside.has(CapabilitySet::PERFMON));
        assert_eq!((inside.uid, inside.seccomp_filter), (0, Some(true)));
        let outside = rights(status, Some("user:[4026531837]")).unwrap();
        assert!(outside.has(CapabilitySet::PERFMON));
    }

    #[test]
    fn cap_sys_admin_includes_perfmon_and_bpf_alone() {
        let perfmon = rights("Uid:\t1\t1\t1\t1\nCapEff:\t0000004000000000\n", None).unwrap();
        assert!(perfmon.has(CapabilitySet::PERFMON) && !perfmon.has(CapabilitySet::BPF));
        assert_eq!((perfmon.machine_wide, perfmon.seccomp_filter), (None, None));
        let admin = rights("Uid:\t1\t1\t1\t1\nCapEff:\t0000000000200000\n", None).unwrap();
        assert!(admin.has(CapabilitySet::BPF) && !admin.has(CapabilitySet::IPC_LOCK));
    }

    #[test]
    fn an_incomplete_status_is_an_error() {
        assert_eq!(
            rights("Uid:\t1\t1\t1\t1\nCapEff:\tzz\n", None).unwrap_err().kind(),
            io::ErrorKind::InvalidData
        );
        assert!(rights("CapEff:\t0\n", None).unwrap_err().to_string().contains("Uid"));
    }

    /// The rights from `/proc` agree with the kernel's.
    #[test]
    fn rights_of_this_process_match_the_kernel() {
        let effective = rustix::thread::capabilities(None).unwrap().effective;
        assert_eq!(Host::default().rights().unwrap().effective, effective);
    }
}
