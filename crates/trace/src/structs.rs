//! Structures of the kernel's interface in strace's notation. Layouts are those of 64-bit machines,
//! from the uapi headers.

use tare_kernel::bpf::Call;

use crate::flags::Flags;
use crate::names::{CallNames, Errno};
use crate::text;

/// The bytes of a structure, whose fields are read at offsets. A field that isn't complete reads as
/// 0.
#[derive(Clone, Copy)]
pub(crate) struct StructBytes<'a>(pub(crate) &'a [u8]);

impl StructBytes<'_> {
    pub(crate) fn get<const N: usize>(self, at: usize) -> [u8; N] {
        self.0.get(at..at + N).and_then(|bytes| bytes.try_into().ok()).unwrap_or([0; N])
    }

    pub(crate) fn half(self, at: usize) -> u16 {
        u16::from_ne_bytes(self.get(at))
    }

    pub(crate) fn word(self, at: usize) -> u32 {
        u32::from_ne_bytes(self.get(at))
    }

    pub(crate) fn int(self, at: usize) -> i32 {
        self.word(at).cast_signed()
    }

    pub(crate) fn long(self, at: usize) -> u64 {
        u64::from_ne_bytes(self.get(at))
    }

    fn signed(self, at: usize) -> i64 {
        self.long(at).cast_signed()
    }
}

/// Formats a pointer.
pub(crate) fn pointer(value: u64) -> String {
    if value == 0 { "NULL".to_owned() } else { format!("{value:#x}") }
}

/// Formats permissions in octal, with a leading zero.
pub(crate) fn octal(mode: u64) -> String {
    let digits = format!("{mode:o}");
    format!("{:0>3}", if mode == 0 { digits } else { format!("0{digits}") })
}

/// Formats a file's type and permissions.
pub(crate) fn mode(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o140_000 => "S_IFSOCK",
        0o120_000 => "S_IFLNK",
        0o100_000 => "S_IFREG",
        0o060_000 => "S_IFBLK",
        0o040_000 => "S_IFDIR",
        0o020_000 => "S_IFCHR",
        0o010_000 => "S_IFIFO",
        _ => return octal(mode.into()),
    };
    let bits = [(0o4000, "|S_ISUID"), (0o2000, "|S_ISGID"), (0o1000, "|S_ISVTX")];
    let set: String =
        bits.iter().filter(|(bit, _)| mode & bit != 0).map(|(_, name)| *name).collect();
    format!("{kind}{set}|{}", octal((mode & 0o777).into()))
}

fn device(device: u64) -> String {
    let major = (device >> 8 & 0xfff) | (device >> 32 & !0xfff);
    let minor = (device & 0xff) | (device >> 12 & !0xff & 0xffff_ffff);
    format!("makedev({}, {})", hex(major), hex(minor))
}

/// Returns a signal's name, or its number if it has no name.
pub(crate) fn signal(flags: &Flags, number: u32) -> String {
    match number {
        0 => "0".to_owned(),
        32 => "SIGRTMIN".to_owned(),
        33..=64 => format!("SIGRT_{}", number - 32),
        _ => flags.name("signal", number.into()).map_or_else(|| number.to_string(), str::to_owned),
    }
}

/// Formats a set of signals; a set of 42 or more of the 64 is printed as its complement.
pub(crate) fn signals(flags: &Flags, set: u64) -> String {
    let inverted = set.count_ones() >= 64 * 2 / 3;
    let set = if inverted { !set } else { set };
    let names: Vec<_> = (1..=64)
        .filter(|number| set >> (number - 1) & 1 != 0)
        .map(|number| signal(flags, number).trim_start_matches("SIG").to_owned())
        .collect();
    format!("{}[{}]", if inverted { "~" } else { "" }, names.join(" "))
}

/// Formats a child's wait status.
pub(crate) fn status(flags: &Flags, status: u32) -> String {
    let code = status >> 8 & 0xff;
    let term = status & 0x7f;
    let text = match (term, status) {
        (_, 0xffff) => "WIFCONTINUED(s)".to_owned(),
        (0, _) => format!("WIFEXITED(s) && WEXITSTATUS(s) == {code}"),
        (0x7f, _) => format!("WIFSTOPPED(s) && WSTOPSIG(s) == {}", signal(flags, code)),
        _ => {
            let core = if status & 0x80 != 0 { " && WCOREDUMP(s)" } else { "" };
            format!("WIFSIGNALED(s) && WTERMSIG(s) == {}{core}", signal(flags, term))
        }
    };
    format!("[{{{text}}}]")
}

fn limit(value: u64) -> String {
    match value {
        u64::MAX => "RLIM64_INFINITY".to_owned(),
        _ if value > 1024 && value.is_multiple_of(1024) => format!("{}*1024", value / 1024),
        _ => value.to_string(),
    }
}

fn time(f: StructBytes<'_>, at: usize, fraction: &str) -> String {
    format!("{{tv_sec={}, {fraction}={}}}", f.signed(at), f.signed(at + 8))
}

/// Formats `struct timespec`, with the special values of utimensat(2).
fn file_time(f: StructBytes<'_>, at: usize) -> String {
    match f.long(at + 8) {
        0x3fff_ffff => "UTIME_NOW".to_owned(),
        0x3fff_fffe => "UTIME_OMIT".to_owned(),
        _ => time(f, at, "tv_nsec"),
    }
}

/// Formats a structure by its name in the table of signatures.
pub(crate) fn structure(flags: &Flags, name: &str, bytes: &[u8]) -> Option<String> {
    let f = StructBytes(bytes);
    Some(match name {
        "stat" => stat(f),
        "statx" => statx(flags, f),
        "timespec" => time(f, 0, "tv_nsec"),
        "timespec2" => format!("[{}, {}]", file_time(f, 0), file_time(f, 16)),
        "timeval" => time(f, 0, "tv_usec"),
        "timezone" => format!("{{tz_minuteswest={}, tz_dsttime={}}}", f.int(0), f.int(4)),
        "itimerval" => {
            format!(
                "{{it_interval={}, it_value={}}}",
                time(f, 0, "tv_usec"),
                time(f, 16, "tv_usec")
            )
        }
        "itimerspec" => {
            format!(
                "{{it_interval={}, it_value={}}}",
                time(f, 0, "tv_nsec"),
                time(f, 16, "tv_nsec")
            )
        }
        "rlimit" => format!("{{rlim_cur={}, rlim_max={}}}", limit(f.long(0)), limit(f.long(8))),
        "rusage" => format!(
            "{{ru_utime={}, ru_stime={}, ...}}",
            time(f, 0, "tv_usec"),
            time(f, 16, "tv_usec")
        ),
        "sigaction" => sigaction(flags, f),
        "sigset" => signals(flags, f.long(0)),
        "epoll" => epoll(flags, f),
        "pollfd" => {
            format!("{{fd={}, events={}}}", f.int(0), flags.flags("poll", f.half(4).into()))
        }
        "int" | "uint1" | "param" | "socklen" => format!("[{}]", f.int(0)),
        "off" | "size" => format!("[{}]", f.signed(0)),
        "fds" => format!("[{}, {}]", f.int(0), f.int(4)),
        "status" => status(flags, f.word(0)),
        "siginfo" => siginfo(flags, bytes),
        "stack" => stack(f),
        "flock" => flock(flags, f, false),
        "utsname" => {
            let field = |at: usize| text::string(bytes.get(at..at + 65).unwrap_or_default(), 64);
            format!("{{sysname={}, nodename={}, ...}}", field(0), field(65))
        }
        "sysinfo" => sysinfo(f),
        "statfs" => statfs(f),
        "uring" => uring(flags, f, true),
        "oldmmap" => old_mmap(flags, f),
        _ => return None,
    })
}

fn epoll(flags: &Flags, f: StructBytes<'_>) -> String {
    let data = if cfg!(target_arch = "aarch64") { 8 } else { 4 };
    format!(
        "{{events={}, data={{u32={}, u64={}}}}}",
        flags.flags("epoll", f.word(0).into()),
        f.word(data),
        f.long(data)
    )
}

fn stack(f: StructBytes<'_>) -> String {
    let flags = match f.word(8) {
        0 => "0".to_owned(),
        1 => "SS_ONSTACK".to_owned(),
        2 => "SS_DISABLE".to_owned(),
        other => format!("{other:#x}"),
    };
    format!("{{ss_sp={}, ss_flags={flags}, ss_size={}}}", pointer(f.long(0)), f.long(16))
}

fn stat(f: StructBytes<'_>) -> String {
    let (mode_at, device_at) = if cfg!(target_arch = "aarch64") { (16, 32) } else { (24, 40) };
    let file = f.word(mode_at);
    let rest = match file & 0o170_000 {
        0o020_000 | 0o060_000 => format!("st_rdev={}", device(f.long(device_at))),
        _ => format!("st_size={}", f.signed(48)),
    };
    format!("{{st_mode={}, {rest}, ...}}", mode(file))
}

fn statx(flags: &Flags, f: StructBytes<'_>) -> String {
    let file: u32 = f.half(28).into();
    let attributes = flags.flags("statxattr", f.long(8));
    format!(
        "{{stx_mask={}, stx_attributes={attributes}, stx_mode={}, stx_size={}, ...}}",
        flags.flags("statxmask", f.word(0).into()),
        mode(file),
        f.long(40)
    )
}

fn sigaction(flags: &Flags, f: StructBytes<'_>) -> String {
    let set = f.long(8);
    let handler = match f.long(0) {
        0 => "SIG_DFL".to_owned(),
        1 => "SIG_IGN".to_owned(),
        address => format!("{address:#x}"),
    };
    let restorer = if set & 0x400_0000 != 0 {
        format!(", sa_restorer={}", pointer(f.long(16)))
    } else {
        String::new()
    };
    format!(
        "{{sa_handler={handler}, sa_mask={}, sa_flags={}{restorer}}}",
        signals(flags, f.long(24)),
        flags.flags("sigaction", set & 0xffff_ffff)
    )
}

/// Formats a lock, with its owner if the kernel filled the structure (`is_filled`).
pub(crate) fn flock(flags: &Flags, f: StructBytes<'_>, is_filled: bool) -> String {
    let kind = match f.half(0) {
        0 => "F_RDLCK",
        1 => "F_WRLCK",
        2 => "F_UNLCK",
        _ => "F_???",
    };
    format!(
        "{{l_type={kind}, l_whence={}, l_start={}, l_len={}{}}}",
        flags.number("whence", f.half(2).into()),
        f.signed(8),
        f.signed(16),
        if is_filled { format!(", l_pid={}", f.int(24)) } else { String::new() }
    )
}

fn sysinfo(f: StructBytes<'_>) -> String {
    format!(
        "{{uptime={}, loads=[{}, {}, {}], totalram={}, freeram={}, sharedram={}, bufferram={}, totalswap={}, freeswap={}, procs={}, totalhigh={}, freehigh={}, mem_unit={}}}",
        f.signed(0),
        f.long(8),
        f.long(16),
        f.long(24),
        f.long(32),
        f.long(40),
        f.long(48),
        f.long(56),
        f.long(64),
        f.long(72),
        f.half(80),
        f.long(88),
        f.long(96),
        f.word(104)
    )
}

fn statfs(f: StructBytes<'_>) -> String {
    format!(
        "{{f_type={:#x}, f_bsize={}, f_blocks={}, f_bfree={}, f_bavail={}, f_files={}, f_ffree={}, f_fsid={{val=[{:#x}, {:#x}]}}, f_namelen={}, f_frsize={}, f_flags={:#x}}}",
        f.long(0),
        f.signed(8),
        f.long(16),
        f.long(24),
        f.long(32),
        f.long(40),
        f.long(48),
        f.word(56),
        f.word(60),
        f.signed(64),
        f.signed(72),
        f.long(80)
    )
}

/// Formats the parameters of io_uring_setup(2), with the results if the kernel filled the structure
/// (`is_filled`).
pub(crate) fn uring(flags: &Flags, f: StructBytes<'_>, is_filled: bool) -> String {
    if !is_filled {
        return format!(
            "{{flags={}, sq_thread_cpu={}, sq_thread_idle={}}}",
            flags.flags("uringsetup", f.word(8).into()),
            f.word(12),
            f.word(16)
        );
    }
    format!(
        "{{flags={}, sq_thread_cpu={}, sq_thread_idle={}, sq_entries={}, cq_entries={}, features={}, sq_off={}, cq_off={}}}",
        flags.flags("uringsetup", f.word(8).into()),
        f.word(12),
        f.word(16),
        f.word(0),
        f.word(4),
        flags.flags("uringfeat", f.word(20).into()),
        offsets(f, 40, &["head", "tail", "ring_mask", "ring_entries", "flags", "dropped", "array"]),
        offsets(f, 80, &["head", "tail", "ring_mask", "ring_entries", "overflow", "cqes", "flags"]),
    )
}

fn offsets(f: StructBytes<'_>, start: usize, names: &[&str]) -> String {
    let fields: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("{name}={}", f.word(start + 4 * at)))
        .collect();
    format!("{{{}}}", fields.join(", "))
}

/// Formats `siginfo_t` with the fields of this signal. A code of 0 or below is a process's, and the
/// fields depend on it; a positive one is the kernel's, and they depend on the signal.
pub(crate) fn siginfo(flags: &Flags, bytes: &[u8]) -> String {
    let f = StructBytes(bytes);
    let number = f.word(0);
    let code = f.word(8);
    let is_sent = f.int(8) <= 0;
    let table = match number {
        4 => "illcode",
        5 => "trapcode",
        7 => "buscode",
        8 => "fpecode",
        11 => "segvcode",
        17 => "childcode",
        29 => "pollcode",
        31 => "syscode",
        _ => "sicode",
    };
    let code_name = flags
        .name(if is_sent { "sicode" } else { table }, code.into())
        .or_else(|| flags.name("sicode", code.into()))
        .map_or_else(|| format!("{code:#x}"), str::to_owned);
    let mut text = format!("{{si_signo={}, si_code={code_name}", signal(flags, number));
    // Only the head was copied of a signal without more.
    if bytes.len() >= 16 {
        if f.int(4) != 0 {
            text.push_str(&format!(", si_errno={}", Errno::default().name(f.word(4))));
        }
        text.push_str(&if is_sent {
            sent_fields(f)
        } else {
            raised_fields(flags, f, number, code)
        });
    }
    text + "}"
}

/// Formats the fields of a signal with a code of 0 or below: from a process, or from a timer of the
/// receiver.
fn sent_fields(f: StructBytes<'_>) -> String {
    let from = format!(", si_pid={}, si_uid={}", f.int(16), f.word(20));
    let value = || format!(", si_int={}, si_ptr={}", f.int(24), pointer(f.long(24)));
    match f.int(8) {
        // SI_USER, SI_TKILL
        0 | -6 => from,
        // SI_TIMER
        -2 => format!(", si_timerid={:#x}, si_overrun={}{}", f.int(16), f.int(20), value()),
        // SI_QUEUE
        -1 => from + &value(),
        _ if f.long(24) != 0 => from + &value(),
        _ => from,
    }
}

/// Formats the fields of a signal that the kernel raised.
fn raised_fields(flags: &Flags, f: StructBytes<'_>, number: u32, code: u32) -> String {
    /// `SI_KERNEL`.
    const KERNEL: u32 = 0x80;
    let from = || format!(", si_pid={}, si_uid={}", f.int(16), f.word(20));
    match number {
        17 => {
            let status = if code == 1 { f.int(24).to_string() } else { signal(flags, f.word(24)) };
            let times = format!("si_utime={}, si_stime={}", f.signed(32), f.signed(40));
            format!("{}, si_status={status}, {times}", from())
        }
        5 if code == KERNEL => String::new(),
        4 | 5 | 7 | 8 | 11 => format!(", si_addr={}", pointer(f.long(16))),
        29 if (1..=6).contains(&code) => format!(", si_band={}", f.signed(16)),
        31 => {
            let arch = f.word(28);
            // AUDIT_ARCH_I386 and AUDIT_ARCH_ARM.
            let is_compat = matches!(arch, 0x4000_0003 | 0x4000_0028);
            let call = Call { number: f.word(24), compat: is_compat };
            let name = CallNames::default().find(call).map(|name| format!("__NR_{name}"));
            format!(
                ", si_call_addr={}, si_syscall={}, si_arch={}",
                pointer(f.long(16)),
                name.unwrap_or_else(|| format!("{:#x}", call.number)),
                flags.number("auditarch", arch.into())
            )
        }
        _ if f.long(16) != 0 => from(),
        _ => String::new(),
    }
}

/// Formats the arguments of i386's first mmap(2), which are in memory.
fn old_mmap(flags: &Flags, f: StructBytes<'_>) -> String {
    format!(
        "{}, {}, {}, {}, {}, {}",
        pointer(f.word(0).into()),
        f.word(4),
        flags.flags("prot", f.word(8).into()),
        flags.flags("map", f.word(12).into()),
        f.int(16),
        hex(f.word(20).into())
    )
}

fn hex(value: u64) -> String {
    if value == 0 { "0".to_owned() } else { format!("{value:#x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_modes_devices_signals_and_limits() {
        let flags = Flags::default();
        assert_eq!(mode(0o100_644), "S_IFREG|0644");
        assert_eq!(mode(0o041_777), "S_IFDIR|S_ISVTX|0777");
        assert_eq!(
            (octal(0), octal(0o22), octal(0o644)),
            ("000".into(), "022".into(), "0644".into())
        );
        assert_eq!(device(0x103), "makedev(0x1, 0x3)");
        assert_eq!(signals(&flags, 0x4002), "[INT TERM]");
        assert_eq!(signals(&flags, !(1 << 31 | 1 << 32)), "~[RTMIN RT_1]");
        assert_eq!(status(&flags, 0x300), "[{WIFEXITED(s) && WEXITSTATUS(s) == 3}]");
        assert_eq!(status(&flags, 9), "[{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}]");
        assert_eq!(
            (limit(8 << 20), limit(u64::MAX)),
            ("8192*1024".into(), "RLIM64_INFINITY".into())
        );
    }

    /// Returns the head of `siginfo_t`, followed by 32-bit fields from offset 16 on.
    fn info(number: i32, errno: i32, code: i32, fields: &[u32]) -> Vec<u8> {
        let head = [number, errno, code, 0].map(i32::to_ne_bytes).concat();
        let fields = fields.iter().flat_map(|field| field.to_ne_bytes());
        let mut bytes: Vec<u8> = head.into_iter().chain(fields).collect();
        bytes.resize(48, 0);
        bytes
    }

    #[test]
    fn formats_the_fields_of_each_kind_of_signal() {
        let flags = Flags::default();
        let text = |bytes: &[u8]| siginfo(&flags, bytes);
        assert_eq!(
            text(&info(15, 0, 0, &[77, 1000])),
            "{si_signo=SIGTERM, si_code=SI_USER, si_pid=77, si_uid=1000}"
        );
        let arch = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };
        let call = if cfg!(target_arch = "aarch64") { 141 } else { 140 };
        let seccomp = text(&info(31, 7, 1, &[0x1000, 0, call, arch]));
        assert!(seccomp.starts_with("{si_signo=SIGSYS, si_code=SYS_SECCOMP, si_errno=E2BIG, si_call_addr=0x1000, si_syscall=__NR_getpriority, si_arch=AUDIT_ARCH_"), "{seccomp}");
        assert_eq!(
            text(&info(29, 0, 1, &[65, 0, 3])),
            "{si_signo=SIGIO, si_code=POLL_IN, si_band=65}"
        );
        assert_eq!(text(&info(29, 0, 0x80, &[])), "{si_signo=SIGIO, si_code=SI_KERNEL}");
        assert_eq!(
            text(&info(11, 0, 0x80, &[])),
            "{si_signo=SIGSEGV, si_code=SI_KERNEL, si_addr=NULL}"
        );
        assert_eq!(
            text(&info(7, 0, 2, &[0x1000])),
            "{si_signo=SIGBUS, si_code=BUS_ADRERR, si_addr=0x1000}"
        );
        assert_eq!(
            text(&info(17, 0, 2, &[77, 0, 9, 0, 1, 0, 2])),
            "{si_signo=SIGCHLD, si_code=CLD_KILLED, si_pid=77, si_uid=0, si_status=SIGKILL, si_utime=1, si_stime=2}"
        );
    }

    #[test]
    fn formats_structures_of_any_length() {
        let flags = Flags::default();
        for name in
            ["stat", "statx", "sigaction", "siginfo", "utsname", "uring", "statfs", "sysinfo"]
        {
            for length in 0..300 {
                assert!(structure(&flags, name, &vec![0xa5; length]).is_some());
            }
        }
    }
}
