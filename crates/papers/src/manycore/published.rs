//! What the paper's text states. The values of its figures are lost.

use tanada_policy::Shape;

const TABLE: &str = include_str!("data/published.csv");

fn field(item: &str) -> &'static str {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    let mut rows = lines.filter_map(|line| line.split_once(','));
    let (_, rest) = rows
        .find(|(name, _)| *name == item)
        .expect("the table has it");
    rest.split(',').next().unwrap_or(rest)
}

/// Returns a number of the table.
pub(super) fn number(item: &str) -> f64 {
    field(item).parse().expect("it is a number")
}

/// Returns the best shape of a program, if the paper states it.
pub(super) fn best(program: &str) -> Option<Shape> {
    let item = match program {
        "ep" => "ep_best",
        "sp" => "sp_best",
        "ft" => "ft_best",
        _ => return None,
    };
    let (cores, threads_per_core) = field(item).split_once('x')?;
    Some(Shape {
        cores: cores.parse().ok()?,
        threads_per_core: threads_per_core.parse().ok()?,
    })
}

/// The cores at which fig. 1 is assumed to have points: the axis is lost; a step of ten from 4, and all cores, explains both 44 and 54.
pub(super) const AXIS: [u16; 7] = [4, 14, 24, 34, 44, 54, 60];
