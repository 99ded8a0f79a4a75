//! What the paper states: shares of the receiver's time under immediate delivery that periodic delivery saves. Its charts' values are lost.

const TABLE: &str = include_str!("data/periodic_comm.csv");

/// Returns a share in percent.
pub(super) fn share(part: &str) -> f64 {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#')).skip(1);
    let row = rows
        .map(|row| row.split(',').collect::<Vec<_>>())
        .find(|row| row[0] == part);
    let number = row.and_then(|row| row.last().and_then(|last| last.trim().parse().ok()));
    number.expect("the table has it")
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn the_published_parts_sum_to_their_whole() {
        let direct = share("ipi_handlers") + share("receive_task") + share("timer_handler");
        assert!((direct - share("direct_total")).abs() < 0.051);
        assert!((share("direct_total") + share("layer2_tasks") - share("total")).abs() < 0.051);
        assert!(share("layer2_tasks_caches_off").abs() < 1e-9);
    }
}
