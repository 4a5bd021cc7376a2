//! The arguments of one system call as text.

use tare_kernel::bpf::{ChunkPart, SECOND};

use crate::address::address;
use crate::invocation::{DescriptorInfo, Invocation};
use crate::signature::{ArgumentKind, Items, PATH, size};
use crate::special;
use crate::structs::{self, StructBytes, octal, pointer};
use crate::text;

impl Invocation<'_> {
    /// Formats the arguments; while the call is in progress, up to the first whose value the kernel
    /// has yet to write.
    pub(crate) fn arguments(&self) -> String {
        if let Some(arguments) = special::clone(self) {
            return arguments;
        }
        let mut text = String::new();
        for (at, kind) in self.kinds.unwrap_or_default().iter().enumerate() {
            let unknown = kind.is_output() && self.returned.is_none();
            if at > 0 && unknown {
                text.push_str(", ");
            }
            if unknown {
                return text;
            }
            let Some(argument) = self.argument(at, *kind) else { continue };
            if at > 0 {
                text.push_str(", ");
            }
            text.push_str(&argument);
            // The kernel's results in this structure are printed after it.
            if matches!(kind, ArgumentKind::Struct { name: "cloneargs", .. })
                && self.returned.is_none()
            {
                return text;
            }
        }
        if self.kinds.is_none() {
            let all: Vec<_> = self.values.iter().map(|value| format!("{value:#x}")).collect();
            text.push_str(&all.join(", "));
        }
        text
    }

    /// Formats one argument; `None` if it isn't printed.
    fn argument(&self, at: usize, kind: ArgumentKind) -> Option<String> {
        let value = self.values[at];
        Some(match kind {
            ArgumentKind::Word(word) => return self.word(at, word),
            ArgumentKind::Flags(table) => self.flags.flags(table, value & 0xffff_ffff),
            ArgumentKind::Number(table) => self.flags.number(table, value & 0xffff_ffff),
            ArgumentKind::In(count) => match self.bytes(at) {
                Some(bytes) => text::buffer(bytes, self.values[usize::from(count)], self.string),
                None => pointer(value),
            },
            ArgumentKind::Vectors { count, .. } => {
                self.vectors(at, self.values[usize::from(count)])
            }
            ArgumentKind::Address { out, .. } => match self.bytes(at) {
                Some(bytes) if !(out && self.has_failed()) => address(self.flags, bytes),
                _ => pointer(value),
            },
            ArgumentKind::SocketOption { out, .. } => match self.bytes(at) {
                Some(bytes) if !(out && self.has_failed()) => socket_option(bytes),
                _ => pointer(value),
            },
            ArgumentKind::Struct { name, when, items } => {
                let shown = when.enter || when.success && !self.has_failed() || when.failure;
                let bytes = self.bytes(at).filter(|_| shown);
                bytes
                    .and_then(|bytes| self.structure(at, name, items, bytes))
                    .unwrap_or_else(|| pointer(value))
            }
        })
    }

    fn structure(
        &self,
        at: usize,
        name: &'static str,
        items: Items,
        bytes: &[u8],
    ) -> Option<String> {
        match items {
            Items::One if name == "status" => {
                let reaped = self.returned.is_some_and(|(result, _)| result > 0);
                reaped.then(|| structs::structure(self.flags, name, bytes))?
            }
            Items::One if name == "socklen" => {
                let after = self.bytes_after(at).map(|bytes| StructBytes(bytes).int(0));
                let before = StructBytes(bytes).int(0);
                match after {
                    Some(after) if after != before && !self.has_failed() => {
                        Some(format!("[{before} => {after}]"))
                    }
                    _ => Some(format!("[{before}]")),
                }
            }
            Items::One if name == "fds" && self.descriptors > DescriptorInfo::Number => {
                let at = u8::try_from(at).unwrap_or_default();
                let first = self.descriptor(at);
                let second = self.descriptor(at | SECOND);
                let f = StructBytes(bytes);
                Some(format!("[{}{first}, {}{second}]", f.int(0), f.int(4)))
            }
            Items::One if name == "uring" => {
                let after = self.bytes_after(at).filter(|_| !self.has_failed());
                Some(structs::uring(
                    self.flags,
                    StructBytes(after.unwrap_or(bytes)),
                    after.is_some(),
                ))
            }
            Items::One if name == "cloneargs" => Some(special::clone_arguments(self, bytes)),
            Items::One => structs::structure(self.flags, name, bytes),
            Items::Argument(_) | Items::Returned => {
                let size = usize::from(size(name)?);
                let all: Option<Vec<_>> = bytes
                    .chunks_exact(size)
                    .map(|item| structs::structure(self.flags, name, item))
                    .collect();
                Some(format!("[{}]", all?.join(", ")))
            }
        }
    }

    fn word(&self, at: usize, word: &str) -> Option<String> {
        let value = self.values[at];
        let low = value & 0xffff_ffff;
        let int = StructBytes(&value.to_ne_bytes()).int(0);
        Some(match word {
            "fd" => format!("{int}{}", self.descriptor_at(at)),
            "int" | "pid" => int.to_string(),
            "uint" => low.to_string(),
            "long" if self.registers.is_compat && !self.registers.is_pair(at) => int.to_string(),
            "long" => value.cast_signed().to_string(),
            "size" => value.to_string(),
            "ptr" => pointer(value),
            "hexnum" if value == 0 => "0".to_owned(),
            "hexnum" => format!("{value:#x}"),
            "oct" => octal(low & 0o7777),
            "modetype" => structs::mode(u32::try_from(low).unwrap_or(0)),
            "at" if int == -100 => format!("AT_FDCWD{}", self.descriptor_at(at)),
            "at" => format!("{int}{}", self.descriptor_at(at)),
            "sig" => structs::signal(self.flags, u32::try_from(low).unwrap_or(0)),
            "path" | "text" => match self.bytes(at) {
                Some(bytes) if word == "path" => text::string(bytes, usize::from(PATH) - 1),
                Some(bytes) => text::string(bytes, self.string),
                None => pointer(value),
            },
            "out" | "outraw" | "outtext" => self.output(at, word),
            "argv" => self.strings(at),
            "envp" => self.environment(at),
            "msg" | "omsg" => self.message(at),
            _ => return special::word(self, at, word),
        })
    }

    fn descriptor_at(&self, at: usize) -> String {
        u8::try_from(at).map_or_else(|_| String::new(), |at| self.descriptor(at))
    }

    /// Formats a buffer that the call filled: "" for an `out` buffer if the result is 0, its
    /// address if the call failed, is in progress, or nothing was copied.
    fn output(&self, at: usize, word: &str) -> String {
        match (self.bytes(at), self.returned) {
            (Some(bytes), Some((result, _))) if !self.has_failed() => {
                let length = u64::try_from(result).unwrap_or(0);
                match word {
                    "outraw" => text::hex(bytes, length, self.string),
                    "outtext" => text::string(bytes, usize::from(PATH)),
                    _ => text::buffer(bytes, length, self.string),
                }
            }
            (_, Some((0, _))) if self.values[at] != 0 && word == "out" => "\"\"".to_owned(),
            _ => pointer(self.values[at]),
        }
    }

    fn strings(&self, at: usize) -> String {
        let mut strings = Vec::new();
        if let Some(all) = self.part_after(at, ChunkPart::Name) {
            let all = all.strip_suffix(&[0]).unwrap_or(all);
            let each = all.split(|&byte| byte == 0).take(32);
            strings.extend(each.map(|bytes| text::string(bytes, self.string)));
            return format!("[{}]", strings.join(", "));
        }
        for chunk in self.chunks(at) {
            strings.push(match chunk.bytes {
                Some(_) if strings.len() == 32 => "...".to_owned(),
                Some(bytes) => text::string(bytes, self.string),
                None => "???".to_owned(),
            });
        }
        if strings.is_empty() && (self.values[at] == 0 || self.only_pointers) {
            return pointer(self.values[at]);
        }
        format!("[{}]", strings.join(", "))
    }

    fn environment(&self, at: usize) -> String {
        let address = pointer(self.values[at]);
        match self.chunks(at).next() {
            Some(chunk) if chunk.part == ChunkPart::Element => self.strings(at),
            Some(chunk) if chunk.bytes.is_some() => {
                let plural = if chunk.index == 1 { "" } else { "s" };
                format!("{address} /* {} var{plural} */", chunk.index)
            }
            _ => address,
        }
    }

    fn vectors(&self, at: usize, count: u64) -> String {
        let Some(bytes) = self.bytes(at) else { return pointer(self.values[at]) };
        let mut items: Vec<String> = Vec::new();
        for (index, vector) in (0..).zip(bytes.chunks_exact(16)) {
            let base = StructBytes(vector).long(0);
            let length = StructBytes(vector).long(8);
            let shown = self.part(at, ChunkPart::Element, index);
            let base = match shown {
                Some(data) => text::buffer(
                    data,
                    (data.len() as u64).max(length.min(self.left(at, index))),
                    self.string,
                ),
                None if length == 0 || self.returned.is_some() && base != 0 => "\"\"".to_owned(),
                None => pointer(base),
            };
            items.push(format!("{{iov_base={base}, iov_len={length}}}"));
        }
        if count > items.len() as u64 {
            items.push("...".to_owned());
        }
        format!("[{}]", items.join(", "))
    }

    /// Returns how many of the bytes that the call read lie in this vector and the following ones;
    /// no limit for calls that don't fill vectors.
    fn left(&self, at: usize, index: u16) -> u64 {
        let is_out = matches!(self.name, "readv" | "preadv" | "recvmsg");
        let Some((result, _)) = self.returned.filter(|_| is_out) else { return u64::MAX };
        let whole = self.bytes(at).unwrap_or_default();
        let before =
            whole.chunks_exact(16).take(index.into()).map(|vector| StructBytes(vector).long(8));
        u64::try_from(result).unwrap_or(0).saturating_sub(before.sum())
    }

    fn message(&self, at: usize) -> String {
        let Some(bytes) = self.bytes(at) else { return pointer(self.values[at]) };
        let f = StructBytes(bytes);
        if self.name == "recvmsg" && self.has_failed() {
            return format!("{{msg_namelen={}}}", f.int(8));
        }
        let name = match self.part(at, ChunkPart::Name, 0) {
            Some(name) if !name.is_empty() => address(self.flags, name),
            _ => pointer(f.long(0)),
        };
        let vectors = self.message_vectors(at, f.long(24));
        let control = match f.long(40) {
            0 => String::new(),
            _ => format!("msg_control={}, ", self.control(at, f.long(32))),
        };
        format!(
            "{{msg_name={name}, msg_namelen={}, msg_iov={vectors}, msg_iovlen={}, {control}msg_controllen={}, msg_flags={}}}",
            f.int(8),
            f.long(24),
            f.long(40),
            self.flags.flags("msg", f.word(48).into())
        )
    }

    /// Formats the vectors of a message: the second chunk of [`ChunkPart::Whole`].
    fn message_vectors(&self, at: usize, count: u64) -> String {
        let Some(bytes) = self
            .chunks(at)
            .filter(|chunk| chunk.part == ChunkPart::Whole)
            .nth(1)
            .and_then(|chunk| chunk.bytes)
        else {
            return "NULL".to_owned();
        };
        let items = (0..).zip(bytes.chunks_exact(16)).map(|(index, vector)| {
            let length = StructBytes(vector).long(8);
            let data = self.part(at, ChunkPart::Element, index).unwrap_or_default();
            let out = self.name == "recvmsg";
            let all = if out { data.len() as u64 } else { length };
            format!("{{iov_base={}, iov_len={length}}}", text::buffer(data, all, self.string))
        });
        let items: Vec<_> = items.collect();
        let more = if count > items.len() as u64 { ", ..." } else { "" };
        format!("[{}{more}]", items.join(", "))
    }

    fn control(&self, at: usize, address: u64) -> String {
        let Some(bytes) = self.part(at, ChunkPart::Control, 0) else { return pointer(address) };
        let f = StructBytes(bytes);
        let data: Vec<_> = bytes
            .get(16..)
            .unwrap_or_default()
            .chunks_exact(4)
            .map(|data| StructBytes(data).int(0))
            .collect();
        match (f.long(0), f.int(8), f.int(12)) {
            (length, 1, 1) => {
                let count = usize::try_from(length.saturating_sub(16) / 4).unwrap_or(0);
                let fds: Vec<_> = data.iter().take(count).map(ToString::to_string).collect();
                format!(
                    "[{{cmsg_len={length}, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[{}]}}]",
                    fds.join(", ")
                )
            }
            _ => pointer(address),
        }
    }
}

/// Formats the value of a socket option.
fn socket_option(bytes: &[u8]) -> String {
    if bytes.len() == 4 { format!("[{}]", StructBytes(bytes).int(0)) } else { text::quoted(bytes) }
}
