//! `struct perf_event_attr`, the description of one event.
//!
//! Layout and bit positions: `include/uapi/linux/perf_event.h`. The tests below compare many of
//! them with `perf-event-open-sys`.

use std::ffi::CString;
use std::fmt;

use bitflags::bitflags;
use perf_event_open_sys::bindings::{
    PERF_ATTR_SIZE_VER8, PERF_FORMAT_GROUP, PERF_FORMAT_ID, PERF_FORMAT_LOST,
    PERF_FORMAT_TOTAL_TIME_ENABLED, PERF_FORMAT_TOTAL_TIME_RUNNING, PERF_SAMPLE_CALLCHAIN,
    PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER,
};

use super::Flags;
use crate::bytes::Endian;

/// The bytes that [`Attr::to_bytes`] writes, up to and including `config3` (Linux 6.3). Older
/// kernels accept them if the bytes they don't know are zero.
pub const ATTR_SIZE: usize = PERF_ATTR_SIZE_VER8 as usize;

/// Position of the two bits of `precise_ip` in the flag word.
const PRECISE_IP_SHIFT: u32 = 15;
const PRECISE_IP_MASK: u64 = 0b11 << PRECISE_IP_SHIFT;

/// The bit `freq`: `sample_period` holds a frequency.
const FREQ: u64 = 1 << 10;

bitflags! {
    /// Fields that `read(2)` on an event's descriptor returns (`enum perf_event_read_format`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct ReadFormat: u64 {
        /// Nanoseconds that the event was enabled.
        const TOTAL_TIME_ENABLED = PERF_FORMAT_TOTAL_TIME_ENABLED as u64;
        /// Nanoseconds that the event was on a counter.
        const TOTAL_TIME_RUNNING = PERF_FORMAT_TOTAL_TIME_RUNNING as u64;
        /// The event's id.
        const ID = PERF_FORMAT_ID as u64;
        /// All members of the leader's group at once.
        const GROUP = PERF_FORMAT_GROUP as u64;
        /// Samples lost because the ring was full (Linux 6.0).
        const LOST = PERF_FORMAT_LOST as u64;
    }
}

/// Whether an event only counts, or also samples, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// Count; no samples.
    #[default]
    None,
    /// A sample every N occurrences (nanoseconds for clock events).
    Period(u64),
    /// N samples per second; the kernel adapts the period.
    Frequency(u64),
}

/// An event as passed to the kernel. Units are the kernel's, and so are most names: `kind` is its
/// `type`, and `sampling`, `flags` and `wakeup` stand for several fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Attr {
    /// `type`: the PMU that provides the event (`PERF_TYPE_*`, or the number in sysfs).
    pub kind: u32,
    /// Selects the PMU's event.
    pub config: u64,
    /// Further configuration; for breakpoints the address (`bp_addr`).
    pub config1: u64,
    /// Further configuration; for breakpoints the length in bytes (`bp_len`).
    pub config2: u64,
    /// Further configuration (Linux 6.3).
    pub config3: u64,
    /// For breakpoints: read, write, execute (`HW_BREAKPOINT_*`).
    pub bp_type: u32,
    /// Counting or sampling.
    pub sampling: Sampling,
    /// Fields of a sample (`PERF_SAMPLE_*`).
    pub sample_type: u64,
    /// Layout of a read.
    pub read_format: ReadFormat,
    /// The one-bit fields.
    pub flags: Flags,
    /// Allowed skid of a sample's address: 0 (any) to 3 (none).
    pub precise_ip: u8,
    /// Samples, or bytes with [`Flags::WATERMARK`], before a reader is woken.
    pub wakeup: u32,
    /// Kinds of branches in a sample's branch stack, and their fields (`PERF_SAMPLE_BRANCH_*`).
    pub branch_sample_type: u64,
    /// User registers in a sample, one bit each.
    pub sample_regs_user: u64,
    /// Bytes of user stack in a sample.
    pub sample_stack_user: u32,
    /// The clock of the time stamps, with [`Flags::USE_CLOCKID`].
    pub clockid: i32,
    /// Registers at the interrupt in a sample, one bit each.
    pub sample_regs_intr: u64,
    /// Bytes of AUX data before a reader is woken.
    pub aux_watermark: u32,
    /// Maximum number of frames in a call chain; 0: the system's limit
    /// (`kernel.perf_event_max_stack`).
    pub sample_max_stack: u16,
    /// Bytes of AUX data in a sample.
    pub aux_sample_size: u32,
    /// Handed to the signal handler, with [`Flags::SIGTRAP`].
    pub sig_data: u64,
    /// For the PMUs `uprobe` and `kprobe`: the file or function. The kernel reads a pointer to it
    /// in place of `config1` (`uprobe_path`). That pointer is valid only during the call, so the
    /// encoded bytes hold `config1`.
    pub uprobe_path: Option<CString>,
}

/// Why bytes are not a `perf_event_attr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttrError {
    /// There are fewer bytes than the first version of the structure has.
    TooShort {
        /// Number of bytes.
        len: usize,
    },
}

impl fmt::Display for AttrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => write!(
                f,
                "{len} bytes are too few for a perf_event_attr (the first version has 64)"
            ),
        }
    }
}

impl std::error::Error for AttrError {}

/// Converts a flag word to one with `disabled` in its lowest bit. The flags are C bit fields, which
/// compilers for big-endian machines allocate from the highest bit down; the two bits of
/// `precise_ip` keep their order.
fn flag_word_in(word: u64, endian: Endian) -> u64 {
    if endian == Endian::Little {
        return word;
    }
    let reversed = word.reverse_bits();
    let precise_ip =
        (reversed >> PRECISE_IP_SHIFT & 1) << 1 | reversed >> (PRECISE_IP_SHIFT + 1) & 1;
    reversed & !PRECISE_IP_MASK | precise_ip << PRECISE_IP_SHIFT
}

impl Attr {
    /// Returns the flag word with `disabled` in its lowest bit, as little-endian machines lay it
    /// out.
    fn flag_word(&self) -> u64 {
        let freq = if matches!(self.sampling, Sampling::Frequency(_)) { FREQ } else { 0 };
        self.flags.bits()
            | freq
            | (u64::from(self.precise_ip) << PRECISE_IP_SHIFT & PRECISE_IP_MASK)
    }

    /// Returns the attribute of the same samples without their copied user stack, and unless
    /// `keeps_registers`, without user registers.
    #[must_use]
    pub fn without_copied_stack(&self, keeps_registers: bool) -> Self {
        let mut attr = self.clone();
        attr.sample_type &= !u64::from(PERF_SAMPLE_STACK_USER);
        attr.sample_stack_user = 0;
        if !keeps_registers {
            attr.sample_type &= !u64::from(PERF_SAMPLE_REGS_USER);
            attr.sample_regs_user = 0;
        }
        attr
    }

    /// Whether samples hold call chains.
    #[must_use]
    pub fn has_callchain(&self) -> bool {
        self.sample_type & u64::from(PERF_SAMPLE_CALLCHAIN) != 0
    }

    /// Encodes the structure for `perf_event_open(2)`, in the byte order of this machine.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; ATTR_SIZE] {
        let mut out = [0; ATTR_SIZE];
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        let period = match self.sampling {
            Sampling::None => 0,
            Sampling::Period(n) | Sampling::Frequency(n) => n,
        };
        put(0, &self.kind.to_ne_bytes());
        put(4, &PERF_ATTR_SIZE_VER8.to_ne_bytes());
        put(8, &self.config.to_ne_bytes());
        put(16, &period.to_ne_bytes());
        put(24, &self.sample_type.to_ne_bytes());
        put(32, &self.read_format.bits().to_ne_bytes());
        put(40, &self.flag_word().to_ne_bytes());
        put(48, &self.wakeup.to_ne_bytes());
        put(52, &self.bp_type.to_ne_bytes());
        put(56, &self.config1.to_ne_bytes());
        put(64, &self.config2.to_ne_bytes());
        put(72, &self.branch_sample_type.to_ne_bytes());
        put(80, &self.sample_regs_user.to_ne_bytes());
        put(88, &self.sample_stack_user.to_ne_bytes());
        put(92, &self.clockid.to_ne_bytes());
        put(96, &self.sample_regs_intr.to_ne_bytes());
        put(104, &self.aux_watermark.to_ne_bytes());
        put(108, &self.sample_max_stack.to_ne_bytes());
        put(112, &self.aux_sample_size.to_ne_bytes());
        put(120, &self.sig_data.to_ne_bytes());
        put(128, &self.config3.to_ne_bytes());
        out
    }

    /// Decodes a structure of any version, in this machine's byte order. Missing fields are zero;
    /// unknown ones are ignored.
    ///
    /// # Errors
    /// Fails if there are fewer than the 64 bytes of the first version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, AttrError> {
        Self::from_bytes_in(bytes, Endian::NATIVE)
    }

    /// Like [`Attr::from_bytes`], in the byte order of the machine that wrote it.
    ///
    /// # Errors
    /// Fails if there are fewer than the 64 bytes of the first version.
    pub fn from_bytes_in(bytes: &[u8], endian: Endian) -> Result<Self, AttrError> {
        if bytes.len() < 64 {
            return Err(AttrError::TooShort { len: bytes.len() });
        }
        let mut all = [0; ATTR_SIZE];
        let n = bytes.len().min(ATTR_SIZE);
        all[..n].copy_from_slice(&bytes[..n]);
        let u64_at = |at: usize| endian.u64(std::array::from_fn(|i| all[at + i]));
        let u32_at = |at: usize| endian.u32(std::array::from_fn(|i| all[at + i]));
        let word = flag_word_in(u64_at(40), endian);
        let period = u64_at(16);
        Ok(Self {
            kind: u32_at(0),
            config: u64_at(8),
            sampling: match (word & FREQ != 0, period) {
                (true, hz) => Sampling::Frequency(hz),
                (false, 0) => Sampling::None,
                (false, n) => Sampling::Period(n),
            },
            sample_type: u64_at(24),
            read_format: ReadFormat::from_bits_retain(u64_at(32)),
            flags: Flags::from_bits_retain(word & !FREQ & !PRECISE_IP_MASK),
            precise_ip: ((word & PRECISE_IP_MASK) >> PRECISE_IP_SHIFT) as u8 & 3,
            wakeup: u32_at(48),
            bp_type: u32_at(52),
            config1: u64_at(56),
            config2: u64_at(64),
            branch_sample_type: u64_at(72),
            sample_regs_user: u64_at(80),
            sample_stack_user: u32_at(88),
            clockid: u32_at(92).cast_signed(),
            sample_regs_intr: u64_at(96),
            aux_watermark: u32_at(104),
            sample_max_stack: endian.u16([all[108], all[109]]),
            aux_sample_size: u32_at(112),
            sig_data: u64_at(120),
            config3: u64_at(128),
            uprobe_path: None,
        })
    }
}

/// Prints `type`, `config`, and the other fields that aren't zero, one `name value` per line, for
/// `-vv` and golden tests.
impl fmt::Display for Attr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "type {}", self.kind)?;
        writeln!(f, "config {:#x}", self.config)?;
        match self.sampling {
            Sampling::None => {}
            Sampling::Period(n) => writeln!(f, "sample_period {n}")?,
            Sampling::Frequency(n) => writeln!(f, "sample_freq {n}")?,
        }
        let numbers = [
            ("config1", self.config1),
            ("config2", self.config2),
            ("config3", self.config3),
            ("bp_type", self.bp_type.into()),
            ("sample_type", self.sample_type),
            ("branch_sample_type", self.branch_sample_type),
            ("sample_regs_user", self.sample_regs_user),
            ("sample_regs_intr", self.sample_regs_intr),
            ("sig_data", self.sig_data),
        ];
        for (name, value) in numbers.into_iter().filter(|&(_, value)| value != 0) {
            writeln!(f, "{name} {value:#x}")?;
        }
        let sizes = [
            ("precise_ip", i64::from(self.precise_ip)),
            ("wakeup", self.wakeup.into()),
            ("sample_stack_user", self.sample_stack_user.into()),
            ("clockid", self.clockid.into()),
            ("aux_watermark", self.aux_watermark.into()),
            ("sample_max_stack", self.sample_max_stack.into()),
            ("aux_sample_size", self.aux_sample_size.into()),
        ];
        for (name, value) in sizes.into_iter().filter(|&(_, value)| value != 0) {
            writeln!(f, "{name} {value}")?;
        }
        if let Some(path) = &self.uprobe_path {
            writeln!(f, "uprobe_path {}", path.to_string_lossy().escape_debug())?;
        }
        if !self.read_format.is_empty() {
            write!(f, "read_format")?;
            self.read_format
                .iter_names()
                .try_for_each(|(name, _)| write!(f, " {}", name.to_lowercase()))?;
            writeln!(f)?;
        }
        self.flags.iter_names().try_for_each(|(name, _)| writeln!(f, "{} 1", name.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use perf_event_open_sys::bindings::perf_event_attr;

    use super::*;

    fn filled() -> Attr {
        Attr {
            kind: 4,
            config: 0x1111,
            config1: 0x2222,
            config2: 0x3333,
            config3: 0x4444,
            bp_type: 3,
            sampling: Sampling::Frequency(999),
            sample_type: 0x5555,
            read_format: ReadFormat::all(),
            flags: Flags::all(),
            precise_ip: 2,
            wakeup: 7,
            branch_sample_type: 8,
            sample_regs_user: 9,
            sample_stack_user: 10,
            clockid: -1,
            sample_regs_intr: 11,
            aux_watermark: 12,
            sample_max_stack: 13,
            aux_sample_size: 14,
            sig_data: 15,
            uprobe_path: None,
        }
    }

    #[test]
    fn decodes_what_it_encoded() {
        assert_eq!(Attr::from_bytes(&filled().to_bytes()), Ok(filled()));
        assert_eq!(Attr::from_bytes(&Attr::default().to_bytes()), Ok(Attr::default()));
    }

    #[test]
    fn decodes_shorter_and_longer_structures() {
        let first_version = &filled().to_bytes()[..64];
        let read = Attr::from_bytes(first_version).unwrap();
        assert_eq!((read.config1, read.config2), (0x2222, 0));
        let mut long = filled().to_bytes().to_vec();
        long.extend([0xff; 64]);
        assert_eq!(Attr::from_bytes(&long), Ok(filled()));
        assert_eq!(Attr::from_bytes(&[0; 63]), Err(AttrError::TooShort { len: 63 }));
    }

    /// Compares most offsets in `to_bytes` with the generated bindings.
    #[test]
    fn offsets_equal_the_kernels() {
        assert_eq!(offset_of!(perf_event_attr, config), 8);
        assert_eq!(offset_of!(perf_event_attr, sample_type), 24);
        assert_eq!(offset_of!(perf_event_attr, read_format), 32);
        assert_eq!(offset_of!(perf_event_attr, _bitfield_1), 40);
        assert_eq!(offset_of!(perf_event_attr, bp_type), 52);
        assert_eq!(offset_of!(perf_event_attr, branch_sample_type), 72);
        assert_eq!(offset_of!(perf_event_attr, sample_stack_user), 88);
        assert_eq!(offset_of!(perf_event_attr, clockid), 92);
        assert_eq!(offset_of!(perf_event_attr, sample_regs_intr), 96);
        assert_eq!(offset_of!(perf_event_attr, aux_watermark), 104);
        assert_eq!(offset_of!(perf_event_attr, sample_max_stack), 108);
        assert_eq!(offset_of!(perf_event_attr, aux_sample_size), 112);
        assert_eq!(offset_of!(perf_event_attr, sig_data), 120);
        assert_eq!(offset_of!(perf_event_attr, config3), 128);
    }

    /// Compares some bits of `Flags`, and those of `precise_ip` and `freq`, with the generated
    /// setters.
    #[test]
    fn flag_bits_equal_the_kernels() {
        type Setter = fn(&mut perf_event_attr, u64);
        let setters: [(Flags, Setter); 14] = [
            (Flags::DISABLED, perf_event_attr::set_disabled),
            (Flags::INHERIT, perf_event_attr::set_inherit),
            (Flags::EXCLUDE_IDLE, perf_event_attr::set_exclude_idle),
            (Flags::INHERIT_STAT, perf_event_attr::set_inherit_stat),
            (Flags::ENABLE_ON_EXEC, perf_event_attr::set_enable_on_exec),
            (Flags::SAMPLE_ID_ALL, perf_event_attr::set_sample_id_all),
            (Flags::EXCLUDE_GUEST, perf_event_attr::set_exclude_guest),
            (Flags::USE_CLOCKID, perf_event_attr::set_use_clockid),
            (Flags::CGROUP, perf_event_attr::set_cgroup),
            (Flags::INHERIT_THREAD, perf_event_attr::set_inherit_thread),
            (Flags::REMOVE_ON_EXEC, perf_event_attr::set_remove_on_exec),
            (Flags::SIGTRAP, perf_event_attr::set_sigtrap),
            (Flags::DEFER_CALLCHAIN, perf_event_attr::set_defer_callchain),
            (Flags::DEFER_OUTPUT, perf_event_attr::set_defer_output),
        ];
        for (flag, set) in setters {
            let mut attr = perf_event_attr::default();
            set(&mut attr, 1);
            assert_eq!(attr._bitfield_1.get(0, 64), flag.bits(), "{flag:?}");
        }
        let mut attr = perf_event_attr::default();
        attr.set_precise_ip(2);
        attr.set_freq(1);
        let ours = Attr { precise_ip: 2, sampling: Sampling::Frequency(1), ..Attr::default() };
        assert_eq!(attr._bitfield_1.get(0, 64), ours.flag_word());
    }

    #[test]
    fn prints_only_fields_that_are_set() {
        let attr = Attr {
            kind: 1,
            config: 2,
            flags: Flags::DISABLED | Flags::INHERIT,
            read_format: ReadFormat::TOTAL_TIME_ENABLED,
            ..Attr::default()
        };
        assert_eq!(
            attr.to_string(),
            "type 1\nconfig 0x2\nread_format total_time_enabled\ndisabled 1\ninherit 1\n"
        );
    }
}
