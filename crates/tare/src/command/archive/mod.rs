//! `tare archive`: packs a recording and the files that name its addresses into one file.
//!
//! ```text
//! perf.data           the recording
//! .debug/.build-id/   binaries, debug files, vdso, kallsyms by build id, as in perf's ~/.debug
//! root/               other files, at their recorded paths: perf maps, kernel files, source files
//! ```

mod sources;
pub(crate) mod unpack;

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use tar::{Builder, EntryType, Header};
use tare_kernel::file_window::catch_bus_errors;
use tare_record::own_file::NewFile;
use tare_replay::{CodeDetail, ProfileOptions, Recording};
use tare_symbols::{UsedContent, UsedFile, UsedFiles};
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::symbols;
use crate::command::vmlinux;
use crate::exit::{Exit, Refusal, say};

/// The recording's name in an archive.
const RECORDING: &str = raw::DEFAULT_RECORDING;

/// zstd's compression level: 3 is fast, and higher levels save little.
const LEVEL: i32 = 3;

pub(crate) fn run(raw: raw::ArchiveArgs) -> Outcome {
    let input = raw.input;
    let output = raw.output.unwrap_or_else(|| {
        let mut name = input.clone().into_os_string();
        name.push(".tar.zst");
        PathBuf::from(name)
    });
    catch_bus_errors();
    let recording = Recording::open(&input)?;
    if input.is_dir() {
        let message = format!(
            "{}: a folder of recordings can't be archived; archive one of its files",
            input.display()
        );
        return Err(Refusal { exit: Exit::Failure, message }.into());
    }
    let mut options = symbols::resolve(raw.symbol_search);
    let used = UsedFiles::default();
    options.used = Some(used.clone());
    // The cache would hide files that another machine needs.
    options.cache = None;
    vmlinux::check(&recording, &options)?;
    // Looking up every address of every call chain opens every file that a reader needs.
    let whole = ProfileOptions {
        code: CodeDetail::Stack,
        include_self: true,
        lines: true,
        inline: true,
        symbols: options.clone(),
        ..ProfileOptions::default()
    };
    let progress = ProgressLine::begin();
    progress.read(&recording, &input);
    let summary = tare_replay::summarize(recording, &whole)?;
    if !raw.no_source {
        sources::add(&summary.profile, &options.symfs, &used);
    }
    if let Some(unnamed) = &summary.profile.losses.unnamed {
        tare_replay::add_remedy_files(&unnamed.lack, &options, &used);
    }
    drop(summary);
    progress.show_step("packing");
    let named = || format!("-o {}", output.display());
    let mut file = NewFile::create(&output).with_context(named)?;
    let packed = pack(&input, &used, file.file()).with_context(|| output.display().to_string());
    let PackedFiles { files, bytes } = packed?;
    file.publish().with_context(named)?;
    let file = file.file();
    let size = file.metadata().map_or(0, |meta| meta.len());
    drop(progress);
    let mb = |bytes: u64| bytes as f64 / 1e6;
    say(&format!(
        "packed {} and {files} files that name its addresses ({:.1} MB) into {:.1} MB: {}",
        input.display(),
        mb(bytes),
        mb(size),
        output.display()
    ));
    Ok(Exit::Success)
}

/// Limit on the bytes of a packed file other than the recording.
const LARGEST: u64 = 1 << 32;

struct PackedFiles {
    files: usize,
    bytes: u64,
}

fn pack(input: &Path, used: &UsedFiles, to: &File) -> anyhow::Result<PackedFiles> {
    // Packing takes memory for the distance between equal parts.
    tare_kernel::heap::return_freed_memory();
    let recording = File::open(input)?;
    let mut files = used.take();
    files.sort_by(|a, b| a.name.cmp(&b.name));
    let mut encoder = zstd::Encoder::new(to, LEVEL)?;
    // Files that share code, such as binaries with the same static library, compress together.
    encoder.long_distance_matching(true)?;
    encoder.window_log(window_log(recording.metadata()?.len(), &files))?;
    let mut builder = Builder::new(encoder);
    let mut packed = PackedFiles { files: 0, bytes: 0 };
    packed.bytes += add_file(&mut builder, Path::new(RECORDING), recording)?;
    for used in files {
        if let UsedContent::File(file) = &used.content
            && file.metadata()?.len() > LARGEST
        {
            say(&format!("left out {}: more than {} GiB", used.name.display(), LARGEST >> 30));
            continue;
        }
        packed.bytes += match used.content {
            UsedContent::File(file) => add_file(&mut builder, &used.name, file)?,
            UsedContent::Bytes(bytes) => {
                add(&mut builder, &used.name, bytes.len() as u64, &*bytes)?;
                bytes.len() as u64
            }
        };
        packed.files += 1;
    }
    let mut written = builder.into_inner()?.finish()?;
    written.flush()?;
    Ok(packed)
}

/// Returns the binary logarithm of the distance in bytes up to which equal parts are found, which
/// takes as much memory: that of all files, but at most twice the recording's size or 32 MiB.
fn window_log(recording: u64, files: &[UsedFile]) -> u32 {
    const LEAST: u64 = 1 << 25;
    const MOST: u64 = 1 << 27;
    let bytes = |file: &UsedFile| match &file.content {
        UsedContent::File(file) => file.metadata().map_or(0, |meta| meta.len()),
        UsedContent::Bytes(bytes) => bytes.len() as u64,
    };
    let all = files.iter().map(bytes).fold(recording, u64::saturating_add);
    let limit = recording.saturating_mul(2).clamp(LEAST, MOST);
    all.clamp(1 << 17, limit).next_power_of_two().min(MOST).ilog2()
}

fn add_file(builder: &mut Builder<impl Write>, name: &Path, mut file: File) -> anyhow::Result<u64> {
    let bytes = file.metadata()?.len();
    file.rewind()?;
    let mut whole = file.take(bytes);
    add(builder, name, bytes, &mut whole)?;
    if whole.limit() > 0 {
        bail!("{} became shorter while it was read", name.display());
    }
    Ok(bytes)
}

fn add(
    builder: &mut Builder<impl Write>,
    name: &Path,
    bytes: u64,
    content: impl Read,
) -> anyhow::Result<()> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    Ok(builder.append_data(&mut header, name, content)?)
}
