//! CPUs that go offline and come back.
//!
//! The kernel drops the per-CPU events of a CPU that goes offline, and doesn't bring them back
//! (`perf_event_exit_cpu_context`, `kernel/events/core.c`): they have to be opened again.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

use super::{CpuList, Host};

/// The multicast group of the kernel's own messages (`drivers/base/core.c` sends to it; udev's are
/// in another).
const KERNEL_GROUP: u32 = 1;

/// The most bytes that a message can have (`UEVENT_BUFFER_SIZE` and its path).
const MESSAGE_BYTES: usize = 8 << 10;

/// What happened to CPUs since the last time. A CPU that went and came back is in both lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuChanges {
    /// Those that went offline, at least for a while. Per-CPU events of them count no more.
    pub offline: CpuList,
    /// Those that are online now, and weren't all the time.
    pub online: CpuList,
}

/// Says which CPUs went and came. Uses the kernel's messages (`NETLINK_KOBJECT_UEVENT`), which name
/// every change; where no such socket can be had, as in some containers, it compares lists, and
/// can't see a CPU that went and came back in between.
#[derive(Debug)]
pub struct CpuWatch {
    messages: Option<OwnedFd>,
    online: CpuList,
}

impl CpuWatch {
    /// Begins to watch. The kernel's messages are about the running machine alone.
    ///
    /// # Errors
    /// The list of online CPUs can't be read.
    pub fn start(host: &Host) -> io::Result<Self> {
        // Before the list is read: a change in between comes twice, and not never.
        let messages = if host.is_running() { subscribe().ok() } else { None };
        Ok(Self { messages, online: host.online_cpus()? })
    }

    /// What becomes readable when a CPU has come or gone (and when other devices have); `None`
    /// where nothing ever does.
    #[must_use]
    pub fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.messages.as_ref().map(AsFd::as_fd)
    }

    /// The changes since the last call, or since the start. Costs one system call where nothing
    /// happened.
    ///
    /// # Errors
    /// The list of online CPUs can't be read.
    pub fn changes(&mut self, host: &Host) -> io::Result<CpuChanges> {
        let told = match &self.messages {
            Some(messages) => match told(messages.as_fd()) {
                Some(told) => told,
                None => return Ok(CpuChanges::default()),
            },
            None => BTreeSet::new(),
        };
        let before = std::mem::replace(&mut self.online, host.online_cpus()?);
        Ok(compare(&before, &self.online, &told))
    }
}

/// What became of the CPUs that were online, by the list of those that are, and by those of which a
/// message said that they went.
fn compare(before: &CpuList, now: &CpuList, told: &BTreeSet<u32>) -> CpuChanges {
    let was = |cpu: &u32| before.contains(*cpu);
    let offline: CpuList =
        before.iter().filter(|cpu| !now.contains(*cpu) || told.contains(cpu)).collect();
    let online = now.iter().filter(|cpu| !was(cpu) || offline.contains(*cpu)).collect();
    CpuChanges { offline, online }
}

fn subscribe() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket =
        socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(KOBJECT_UEVENT))?;
    bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
    Ok(socket)
}

/// The CPUs that went offline by the messages that wait; `None` where no message was about a CPU.
/// Where messages were dropped, no CPU is named.
fn told(socket: BorrowedFd<'_>) -> Option<BTreeSet<u32>> {
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
            // ENOBUFS: more came than the socket holds.
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

/// The first line of a message about a CPU: `offline@/devices/system/cpu/cpu3`.
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
    fn a_cpu_that_went_and_came_back_did_both() {
        let of = |before, now, told: &[u32]| {
            let changes = compare(&list(before), &list(now), &told.iter().copied().collect());
            (changes.offline.to_string(), changes.online.to_string())
        };
        let strings = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(of("0-3", "0-3", &[]), strings("", ""));
        assert_eq!(of("0-3", "0-1,3", &[2]), strings("2", ""));
        assert_eq!(of("0-3", "0-3", &[2]), strings("2", "2"));
        assert_eq!(of("0-1", "0-3", &[]), strings("", "2-3"));
        assert_eq!(of("0-1", "0-2", &[2]), strings("", "2"), "it came, went and came");
        assert_eq!(of("0-2", "0-1,3", &[]), strings("2", "3"), "lists alone");
    }

    /// Without messages the lists are compared.
    #[test]
    fn lists_are_compared_where_no_message_comes() {
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

    /// On the running kernel: a watch can be had, and nothing is said where nothing happens.
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
