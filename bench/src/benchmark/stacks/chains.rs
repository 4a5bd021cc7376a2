//! The call chains of a recording, as `tare script` prints them.

use std::path::Path;

use super::words;
use crate::run::succeed;
use crate::scratch::Scratch;

/// Names of the functions in which threads start.
const STARTS: [&str; 6] = ["_start", "clone3", "__clone3", "__clone", "clone", "_dl_start_user"];

/// A sample with its call chain.
#[derive(Debug)]
pub(super) struct SampleChain {
    /// Name of the thread's program.
    pub(super) comm: String,
    /// The thread's id and the time.
    pub(super) key: String,
    /// Innermost first.
    frames: Vec<PrintedFrame>,
}

#[derive(Debug)]
struct PrintedFrame {
    /// In a file: as the file counts. In the kernel, and in no file: the address itself.
    address: u64,
    /// With the offset in the function.
    name: String,
    dso: String,
}

impl PrintedFrame {
    /// Parses `address name+offset (dso)`.
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.trim().split_once(' ')?;
        let (name, dso) = rest.rsplit_once(" (")?;
        Some(Self {
            address: u64::from_str_radix(address, 16).ok()?,
            name: name.to_owned(),
            dso: dso.trim_end_matches(')').to_owned(),
        })
    }

    /// Whether a call of the C library's start function returns there, or the frame is in a
    /// function in which threads start. Stripped programs don't name theirs.
    fn is_start(&self, callee: Option<&Self>) -> bool {
        let function = |name: &str| name.split(['+', '@']).next().unwrap_or_default().to_owned();
        STARTS.contains(&function(&self.name).as_str())
            || self.dso.contains("/ld-linux")
            || callee.is_some_and(|callee| function(&callee.name) == "__libc_start_main")
    }

    /// Whether both are the same call. A recorded chain has return addresses, and a chain that is
    /// unwound at report time the last byte of each call.
    fn is_same(&self, other: &Self) -> bool {
        self.dso == other.dso && self.address.abs_diff(other.address) <= 1
    }
}

impl SampleChain {
    fn user(&self) -> &[PrintedFrame] {
        let is_kernel = |frame: &&PrintedFrame| frame.address >= 1 << 63;
        let kernel = self.frames.iter().take_while(is_kernel).count();
        &self.frames[kernel..]
    }

    pub(super) fn has_user_frames(&self) -> bool {
        !self.user().is_empty()
    }

    pub(super) fn user_frames(&self) -> u64 {
        self.user().len() as u64
    }

    /// Whether the user frames reach the start of the thread.
    pub(super) fn is_whole(&self) -> bool {
        match self.user() {
            [.., callee, last] => last.is_start(Some(callee)),
            [last] => last.is_start(None),
            [] => false,
        }
    }

    /// Whether both samples have the same frames.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        let mut pairs = self.frames.iter().zip(&other.frames);
        self.frames.len() == other.frames.len() && pairs.all(|(one, two)| one.is_same(two))
    }
}

/// The user chains of a program's samples.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChainCounts {
    pub(super) chains: u64,
    /// Number of chains that reach the start of their thread.
    pub(super) whole: u64,
    /// Number of frames in all of them.
    pub(super) frames: u64,
}

impl ChainCounts {
    pub(super) fn count<'a>(samples: impl Iterator<Item = &'a SampleChain>) -> Self {
        let mut counts = Self::default();
        for sample in samples.filter(|sample| sample.has_user_frames()) {
            counts.chains += 1;
            counts.whole += u64::from(sample.is_whole());
            counts.frames += sample.user_frames();
        }
        counts
    }

    pub(super) fn whole_share(self) -> f64 {
        self.whole as f64 / self.chains.max(1) as f64
    }

    pub(super) fn frames_each(self) -> f64 {
        self.frames as f64 / self.chains.max(1) as f64
    }
}

/// Reads the samples of a recording in the order of `tare script`.
pub(super) fn read(scratch: &Scratch<'_>, file: &Path) -> anyhow::Result<Vec<SampleChain>> {
    let fields = "comm,tid,time,ip,sym,symoff,dso";
    let tare = scratch.setting.tare();
    let file = file.display().to_string();
    let script = [&tare, "script", "--no-inline", "-F", fields, "-i", &file];
    let text = succeed(&words(&script))?.stdout;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<SampleChain> {
    let mut samples: Vec<SampleChain> = Vec::new();
    for line in text.lines() {
        if line.starts_with(char::is_whitespace) {
            let frame = PrintedFrame::parse(line);
            if let Some(sample) = samples.last_mut() {
                sample.frames.extend(frame);
            }
        } else if let Some((before, time)) = line.trim().rsplit_once(' ')
            && let Some((comm, tid)) = before.trim().rsplit_once(' ')
        {
            let key = format!("{tid} {time}");
            samples.push(SampleChain { comm: comm.trim().to_owned(), key, frames: Vec::new() });
        }
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRINTED: &str = "two words 24129 84965.067525: \n\
        \tffffffff821f5127 exc_page_fault+0xd7 ([kernel.kallsyms])\n\
        \t           16931 fun_168b0+0x81 (/usr/lib/liblzma.so.5.4.1)\n\
        \t           27305 __libc_start_main@@GLIBC_2.34+0x85 (/usr/lib/libc.so.6)\n\
        \t            3ae1 fun_3ac0+0x21 (/usr/bin/xz)\n\n\
        xz 1 2.000000: \n\
        \t           16931 fun_168b0+0x81 (/usr/lib/liblzma.so.5.4.1)\n\n";

    #[test]
    fn whole_chains_end_in_a_function_that_starts_threads() {
        let samples = parse(PRINTED);
        assert_eq!((samples[0].comm.as_str(), samples[0].user_frames()), ("two words", 3));
        assert!(samples[0].is_whole() && !samples[1].is_whole());
        let counts = ChainCounts::count(samples.iter());
        assert_eq!((counts.chains, counts.whole, counts.frames), (2, 1, 4));
    }

    #[test]
    fn a_return_address_and_the_last_byte_of_its_call_are_the_same() {
        let [one, two, three] =
            [PRINTED, &PRINTED.replace("27305", "27304"), &PRINTED.replace("27305", "27303")]
                .map(|text| parse(text).remove(0));
        assert!(one.is_same(&two) && !one.is_same(&three));
    }
}
