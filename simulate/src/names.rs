//! The names of sampled threads, as the replay finds them.

use std::ops::ControlFlow;
use std::path::Path;

use tare_format::record::Sample;
use tare_replay::{Detail, Error, Machine, Options, Recording, Replay, Replayed, Sink};

use crate::failure::Failure;

/// A sample, and what its thread was called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    /// Its address: which sample it is.
    pub(crate) ip: u64,
    /// What its thread was called.
    pub(crate) comm: String,
}

#[derive(Default)]
struct Names {
    all: Vec<Named>,
    last_ns: u64,
    is_in_order: bool,
}

impl Sink for Names {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        let head = sample.fields.head;
        let time_ns = head.time_ns.unwrap_or(0);
        self.is_in_order &= time_ns >= self.last_ns;
        self.last_ns = time_ns;
        let comm = head.tid.and_then(|tid| machine.comm(tid)).unwrap_or(b"?");
        let comm = String::from_utf8_lossy(comm).into_owned();
        self.all.push(Named { ip: head.ip.unwrap_or(u64::MAX), comm });
        Ok(ControlFlow::Continue(()))
    }
}

/// The samples of a file, in order of time.
///
/// # Errors
/// It can't be read, or samples come in another order.
pub(crate) fn of(path: &Path, file: &str) -> anyhow::Result<Vec<Named>> {
    let mut names = Names { is_in_order: true, ..Names::default() };
    let options = Options { detail: Detail::Leaf, ..Options::default() };
    let _losses = Replay::new(options).run(&mut Recording::open(path)?, &mut names)?;
    if !names.is_in_order {
        return Err(Failure::Replay(file.to_owned()).into());
    }
    Ok(names.all)
}
