//! Formats the files behind descriptors, as in `3</etc/passwd>`.

use std::net::{Ipv4Addr, Ipv6Addr};

use tare_kernel::bpf::{ChunkPart, FileDescription};

use crate::invocation::{DescriptorInfo, Invocation};
use crate::text;

const TYPE: u32 = 0o170_000;
const SOCKET: u32 = 0o140_000;
const BLOCK: u32 = 0o060_000;
const CHARACTER: u32 = 0o020_000;
const FIFO: u32 = 0o010_000;
const TCP_LISTEN: u16 = 10;

impl Invocation<'_> {
    /// Formats the file of an argument's descriptor, in `<` and `>`; empty if the file is unknown.
    pub(crate) fn descriptor(&self, at: u8) -> String {
        if self.descriptors == DescriptorInfo::Number {
            return String::new();
        }
        let chunks = || self.chunks(usize::from(at));
        let description = chunks()
            .find(|chunk| chunk.part == ChunkPart::Description)
            .and_then(|chunk| FileDescription::parse(chunk.bytes?));
        let Some(description) = description else { return String::new() };
        let parts = chunks().filter(|chunk| chunk.part == ChunkPart::PathPart);
        let parts: Vec<&[u8]> = parts.map(|chunk| name(chunk.bytes.unwrap_or(b"?"))).collect();
        let inode = description.inode;
        let kind = description.mode & TYPE;
        let details = self.descriptors == DescriptorInfo::Details;
        let target = match kind {
            SOCKET if details => socket(&description),
            SOCKET if description.is_disconnected => format!("socket:[{inode}]"),
            FIFO if description.is_disconnected => format!("pipe:[{inode}]"),
            // Names in brackets are anonymous inodes; other disconnected files never had a
            // directory.
            _ if description.is_disconnected && parts.iter().any(|part| part.starts_with(b"[")) => {
                format!("anon_inode:{}", text::path(parts.first().copied().unwrap_or_default()))
            }
            _ => path(&parts),
        };
        let numbers = match kind {
            BLOCK if details => device("block", description.device),
            CHARACTER if details => device("char", description.device),
            _ => String::new(),
        };
        let is_deleted = description.is_unlinked && target.starts_with('/');
        format!("<{target}{numbers}>{}", if is_deleted { "(deleted)" } else { "" })
    }
}

fn name(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Joins path components that are stored from the last to the first.
fn path(parts: &[&[u8]]) -> String {
    if parts.is_empty() {
        return "/".to_owned();
    }
    parts.iter().rev().map(|part| format!("/{}", text::path(part))).collect()
}

fn device(kind: &str, device: u32) -> String {
    format!("<{kind} {}:{}>", device >> 20, device & 0xf_ffff)
}

/// Formats a socket with protocol and addresses, as `strace -yy` does.
fn socket(description: &FileDescription) -> String {
    let FileDescription { inode, family, kind, protocol, .. } = *description;
    let name = match (family, protocol, kind) {
        (2 | 10, 6, _) => "TCP",
        (2 | 10, 17, _) => "UDP",
        (2 | 10, 1 | 58, _) => "PING",
        (2 | 10, _, 3) => "RAW",
        (1, _, 1) => return format!("UNIX-STREAM:[{inode}]"),
        (1, ..) => return format!("UNIX:[{inode}]"),
        (16, ..) => return format!("NETLINK:[{inode}]"),
        _ => return format!("socket:[{inode}]"),
    };
    let v6 = if family == 10 { "v6" } else { "" };
    let address = |bytes: [u8; 16], port: u16| {
        if family == 10 {
            format!("[{}]:{port}", Ipv6Addr::from(bytes))
        } else {
            format!("{}:{port}", Ipv4Addr::from([bytes[0], bytes[1], bytes[2], bytes[3]]))
        }
    };
    let local = address(description.local, description.local_port);
    let addresses = match (description.remote_port, description.local_port) {
        (0, 0) => inode.to_string(),
        (0, _) => local,
        _ if description.state == TCP_LISTEN => local,
        (port, _) => format!("{local}->{}", address(description.remote, port)),
    };
    format!("{name}{v6}:[{addresses}]")
}
