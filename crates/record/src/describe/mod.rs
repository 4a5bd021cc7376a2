//! A recording's description of itself: the machine, the session, the formats of its tracepoints,
//! the build ids of the files that its samples can lie in.

mod build_ids;
mod machine;
mod memory;
mod pmus;
mod session;
mod topology;
mod tracing_data;

use tare_format::file::writer::Feature;
use tare_kernel::host::Host;

pub use build_ids::{BuildIds, kernel_build_id};
pub(crate) use build_ids::{elf_build_id, module_build_id, vdso_image};
pub(crate) use machine::memory_kib;
pub use session::{RecordingClock, SessionFacts};
pub use tracing_data::tracing_data;

/// Returns the feature sections of a recording. Leaves out facts that this machine doesn't provide,
/// as perf does.
///
/// It reads some 10 to 30 files per CPU, so the recorder calls it before it enables events.
#[must_use]
pub fn features(host: &Host, session: &SessionFacts) -> Vec<Feature> {
    let mut features = session.features();
    features.extend(machine::features(host));
    features.extend(topology::features(host));
    features.extend(memory::features(host));
    features.extend(pmus::features(host));
    features
}

#[cfg(test)]
mod tests;
