//! What recorded computation costs: the one stated table, and the code that it lays out.

use crate::record::tape::{Code, Entry, LINE, STACK_ROOM};
use crate::record::tasks::TaskCosts;
use serde::Deserialize;
use std::collections::BTreeMap;
use tanada_h264::{Operation, Stage};

/// The table that is used unless another is named.
const MPE: &str = include_str!("../../../data/mpe.toml");

/// Cycles and code of stages and operations, on a machine that runs the decoder.
///
/// Declared, never measured; `data/mpe.toml` says where its figures come from. The same table holds for all tasks of a recording.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    name: String,
    scale: Scale,
    fetch: Fetch,
    task: TaskCosts,
    stage: BTreeMap<String, PerStage>,
    operation: BTreeMap<String, PerOperation>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    cycles: f64,
    code: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fetch {
    record: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerStage {
    cycles: f64,
    code: u32,
    skipped: f64,
    skipped_code: u32,
    passes: u8,
    left: u8,
    above: u8,
    above_right: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct PerOperation {
    cycles: f64,
    entry: f64,
    code: u32,
}

/// No figure of a table is larger: sums of them over a picture stay far from 2^64.
const LARGEST: f64 = 1e6;

/// No piece of code is larger than this, in bytes.
const LONGEST: f64 = (1 << 20) as f64;

impl Default for Costs {
    /// Returns the table of paper 1's core.
    fn default() -> Self {
        Costs::parse(MPE, "mpe.toml", &[]).expect("the table that is part of this crate is right")
    }
}

impl Costs {
    /// Returns the text of the table that is used by default, as the start of another one.
    pub fn default_text() -> &'static str {
        MPE
    }

    /// Returns a table from its text, with the figures `set` replaced: `scale.cycles=1.5`, `operation.transform.cycles=100`. Messages call
    /// the table `name`.
    ///
    /// # Errors
    /// It is no TOML, lacks a figure or has an unknown one, or a figure is out of range, or there is no figure that `set` names. The
    /// message begins with `name`.
    pub fn parse(text: &str, name: &str, set: &[&str]) -> Result<Costs, String> {
        let fault = |what: String| format!("{name}: {what}");
        let broken = |error: toml::de::Error| fault(error.to_string().trim_end().to_owned());
        // First as it is, so that messages name lines.
        toml::from_str::<Costs>(text).map_err(broken)?;
        let mut table: toml::Table = toml::from_str(text).map_err(broken)?;
        for assignment in set {
            replace(&mut table, assignment).map_err(fault)?;
        }
        let costs: Costs = table.clone().try_into().map_err(broken)?;
        in_range(&table, "").map_err(fault)?;
        costs.check().map_err(fault)?;
        Ok(costs)
    }

    fn check(&self) -> Result<(), String> {
        let stages: Vec<&str> = Stage::ALL.map(stage_name).to_vec();
        let operations: Vec<&str> = Operation::ALL.iter().map(|one| one.name()).collect();
        complete("stage", &stages, &self.stage)?;
        complete("operation", &operations, &self.operation)?;
        if self.task.stack > STACK_ROOM || self.task.descriptor > LINE as u32 {
            return Err(format!(
                "task.stack is at most {STACK_ROOM}, task.descriptor at most {LINE}"
            ));
        }
        if self.scale.code > 64.0 || self.fetch.record == 0 {
            return Err("scale.code is at most 64, and fetch.record at least 1".to_owned());
        }
        Ok(())
    }

    /// Returns the table's name for itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn code_len(&self, bytes: u32) -> u64 {
        ((f64::from(bytes) * self.scale.code) as u64).next_multiple_of(LINE)
    }

    /// Returns thousandths of a cycle.
    fn millis(&self, cycles: f64) -> u64 {
        (cycles * self.scale.cycles * 1000.0).round() as u64
    }

    /// Returns all figures where the recorder finds them, with the code laid out from `base` on.
    pub(super) fn lay_out(&self, base: u64) -> Laid {
        let mut end = base;
        let mut take = |bytes: u32| {
            let start = end;
            end += self.code_len(bytes);
            Code(start, end)
        };
        let entry = Entry {
            millis: self.millis(self.task.cycles),
            code: take(self.task.code),
            stack: self.task.stack,
            descriptor: self.task.descriptor,
        };
        let stages = Stage::ALL.map(|stage| {
            let figures = &self.stage[stage_name(stage)];
            let control = take(figures.code);
            let skipped = self.code_len(figures.skipped_code.min(figures.code));
            let mut operations = [OperationCosts::default(); Operation::ALL.len()];
            for &operation in operations_of(stage) {
                let figures = self.operation[operation.name()];
                operations[operation as usize] = OperationCosts {
                    millis: self.millis(figures.cycles),
                    entry_millis: self.millis(figures.entry),
                    code: take(figures.code),
                };
            }
            StageCosts {
                millis: self.millis(figures.cycles),
                skipped_millis: self.millis(figures.skipped),
                control,
                skipped: Code(control.0, control.0 + skipped),
                operations,
                passes: figures.passes != 0,
                after: [figures.left, figures.above, figures.above_right].map(|flag| flag != 0),
            }
        });
        Laid {
            stages,
            entry,
            chunk: u64::from(self.fetch.record),
            all: Code(base, end),
        }
    }
}

/// Replaces one figure.
fn replace(table: &mut toml::Table, assignment: &str) -> Result<(), String> {
    let wrong =
        |what: &str| format!("\"{assignment}\" {what}; write KEY=NUMBER, as scale.cycles=1.5");
    let (key, value) = assignment
        .split_once('=')
        .ok_or_else(|| wrong("assigns nothing"))?;
    let value: f64 = value
        .trim()
        .parse()
        .map_err(|_| wrong("assigns no number"))?;
    let (parents, last) = key.trim().rsplit_once('.').unwrap_or(("", key.trim()));
    let mut place = table;
    for part in parents.split('.').filter(|part| !part.is_empty()) {
        place = place
            .get_mut(part)
            .and_then(toml::Value::as_table_mut)
            .ok_or_else(|| wrong("names nothing that the table has"))?;
    }
    let old = place
        .get_mut(last)
        .ok_or_else(|| wrong("names nothing that the table has"))?;
    *old = match old {
        // Bytes are whole numbers.
        toml::Value::Integer(_) if value.fract() == 0.0 => toml::Value::Integer(value as i64),
        toml::Value::Integer(_) | toml::Value::Float(_) => toml::Value::Float(value),
        _ => return Err(wrong("names no number")),
    };
    Ok(())
}

/// Returns an error if a figure is out of range, in a table whose name and a full stop are `before`.
fn in_range(table: &toml::Table, before: &str) -> Result<(), String> {
    for (key, value) in table {
        let name = format!("{before}{key}");
        if let Some(inner) = value.as_table() {
            in_range(inner, &format!("{name}."))?;
        }
        let whole = value.as_integer().map(|whole| whole as f64);
        let Some(value) = value.as_float().or(whole) else {
            continue;
        };
        match (before, key.as_str()) {
            ("scale.", _) | (_, "cycles" | "skipped" | "entry")
                if !(0.0..=LARGEST).contains(&value) =>
            {
                return Err(format!(
                    "{name} is {value}, which is not between 0 and {LARGEST}"
                ));
            }
            (_, "code" | "skipped_code" | "stack") if value > LONGEST => {
                return Err(format!("{name} is {value} bytes; {LONGEST} are allowed"));
            }
            (_, "passes" | "left" | "above" | "above_right") if value > 1.0 => {
                let stage = before.trim_end_matches('.');
                return Err(format!(
                    "passes, left, above and above_right of {stage} are 0 or 1"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns an error unless the names of `given` are the `right` ones.
fn complete<V>(what: &str, right: &[&str], given: &BTreeMap<String, V>) -> Result<(), String> {
    if let Some(missing) = right.iter().find(|name| !given.contains_key(**name)) {
        return Err(format!("there is no [{what}.{missing}]"));
    }
    match given.keys().find(|name| !right.contains(&name.as_str())) {
        Some(unknown) => Err(format!(
            "[{what}.{unknown}] is unknown; there are {}",
            right.join(", ")
        )),
        None => Ok(()),
    }
}

/// Returns the name of a stage in tables and recordings.
pub(super) fn stage_name(stage: Stage) -> &'static str {
    match stage {
        Stage::LumaResidual => "luma-residual",
        Stage::LumaPrediction => "luma-prediction",
        Stage::LumaReconstruction => "luma-reconstruction",
        Stage::LumaDeblocking => "luma-deblocking",
        Stage::ChromaPrediction => "chroma-prediction",
        Stage::ChromaReconstruction => "chroma-reconstruction",
        Stage::CbDeblocking => "cb-deblocking",
        Stage::CrDeblocking => "cr-deblocking",
    }
}

/// Returns the operations that a stage may have, in the order in which their code is laid out.
fn operations_of(stage: Stage) -> &'static [Operation] {
    use Operation as O;
    match stage {
        Stage::LumaResidual => &[O::DcTransform, O::Transform, O::TransformDc],
        Stage::LumaPrediction => &[
            O::Partition,
            O::LumaWhole,
            O::LumaHalf,
            O::LumaQuarter,
            O::LumaMiddle,
            O::LumaMiddleQuarter,
            O::LumaDiagonal,
            O::Border,
            O::Weight,
            O::Intra4x4,
            O::Intra4x4Diagonal,
            O::Add,
            O::IntraFlat,
            O::IntraPlane,
            O::Pcm,
        ],
        Stage::LumaReconstruction | Stage::ChromaReconstruction => &[O::Add],
        Stage::LumaDeblocking => &[O::Thresholds, O::LumaEdge, O::LumaEdgeStrong],
        Stage::ChromaPrediction => &[
            O::DcTransform,
            O::Transform,
            O::TransformDc,
            O::Partition,
            O::ChromaWhole,
            O::ChromaLinear,
            O::ChromaBilinear,
            O::Border,
            O::Weight,
            O::IntraFlat,
            O::IntraPlane,
            O::Pcm,
        ],
        Stage::CbDeblocking | Stage::CrDeblocking => {
            &[O::Thresholds, O::ChromaEdge, O::ChromaEdgeStrong]
        }
    }
}

/// Costs of an operation in one stage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OperationCosts {
    /// A unit.
    pub(super) millis: u64,
    pub(super) entry_millis: u64,
    pub(super) code: Code,
}

/// Costs of a stage, for a macroblock.
#[derive(Clone, Debug)]
pub(super) struct StageCosts {
    pub(super) millis: u64,
    pub(super) skipped_millis: u64,
    pub(super) control: Code,
    pub(super) skipped: Code,
    pub(super) operations: [OperationCosts; Operation::ALL.len()],
    /// Whether the stage accesses macroblocks that do not need it; see [`Job::pass_with`](tanada_h264::Job::pass_with).
    pub(super) passes: bool,
    /// Whether a task waits for the task of its stage to the left, above, and above to the right.
    pub(super) after: [bool; 3],
}

/// A table with its code at addresses.
#[derive(Clone, Debug)]
pub(super) struct Laid {
    pub(super) stages: [StageCosts; 8],
    pub(super) entry: Entry,
    /// Bytes that a record of an instruction fetch covers, at most.
    pub(super) chunk: u64,
    /// All code.
    pub(super) all: Code,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_does_not_overlap_and_is_as_long_as_stated() {
        let costs = Costs::default();
        let laid = costs.lay_out(0x1000);
        let mut pieces = vec![laid.entry.code];
        for (stage, costs) in Stage::ALL.into_iter().zip(&laid.stages) {
            pieces.push(costs.control);
            let of_stage = operations_of(stage).iter();
            pieces.extend(of_stage.map(|&one| costs.operations[one as usize].code));
            assert!(costs.skipped.1 <= costs.control.1);
        }
        for pair in pieces.windows(2) {
            assert_eq!(pair[0].1, pair[1].0);
        }
        assert_eq!(
            (pieces[0].0, pieces.last().map(|last| last.1)),
            (0x1000, Some(laid.all.1))
        );
        let lines = |bytes: u32| u64::from(bytes).next_multiple_of(LINE);
        let stage = |stage: Stage| {
            let operations = operations_of(stage).iter();
            let operations = operations.map(|one| lines(costs.operation[one.name()].code));
            lines(costs.stage[stage_name(stage)].code) + operations.sum::<u64>()
        };
        let stages: u64 = Stage::ALL.map(stage).iter().sum();
        assert_eq!(stages + lines(costs.task.code), laid.all.len());
    }

    #[test]
    fn figures_are_replaced_and_scaled() {
        let with = |set: &[&str]| Costs::parse(MPE, "mpe.toml", set).expect("it is right");
        let millis = |costs: &Costs| {
            let laid = costs.lay_out(0);
            laid.stages[0].operations[Operation::Transform as usize].millis
        };
        assert_eq!(
            millis(&with(&["operation.transform.cycles=7", "scale.cycles=1"])),
            7000
        );
        assert_eq!(
            millis(&with(&["operation.transform.cycles=7.5", "scale.cycles=2"])),
            15000
        );
        let code = |scale: &str| {
            with(&["stage.luma-residual.code=100", scale])
                .lay_out(0)
                .stages[0]
                .control
                .len()
        };
        assert_eq!(
            [
                code("scale.code=1"),
                code("scale.code=2"),
                code("scale.code=0")
            ],
            [128, 256, 0]
        );
    }

    #[test]
    fn wrong_tables_are_refused_with_a_place() {
        let message = |text: &str, set: &[&str]| {
            let message = Costs::parse(text, "my.toml", set).expect_err("it is wrong");
            assert!(message.starts_with("my.toml: "), "{message}");
            message
        };
        for (set, says) in [
            ("scale.speed=1", "names nothing"),
            ("scale=1", "names no number"),
            ("scale.cycles", "assigns nothing"),
            ("scale.cycles=fast", "assigns no number"),
            ("scale.cycles=-1", "not between"),
            ("scale.cycles=nan", "not between"),
            ("task.code=1.5", "task"),
            ("task.code=-4", "task"),
            ("task.stack=5000", "at most"),
            ("task.code=1000000000", "allowed"),
            ("fetch.record=0", "at least 1"),
        ] {
            let message = message(MPE, &[set]);
            assert!(message.contains(says), "{set}: {message}");
        }
        let message_of = |from: &str, to: &str| message(&MPE.replace(from, to), &[]);
        assert!(message_of("[operation.add]", "[operation.ad]").contains("[operation.add]"));
        assert!(message_of("name = ", "nome = ").contains("line"));
        let unknown = message(
            &format!("{MPE}\n[operation.cabac]\ncycles=1\nentry=1\ncode=1\n"),
            &[],
        );
        assert!(unknown.contains("cabac] is unknown"), "{unknown}");
    }
}
