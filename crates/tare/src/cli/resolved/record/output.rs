//! Destination of a recording.

use std::path::PathBuf;

use tare_record::output::{Destination, FileSwitch, OutputOptions, PathChoice};

use crate::cli::raw;
use crate::cli::resolved::size;
use crate::exit::Refusal;

/// Destination of a recording, and how it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordOutput {
    /// File or stdout.
    pub destination: Destination,
    /// Options of writing.
    pub options: OutputOptions,
    /// Path of its flame graph.
    pub flame: Option<PathBuf>,
}

impl RecordOutput {
    /// Resolves the output. `overwrites`: the oldest records are dropped (`--overwrite`,
    /// `--keep-last`, an event's `overwrite`), and the rest is written at the end or on SIGUSR2.
    pub(super) fn resolve(
        raw: &raw::record::OutputArgs,
        overwrites: bool,
    ) -> Result<Self, Refusal> {
        let destination = if raw.output.as_os_str() == "-" {
            Destination::Stdout
        } else {
            Destination::File(raw.output.clone())
        };
        let choice = match raw.output_path.as_deref() {
            None | Some("auto") => PathChoice::Auto,
            Some("write") => PathChoice::Write,
            Some("mmap") => PathChoice::Mmap,
            Some("direct") => PathChoice::Direct,
            Some(other) => {
                return Err(Refusal::usage(format!(
                    "--output-path={other}: give auto, write, mmap or direct"
                )));
            }
        };
        let bytes = |option: &str, text: &str| {
            size::bytes(text, 1).ok_or_else(|| {
                Refusal::usage(format!(
                    "{option} {text}: give a size in bytes, or with K, M or G, as in 100M"
                ))
            })
        };
        let switch = raw.switch_output.as_deref().map(switch).transpose()?;
        if destination == Destination::Stdout && (switch.is_some() || raw.timestamp_filename) {
            return Err(Refusal::usage(
                "-o - writes one recording to stdout: name a file for --switch-output and --timestamp-filename",
            ));
        }
        if destination == Destination::Stdout && raw.flame.is_some() {
            return Err(Refusal::usage(
                "--flame needs a file, and -o - writes none; use tare record -o - … | tare flame - -o out.html",
            ));
        }
        if overwrites && switch.is_some_and(|switch| switch != FileSwitch::Signal) {
            return Err(Refusal::usage(
                "overwritten ring buffers are saved on SIGUSR2: use --switch-output without a size or time",
            ));
        }
        let defaults = OutputOptions::default();
        let options = OutputOptions {
            choice,
            window_bytes: raw
                .out_pages
                .as_deref()
                .map_or(Ok(defaults.window_bytes), |text| pages("--out-pages", text))?,
            compress: raw.compression_level,
            sync: raw.sync,
            max_size: raw.max_size.as_deref().map(|text| bytes("--max-size", text)).transpose()?,
            switch,
            max_files: raw.switch_max_files.and_then(|files| usize::try_from(files).ok()),
            timestamp: raw.timestamp_filename,
            ..defaults
        };
        Ok(Self { destination, options, flame: raw.flame.clone() })
    }
}

fn switch(text: &str) -> Result<FileSwitch, Refusal> {
    let of_size = || {
        text.ends_with(|c: char| "BKMGbkMg".contains(c))
            .then(|| size::bytes(text, 1).map(FileSwitch::Size))?
    };
    let when = match text {
        "signal" => Some(FileSwitch::Signal),
        // As in perf, m is minutes and M is MiB.
        _ => size::time(text).map(FileSwitch::Time).or_else(of_size),
    };
    when.ok_or_else(|| {
        Refusal::usage(format!(
            "--switch-output={text}: give signal, a size as in 1G, or a time as in 30s, 10m, 1h, 1d"
        ))
    })
}

/// Parses a size and rounds it up to a power of two pages. A number without a letter counts pages.
pub(super) fn pages(option: &str, text: &str) -> Result<u64, Refusal> {
    let page = rustix::param::page_size() as u64;
    let largest = 1 << 40;
    let bytes = size::bytes(text, page).filter(|&bytes| bytes <= largest);
    let bytes = bytes.ok_or_else(|| {
        Refusal::usage(format!(
            "{option} {text}: give a number of pages, or a size with B, K, M or G, as in 8M"
        ))
    })?;
    Ok(bytes.div_ceil(page).next_power_of_two() * page)
}
