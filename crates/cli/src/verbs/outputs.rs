//! What the verbs share that end in a report: where it goes.

use crate::ui::{self, Outcome, OutputFile, at_fault};
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use tanada_report::{Report, to_html, to_json, to_markdown, to_perfetto, to_table};

#[derive(Debug, clap::Args)]
pub(crate) struct Outputs {
    /// Where the page goes
    #[arg(
        short = 'o',
        long = "html",
        value_name = "FILE",
        default_value = "tanada-report.html"
    )]
    pub(crate) html: PathBuf,

    /// Write the charts' events for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace_events: Option<PathBuf>,

    /// Write the tables as Markdown, for a document
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,

    /// Print the whole report as JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// [`Outputs`] whose files are open.
pub(crate) struct Open<'a> {
    outputs: &'a Outputs,
    page: OutputFile,
    events: Option<OutputFile>,
    markdown: Option<OutputFile>,
}

impl Outputs {
    /// Opens and returns the files before the work, so that a file that cannot be written is reported at once.
    ///
    /// # Errors
    /// A file cannot be written, is one of `inputs`, or is named twice.
    pub(crate) fn open<'a>(&'a self, inputs: impl Iterator<Item = &'a Path>) -> Outcome<Open<'a>> {
        let outputs = [
            Some(&*self.html),
            self.trace_events.as_deref(),
            self.markdown.as_deref(),
        ];
        ui::distinct(inputs, outputs.into_iter().flatten())?;
        let page = OutputFile::open(&self.html)?;
        let events = self.trace_events.as_deref().map(OutputFile::open);
        let markdown = self.markdown.as_deref().map(OutputFile::open);
        Ok(Open {
            outputs: self,
            page,
            events: events.transpose()?,
            markdown: markdown.transpose()?,
        })
    }
}

impl Open<'_> {
    /// Prints the report, writes the files and reports where the page is.
    pub(crate) fn write(self, report: &Report) -> Outcome {
        let broken = |error| at_fault("the report", error);
        // First, so that a file that cannot be written loses nothing; the files are there even if standard output cannot be written.
        let printed = match self.outputs.json {
            true => ui::print(&format!("{}\n", to_json(report).map_err(broken)?)),
            false => ui::print(&to_table(report)),
        };
        if let Some(events) = self.events {
            events.finish(to_perfetto(report).as_bytes())?;
        }
        if let Some(markdown) = self.markdown {
            markdown.finish(to_markdown(report).as_bytes())?;
        }
        let text = to_html(report).map_err(broken)?;
        self.page.finish(text.as_bytes())?;
        printed?;
        ui::note(&format!("The page is {}", shown(&self.outputs.html)));
        Ok(())
    }
}

/// Returns the name of a file without its folder.
pub(crate) fn file_name(path: &Path) -> Cow<'_, str> {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy()
}

/// Returns the path as a link that a terminal opens.
fn shown(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    format!("file://{}", path.display())
}
