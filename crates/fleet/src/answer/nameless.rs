//! Which binaries have functions without names, and what would name them?

use crate::answer::{Answer, Cell, column, share, weight};
use crate::engine::{Engine, RunControl};
use crate::error::FleetError;
use crate::question::Request;

pub(super) fn ask(
    request: &Request,
    engine: &dyn Engine,
    control: &RunControl<'_>,
) -> Result<Answer, FleetError> {
    let columns = vec![
        column("event", "event"),
        column("total_share", "total"),
        column("self_share", "self"),
        column("total", "weight"),
        column("module", "module"),
        column("build_id", "build id"),
        column("remedy", "what would name it"),
    ];
    let mut rows = Vec::new();
    engine.rows(request, control, &mut |_, row| {
        let event = row[0].text().unwrap_or_default();
        let [build_id, module] = [1, 2].map(|at| row[at].text());
        let [own, total, all] = [3, 4, 5].map(|at| row[at].int());
        let text =
            |text: Option<&str>| text.map_or(Cell::Missing, |text| Cell::Text(text.to_owned()));
        share(engine, own, total)?;
        rows.push(vec![
            Cell::Text(event.to_owned()),
            Cell::Share(share(engine, total, all)?),
            Cell::Share(share(engine, own, all)?),
            weight(event, total),
            text(module),
            text(build_id),
            Cell::Text(remedy(module, build_id)),
        ]);
        Ok(())
    })?;
    let remarks = if rows.is_empty() {
        vec!["all frames have names".to_owned()]
    } else {
        vec![
            "total: samples with a nameless frame of the binary; self: it is the innermost"
                .to_owned(),
        ]
    };
    Ok(Answer { question: request.question.name(), columns, rows, remarks })
}

/// Returns what gives the functions of a module names.
fn remedy(module: Option<&str>, build_id: Option<&str>) -> String {
    let is_file = module.is_some_and(|module| module.starts_with('/'));
    match (module, build_id) {
        (Some(module), _) if module.contains("kernel") || module.starts_with("[guest") => {
            "the agent as root, or kernel.kptr_restrict=0".to_owned()
        }
        (Some(module), _) if module.starts_with("[vdso") => {
            "nothing: the kernel's own code".to_owned()
        }
        (Some(module), _) if module.contains("perf-") && module.ends_with(".map") => {
            "a perf map of the runtime: docs/jit.md".to_owned()
        }
        (_, Some(_)) => "tare store symbolize, where the debug file of this build id is".to_owned(),
        (Some(_), None) if is_file => {
            "a build id: link with --build-id, then its debug file".to_owned()
        }
        _ => "a perf map of the runtime, if it compiles at run time".to_owned(),
    }
}
