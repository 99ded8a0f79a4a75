//! What reports say of the host: the machine on which this runs natively.

use tanada_topology::Topology;

/// The processor's model as the system calls it; where it does not, the architecture.
pub(crate) fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    model(&text).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn model(cpuinfo: &str) -> Option<String> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        let value = value.trim();
        (key.trim() == "model name" && !value.is_empty()).then(|| value.to_owned())
    })
}

/// The processor and its topology in two lines.
pub(crate) fn summary(topology: &Topology) -> String {
    format!("{}\n{topology}", processor())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_where_there_is_one() {
        let text = "processor\t: 0\nmodel name\t: Example CPU @ 2.0GHz\nmodel name\t: other\n";
        assert_eq!(model(text).as_deref(), Some("Example CPU @ 2.0GHz"));
        assert_eq!(model("Processor: ARM\n"), None);
    }
}
