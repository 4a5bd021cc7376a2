//! Files of results.

use std::io;
use std::path::{Path, PathBuf};

use tare_kernel::host::Host;
use tare_measure::series::hyperfine::{self, Markup};
use tare_measure::series::{SeriesReport, ci, document, plot};

use super::{ledger, text_options, unit};
use crate::cli::raw::{self, SortMethod};
use crate::command::output;

/// A format of an exported file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportFormat {
    Json,
    Csv,
    Markup(Markup),
    Svg,
    Html,
}

/// The files to write.
#[derive(Debug)]
pub(super) struct Exports(Vec<(ExportFormat, PathBuf)>);

/// Lists the files. Their folders must exist, so that no series runs in vain.
pub(super) fn open(raw: &raw::BenchExportArgs) -> anyhow::Result<Exports> {
    let all = [
        (ExportFormat::Json, &raw.export_json),
        (ExportFormat::Csv, &raw.export_csv),
        (ExportFormat::Markup(Markup::Markdown), &raw.export_markdown),
        (ExportFormat::Markup(Markup::AsciiDoc), &raw.export_asciidoc),
        (ExportFormat::Markup(Markup::OrgMode), &raw.export_orgmode),
        (ExportFormat::Svg, &raw.export_svg),
        (ExportFormat::Html, &raw.export_html),
    ];
    let typed = all.into_iter().filter_map(|(format, path)| Some((format, path.clone()?)));
    let typed: Vec<_> = typed.collect();
    for (_, path) in &typed {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            let message = format!("{}: there is no folder {}", path.display(), folder.display());
            return Err(crate::exit::Refusal::usage(message).into());
        }
    }
    Ok(Exports(typed))
}

/// Appends Markdown to the summary of a job of GitHub Actions, if there is one.
pub(super) fn append_job_summary(report: &SeriesReport) -> io::Result<()> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let mut file = std::fs::File::options().append(true).create(true).open(path)?;
    ci::markdown(&mut file, report)
}

impl Exports {
    /// Writes all files.
    pub(super) fn write(
        &self,
        report: &SeriesReport,
        raw: &raw::BenchArgs,
        host: &Host,
    ) -> anyhow::Result<()> {
        let by_time = raw.shown.sort_method == SortMethod::MeanTime;
        for (format, path) in &self.0 {
            output::write_to(path, |out| -> io::Result<()> {
                match format {
                    ExportFormat::Json => document::json(out, report, &ledger::machine(host)),
                    ExportFormat::Svg => plot::svg(out, report),
                    ExportFormat::Html => plot::html(out, report, text_options(raw)),
                    ExportFormat::Csv => hyperfine::csv(out, report),
                    ExportFormat::Markup(markup) => {
                        hyperfine::markup(out, report, *markup, unit(raw), by_time)
                    }
                }
            })?;
        }
        Ok(())
    }
}
