//! CPU time of minimal programs that do the same work as tare, or a part of it.

use std::hint::black_box;
use std::process::{Command, Stdio};

use rustix::time::{ClockId, clock_gettime};

use super::WATCHED;
use crate::report::Estimate;
use crate::run::run;
use crate::scratch::Scratch;
use crate::watched::ProcessUsage;

/// Size of a copy: megabytes for `memcpy`, MiB for `dd`.
const MEGABYTES: usize = 256;
/// Bytes of each write of the program that writes four times a second.
const IDLE_BYTES: &str = "9000";

/// Measures the floors in microseconds: per run, or per second in which `bytes` go into a file.
pub(super) fn measure_floors(
    scratch: &Scratch<'_>,
    is_short: bool,
    bytes: f64,
) -> anyhow::Result<Vec<(String, f64)>> {
    if is_short {
        let starts = scratch.setting.workload("starts");
        return Ok(vec![
            ("bare `true`".to_owned(), of_runs(&["true"])?),
            (
                "a static C program that forks, executes `true` and waits".to_owned(),
                of_runs(&[&starts, "true"])?,
            ),
        ]);
    }
    let mut floors =
        vec![("four writes a second of a C program, of 9 KB".to_owned(), wakes(scratch)?)];
    let megabytes = bytes / 1e6;
    floors.push((format!("memcpy of as many bytes ({megabytes:.2} MB)"), megabytes * copy_us()));
    for (name, flag) in [("", None), (" past the page cache", Some("oflag=direct"))] {
        floors.push((format!("`dd` of as many{name}"), megabytes * dd_us(scratch, flag)?));
    }
    Ok(floors)
}

fn of_runs(words: &[&str]) -> anyhow::Result<f64> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let used = (0..50).map(|_| run(&words).map(|usage| usage.cpu_ns as f64 / 1e3));
    Ok(Estimate::median(used.collect::<anyhow::Result<_>>()?).value)
}

/// CPU time of a program that wakes and writes four times a second, in microseconds per second.
fn wakes(scratch: &Scratch<'_>) -> anyhow::Result<f64> {
    let file = scratch.path("written");
    let mut child = Command::new(scratch.setting.workload("wakes"))
        .arg(&file)
        .arg(IDLE_BYTES)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    let watched = ProcessUsage::now(child.id()).and_then(|before| {
        std::thread::sleep(WATCHED);
        Ok(ProcessUsage::now(child.id())?.since(before))
    });
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(file);
    Ok(watched?.cpu_ns as f64 / 1e3 / WATCHED.as_secs_f64())
}

/// CPU time of copying a megabyte between uncached buffers, in microseconds.
fn copy_us() -> f64 {
    let from = vec![1_u8; MEGABYTES * 1_000_000];
    let mut to = vec![2_u8; MEGABYTES * 1_000_000];
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
    };
    let before = now();
    to.copy_from_slice(black_box(&from));
    black_box(&to);
    (now() - before) / MEGABYTES as f64
}

/// CPU time of `dd` per megabyte without its start and exit, in microseconds.
fn dd_us(scratch: &Scratch<'_>, flag: Option<&str>) -> anyhow::Result<f64> {
    let file = scratch.path("written").display().to_string();
    let used = |count: usize| -> anyhow::Result<f64> {
        let mut words = vec!["dd".to_owned(), "if=/dev/zero".to_owned(), format!("of={file}")];
        words.extend(["bs=1MiB".to_owned(), format!("count={count}"), "status=none".to_owned()]);
        words.extend(flag.map(str::to_owned));
        let usage = run(&words)?;
        let _ = std::fs::remove_file(&file);
        Ok(usage.cpu_ns as f64 / 1e3)
    };
    Ok((used(MEGABYTES)? - used(0)?) / (MEGABYTES as f64 * 1.048_576))
}
