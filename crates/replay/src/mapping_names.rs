//! Interprets the names of mappings.

/// Whether a path is a jitdump: `/somewhere/jit-123.dump`, with the process id in the process's own
/// namespace.
pub(crate) fn is_jitdump(path: &[u8]) -> bool {
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let number = base.strip_prefix(b"jit-").and_then(|rest| rest.strip_suffix(b".dump"));
    path.starts_with(b"/")
        && number.is_some_and(|pid| !pid.is_empty() && pid.iter().all(u8::is_ascii_digit))
}

/// Whether a name is one of those of memory that may hold compiled code. Others without a file,
/// such as `[vdso]`, aren't included.
pub(crate) fn has_no_file(path: &[u8]) -> bool {
    path == b"//anon"
        || [&b"/dev/zero"[..], b"/anon_hugepage", b"[stack", b"/SYSV", b"[heap]"]
            .iter()
            .any(|name| path.starts_with(name))
}

/// Converts `/lib/modules/6.1.0/kernel/fs/nls/nls-ascii.ko.xz` to `[nls_ascii]`. A name in brackets
/// stays unchanged.
pub(crate) fn module_name(path: &[u8]) -> Vec<u8> {
    if path.starts_with(b"[") {
        return path.to_vec();
    }
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let stem = base.windows(3).position(|part| part == b".ko").map_or(base, |at| &base[..at]);
    let name = stem.iter().map(|byte| if *byte == b'-' { b'_' } else { *byte });
    [b'['].into_iter().chain(name).chain([b']']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_names_equal_the_kernels() {
        assert_eq!(
            module_name(b"/lib/modules/6.1.0/kernel/fs/nls/nls-ascii.ko.xz"),
            b"[nls_ascii]"
        );
        assert_eq!(
            (module_name(b"[bpf]"), module_name(b"x")),
            (b"[bpf]".to_vec(), b"[x]".to_vec())
        );
    }
}
