//! Standard input, output and errors of each run.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::thread;

use anyhow::Context;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use tare_record::own_file;

use crate::cli::resolved::bench::{BenchInput, BenchOutput};

/// The input of all runs: each reads it from its beginning.
#[derive(Debug)]
pub(super) struct SharedInput {
    file: File,
}

impl SharedInput {
    /// Opens the input. One that has no positions, such as a pipe, is read whole into memory.
    pub(super) fn open(input: &BenchInput) -> anyhow::Result<Self> {
        let file = match input {
            BenchInput::Null => null()?,
            BenchInput::Own => in_memory(&mut std::io::stdin().lock()).context("--input -")?,
            BenchInput::File(path) => {
                let named = || format!("--input {}", path.display());
                let mut file = File::open(path).with_context(named)?;
                let is_file = file.metadata().with_context(named)?.is_file();
                if is_file { file } else { in_memory(&mut file).with_context(named)? }
            }
        };
        Ok(Self { file })
    }

    /// Goes back to the beginning, and returns a descriptor for a run. All of them share the
    /// position.
    pub(super) fn rewind(&mut self) -> std::io::Result<()> {
        // `/dev/null` takes it too.
        self.file.seek(SeekFrom::Start(0)).map(|_| ())
    }

    fn descriptor(&self) -> anyhow::Result<OwnedFd> {
        Ok(self.file.try_clone().context("cannot share the input")?.into())
    }
}

/// Copies everything into a file in memory.
fn in_memory(from: &mut dyn Read) -> anyhow::Result<File> {
    let mut file = File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    std::io::copy(from, &mut file)?;
    file.flush()?;
    Ok(file)
}

fn null() -> anyhow::Result<File> {
    File::options().read(true).write(true).open("/dev/null").context("/dev/null")
}

/// The output of a command's runs.
#[derive(Debug)]
pub(super) struct RunOutput {
    /// The file, which each run starts anew.
    file: Option<File>,
}

impl RunOutput {
    /// Opens the output, and returns it with the files of the command's runs.
    pub(super) fn open(
        output: &BenchOutput,
        input: &SharedInput,
    ) -> anyhow::Result<(Self, [Option<OwnedFd>; 3])> {
        let input = Some(input.descriptor()?);
        let discard = || -> anyhow::Result<Option<OwnedFd>> { Ok(Some(null()?.into())) };
        Ok(match output {
            BenchOutput::Null => (Self { file: None }, [input, discard()?, discard()?]),
            BenchOutput::Inherit => (Self { file: None }, [input, None, None]),
            BenchOutput::Pipe => (Self { file: None }, [input, Some(drained_pipe()?), discard()?]),
            BenchOutput::File(path) => {
                let file = own_file::create(path)
                    .with_context(|| format!("--output {}", path.display()))?;
                let shared = file.try_clone().context("cannot share the output")?;
                (Self { file: Some(file) }, [input, Some(shared.into()), discard()?])
            }
        })
    }

    /// Empties the file before a run.
    pub(super) fn start_anew(&mut self) -> std::io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        match file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))) {
            // A device or a FIFO has no length.
            Ok(_) | Err(_) => Ok(()),
        }
    }
}

/// A pipe whose other end a thread reads until tare exits.
fn drained_pipe() -> anyhow::Result<OwnedFd> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).context("--output pipe")?;
    thread::Builder::new()
        .name("output".to_owned())
        .spawn(move || {
            let mut reader = File::from(reader);
            let mut buffer = [0; 1 << 16];
            while reader.read(&mut buffer).is_ok_and(|length| length > 0) {}
        })
        .context("--output pipe")?;
    Ok(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_without_positions_is_read_whole_and_replayed() {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        File::from(writer).write_all(b"once").unwrap();
        let file = in_memory(&mut File::from(reader)).unwrap();
        let mut input = SharedInput { file };
        for _ in 0..3 {
            input.rewind().unwrap();
            let mut run = File::from(input.descriptor().unwrap());
            let mut text = String::new();
            run.read_to_string(&mut text).unwrap();
            assert_eq!(text, "once");
        }
    }
}
