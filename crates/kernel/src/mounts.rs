//! The mounts that this process sees (`/proc/self/mountinfo`, documented in
//! `proc_pid_mountinfo(5)`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use crate::host::Host;
use crate::pseudo_file;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mounted part of the file system: `/`, or the folder or file that was bind-mounted.
    pub root: PathBuf,
    /// The mount point, an absolute path of the machine.
    pub point: PathBuf,
    /// Type of the file system: `cgroup2`, `tracefs`, …
    pub fs_type: String,
    /// Options of this mount, separated by commas: `rw,nosuid`.
    pub options: String,
    /// Options of the file system, separated by commas; of version 1 cgroups, the controllers.
    pub fs_options: String,
}

impl Mount {
    /// Whether the file system has this option.
    #[must_use]
    pub fn has_fs_option(&self, option: &str) -> bool {
        self.fs_options.split(',').any(|fs_option| fs_option == option)
    }
}

/// Returns the mounts of file systems of these types in mount order: the last of several at one
/// point is visible. Malformed lines are skipped.
///
/// # Errors
/// Fails if the file can't be read, for example because `/proc` isn't mounted.
pub fn mounts(host: &Host, fs_types: &[&str]) -> std::io::Result<Vec<Mount>> {
    let text = pseudo_file::read(&host.path("/proc/self/mountinfo"))?;
    Ok(text.split(|&byte| byte == b'\n').filter_map(|line| parse(line, fs_types)).collect())
}

/// Parses `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`;
/// optional fields end at the lone `-`.
fn parse(line: &[u8], fs_types: &[&str]) -> Option<Mount> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    let options = fields.next()?;
    fields.find(|field| *field == b"-")?;
    let fs_type = fields.next()?;
    let fs_type = (*fs_types.iter().find(|wanted| wanted.as_bytes() == fs_type)?).to_owned();
    let fs_options = text(fields.nth(1)?);
    Some(Mount {
        root: path(root),
        point: path(point),
        fs_type,
        options: text(options),
        fs_options,
    })
}

fn text(field: &[u8]) -> String {
    String::from_utf8_lossy(&unescape(field)).into_owned()
}

fn path(field: &[u8]) -> PathBuf {
    OsString::from_vec(unescape(field)).into()
}

/// Decodes bytes such as blanks, tabs, line ends and backslashes, which the kernel writes as `\`
/// and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let byte = digits.and_then(|digits| {
            u8::try_from(digits.iter().fold(0_u32, |sum, d| sum * 8 + u32::from(d - b'0'))).ok()
        });
        out.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::fixture;

    #[test]
    fn optional_fields_and_escapes_are_parsed_and_broken_lines_skipped() {
        let machine = fixture::machine(&[(
            "/proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 master:1 - cgroup2 cgroup2 rw,nsdelegate\n\
             broken\n\
             33 23 0:29 / /proc rw - proc proc rw\n\
             36 35 98:0 /a\\040b /mnt\\134x\\04 rw - ext4 /dev/sd\\040a ro\n",
        )]);
        let mounts = mounts(&machine.host(), &["cgroup2", "ext4"]).unwrap();
        assert_eq!(mounts.len(), 2);
        assert_eq!(
            (mounts[0].fs_type.as_str(), mounts[0].options.as_str()),
            ("cgroup2", "rw,relatime")
        );
        assert!(mounts[0].has_fs_option("nsdelegate") && !mounts[0].has_fs_option("ns"));
        assert_eq!(
            (mounts[1].root.to_str(), mounts[1].point.to_str()),
            (Some("/a b"), Some("/mnt\\x\\04"))
        );
        assert_eq!(mounts[1].fs_options, "ro");
    }

    #[test]
    fn an_unmounted_proc_is_an_error() {
        let machine = fixture::empty();
        assert_eq!(mounts(&machine.host(), &[]).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    }
}
