//! Options of `tare record`.

mod off_cpu;
mod output;
mod registers;
mod sampling;
mod target;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tare_events::Sources;
use tare_format::abi::Flags;
use tare_kernel::foreign_folder::find_foreign_folder;
use tare_kernel::host::Host;
use tare_record::RecorderOptions;
use tare_record::options::{Follow, Keep, Levels, Rings, Synthesize};

pub use self::output::RecordOutput;
use super::events;
use crate::cli::raw;
use crate::exit::Refusal;

/// Options of `tare record`.
#[derive(Debug)]
pub struct RecordOptions {
    /// Options of the recorder.
    pub options: RecorderOptions,
    /// Command to run while recording; with [`tare_record::options::Target::Command`], the one to
    /// record.
    pub command: Vec<OsString>,
    /// Time after which recording ends.
    pub timeout: Option<Duration>,
    /// Source of enable, disable, ping and stop.
    pub control: Option<String>,
    /// Destination of the recording.
    pub output: RecordOutput,
    /// Whether the cost of a sample is measured at the end if it is unknown on this host.
    pub calibrates: bool,
    /// 1 prints how children are followed, the open files and the whole ledger; 2 also every
    /// attribute.
    pub verbose: u8,
    /// Whether only errors are printed.
    pub quiet: bool,
    /// Whether the plan is printed and nothing recorded.
    pub dry_run: bool,
}

impl RecordOptions {
    /// Resolves the typed options.
    ///
    /// # Errors
    /// Fails with a [`Refusal`] that names the remedy.
    pub fn resolve(raw: raw::RecordArgs, host: &Host) -> Result<Self, Refusal> {
        let target = target::resolve(&raw.target, raw.command.is_empty(), host)?;
        let levels = levels(&raw.events);
        let begin = target::begin(&raw.target.start)?;
        let mut sampling = sampling::resolve(&raw, &target, levels)?;
        // The kernel's build ids distinguish files that had the same path at different times.
        if raw.output.keep_binaries.is_some() {
            sampling.tracking.insert(Flags::BUILD_ID);
        }
        let sources = Sources::new(host.clone());
        let mut groups = events::typed(&raw.events, &sources)?;
        for event in groups.iter_mut().flat_map(|group| &mut group.events) {
            sampling
                .apply_levels(event)
                .map_err(|term| Refusal::usage(format!("{}: {term}", event.name)))?;
        }
        let mut rings = rings(&raw)?;
        // A file is kept once its mapping is read; a short program may remove its files soon.
        if raw.output.keep_binaries.is_some() {
            rings.flush_interval = rings.flush_interval.min(Duration::from_millis(20));
        }
        let overwrites = rings.keep != Keep::All
            || groups
                .iter()
                .flat_map(|group| &group.events)
                .any(|event| event.sampling.overwrite == Some(true));
        Ok(Self {
            output: RecordOutput::resolve(&raw.output, overwrites)?,
            options: RecorderOptions {
                synthesize: synthesize(&raw.output, sampling.all_cgroups)?,
                groups,
                include_self: raw.sampling.sampler.include_self,
                sampling,
                target,
                follow: follow(raw.target.follow),
                inherit: !raw.target.children.no_inherit,
                begin,
                may_pause: raw.target.start.control.is_some(),
                rings,
                build_ids: !raw.output.no_buildid,
                keep_binaries: raw
                    .output
                    .keep_binaries
                    .as_deref()
                    .map(binaries_folder)
                    .transpose()?,
                readers: raw.output.readers.and_then(|readers| usize::try_from(readers).ok()),
                realtime_priority: raw.sampling.sampler.realtime,
                off_cpu: off_cpu::resolve(&raw)?,
                ..RecorderOptions::default()
            },
            timeout: raw.target.end.duration(),
            control: raw.target.start.control,
            calibrates: !raw.output.no_calibrate,
            command: raw.command,
            verbose: raw.steps.verbose,
            quiet: raw.quiet,
            dry_run: raw.dry_run,
        })
    }
}

/// Returns the folder for binaries; `~/.debug`, perf's cache, by default.
fn binaries_folder(named: &Path) -> Result<PathBuf, Refusal> {
    if named != Path::new("~/.debug") {
        return Ok(named.to_owned());
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    let home = home.map(|home| PathBuf::from(home).join(".debug"));
    let folder = home.ok_or_else(|| {
        Refusal::usage("--keep-binaries: HOME is not set: name a folder, --keep-binaries=FOLDER")
    })?;
    match find_foreign_folder(&folder) {
        Some(foreign) => Err(Refusal::usage(format!(
            "--keep-binaries: {} belongs to another user: name a folder, --keep-binaries=FOLDER",
            foreign.display()
        ))),
        None => Ok(folder),
    }
}

fn levels(raw: &raw::EventArgs) -> Levels {
    match (raw.all_user, raw.all_kernel) {
        (true, _) => Levels::User,
        (_, true) => Levels::Kernel,
        _ => Levels::OfEvent,
    }
}

fn follow(raw: raw::FollowMode) -> Follow {
    match raw {
        raw::FollowMode::Auto => Follow::Auto,
        raw::FollowMode::Cgroup => Follow::Cgroup,
        raw::FollowMode::System => Follow::System,
        raw::FollowMode::Inherit => Follow::Inherit,
    }
}

fn rings(record: &raw::RecordArgs) -> Result<Rings, Refusal> {
    let raw = &record.output;
    let bytes = match record.sampling.sampler.mmap_pages.as_deref() {
        None => None,
        Some(text) if text.contains(',') => {
            return Err(Refusal::usage(format!(
                "-m {text}: tare doesn't record AUX areas (Intel PT, CoreSight); give one number: -m {}",
                before_comma(text)
            )));
        }
        Some(text) => Some(output::pages("-m", text)?),
    };
    let keep = match raw.keep_last {
        Some(seconds) => match Duration::try_from_secs_f64(seconds) {
            Ok(time) if !time.is_zero() && seconds <= 86_400.0 => Keep::Last(time),
            _ => {
                return Err(Refusal::usage(
                    "--keep-last takes seconds, above 0 and at most a day (86400)",
                ));
            }
        },
        None if raw.overwrite => Keep::WhatFits,
        None => Keep::All,
    };
    Ok(Rings { bytes, keep, flush_interval: Duration::from_millis(raw.flush_interval) })
}

fn before_comma(text: &str) -> &str {
    text.split(',').next().unwrap_or_default()
}

fn synthesize(raw: &raw::record::OutputArgs, cgroups_sampled: bool) -> Result<Synthesize, Refusal> {
    let everything = Synthesize {
        tasks: true,
        maps: true,
        cgroups: cgroups_sampled,
        at_the_end: raw.tail_synthesize,
    };
    let mut chosen = Synthesize { tasks: false, maps: false, cgroups: false, ..everything };
    for what in &raw.synth {
        match what.as_str() {
            "all" => chosen = everything,
            "no" if raw.synth.len() == 1 => {}
            "task" => chosen.tasks = true,
            "mmap" => (chosen.tasks, chosen.maps) = (true, true),
            "cgroup" => chosen.cgroups = true,
            _ => {
                return Err(Refusal::usage(format!(
                    "--synth={what}: give no alone, all, or a list of task, mmap, cgroup"
                )));
            }
        }
    }
    Ok(if raw.synth.is_empty() { everything } else { chosen })
}

#[cfg(test)]
mod tests;
