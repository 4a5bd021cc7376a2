//! What a descriptor stood for when a call began or returned: `bpf/files.h`.

/// A file or a socket, as `struct description` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileDescription {
    /// The number of the inode.
    pub inode: u64,
    /// Type and permissions, as `st_mode`.
    pub mode: u32,
    /// It has no name any more.
    pub is_unlinked: bool,
    /// It lies in no folder: a pipe, a socket, an anonymous inode.
    pub is_disconnected: bool,
    /// Of a device the numbers, as the kernel has them: 12 bits and 20 bits.
    pub device: u32,
    /// Of a socket `AF_*`.
    pub family: u16,
    /// Of a socket `SOCK_*`.
    pub kind: u16,
    /// Of a socket `IPPROTO_*`.
    pub protocol: u16,
    /// Of a TCP socket its state (`TCP_*`, `include/net/tcp_states.h`).
    pub state: u16,
    /// The port on this side.
    pub local_port: u16,
    /// The port on the other side; 0 where there is none.
    pub remote_port: u16,
    /// The address on this side: 4 bytes, or 16 with `AF_INET6`.
    pub local: [u8; 16],
    /// The address on the other side.
    pub remote: [u8; 16],
}

impl FileDescription {
    const SIZE: usize = 64;

    /// Takes the bytes of a chunk apart; `None` where they are none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::SIZE] = bytes.first_chunk()?;
        let word = |at: usize| u32::from_ne_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        let half = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let flags = word(12);
        Some(Self {
            inode: u64::from_ne_bytes(std::array::from_fn(|byte| bytes[byte])),
            mode: word(8),
            is_unlinked: flags & 1 != 0,
            is_disconnected: flags & 2 != 0,
            device: word(16),
            family: half(20),
            kind: half(22),
            protocol: half(24),
            state: half(26),
            local_port: half(28),
            remote_port: u16::from_be(half(30)),
            local: std::array::from_fn(|byte| bytes[32 + byte]),
            remote: std::array::from_fn(|byte| bytes[48 + byte]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_is_that_of_the_program() {
        let mut bytes: Vec<u8> = (0..64).collect();
        bytes[12..16].copy_from_slice(&[2, 0, 0, 0]);
        let description = FileDescription::parse(&bytes).unwrap();
        assert_eq!(description.mode, u32::from_ne_bytes([8, 9, 10, 11]));
        assert!(description.is_disconnected && !description.is_unlinked);
        assert_eq!((description.local[0], description.remote[15]), (32, 63));
        assert_eq!(FileDescription::parse(&bytes[..63]), None);
    }
}
