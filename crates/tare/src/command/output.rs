//! `-o`: opens a file that only its owner can read, a FIFO or device, or standard output.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use tare_record::own_file::{GrowingFile, NewFile};

/// Size of the write buffer in bytes.
const BUFFER: usize = 1 << 18;

/// Writes a whole file that only its owner can read, a FIFO or device, or standard output (`-`). On
/// failure an existing file stays as it is. A symbolic link in a folder that other users can write
/// to is not followed.
pub(crate) fn write_to(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let (out, file) = create_whole(path)?;
    let mut out = BufWriter::with_capacity(BUFFER, out);
    write(&mut out).and_then(|()| out.flush()).with_context(|| named(path))?;
    file.publish().with_context(|| named(path))
}

/// A file that gets its name once it is whole; nothing for standard output.
#[must_use = "without `publish` the file is dropped"]
pub(crate) struct WholeFile(Option<NewFile>);

impl WholeFile {
    /// Gives the file its name.
    pub(crate) fn publish(self) -> io::Result<()> {
        self.0.map_or(Ok(()), |mut file| file.publish())
    }
}

/// Opens standard output, or a file that gets its name with [`WholeFile::publish`].
pub(crate) fn create_whole(path: &Path) -> anyhow::Result<(Box<dyn Write + Send>, WholeFile)> {
    if path == Path::new("-") {
        return Ok((Box::new(io::stdout()), WholeFile(None)));
    }
    let file = NewFile::create(path).with_context(|| named(path))?;
    let out = file.file().try_clone().with_context(|| named(path))?;
    Ok((Box::new(out), WholeFile(Some(file))))
}

/// Opens standard output, or a file that gets its name with its first byte.
pub(crate) fn create(path: &Path) -> anyhow::Result<Box<dyn Write + Send>> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdout()));
    }
    Ok(Box::new(GrowingFile::create(path).with_context(|| named(path))?))
}

/// The name of the output in errors.
pub(crate) fn named(path: &Path) -> String {
    if path == Path::new("-") {
        "standard output".to_owned()
    } else {
        format!("-o {}", path.display())
    }
}
