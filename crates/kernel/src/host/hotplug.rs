//! Detects CPUs that go offline and come back.
//!
//! The kernel drops the per-CPU events of a CPU that goes offline and doesn't restore them
//! (`perf_event_exit_cpu_context`, `kernel/events/core.c`): they must be opened again.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::{CpuList, Host};

/// The multicast group of the kernel's own messages (sent by `drivers/base/core.c`; udev uses
/// another).
const KERNEL_GROUP: u32 = 1;

/// Bytes for a message. The kernel's have at most `UEVENT_BUFFER_SIZE` (2 KiB) and a path.
const MESSAGE_BYTES: usize = 8 << 10;

/// Changes since the last check. A CPU that went offline and came back is in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuChanges {
    /// CPUs that went offline, at least for a while. Their per-CPU events don't count anymore.
    pub offline: CpuList,
    /// CPUs that are online and were offline in between, or before.
    pub online: CpuList,
}

/// Reports CPUs that go offline and come back, by the kernel's messages (`NETLINK_KOBJECT_UEVENT`),
/// which name every change. Without such a socket, as in some containers, or after an overflow of
/// its buffer, it compares lists, and misses a CPU that went and came back in between.
#[derive(Debug)]
pub struct CpuWatch {
    messages: Option<OwnedFd>,
    online: CpuList,
}

impl CpuWatch {
    /// Starts watching. Only the running machine has messages.
    ///
    /// # Errors
    /// Fails if the list of online CPUs can't be read.
    pub fn start(host: &Host) -> io::Result<Self> {
        // Subscribed before the list is read, so that no change after that is missed.
        let messages = if host.is_running() { subscribe().ok() } else { None };
        Ok(Self { messages, online: host.online_cpus()? })
    }

    /// Returns the descriptor that becomes readable when the kernel reports a change of a CPU or
    /// another device; `None` without messages.
    #[must_use]
    pub fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.messages.as_ref().map(AsFd::as_fd)
    }

    /// Returns the changes since the last call. With messages, costs one system call if nothing
    /// happened.
    ///
    /// # Errors
    /// Fails if the list of online CPUs can't be read.
    pub fn changes(&mut self, host: &Host) -> io::Result<CpuChanges> {
        let reported = match &self.messages {
            Some(messages) => match read_messages(messages.as_fd()) {
                Some(reported) => reported,
                None => return Ok(CpuChanges::default()),
            },
            None => BTreeSet::new(),
        };
        let before = std::mem::replace(&mut self.online, host.online_cpus()?);
        Ok(compare(&before, &self.online, &reported))
    }
}

/// Compares the lists of online CPUs; `reported` are the CPUs that messages reported as offline.
fn compare(before: &CpuList, now: &CpuList, reported: &BTreeSet<u32>) -> CpuChanges {
    let was_online = |cpu: &u32| before.contains(*cpu);
    let offline: CpuList =
        before.iter().filter(|cpu| !now.contains(*cpu) || reported.contains(cpu)).collect();
    let online = now.iter().filter(|cpu| !was_online(cpu) || offline.contains(*cpu)).collect();
    CpuChanges { offline, online }
}

fn subscribe() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
    bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
    Ok(socket)
}

/// Reads the pending messages and returns the CPUs that went offline; `None` if no message was
/// about a CPU and none was dropped. If messages were dropped the set may lack CPUs.
fn read_messages(socket: BorrowedFd<'_>) -> Option<BTreeSet<u32>> {
    let mut gone = None;
    let mut message = [0; MESSAGE_BYTES];
    loop {
        match recv(socket, &mut message[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) => {
                if let Some((action, cpu)) = cpu_message(&message[..len]) {
                    let gone = gone.get_or_insert_with(BTreeSet::new);
                    if action == Action::Offline {
                        gone.insert(cpu);
                    }
                }
            }
            Err(Errno::INTR) => {}
            // ENOBUFS: the socket's buffer overflowed.
            Err(Errno::NOBUFS) => _ = gone.get_or_insert_with(BTreeSet::new),
            Err(_) => return gone,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Online,
    Offline,
}

/// Parses a message's first line: `offline@/devices/system/cpu/cpu3`.
fn cpu_message(message: &[u8]) -> Option<(Action, u32)> {
    let line = message.split(|&byte| byte == 0).next()?;
    let (action, path) = std::str::from_utf8(line).ok()?.split_once('@')?;
    let cpu = path.strip_prefix("/devices/system/cpu/cpu")?.parse().ok()?;
    match action {
        "online" => Some((Action::Online, cpu)),
        "offline" => Some((Action::Offline, cpu)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn messages_name_cpus() {
        let message = |text: &str| cpu_message(text.as_bytes());
        let offline = "offline@/devices/system/cpu/cpu13\0ACTION=offline\0SUBSYSTEM=cpu\0";
        assert_eq!(message(offline), Some((Action::Offline, 13)));
        assert_eq!(message("online@/devices/system/cpu/cpu0\0"), Some((Action::Online, 0)));
        for other in [
            "",
            "add@/devices/system/cpu/cpu1",
            "offline@/devices/system/memory/memory1",
            "offline@/devices/system/cpu/cpufreq",
            "libudev\0",
        ] {
            assert_eq!(message(other), None, "{other}");
        }
        assert_eq!(cpu_message(&[255, b'@']), None);
    }

    #[test]
    fn a_cpu_that_went_offline_and_came_back_is_in_both_lists() {
        let changes = |before, now, reported: &[u32]| {
            let changes = compare(&list(before), &list(now), &reported.iter().copied().collect());
            (changes.offline.to_string(), changes.online.to_string())
        };
        let strings = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(changes("0-3", "0-3", &[]), strings("", ""));
        assert_eq!(changes("0-3", "0-1,3", &[2]), strings("2", ""));
        assert_eq!(changes("0-3", "0-3", &[2]), strings("2", "2"));
        assert_eq!(changes("0-1", "0-3", &[]), strings("", "2-3"));
        assert_eq!(changes("0-1", "0-2", &[2]), strings("", "2"), "it came, went and came");
        assert_eq!(changes("0-2", "0-1,3", &[]), strings("2", "3"), "lists alone");
    }

    #[test]
    fn without_messages_lists_are_compared() {
        let described = fixture::machine(&[("/sys/devices/system/cpu/online", "0-1\n")]);
        let host = described.host();
        let mut watch = CpuWatch { messages: None, online: host.online_cpus().unwrap() };
        assert_eq!(watch.changes(&host).unwrap(), CpuChanges::default());
        std::fs::write(host.path("/sys/devices/system/cpu/online"), "0\n").unwrap();
        let offline = CpuChanges { offline: list("1"), online: list("") };
        assert_eq!(watch.changes(&host).unwrap(), offline);
        std::fs::write(host.path("/sys/devices/system/cpu/online"), "0-1\n").unwrap();
        let online = CpuChanges { offline: list(""), online: list("1") };
        assert_eq!(watch.changes(&host).unwrap(), online);
    }

    /// On the running kernel: watching works, and reports nothing if nothing happens.
    #[test]
    fn a_quiet_machine_changes_nothing() {
        let host = Host::default();
        let mut watch = CpuWatch::start(&host).unwrap();
        if watch.wakes().is_none() {
            println!("skipped: no socket for the kernel's messages");
        }
        assert_eq!(watch.changes(&host).unwrap(), CpuChanges::default());
    }
}
