//! Makes, compacts and queries the store of a simulated fleet, and prints what that takes.
//!
//! ```text
//! fleet generate FOLDER [HOSTS [HOURS [SEED [FIRST_HOUR [NAMELESS [STACKS]]]]]]   60 hosts, 24 hours,
//!                                    60,000 stacks; the functions of module NAMELESS have no names
//! fleet symbolize FOLDER             names half of these
//! fleet compact FOLDER [HOUR]        at this hour of the day; otherwise days later
//! fleet measure FOLDER               bytes by table, and bytes per sample
//! fleet query FOLDER [THREADS]       times of queries
//! ```

#![allow(clippy::print_stdout, reason = "an example")]

mod fleet;
mod queries;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Instant;

use tare_store::schema::{FRAMES, SAMPLES, SEGMENTS, SampleColumn};
use tare_store::{FrameName, Query, Store, StoreOptions, StoreReader};

/// A moment long after the simulated day, in microseconds since 1970.
const LATER_US: i64 = fleet::DAY_US + 3 * 24 * 3_600_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| {
        arguments.get(at).map_or(Ok(default), |argument| argument.parse())
    };
    let usage = "fleet generate|compact|symbolize|measure|query FOLDER …";
    let folder = PathBuf::from(arguments.get(1).ok_or(usage)?);
    let begin = Instant::now();
    match arguments[0].as_str() {
        "generate" => {
            let shape = fleet::Shape {
                hosts: number(2, 60)?,
                hours: number(3, 24)?,
                seed: number(4, 1)?,
                first_hour: number(5, 0)?,
                nameless_module: number(6, 0)?,
                stacks: number(7, 60_000)?,
                ..fleet::Shape::default()
            };
            fleet::generate(&folder, &shape)?;
        }
        "compact" => {
            let now_us = match number(2, 0)? {
                0 => LATER_US,
                hour => fleet::DAY_US + hour.cast_signed() * 3_600_000_000,
            };
            let compaction = Store::open(&folder, StoreOptions::default())?.compact(now_us)?;
            println!("{compaction:?}");
        }
        "symbolize" => {
            let store = Store::open(&folder, StoreOptions::default())?;
            let symbolization = store.symbolize(|frame| {
                let build_id = frame.build_id.filter(|id| id.as_bytes()[0].is_multiple_of(2))?;
                let function = format!("later::{}_{:x}", &build_id[..4], frame.address);
                Some(FrameName { function, file: Some("later.rs".to_owned()), line: Some(1) })
            })?;
            println!("{symbolization:?}");
        }
        "measure" => measure(&folder)?,
        "query" => queries::run(&folder, usize::try_from(number(2, 2)?)?)?,
        _ => return Err(usage.into()),
    }
    println!("{:.2} s, {}", begin.elapsed().as_secs_f64(), peak_memory());
    Ok(())
}

/// Returns the line of the process's peak memory.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    peak.unwrap_or("peak memory unknown").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn measure(folder: &Path) -> Result<(), Box<dyn Error>> {
    let reader = StoreReader::open(folder, 2)?;
    let query = Query::default();
    let sums =
        reader.scan(&query, &[SampleColumn::Samples], <[i64; 2]>::default, |sum, batch| {
            sum[0] += i64::try_from(batch.rows()).unwrap_or(0);
            sum[1] += batch.ints(SampleColumn::Samples).iter().sum::<i64>();
        })?;
    let [rows, samples] = [0, 1].map(|at| sums.iter().map(|sum| sum[at]).sum::<i64>());
    println!("{rows} rows, {samples} samples");
    for table in [&SAMPLES, &FRAMES, &SEGMENTS] {
        let paths = reader.paths(table, &query)?;
        let lengths = paths.iter().map(|path| path.metadata().map(|metadata| metadata.len()));
        let bytes: u64 = lengths.sum::<std::io::Result<u64>>()?;
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let share = bytes as f64 / samples as f64;
        println!("{}: {bytes} bytes in {} files, {share:.3} per sample", table.name, paths.len());
    }
    Ok(())
}
