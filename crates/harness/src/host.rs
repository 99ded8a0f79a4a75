//! What reports say of the host: the machine on which this runs natively.

use rustix::process::{Resource, getrlimit};
use tanada_topology::{Topology, free_group_memory};

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

/// Returns the bytes of memory that can be allocated without swapping, within the limits of this process (`ulimit -v`, `ulimit -d`) and of
/// its control groups; `None` if the system reports none of this.
pub fn free_memory() -> Option<u64> {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let (system, process) = (read("/proc/meminfo"), read("/proc/self/status"));
    let left = |limit, used| left(getrlimit(limit).current, bytes(&process, used));
    let all = [
        bytes(&system, "MemAvailable:"),
        left(Resource::As, "VmSize:"),
        left(Resource::Data, "VmData:"),
        free_group_memory(),
    ];
    all.into_iter().flatten().min()
}

/// Returns what a limit leaves of which so much is used; `None` if there is none. Nothing is known to be used: all of it.
fn left(limit: Option<u64>, used: Option<u64>) -> Option<u64> {
    Some(limit?.saturating_sub(used.unwrap_or(0)))
}

/// Returns the value of a line of `/proc/meminfo` or `/proc/self/status` that begins with `key`.
fn bytes(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
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
        assert_eq!(bytes(text, "MemAvailable:"), Some(2 << 20));
        assert_eq!(bytes("MemTotal: 1 kB\n", "MemAvailable:"), None);
    }
    #[test]
    fn a_limit_leaves_what_is_not_used() {
        assert_eq!(left(Some(100), Some(30)), Some(70));
        assert_eq!(left(Some(100), Some(130)), Some(0));
        assert_eq!(left(Some(100), None), Some(100));
        assert_eq!(left(None, Some(30)), None);
    }
}
