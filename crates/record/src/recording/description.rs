//! A recording's description of itself.

use tare_format::abi::bindings::PERF_SAMPLE_BRANCH_STACK;
use tare_format::file::writer::{Description, EventDescription, Group};

use crate::describe::{SessionFacts, features, tracing_data};
use crate::error::RecordError;
use crate::off_cpu;
use crate::session::RecordSession;

/// Returns the description of a recording of events with these ids.
///
/// # Errors
/// Fails if the formats of tracepoints can't be read.
pub(super) fn describe(
    session: &RecordSession,
    ids: &[Vec<u64>],
) -> Result<Description, RecordError> {
    let planned = &session.plan.events;
    let off_cpu = session.plan.off_cpu.iter().map(|attr| EventDescription {
        attr: attr.clone(),
        ids: vec![off_cpu::ID],
        name: off_cpu::EVENT.to_owned(),
    });
    let events = planned.iter().zip(ids).map(|(planned, ids)| EventDescription {
        attr: planned.attr.clone(),
        ids: ids.clone(),
        name: planned.event.name.clone(),
    });
    let program = &session.options.program;
    let branches = u64::from(PERF_SAMPLE_BRANCH_STACK);
    let facts = SessionFacts {
        version: program.version.clone(),
        command_line: program.command_line.clone(),
        clock: session
            .options
            .sampling
            .clock
            .and_then(|clockid| session.backend.clock.recording_clock(clockid)),
        groups: groups(session),
        has_branches: planned.iter().any(|planned| planned.attr.sample_type & branches != 0),
        ..SessionFacts::default()
    };
    let tracepoints = planned.iter().filter_map(|planned| planned.event.tracepoint.as_ref());
    let tracing_data = tracing_data(
        &session.backend.host,
        tracepoints.map(|tracepoint| (tracepoint.system.as_str(), tracepoint.name.as_str())),
    )?;
    Ok(Description {
        events: events.chain(off_cpu).collect(),
        features: features(&session.backend.host, &facts),
        tracing_data,
    })
}

/// Returns the groups of more than one event.
fn groups(session: &RecordSession) -> Vec<Group> {
    let planned = &session.plan.events;
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let others = |leader: usize| planned.iter().filter(|one| one.leader == Some(leader)).count();
    let group = |leader| Group {
        name: String::new(),
        leader: number(leader),
        members: number(1 + others(leader)),
    };
    (0..planned.len()).filter(|&leader| others(leader) > 0).map(group).collect()
}
