//! CPU lists as the kernel and its users write them: `0-3,8,10-11`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The highest CPU number that a list may name. The kernel's own limit is lower: 8192 CPUs on x86
/// (`CONFIG_NR_CPUS`).
const MAX_CPU: u32 = 65_535;

/// CPU numbers, ascending, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuList(Vec<u32>);

/// A part of a CPU list that is not a number or range, or exceeds the limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{part}' is not a CPU number or a range like 0-3")]
pub struct CpuListError {
    part: String,
}

impl CpuList {
    /// Returns the numbers, ascending.
    #[must_use]
    pub fn as_slice(&self) -> &[u32] {
        &self.0
    }

    /// Whether this CPU is in the list.
    #[must_use]
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.binary_search(&cpu).is_ok()
    }

    /// Returns the numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the CPUs in both lists.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(self.0.iter().copied().filter(|&cpu| other.contains(cpu)).collect())
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut cpus: Vec<u32> = cpus.into_iter().collect();
        cpus.sort_unstable();
        cpus.dedup();
        Self(cpus)
    }
}

impl FromStr for CpuList {
    type Err = CpuListError;

    fn from_str(text: &str) -> Result<Self, CpuListError> {
        let number = |digits: &str| digits.trim().parse::<u32>().ok().filter(|&n| n <= MAX_CPU);
        text.trim()
            .split(',')
            .filter(|part| !part.trim().is_empty())
            .map(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                match (number(first), number(last)) {
                    (Some(first), Some(last)) if first <= last => Ok(first..=last),
                    _ => Err(CpuListError { part: part.to_owned() }),
                }
            })
            .collect::<Result<Vec<_>, _>>()
            .map(joined)
    }
}

/// Joins ranges, which may overlap, without duplicates.
fn joined(mut ranges: Vec<RangeInclusive<u32>>) -> CpuList {
    ranges.sort_unstable_by_key(|range| *range.start());
    let mut cpus: Vec<u32> = Vec::new();
    for range in ranges {
        let next = cpus.last().map_or(0, |last| last + 1);
        cpus.extend(next.max(*range.start())..=*range.end());
    }
    CpuList(cpus)
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some(&first) = rest.first() {
            let run =
                rest.iter().zip(first..).take_while(|&(&cpu, expected)| cpu == expected).count();
            match run {
                1 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{}", rest[run - 1])?,
            }
            separator = ",";
            rest = &rest[run..];
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_in_the_kernels_form() {
        let list: CpuList = "8,0-3,2,10-11\n".parse().unwrap();
        assert_eq!(list.as_slice(), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(list.to_string(), "0-3,8,10-11");
        assert_eq!("".parse(), Ok(CpuList::default()));
        let overlapping: CpuList = "2-5,4-4,0-2,9".parse().unwrap();
        assert_eq!(overlapping.as_slice(), [0, 1, 2, 3, 4, 5, 9]);
    }

    #[test]
    fn errors_name_the_invalid_part() {
        for bad in ["x", "3-1", "0-4294967295", "-1", "1-"] {
            assert_eq!(bad.parse::<CpuList>().unwrap_err().part, bad);
        }
    }
}
