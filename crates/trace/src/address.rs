//! Addresses of sockets.

use crate::flags::Flags;
use crate::structs::StructBytes;
use crate::text;

/// Formats a socket's address.
pub(crate) fn address(flags: &Flags, bytes: &[u8]) -> String {
    let f = StructBytes(bytes);
    let family = flags.number("family", f.half(0).into());
    let port = |at| u16::from_be(f.half(at));
    match f.half(0) {
        _ if bytes.len() < 2 => text::quoted(bytes),
        1 if bytes.len() == 2 => format!("{{sa_family={family}}}"),
        1 => {
            let path = &bytes[2..];
            // The first byte of an abstract name is NUL.
            let path = match path.split_first() {
                Some((0, name)) if !name.is_empty() => format!("@{}", text::quoted(name)),
                _ => text::string(path, 108),
            };
            format!("{{sa_family={family}, sun_path={path}}}")
        }
        2 if bytes.len() >= 8 => {
            let ip = std::net::Ipv4Addr::from_bits(u32::from_be(f.word(4)));
            format!(
                "{{sa_family={family}, sin_port=htons({}), sin_addr=inet_addr(\"{ip}\")}}",
                port(2)
            )
        }
        10 if bytes.len() >= 28 => {
            let ip = std::net::Ipv6Addr::from(f.get::<16>(8));
            format!(
                "{{sa_family={family}, sin6_port=htons({}), sin6_flowinfo=htonl({}), inet_pton(AF_INET6, \"{ip}\", &sin6_addr), sin6_scope_id={}}}",
                port(2),
                u32::from_be(f.word(4)),
                f.word(24)
            )
        }
        16 if bytes.len() >= 12 => {
            format!("{{sa_family={family}, nl_pid={}, nl_groups={:08x}}}", f.int(4), f.word(8))
        }
        _ => format!("{{sa_family={family}, sa_data={}}}", text::quoted(&bytes[2..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_addresses_of_any_length() {
        let flags = Flags::default();
        for family in 0..20 {
            for length in 0..130 {
                assert!(!address(&flags, &vec![family; length]).is_empty());
                let mut bytes = vec![0; length];
                bytes.iter_mut().take(1).for_each(|byte| *byte = family);
                assert!(!address(&flags, &bytes).is_empty());
            }
        }
        let bytes = [1, 0, 0, b'a', 0x1b];
        assert_eq!(address(&flags, &bytes), "{sa_family=AF_UNIX, sun_path=@\"a\\33\"}");
    }
}
