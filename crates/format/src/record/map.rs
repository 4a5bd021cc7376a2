//! Records about mappings, kernel code, cgroups and namespaces.

use perf_event_open_sys::bindings::{PERF_RECORD_MISC_MMAP_BUILD_ID, PERF_RECORD_MISC_MMAP_DATA};

use crate::bytes::{Cursor, Endian};

/// A mapping in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mmap<'a> {
    /// The process; -1 is the kernel.
    pub pid: i32,
    /// The thread that mapped it.
    pub tid: i32,
    /// The first address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset in the file, in bytes.
    pub pgoff: u64,
    /// Identifies the file.
    pub file: FileId<'a>,
    /// `PROT_*`; 0 in a record of the first version (`MMAP`).
    pub prot: u32,
    /// `MAP_*`; 0 in a record of the first version (`MMAP`).
    pub flags: u32,
    /// The file's path, or a name such as `[vdso]` or `//anon`.
    pub path: &'a [u8],
    /// Whether it maps data rather than code (`PERF_RECORD_MISC_MMAP_DATA`).
    pub is_data: bool,
}

/// Distinguishes the file of a mapping from others with the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileId<'a> {
    /// Not recorded: the record is of the first version (`MMAP`).
    None,
    /// The file's inode.
    Inode {
        /// The device's major number.
        major: u32,
        /// The device's minor number.
        minor: u32,
        /// The inode's number.
        inode: u64,
        /// Generation of the inode number.
        generation: u64,
    },
    /// The file's build id, at most 20 bytes.
    BuildId(&'a [u8]),
}

impl<'a> Mmap<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>, misc: u16) -> Option<Self> {
        Some(Self {
            pid: fields.i32()?,
            tid: fields.i32()?,
            start: fields.u64()?,
            len: fields.u64()?,
            pgoff: fields.u64()?,
            file: FileId::None,
            prot: 0,
            flags: 0,
            path: fields.text(),
            is_data: has(misc, PERF_RECORD_MISC_MMAP_DATA),
        })
    }

    pub(super) fn decode2(mut fields: Cursor<'a>, misc: u16) -> Option<Self> {
        let first = Self::decode(fields, misc)?;
        fields.take(32)?;
        let file = if has(misc, PERF_RECORD_MISC_MMAP_BUILD_ID) {
            let size = fields.u8()?;
            fields.take(3)?;
            FileId::BuildId(fields.take(20)?.get(..size.into())?)
        } else {
            FileId::Inode {
                major: fields.u32()?,
                minor: fields.u32()?,
                inode: fields.u64()?,
                generation: fields.u64()?,
            }
        };
        Some(Self { file, prot: fields.u32()?, flags: fields.u32()?, path: fields.text(), ..first })
    }
}

fn has(misc: u16, bit: u32) -> bool {
    u32::from(misc) & bit != 0
}

/// Kernel code that was registered or removed at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ksymbol<'a> {
    /// The first address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u32,
    /// `PERF_RECORD_KSYMBOL_TYPE_*`.
    pub ksym_type: u16,
    /// `PERF_RECORD_KSYMBOL_FLAGS_*`.
    pub flags: u16,
    /// The symbol's name.
    pub name: &'a [u8],
}

impl<'a> Ksymbol<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        Some(Self {
            addr: fields.u64()?,
            len: fields.u32()?,
            ksym_type: fields.u16()?,
            flags: fields.u16()?,
            name: fields.text(),
        })
    }
}

/// A BPF program that was loaded or unloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfEvent {
    /// `PERF_BPF_EVENT_*`.
    pub event_type: u16,
    /// Always 0 so far.
    pub flags: u16,
    /// The program's id.
    pub id: u32,
    /// A hash over its instructions.
    pub tag: [u8; 8],
}

impl BpfEvent {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self {
            event_type: fields.u16()?,
            flags: fields.u16()?,
            id: fields.u32()?,
            tag: fields.array()?,
        })
    }
}

/// A cgroup's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cgroup<'a> {
    /// The id that samples with `PERF_SAMPLE_CGROUP` carry.
    pub id: u64,
    /// The path below the cgroup's mount.
    pub path: &'a [u8],
}

/// A change that the kernel made to its own code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPoke<'a> {
    /// The address.
    pub addr: u64,
    /// The previous bytes.
    pub old: &'a [u8],
    /// The new bytes.
    pub new: &'a [u8],
}

impl<'a> TextPoke<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let addr = fields.u64()?;
        let old = fields.u16()?;
        let new = fields.u16()?;
        Some(Self { addr, old: fields.take(old.into())?, new: fields.take(new.into())? })
    }
}

/// The namespaces that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces<'a> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    links: &'a [[u8; 16]],
    endian: Endian,
}

/// A namespace, as `stat` shows its file below `/proc/PID/ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamespaceLink {
    /// The device.
    pub dev: u64,
    /// The inode.
    pub inode: u64,
}

impl<'a> Namespaces<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let pid = fields.i32()?;
        let tid = fields.i32()?;
        let count = fields.u64()?;
        let links = fields.take(count.checked_mul(16)?)?.as_chunks().0;
        Some(Self { pid, tid, links, endian: fields.endian() })
    }

    /// Iterates over the namespaces, in the order of the kernel's `NET_NS_INDEX` and the indices
    /// after it.
    pub fn links(&self) -> impl ExactSizeIterator<Item = NamespaceLink> + 'a {
        let word = |bytes: &[u8; 16], at: usize, endian: Endian| {
            endian.u64(std::array::from_fn(|i| bytes[at + i]))
        };
        let endian = self.endian;
        self.links.iter().map(move |link| NamespaceLink {
            dev: word(link, 0, endian),
            inode: word(link, 8, endian),
        })
    }
}
