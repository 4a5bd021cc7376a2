//! Records the threads of a closure, and prints its ten hottest functions.
#![allow(clippy::print_stdout, reason = "an example")]

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::mpsc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tare_profile::{SortKey, table};
use tare_record::options::{Cpus, RecorderOptions, Target};
use tare_record::output::{self, Destination, Output};
use tare_record::{Backend, Recorder, Start};
use tare_replay::{CodeDetail, ProfileOptions, Recording, summarize};

/// Runs a closure on a new thread, and records that thread and the ones that it starts. Returns the
/// number of samples.
fn record(file: &Path, work: impl FnOnce() + Send + 'static) -> Result<u64, Box<dyn Error>> {
    let (tell, tid) = mpsc::channel();
    let (go, told_to_go) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        tell.send(rustix::thread::gettid().as_raw_nonzero().get()).ok();
        told_to_go.recv().map(|()| work())
    });
    let target = Target::Threads(vec![tid.recv()?], Cpus::All);
    let recorder = Recorder::new(
        RecorderOptions { target, ..RecorderOptions::default() },
        Backend::default(),
    )?;
    let output =
        Output::open(&Destination::File(file.to_owned()), &output::OutputOptions::default())?;
    let mut recording =
        recorder.start(Start { output, command: None, gives_other_rights: false, files: None })?;
    go.send(())?;
    while !thread.is_finished() {
        let soon = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
        poll(&mut [PollFd::new(&recording, PollFlags::IN)], Some(&soon))?;
        recording.process()?;
    }
    Ok(recording.finish(None)?.ledger.events.iter().map(|event| event.samples).sum())
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("hottest-functions-{}", std::process::id()));
    let work = || {
        black_box((0..30_000_000_u64).map(|n| black_box(n).wrapping_pow(3) % 7).sum::<u64>());
    };
    let samples = record(&file, work)?;
    let options = ProfileOptions { code: CodeDetail::Leaf, ..ProfileOptions::default() };
    let profile = summarize(Recording::open(&file)?, &options)?.profile;
    std::fs::remove_file(&file)?;
    for (event, _) in profile.events() {
        let keys = tare_profile::TableOptions { keys: vec![SortKey::Symbol], ..Default::default() };
        let mut entries = table(&profile, event, &keys).entries;
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.own().samples));
        for entry in entries.iter().take(10) {
            let function = entry.frame.and_then(|frame| profile.frame(frame)?.function.ok());
            let name = function.and_then(|function| Some(profile.symbol(function)?.name));
            let name = name.map_or(&b"?"[..], |name| profile.string(name));
            println!("{:6} of {samples} {}", entry.own().samples, String::from_utf8_lossy(name));
        }
    }
    Ok(())
}
