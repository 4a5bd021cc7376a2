//! What the tests of the binary share.

use std::path::PathBuf;
use std::process::Command;

/// The path of a workload of `workloads/`, compiled if need be. A machine without a C compiler can't build tare either.
pub(crate) fn workload(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workloads");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../workloads/build.sh");
    let built = Command::new(script).arg(&folder).status().expect("bash is there");
    assert!(built.success(), "{script} failed");
    folder.join(name)
}
