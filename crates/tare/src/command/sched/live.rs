//! `tare sched` of a command, of running processes or of the whole machine.

use tare_kernel::host::Host;
use tare_kernel::timestamp::monotonic_ns;
use tare_render::count;
use tare_trace::sched::SchedTracer;

use super::output::SchedOutput;
use crate::Outcome;
use crate::cli::resolved::sched::{Sched, SchedForm};
use crate::cli::resolved::trace::{TraceScope, TraceTarget};
use crate::command::trace::live::{TraceSession, clones};
use crate::command::trace::{explain, open};
use crate::exit::say;

pub(super) fn run(options: &Sched, traced: &TraceTarget, ring_bytes: u32) -> Outcome {
    let mut session = TraceSession::new(traced, Host::default())?;
    let follow = session.follow();
    let out = open(options.output.as_deref(), true)?;
    let migrations = matches!(options.form, SchedForm::Timehist(form) if form.migrations);
    let (mut tracer, step_back) =
        SchedTracer::start(&follow, migrations, ring_bytes, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
    }
    let files = clones(tracer.files())?;
    let mut output = SchedOutput::new(options, out, 0, u64::MAX);
    let ended = session.wait(&files, |is_end| {
        tracer.drain(is_end, |time_ns, action| output.add_action(time_ns, action))?;
        if is_end { Ok(()) } else { output.flush() }
    })?;
    let missing = tracer.missing().map_err(explain)?;
    output.finish(Some(monotonic_ns()), traced.target == TraceScope::All, missing)?;
    if missing > 0 {
        say(&format!(
            "{} did not fit into the ring buffer, so some times are too short; --ring-size {}M makes it larger",
            count(missing, "record"),
            (ring_bytes >> 20).max(1) * 4
        ));
    }
    Ok(ended.exit())
}
