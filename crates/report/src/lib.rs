//! One schema of events and results for all engines, and one self-contained HTML page.
//!
//! A [`Report`] has the result of a comparison: one [`RunResult`] for each policy, and one [`Timeline`] (which worker ran which task, and
//! when) for each picture that is worth a look. The native engine measures nanoseconds, the simulated one cycles; nothing else differs, so
//! one viewer shows both side by side.
//!
//! ```
//! use tanada_report::{Event, Origin, Report, RunResult, Timeline, Unit};
//!
//! let mut timeline = Timeline::new("fcfs, picture 7", "fcfs", Unit::Ns, 2);
//! let name = timeline.intern("luma prediction");
//! timeline.events.push(Event { worker: 1, task: 0, name, t: 3, s: 2, start: 100, end: 350, origin: Origin::Pool });
//!
//! let mut report = Report::new("First look");
//! report.runs.push(RunResult::new("h264", "demo.264", "fcfs", 2));
//! report.timelines.push(timeline);
//! let json = tanada_report::to_json(&report)?;
//! assert_eq!(tanada_report::from_json(&json)?, report);
//! # Ok::<(), tanada_report::ReportError>(())
//! ```
//!
//! The default feature `render` adds [`to_table`] for terminals, [`to_markdown`] for documents, [`to_html`] for a page that needs no
//! network, and [`to_svg_gantt`] for a still picture. [`to_json`] and [`to_perfetto`] are always available.

#![forbid(unsafe_code)]

#[cfg(feature = "render")]
mod charts;
mod check;
#[cfg(feature = "render")]
mod classes;
#[cfg(feature = "render")]
mod colours;
#[cfg(feature = "render")]
mod columns;
#[cfg(feature = "render")]
mod groups;
#[cfg(feature = "render")]
mod headline;
#[cfg(feature = "render")]
mod html;
#[cfg(feature = "render")]
pub mod judge;
mod parts;
mod perfetto;
mod profile;
mod schema;
#[cfg(feature = "render")]
mod svg;
#[cfg(feature = "render")]
mod table;
mod threads;
#[cfg(feature = "render")]
mod time;

pub use check::{ReportError, from_json, to_json, validate};
#[cfg(feature = "render")]
pub use classes::ColourBy;
#[cfg(feature = "render")]
pub use columns::{Cell, thousands};
#[cfg(feature = "render")]
pub use html::to_html;
pub use parts::{Accesses, CacheUse, Limits, NameUse, Reuse, Stalls};
pub use perfetto::to_perfetto;
pub use profile::{PathPart, Profile};
pub use schema::{
    BASELINE, Engine, Event, Events, Memory, Origin, OriginCounts, Report, RunResult, SCHEMA,
    SEQUENTIAL, Seconds, TODAY, Timeline, Unit, Verdict,
};
#[cfg(feature = "render")]
pub use svg::{to_svg_gantt, to_svg_gantts};
#[cfg(feature = "render")]
pub use table::{terminal_width, to_figures, to_list, to_markdown, to_table};
pub use threads::{
    ALL_THREADS, HardwareUse, LevelMisses, ObjectWaits, PlanChange, Series, StackUse, ThreadRun,
    ThreadWaits,
};
