//! PMUs, the devices that provide events, as sysfs describes them
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-*`).

use std::io::{self, ErrorKind};
use std::str::FromStr;

use super::{CpuList, Host};

const DEVICES: &str = "/sys/bus/event_source/devices";

/// A PMU. Its attributes are read on request.
#[derive(Clone, Debug)]
pub struct Pmu {
    host: Host,
    name: String,
}

/// An event that a PMU names.
#[derive(Clone, Debug, PartialEq)]
pub struct PmuEvent {
    /// Its definition in the grammar of events: `event=0xcd,umask=0x1,ldlat=3`.
    pub terms: String,
    /// Factor from a count to `unit`; 1 by default.
    pub scale: f64,
    /// The unit of a scaled count; empty for plain occurrences.
    pub unit: String,
}

/// The word of `perf_event_attr` that a PMU's term is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigWord {
    /// `config`
    Config,
    /// `config1`
    Config1,
    /// `config2`
    Config2,
    /// `config3`
    Config3,
}

/// Where the bits of a term's value go: `config:0-7,32-35`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The word.
    pub word: ConfigWord,
    /// Runs of bits, lowest bits of the value first: first and last bit, inclusive.
    pub bits: Vec<(u32, u32)>,
}

impl Host {
    /// Returns all PMUs, sorted by name. Empty if the kernel has no perf events, or `/sys` isn't
    /// mounted.
    ///
    /// # Errors
    /// Fails if the folder can't be read, unless it is missing.
    pub fn pmus(&self) -> io::Result<Vec<Pmu>> {
        Ok(names(self, DEVICES)?.into_iter().map(|name| Pmu { host: self.clone(), name }).collect())
    }

    /// Returns the PMU of this name, if it exists.
    #[must_use]
    pub fn pmu(&self, name: &str) -> Option<Pmu> {
        let inside = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let there = inside && self.path(DEVICES).join(name).join("type").exists();
        there.then(|| Pmu { host: self.clone(), name: name.to_owned() })
    }
}

/// Names that no core PMU has on any kernel (`kernel/events/core.c`, `arch/x86/events`), so that
/// the files of these PMUs needn't be read.
const NEVER_CORE: [&str; 7] =
    ["breakpoint", "kprobe", "msr", "power", "software", "tracepoint", "uprobe"];

impl Pmu {
    /// Returns its name in sysfs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number for `perf_event_attr.type`.
    ///
    /// # Errors
    /// Fails if the file can't be read, or holds no number.
    pub fn kind(&self) -> io::Result<u32> {
        self.read("type")?.parse().map_err(invalid)
    }

    /// Returns the names of its events' terms, sorted.
    ///
    /// # Errors
    /// Fails if the folder can't be read; a missing one is empty.
    pub fn formats(&self) -> io::Result<Vec<String>> {
        names(&self.host, &self.file("format"))
    }

    /// Returns the bits of a term's value; `None` for an unknown term.
    ///
    /// # Errors
    /// Fails if the file can't be read, or holds no list of bits.
    pub fn format(&self, term: &str) -> io::Result<Option<Format>> {
        optional(self.read(&format!("format/{term}")))?
            .map(|text| text.parse().map_err(invalid))
            .transpose()
    }

    /// Returns the names of the PMU's events, sorted.
    ///
    /// # Errors
    /// Fails if the folder can't be read; a missing one is empty.
    pub fn events(&self) -> io::Result<Vec<String>> {
        let all = names(&self.host, &self.file("events"))?;
        let describes_an_event = |name: &String| {
            [".scale", ".unit", ".per-pkg", ".snapshot"].iter().any(|end| name.ends_with(end))
        };
        Ok(all.into_iter().filter(|name| !describes_an_event(name)).collect())
    }

    /// Returns an event's definition; `None` for an unknown event.
    ///
    /// # Errors
    /// Fails if a file can't be read, or the scale isn't a number.
    pub fn event(&self, name: &str) -> io::Result<Option<PmuEvent>> {
        let Some(terms) = optional(self.read(&format!("events/{name}")))? else { return Ok(None) };
        let scale = optional(self.read(&format!("events/{name}.scale")))?
            .map_or(Ok(1.0), |text| text.parse().map_err(invalid))?;
        let unit = optional(self.read(&format!("events/{name}.unit")))?.unwrap_or_default();
        Ok(Some(PmuEvent { terms, scale, unit }))
    }

    /// Returns one CPU of each package or node, for a PMU that isn't one per CPU. `None` if the
    /// file is missing or empty.
    ///
    /// # Errors
    /// Fails if the file can't be read, or holds no CPU list.
    pub fn cpumask(&self) -> io::Result<Option<CpuList>> {
        self.cpu_list("cpumask")
    }

    /// Returns the CPUs of a core PMU. `None` if the file is missing or empty.
    ///
    /// # Errors
    /// Fails if the file can't be read, or holds no CPU list.
    pub fn cpus(&self) -> io::Result<Option<CpuList>> {
        self.cpu_list("cpus")
    }

    /// Returns a capability such as `max_precise` or `branches`; `None` if the kernel doesn't list
    /// it.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn cap(&self, name: &str) -> io::Result<Option<String>> {
        optional(self.read(&format!("caps/{name}")))
    }

    /// Returns all readable capabilities with their values, sorted by name; empty if the folder is
    /// missing or unreadable.
    #[must_use]
    pub fn caps(&self) -> Vec<(String, String)> {
        let all = names(&self.host, &self.file("caps")).unwrap_or_default();
        all.into_iter().filter_map(|name| Some((name.clone(), self.cap(&name).ok()??))).collect()
    }

    /// Whether its name alone shows that it isn't a core PMU.
    #[must_use]
    pub fn is_never_core(&self) -> bool {
        NEVER_CORE.contains(&self.name.as_str())
    }

    /// Whether it is a core PMU: `cpu`, or a PMU that lists its CPUs.
    #[must_use]
    pub fn is_core(&self) -> bool {
        self.name == "cpu" || !self.is_never_core() && self.host.path(&self.file("cpus")).exists()
    }

    fn cpu_list(&self, file: &str) -> io::Result<Option<CpuList>> {
        let text = optional(self.read(file))?.filter(|text| !text.is_empty());
        text.map(|text| text.parse().map_err(invalid)).transpose()
    }

    fn file(&self, below: &str) -> String {
        format!("{DEVICES}/{}/{below}", self.name)
    }

    fn read(&self, below: &str) -> io::Result<String> {
        let outside = below.contains("..")
            || below.contains('\0')
            || below.ends_with('/')
            || below.matches('/').count() > 1;
        if outside { Err(ErrorKind::NotFound.into()) } else { self.host.read(self.file(below)) }
    }
}

impl Format {
    /// Returns the largest value that fits.
    #[must_use]
    pub fn max(&self) -> u64 {
        let width: u32 = self.bits.iter().map(|(first, last)| last - first + 1).sum();
        if width >= 64 { u64::MAX } else { (1 << width) - 1 }
    }

    /// Replaces the term's bits in a word by a value, truncating bits that don't fit.
    #[must_use]
    pub fn put(&self, value: u64, word: u64) -> u64 {
        let mut out = word;
        let mut taken = 0;
        for &(first, last) in &self.bits {
            for bit in first..=last {
                let one = if taken < 64 { value >> taken & 1 } else { 0 };
                out = out & !(1 << bit) | one << bit;
                taken += 1;
            }
        }
        out
    }
}

/// A description of bits that doesn't look like `config1:0-15,20`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' does not say which bits a term has, as in config:0-7")]
pub struct FormatError(String);

impl FromStr for Format {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let wrong = || FormatError(text.to_owned());
        let (word, bits) = text.trim().split_once(':').ok_or_else(wrong)?;
        let word = match word {
            "config" => ConfigWord::Config,
            "config1" => ConfigWord::Config1,
            "config2" => ConfigWord::Config2,
            "config3" => ConfigWord::Config3,
            _ => return Err(wrong()),
        };
        let bit = |digits: &str| digits.trim().parse::<u32>().ok().filter(|&bit| bit < 64);
        let run = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some((bit(first)?, bit(last)?)).filter(|(first, last)| first <= last)
        };
        let bits = bits.split(',').map(run).collect::<Option<_>>().ok_or_else(wrong)?;
        Ok(Self { word, bits })
    }
}

fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

/// Maps a missing file, or a folder in its place, to `None`.
fn optional<T>(read: io::Result<T>) -> io::Result<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns the names in a folder, sorted; empty if the folder is missing.
fn names(host: &Host, folder: &str) -> io::Result<Vec<String>> {
    let Some(entries) = optional(std::fs::read_dir(host.path(folder)))? else {
        return Ok(Vec::new());
    };
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_where_the_format_says() {
        let format: Format = "config:0-7,32-35\n".parse().unwrap();
        assert_eq!((format.word, format.max()), (ConfigWord::Config, 0xfff));
        assert_eq!(format.put(0x28f, 0xff00), 0x2_0000_ff8f);
        assert_eq!(format.put(0, u64::MAX), !0xf_0000_00ff);
        let whole: Format = "config1:0-63".parse().unwrap();
        assert_eq!((whole.max(), whole.put(u64::MAX, 0)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn a_format_of_another_shape_is_refused() {
        for bad in ["", "config", "config:", "config4:0", "config:0-64", "config:7-0", "config:a"] {
            assert!(bad.parse::<Format>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_stays_inside_its_folder() {
        let host = Host::default();
        assert!(host.pmu("..").is_none());
        assert!(host.pmu("").is_none());
        if let Some(pmu) = host.pmu("software") {
            assert_eq!(pmu.event("../type").unwrap(), None);
            assert_eq!(pmu.kind().unwrap(), 1);
        }
    }
}
