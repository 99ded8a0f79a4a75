//! What reports say of the host: the machine on which this runs natively.

use tanada_topology::Topology;

/// Returns the processor's model by the system's name; if it has none, the architecture.
pub fn processor() -> String {
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

/// Returns the processor and its topology in two lines.
pub fn summary(topology: &Topology) -> String {
    format!("{}\n{topology}", processor())
}

/// Returns `MemAvailable`: bytes of memory that can be allocated without swapping; `None` if the system does not report it.
pub fn free_memory() -> Option<u64> {
    available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_found_if_there_is_one() {
        let text = "processor\t: 0\nmodel name\t: Example CPU @ 2.0GHz\nmodel name\t: other\n";
        assert_eq!(model(text).as_deref(), Some("Example CPU @ 2.0GHz"));
        assert_eq!(model("Processor: ARM\n"), None);
    }
    #[test]
    fn free_memory_is_read_in_bytes() {
        let text = "MemTotal:  24731708 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 1 kB\n"), None);
    }
}
