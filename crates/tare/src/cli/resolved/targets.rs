//! CPUs, processes and threads as targets.

use tare_kernel::host::{CpuList, Host};

use crate::exit::{Exit, Refusal};

/// Returns the CPUs of `-C`, which must be online; without it all online CPUs.
pub(super) fn cpus(typed: Option<&str>, host: &Host) -> Result<CpuList, Refusal> {
    let unknown = |error| Refusal {
        exit: Exit::Failure,
        message: format!("cannot read which CPUs are online: {error}"),
    };
    let online = host.online_cpus();
    let Some(text) = typed else { return online.map_err(unknown) };
    let cpus: CpuList = text.parse().map_err(|error| Refusal::usage(format!("-C: {error}")))?;
    let is_online = |cpu| online.as_ref().is_ok_and(|online| online.contains(cpu));
    let missing: CpuList = cpus.as_slice().iter().copied().filter(|&cpu| !is_online(cpu)).collect();
    match missing.as_slice() {
        [] => Ok(cpus),
        _ => Err(Refusal::usage(format!(
            "-C: CPU {missing} is not online; online CPUs: {}",
            online.map_err(unknown)?
        ))),
    }
}

/// Checks ids of processes or threads.
pub(super) fn tasks(ids: Vec<i32>) -> Result<Vec<i32>, Refusal> {
    let all_positive = ids.iter().all(|&id| id > 0);
    all_positive
        .then_some(ids)
        .ok_or_else(|| Refusal::usage("a process or thread id is a positive number"))
}
