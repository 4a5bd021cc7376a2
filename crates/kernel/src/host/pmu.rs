//! PMUs: the devices that provide events, as sysfs describes them
//! (`Documentation/ABI/testing/sysfs-bus-event_source-devices-*`).

use std::io::{self, ErrorKind};
use std::str::FromStr;

use super::{CpuList, Host};

const DEVICES: &str = "/sys/bus/event_source/devices";

/// One PMU. What it has is read when it is asked for.
#[derive(Clone, Debug)]
pub struct Pmu {
    host: Host,
    name: String,
}

/// An event that a PMU names.
#[derive(Clone, Debug, PartialEq)]
pub struct PmuEvent {
    /// What it stands for, in the grammar of events: `event=0xcd,umask=0x1,ldlat=3`.
    pub terms: String,
    /// What a count is multiplied by to be in `unit`; 1 where the PMU doesn't say.
    pub scale: f64,
    /// The unit of a scaled count; empty for plain occurrences.
    pub unit: String,
}

/// Which word of `perf_event_attr` a term of a PMU belongs into.
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
    /// The word they belong into.
    pub word: ConfigWord,
    /// Runs of bits, lowest bits of the value first: first and last bit, both included.
    pub bits: Vec<(u32, u32)>,
}

impl Host {
    /// All PMUs, sorted by name. Empty where the kernel has no perf events or `/sys` is not
    /// mounted.
    ///
    /// # Errors
    /// The file system's own, other than that the folder is missing.
    pub fn pmus(&self) -> io::Result<Vec<Pmu>> {
        Ok(names(self, DEVICES)?.into_iter().map(|name| Pmu { host: self.clone(), name }).collect())
    }

    /// The PMU of this name, if there is one.
    #[must_use]
    pub fn pmu(&self, name: &str) -> Option<Pmu> {
        let inside = !name.is_empty() && !name.contains('/') && !name.starts_with('.');
        let there = inside && self.path(DEVICES).join(name).join("type").exists();
        there.then(|| Pmu { host: self.clone(), name: name.to_owned() })
    }
}

/// PMUs that every kernel calls by these names (`kernel/events/core.c`, `arch/x86/events`): no need
/// to look into them.
const NEVER_CORE: [&str; 7] =
    ["breakpoint", "kprobe", "msr", "power", "software", "tracepoint", "uprobe"];

impl Pmu {
    /// Its name in sysfs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number that `perf_event_attr.type` takes.
    ///
    /// # Errors
    /// The file can't be read, or holds no number.
    pub fn kind(&self) -> io::Result<u32> {
        self.read("type")?.parse().map_err(invalid)
    }

    /// The names of the terms that its events take, sorted.
    ///
    /// # Errors
    /// The folder can't be read; that it has none is no error.
    pub fn formats(&self) -> io::Result<Vec<String>> {
        names(&self.host, &self.file("format"))
    }

    /// Where the value of this term goes; `None` for a term that the PMU doesn't have.
    ///
    /// # Errors
    /// The file can't be read, or holds no list of bits.
    pub fn format(&self, term: &str) -> io::Result<Option<Format>> {
        optional(self.read(&format!("format/{term}")))?
            .map(|text| text.parse().map_err(invalid))
            .transpose()
    }

    /// The events that the PMU names, sorted.
    ///
    /// # Errors
    /// The folder can't be read; that it has none is no error.
    pub fn events(&self) -> io::Result<Vec<String>> {
        let all = names(&self.host, &self.file("events"))?;
        let about_another = |name: &String| {
            [".scale", ".unit", ".per-pkg", ".snapshot"].iter().any(|end| name.ends_with(end))
        };
        Ok(all.into_iter().filter(|name| !about_another(name)).collect())
    }

    /// What the PMU says of this event; `None` for one that it doesn't name.
    ///
    /// # Errors
    /// A file can't be read, or its scale is no number.
    pub fn event(&self, name: &str) -> io::Result<Option<PmuEvent>> {
        let Some(terms) = optional(self.read(&format!("events/{name}")))? else { return Ok(None) };
        let scale = optional(self.read(&format!("events/{name}.scale")))?
            .map_or(Ok(1.0), |text| text.parse().map_err(invalid))?;
        let unit = optional(self.read(&format!("events/{name}.unit")))?.unwrap_or_default();
        Ok(Some(PmuEvent { terms, scale, unit }))
    }

    /// One CPU of each package or node, for a PMU that isn't one per CPU. `None` where the file is
    /// missing or empty.
    ///
    /// # Errors
    /// The file can't be read, or holds no list of CPUs.
    pub fn cpumask(&self) -> io::Result<Option<CpuList>> {
        self.cpu_list("cpumask")
    }

    /// The CPUs that have this PMU, for the PMU of a kind of core. `None` where the file is missing
    /// or empty.
    ///
    /// # Errors
    /// The file can't be read, or holds no list of CPUs.
    pub fn cpus(&self) -> io::Result<Option<CpuList>> {
        self.cpu_list("cpus")
    }

    /// A capability, such as `max_precise` or `branches`; `None` where the kernel doesn't name it.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn cap(&self, name: &str) -> io::Result<Option<String>> {
        optional(self.read(&format!("caps/{name}")))
    }

    /// All capabilities with their values, sorted by name; none where the folder is missing. One
    /// that can't be read is left out.
    #[must_use]
    pub fn caps(&self) -> Vec<(String, String)> {
        let all = names(&self.host, &self.file("caps")).unwrap_or_default();
        all.into_iter().filter_map(|name| Some((name.clone(), self.cap(&name).ok()??))).collect()
    }

    /// Whether it is one of those that every kernel has under the same name, and that count nothing
    /// that cores execute.
    #[must_use]
    pub fn is_never_core(&self) -> bool {
        NEVER_CORE.contains(&self.name.as_str())
    }

    /// Whether it counts what cores execute: `cpu`, or one that says on which CPUs it is.
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
    /// The largest value that fits.
    #[must_use]
    pub fn max(&self) -> u64 {
        let width: u32 = self.bits.iter().map(|(first, last)| last - first + 1).sum();
        if width >= 64 { u64::MAX } else { (1 << width) - 1 }
    }

    /// Puts a value into its bits of the word, in place of what they held. Bits of the value that
    /// don't fit are left out.
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

/// A description of bits that has another shape than `config1:0-15,20`.
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

/// A file that need not be there.
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

/// The names in a folder, sorted; none where the folder is missing.
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
