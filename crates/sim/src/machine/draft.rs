//! The beginning of a machine file for a topology.

use super::{Kind, Per};
use std::fmt::Write as _;
use tanada_topology::{Kind as Place, Object, Topology, format_size};

/// What a topology does not say of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Lines of a set.
    pub ways: u64,
    /// Bytes of a line.
    pub line: u64,
}

const HEAD: &str = "\
# Cores, caches and the cores that share them are those of the host, as `tanada topo` shows them. All `*_cycles` are figures of
# no processor in particular, and so are `replacement` and `coherence`: put in what a manual or a measurement says of yours.
";

/// Returns the text of a machine file with the cores and caches of `topology`, to be completed by hand. `geometry` returns ways and line
/// length of a level and kind of cache, if they are known.
///
/// [`Machine::parse`](super::Machine::parse) accepts the text, unless the machine has more cores or cache lines than a machine may have. If
/// cores differ in their caches, all have those of the first core. A level that is shared by a number of cores for which a machine file has
/// no word is a comment.
pub fn draft(topology: &Topology, geometry: impl Fn(u8, Kind) -> Option<Geometry>) -> String {
    let root = topology.root();
    let cores = root.count(Place::Core);
    let mut clusters = Clusters::new(cores, first(root, Place::Package));
    let core = first(root, Place::Core).expect("a topology has a core");
    let mut caches = String::new();
    let mut add = |level: u8, kind, bytes: Option<u64>, shared: usize| {
        let Some(size) = bytes else { return };
        let known = geometry(level, kind);
        let Geometry { ways, line } = known.unwrap_or(Geometry { ways: 8, line: 64 });
        let ways = (1..=ways).rev().find(|ways| size % (ways * line) == 0);
        let per = clusters.per(shared);
        // What the levels of processors of the 2020s cost, roughly.
        let cycles = [10, 30, 200, 200][usize::from(level - 1)];
        let table = format!(
            "[[cache]]\nlevel = {level}\nkind = \"{}\"\nper = \"{}\"\nsize = \"{}\"\nways = {}{}\nline = {line}\nreplacement = \"lru\"\n\
            miss_cycles = {cycles}\n",
            kind.as_str(),
            per.map_or("?", Per::as_str),
            format_size(size),
            ways.unwrap_or(1),
            if known.is_some() { "" } else { " # not known" },
        );
        let prefix = if per.is_some() { "" } else { "# " };
        caches.push('\n');
        for line in table.lines() {
            let _ = writeln!(caches, "{prefix}{line}");
        }
    };
    add(1, Kind::Instruction, core.l1i_bytes, 1);
    add(1, Kind::Data, core.l1d_bytes, 1);
    for (level, place) in [(2, Place::L2), (3, Place::L3), (4, Place::L4)] {
        if let Some(cache) = first(root, place) {
            add(level, Kind::Unified, cache.bytes, cache.count(Place::Core));
        }
    }
    let mut text = format!("{HEAD}name = \"mine\"\nmodel = \"uniform\"\ncores = {cores}\n");
    for (per, number) in [("cluster", clusters.cluster), ("socket", clusters.socket)] {
        if let Some(number) = number {
            let _ = writeln!(text, "cores_per_{per} = {number}");
        }
    }
    text + "hit_cycles = 1\ndispatch_cycles = 0\ncoherence = \"invalidate\"\n" + &caches
}

/// The words for numbers of cores that share a cache.
struct Clusters {
    cores: usize,
    cluster: Option<usize>,
    socket: Option<usize>,
}

impl Clusters {
    fn new(cores: usize, package: Option<&Object>) -> Clusters {
        let socket = package.map(|package| package.count(Place::Core));
        Clusters {
            cores,
            cluster: None,
            socket: socket.filter(|&socket| socket < cores),
        }
    }

    fn per(&mut self, shared: usize) -> Option<Per> {
        if shared == 1 {
            return Some(Per::Core);
        }
        if shared == self.cores {
            return Some(Per::Machine);
        }
        if self.socket == Some(shared) {
            return Some(Per::Socket);
        }
        let cluster = *self.cluster.get_or_insert(shared);
        (cluster == shared).then_some(Per::Cluster)
    }
}

/// Returns the first object of a kind.
fn first(root: &Object, kind: Place) -> Option<&Object> {
    let mut found = None;
    root.visit(&mut |object| {
        if object.kind == kind {
            found.get_or_insert(object);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn a_draft_is_a_machine_with_the_topology_s_cores_and_caches() {
        for text in [
            "core:1(l1d=32K,l1i=32K) pu:1",
            "package:1 l3:1(size=480M) l2:2(size=2M) core:1(l1d=48K,l1i=64K) pu:2",
            "package:2 l3:1(size=32M) l2:4(size=1M) core:1(l1d=32K,l1i=32K)",
            "package:1 l3:2(size=16M) l2:4(size=512K) core:1(l1d=32K)",
            "core:3",
        ] {
            let topology = Topology::parse(text).expect("a topology");
            let known = |level, _| (level < 3).then_some(Geometry { ways: 12, line: 64 });
            let draft = draft(&topology, known);
            let machine = Machine::parse(&draft, "mine.toml");
            let machine = machine.unwrap_or_else(|error| panic!("{text}: {error}\n{draft}"));
            let (wanted, found) = (topology.root(), machine.topology());
            for kind in [Place::Core, Place::L2, Place::L3] {
                assert_eq!(
                    found.root().count(kind),
                    wanted.count(kind),
                    "{text}\n{draft}"
                );
                let bytes =
                    |root| first(root, kind).map(|one| (one.bytes, one.l1d_bytes, one.l1i_bytes));
                assert_eq!(bytes(found.root()), bytes(wanted), "{text}\n{draft}");
            }
        }
    }

    #[test]
    fn what_a_machine_file_cannot_say_is_a_comment() {
        let text = "package:2 l3:2(size=32M) l2:2(size=1M) core:2(l1d=48K)";
        let topology = Topology::parse(text).expect("a topology");
        let draft = draft(&topology, |_, _| None);
        assert!(
            draft.contains("cores_per_cluster = 2\ncores_per_socket = 8\n"),
            "{draft}"
        );
        assert!(
            draft.contains("\n# level = 3\n") && draft.contains("ways = 8 # not known\n"),
            "{draft}"
        );
        let machine = Machine::parse(&draft, "mine.toml").expect("a machine");
        assert_eq!(machine.caches.len(), 2);
    }
}
