//! Energy of the processor's packages (RAPL), if this user may read it.

use std::fs;
use std::path::{Path, PathBuf};

/// A counter of one package.
struct Counter {
    file: PathBuf,
    /// Where it starts again, in microjoules.
    range: u64,
    start: u64,
}

/// The counters of all packages, as they were at the start.
pub(super) struct Energy(Vec<Counter>);

fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl Energy {
    /// Returns the counters of this machine.
    pub(super) fn start() -> Energy {
        Energy::of(Path::new("/sys/class/powercap"))
    }

    fn of(folder: &Path) -> Energy {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let counter = |folder: PathBuf| {
            let name = fs::read_to_string(folder.join("name")).ok()?;
            let file = folder.join("energy_uj");
            // Parts of a package, such as its cores, are counted in the package.
            name.starts_with("package").then_some(())?;
            Some(Counter {
                range: number(&folder.join("max_energy_range_uj"))?,
                start: number(&file)?,
                file,
            })
        };
        Energy(entries.filter_map(|entry| counter(entry.path())).collect())
    }

    /// Returns the joules since the start; `None` if there is no counter.
    pub(super) fn joules(&self) -> Option<f64> {
        let used = |counter: &Counter| {
            let now = number(&counter.file)?;
            Some(match now.checked_sub(counter.start) {
                Some(used) => used,
                None => now + counter.range - counter.start,
            })
        };
        let used: Option<Vec<u64>> = self.0.iter().map(used).collect();
        let used = used.filter(|used| !used.is_empty())?;
        Some(used.iter().sum::<u64>() as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_added_up_and_counters_start_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, file: &str, text: &str| {
            let folder = folder.path().join(name);
            fs::create_dir_all(&folder).expect("a folder");
            fs::write(folder.join(file), text).expect("a file");
        };
        assert_eq!(Energy::of(folder.path()).joules(), None);
        for (name, kind, start) in [
            ("intel-rapl:0", "package-0\n", "5000000\n"),
            ("intel-rapl:1", "package-1\n", "9000000\n"),
            ("intel-rapl:0:0", "core\n", "1\n"),
        ] {
            write(name, "name", kind);
            write(name, "max_energy_range_uj", "10000000\n");
            write(name, "energy_uj", start);
        }
        let energy = Energy::of(folder.path());
        write("intel-rapl:0", "energy_uj", "7000000\n");
        write("intel-rapl:1", "energy_uj", "500000\n");
        write("intel-rapl:0:0", "energy_uj", "900000\n");
        assert_eq!(energy.joules(), Some(3.5));
    }
}
