//! `tare sched` of a command, of running processes or of the whole machine, as it goes on.

use tare_kernel::host::Host;
use tare_kernel::timestamp::monotonic_ns;
use tare_render::count;
use tare_trace::sched::SchedTracer;

use super::output::Output;
use crate::Outcome;
use crate::cli::resolved::sched::{Sched, SchedForm};
use crate::cli::resolved::trace::{TraceScope, TraceTarget};
use crate::command::trace::live::{Session, clones};
use crate::command::trace::{explain, open};
use crate::exit::say;

pub(super) fn run(options: &Sched, traced: &TraceTarget, ring_bytes: u32) -> Outcome {
    let mut session = Session::new(traced, Host::default())?;
    let follow = session.follow();
    let out = open(options.output.as_deref(), options.json)?;
    let migrations = matches!(options.form, SchedForm::Timehist(form) if form.migrations);
    let (mut tracer, step_back) =
        SchedTracer::start(&follow, migrations, ring_bytes, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
    }
    let files = clones(tracer.files())?;
    let mut output = Output::new(options, out, 0, u64::MAX);
    let over = session.wait(&files, |is_over| {
        tracer.drain(is_over, |time_ns, happened| output.take(time_ns, happened))?;
        if is_over { Ok(()) } else { output.flush() }
    })?;
    let missing = tracer.missing().map_err(explain)?;
    output.finish(Some(monotonic_ns()), traced.target == TraceScope::All, missing)?;
    if missing > 0 {
        say(&format!(
            "{} found no room and are missing, so some times are too short: --ring-size {}M gives more",
            count(missing, "record"),
            (ring_bytes >> 20).max(1) * 4
        ));
    }
    Ok(over.exit(traced))
}
