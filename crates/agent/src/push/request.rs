//! A request, as it waits in the spool and is sent.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Size of a request before compression above which the next one begins. Collectors accept 4 MiB.
pub(super) const REQUEST_BYTES: usize = 2 << 20;

/// A part of a window, encoded for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PushRequest {
    /// Path and query, behind the path of the target's URL.
    pub(super) path: String,
    /// Type of the body.
    pub(super) content_type: String,
    /// The body, compressed if `is_gzip`.
    pub(super) body: Vec<u8>,
    /// Whether the receiver has to decompress the body.
    pub(super) is_gzip: bool,
    /// Number of samples in it.
    pub(super) samples: u64,
}

impl PushRequest {
    /// Appends the request as a file of the spool has it: three lines, then the body.
    pub(super) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{}\n{}\n{}", self.path, self.content_type, u8::from(self.is_gzip))?;
        out.write_all(&self.body)
    }

    /// Reads a file of the spool; `None` if it is damaged.
    pub(super) fn read(bytes: &[u8], samples: u64) -> Option<Self> {
        let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
        let mut line = || std::str::from_utf8(parts.next()?).ok();
        let [path, content_type, gzip] = [line()?, line()?, line()?];
        let is_gzip = match gzip {
            "0" => false,
            "1" => true,
            _ => return None,
        };
        let [path, content_type] = [path, content_type].map(str::to_owned);
        Some(Self { path, content_type, body: parts.next()?.to_vec(), is_gzip, samples })
    }
}

/// Compresses a body.
pub(super) fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing into memory doesn't fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_spool_is_the_request() {
        let request = PushRequest {
            path: "/ingest?name=a".to_owned(),
            content_type: "text/plain".to_owned(),
            body: b"\n\0\n".to_vec(),
            is_gzip: true,
            samples: 3,
        };
        let mut file = Vec::new();
        request.write(&mut file).unwrap();
        assert_eq!(PushRequest::read(&file, 3), Some(request));
        for damaged in [&b""[..], b"\n\n", b"a\nb\n2\nc", b"\xff\n\n1\n"] {
            assert_eq!(PushRequest::read(damaged, 3), None);
        }
    }
}
