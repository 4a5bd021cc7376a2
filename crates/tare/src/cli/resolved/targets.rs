//! Lists of CPUs, and ids of processes and threads, for every command that takes them.

use tare_kernel::host::{CpuList, Host};

use crate::exit::{Exit, Refusal};

/// The CPUs that `-C` names, all of them online; without it all that are online.
pub(super) fn cpus(typed: Option<&str>, host: &Host) -> Result<CpuList, Refusal> {
    let unknown = |error| Refusal {
        exit: Exit::Failure,
        message: format!("cannot read which CPUs are online: {error}"),
    };
    let online = host.online_cpus();
    let Some(text) = typed else { return online.map_err(unknown) };
    let asked: CpuList = text.parse().map_err(|error| Refusal::usage(format!("-C: {error}")))?;
    let is_online = |cpu| online.as_ref().is_ok_and(|cpus| cpus.contains(cpu));
    let missing: CpuList =
        asked.as_slice().iter().copied().filter(|&cpu| !is_online(cpu)).collect();
    match missing.as_slice() {
        [] => Ok(asked),
        _ => Err(Refusal::usage(format!(
            "-C: CPU {missing} is not online; online are {}",
            online.map_err(unknown)?
        ))),
    }
}

/// Ids of processes or threads.
pub(super) fn tasks(ids: &[i32]) -> Result<Vec<i32>, Refusal> {
    let all_positive = ids.iter().all(|&id| id > 0);
    all_positive
        .then(|| ids.to_vec())
        .ok_or_else(|| Refusal::usage("a process or thread id is a positive number"))
}
