//! Off-CPU time.

use std::time::Duration;

use tare_record::options::OffCpu;

use crate::cli::raw;
use crate::exit::Refusal;

/// Longest accepted time of `--off-cpu-min` and `--off-cpu-thresh`.
const LONGEST: Duration = Duration::from_secs(3600);

/// Resolves the options; `None` without `--off-cpu`.
pub(super) fn resolve(record: &raw::RecordArgs) -> Result<Option<OffCpu>, Refusal> {
    let raw = &record.off_cpu;
    if !raw.off_cpu {
        return Ok(None);
    }
    let time = |option: &str, text: &Option<String>, unit: &str| {
        let Some(text) = text else { return Ok(None) };
        let refused =
            || Refusal::usage(format!("{option} {text}: give a time such as 10us or 2ms"));
        time(text, unit).filter(|time| *time <= LONGEST).map(Some).ok_or_else(refused)
    };
    Ok(Some(OffCpu {
        min: time("--off-cpu-min", &raw.off_cpu_min, "us")?.unwrap_or_default(),
        long: time("--off-cpu-thresh", &raw.off_cpu_thresh, "ms")?,
        wakers: raw.wakers,
        frame_pointers: unwinds_by_frame_pointers(record),
    }))
}

/// Whether `--call-graph fp` or `fp,defer` was typed.
fn unwinds_by_frame_pointers(record: &raw::RecordArgs) -> bool {
    record.sampling.sampler.call_graph.as_deref().is_some_and(|how| how.starts_with("fp"))
}

/// Parses a time; without a unit it has `default_unit`.
fn time(text: &str, default_unit: &str) -> Option<Duration> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, unit) = text.split_at(end.unwrap_or(text.len()));
    let seconds = match if unit.is_empty() { default_unit } else { unit } {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("1", "us"), Some(Duration::from_micros(1)));
        assert_eq!(time("1.5ms", "us"), Some(Duration::from_micros(1500)));
        assert_eq!(time("2s", "ms"), Some(Duration::from_secs(2)));
        assert_eq!([time("", "us"), time("5m", "us"), time("-1", "us")], [None; 3]);
    }
}
