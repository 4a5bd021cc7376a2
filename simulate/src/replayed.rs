//! The samples of a file as the replay delivers them.

use std::ops::ControlFlow;
use std::path::Path;

use tare_format::record::Sample;
use tare_replay::{
    CpuMode, Error, Machine, Recording, Replay, ReplayOptions, Replayed, SampleDetail, Sink,
};

/// A sample's time, place and thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedSample {
    pub(crate) time_ns: u64,
    /// The address; in recordings of the simulated kernel, the sample's number.
    pub(crate) ip: u64,
    /// The thread's name; empty if unknown.
    pub(crate) comm: String,
    /// The file and the address in it, with [`SampleDetail::Full`].
    pub(crate) file: Option<(String, u64)>,
}

struct Samples {
    all: Vec<ReplayedSample>,
    detail: SampleDetail,
}

impl Sink for Samples {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        let head = sample.fields.head;
        let pid = head.pid.unwrap_or(-1);
        let ip = head.ip.unwrap_or(u64::MAX);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let at = match self.detail {
            SampleDetail::Full => machine.dso_address(CpuMode::User, pid, ip),
            _ => None,
        };
        let file = at.map(|at| (text(machine.dso_name(at.dso)), at.address));
        let comm = head.tid.and_then(|tid| machine.comm(tid)).map_or_else(String::new, text);
        self.all.push(ReplayedSample { time_ns: head.time_ns.unwrap_or(0), ip, comm, file });
        Ok(ControlFlow::Continue(()))
    }
}

/// The samples of a file in replay order.
///
/// # Errors
/// The file can't be read.
pub(crate) fn samples(path: &Path, detail: SampleDetail) -> Result<Vec<ReplayedSample>, Error> {
    let mut samples = Samples { all: Vec::new(), detail };
    let options = ReplayOptions { detail, ..ReplayOptions::default() };
    let _losses = Replay::new(options).run(&mut Recording::open(path)?, &mut samples)?;
    Ok(samples.all)
}
