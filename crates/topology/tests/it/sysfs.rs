//! Detection on fake `/sys` trees, each with the shape of a real kind of machine.

use std::collections::BTreeMap;
use std::fs;

use tanada_topology::{Error, Kind, Topology, WorkerId, usable_threads};

/// A fake machine: files below a temporary folder.
#[derive(Default, Clone)]
struct Fake {
    files: BTreeMap<String, String>,
}

impl Fake {
    fn file(mut self, path: &str, content: impl ToString) -> Fake {
        self.files
            .insert(path.to_owned(), format!("{}\n", content.to_string()));
        self
    }

    fn online(self, list: &str) -> Fake {
        self.file("sys/devices/system/cpu/online", list)
    }

    fn cpu_file(self, cpu: u32, path: &str, content: impl ToString) -> Fake {
        self.file(&format!("sys/devices/system/cpu/cpu{cpu}/{path}"), content)
    }

    /// Adds a hardware thread of `core` (a list of siblings) in a package.
    fn cpu(self, cpu: u32, core: &str, package: i32) -> Fake {
        self.cpu_file(cpu, "topology/core_cpus_list", core)
            .cpu_file(cpu, "topology/physical_package_id", package)
    }

    fn cache(
        self,
        cpu: u32,
        index: u32,
        (level, kind, size): (u32, &str, &str),
        shared: &str,
    ) -> Fake {
        let own = |file: &str| format!("cache/index{index}/{file}");
        self.cpu_file(cpu, &own("level"), level)
            .cpu_file(cpu, &own("type"), kind)
            .cpu_file(cpu, &own("size"), size)
            .cpu_file(cpu, &own("shared_cpu_list"), shared)
    }

    fn node(self, node: u32, list: &str, kilobytes: u64) -> Fake {
        let own = format!("sys/devices/system/node/node{node}");
        self.file(&format!("{own}/cpulist"), list).file(
            &format!("{own}/meminfo"),
            format!("Node {node} MemTotal:  {kilobytes} kB\nNode {node} MemFree:  1 kB"),
        )
    }

    fn read(&self, allowed: Option<&[u32]>) -> Result<Topology, Error> {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in &self.files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Topology::from_sysfs(root.path(), allowed)
    }

    fn text(&self) -> String {
        self.read(None).unwrap().to_string()
    }
}

/// Returns four cores of two hardware threads, numbered as Linux does on Intel: 0-3 the first threads, 4-7 the second.
fn laptop() -> Fake {
    (0..8u32).fold(
        Fake::default().online("0-7").node(0, "0-7", 16 << 20),
        |fake, cpu| {
            let core = format!("{},{}", cpu % 4, cpu % 4 + 4);
            fake.cpu(cpu, &core, 0)
                .cache(cpu, 0, (1, "Data", "48K"), &core)
                .cache(cpu, 1, (1, "Instruction", "32K"), &core)
                .cache(cpu, 2, (2, "Unified", "2048K"), &core)
                .cache(cpu, 3, (3, "Unified", "12288K"), "0-7")
        },
    )
}

const LAPTOP: &str = "package:1 numa:1(memory=16G) l3:1(size=12M) l2:4(size=2M) core:1(l1d=48K,l1i=32K) pu:2 cpus=0,4,1,5,2,6,3,7";

/// Returns two packages of 2 NUMA nodes, each with an L3 of 2 single-threaded cores.
fn server() -> Fake {
    (0..8u32).fold(Fake::default().online("0-7"), |fake, cpu| {
        let (node, package) = (cpu / 2, cpu / 4);
        let pair = format!("{}-{}", node * 2, node * 2 + 1);
        fake.cpu(cpu, &cpu.to_string(), package as i32)
            .cache(cpu, 0, (2, "Unified", "512K"), &cpu.to_string())
            .cache(cpu, 1, (3, "Unified", "16384K"), &pair)
            .node(node, &pair, 1 << 20)
    })
}

#[test]
fn smt_laptop() {
    assert_eq!(laptop().text(), LAPTOP);
    let machine = laptop().read(None).unwrap();
    assert_eq!(machine.default_workers(), 8);
    let placement = machine.place(8);
    assert_eq!(
        (placement.own_cache_bytes(), placement.l1d_bytes()),
        (Some(1 << 20), Some(48 << 10))
    );
    let four = machine.place(4);
    assert_eq!(
        four.ids()
            .map(|w| four.hardware_thread(w))
            .collect::<Vec<_>>(),
        [0, 1, 2, 3],
        "distinct cores before siblings"
    );
}

#[test]
fn server_with_two_nodes_a_package() {
    assert_eq!(
        server().text(),
        "package:2 numa:2(memory=1G) l3:1(size=16M) l2:2(size=512K) core:1"
    );
    let placement = server().read(None).unwrap().place(8);
    let distances: Vec<u8> = placement
        .ids()
        .map(|w| placement.distance(WorkerId(0), w))
        .collect();
    assert_eq!(distances, [0, 3, 5, 5, 6, 6, 6, 6]);
    assert_eq!(placement.domain(WorkerId(5)), [4, 5]);
}

#[test]
fn node_numbers_are_those_of_the_system() {
    let fake = server()
        .node(0, "2-3", 1 << 20)
        .node(1, "0-1", 1 << 20)
        .node(9, "", 1 << 20);
    assert!(
        fake.text().ends_with(" nodes=1,0,2-3"),
        "{}: node 9 has memory only",
        fake.text()
    );
}

#[test]
fn hybrid_by_capacity_and_by_intel_list() {
    // Two fast cores of two hardware threads, and four slow ones that share a level-2 cache.
    let fake = (0..8u32).fold(Fake::default().online("0-7"), |fake, cpu| {
        let core = if cpu < 4 {
            format!("{}-{}", cpu & !1, cpu | 1)
        } else {
            cpu.to_string()
        };
        let (l2, l1d) = if cpu < 4 {
            (core.as_str(), "48K")
        } else {
            ("4-7", "32K")
        };
        fake.cpu(cpu, &core, 0)
            .cache(cpu, 0, (1, "Data", l1d), &core)
            .cache(cpu, 1, (2, "Unified", "2M"), l2)
            .cache(cpu, 2, (3, "Unified", "24M"), "0-7")
    });
    let expected = "package:1 l3:1(size=24M) [ l2:2(size=2M) core:1(l1d=48K) pu:2 | l2:1(size=2M) core:4(l1d=32K,kind=1) ]";
    let by_list = fake
        .clone()
        .file("sys/devices/cpu_atom/cpus", "4-7")
        .file("sys/devices/cpu_core/cpus", "0-3");
    assert_eq!(by_list.text(), expected);
    let by_capacity = (0..8).fold(fake.clone(), |fake, cpu| {
        fake.cpu_file(cpu, "cpu_capacity", if cpu < 4 { 1024 } else { 600 })
    });
    assert_eq!(by_capacity.text(), expected);
    let partly = (0..7).fold(fake.clone(), |fake, cpu| {
        fake.cpu_file(cpu, "cpu_capacity", if cpu < 4 { 1024 } else { 600 })
    });
    assert!(
        !partly.text().contains("kind"),
        "a core without a capacity has no known kind"
    );
    let only_efficient = fake.file("sys/devices/cpu_atom/cpus", "0-7");
    assert!(
        !only_efficient.text().contains("kind"),
        "one kind of core is no hybrid"
    );

    let placement = by_list.read(None).unwrap().place(7);
    let cpus: Vec<u32> = placement
        .ids()
        .map(|w| placement.hardware_thread(w))
        .collect();
    assert_eq!(
        cpus,
        [0, 1, 2, 4, 5, 6, 7],
        "fast cores, slow cores, then one sibling"
    );
    assert_eq!(
        placement.distance(WorkerId(3), WorkerId(6)),
        2,
        "slow cores share their L2"
    );
    assert_eq!(placement.distance(WorkerId(0), WorkerId(1)), 1);
    assert_eq!(
        placement.domain(WorkerId(3)),
        [0, 1, 2, 3, 4, 5, 6, 7],
        "the L3 is the larger domain"
    );
    assert_eq!(
        by_list
            .read(None)
            .unwrap()
            .place(2)
            .hardware_thread(WorkerId(1)),
        2,
        "the fast ones, though the slow ones are nearer"
    );
}

#[test]
fn three_kinds_of_cores() {
    let fake = [(0, 300), (1, 300), (2, 700), (3, 1024)]
        .into_iter()
        .fold(Fake::default().online("0-3"), |fake, (cpu, capacity)| {
            fake.cpu_file(cpu, "cpu_capacity", capacity)
        });
    assert_eq!(fake.text(), "[ core:2(kind=2) | core:1(kind=1) | core:1 ]");
    assert_eq!(
        fake.read(None)
            .unwrap()
            .place(1)
            .hardware_thread(WorkerId(0)),
        3
    );
}

#[test]
fn smt4() {
    let fake = (0..8u32).fold(Fake::default().online("0-7"), |fake, cpu| {
        let core = if cpu < 4 { "0-3" } else { "4-7" };
        fake.cpu(cpu, core, 0)
            .cache(cpu, 0, (2, "Unified", "1M"), core)
    });
    assert_eq!(fake.text(), "package:1 l2:2(size=1M) core:1 pu:4");
    let placement = fake.read(None).unwrap().place(4);
    let cpus: Vec<u32> = placement
        .ids()
        .map(|w| placement.hardware_thread(w))
        .collect();
    assert_eq!(cpus, [0, 1, 4, 5]);
    assert_eq!(
        placement.domain(WorkerId(0)),
        [0, 1, 2, 3, 4, 5, 6, 7],
        "no cache is shared by cores: the whole machine"
    );
    assert_eq!(
        placement.distance(WorkerId(1), WorkerId(2)),
        4,
        "one NUMA node, as none is known"
    );
}

#[test]
fn offline_hardware_threads_are_not_there() {
    let fake = laptop().online("0-2,4-5");
    assert_eq!(
        fake.text(),
        "package:1 numa:1(memory=16G) l3:1(size=12M) \
         [ l2:2(size=2M) core:1(l1d=48K,l1i=32K) pu:2 | l2:1(size=2M) core:1(l1d=48K,l1i=32K) ] cpus=0,4,1,5,2"
    );
    // Without the list of online CPUs: from the file of each CPU.
    let mut without_list = laptop()
        .cpu_file(6, "online", 0)
        .cpu_file(7, "online", 0)
        .cpu_file(3, "online", 0)
        .cpu_file(2, "online", 1);
    without_list.files.remove("sys/devices/system/cpu/online");
    assert_eq!(without_list.text(), fake.text());
}

#[test]
fn a_mask_narrower_than_the_machine() {
    let machine = server().read(Some(&[1, 6, 7, 99])).unwrap();
    assert_eq!(machine.usable(), [1, 6, 7]);
    assert_eq!(machine.default_workers(), 3);
    assert!(machine.to_string().ends_with(" allowed=1,6-7"), "{machine}");
    let two = machine.place(2);
    assert_eq!(
        two.ids()
            .map(|w| two.hardware_thread(w))
            .collect::<Vec<_>>(),
        [6, 7],
        "the two that share a cache"
    );
    let three = machine.place(3);
    assert_eq!(
        three.domain(WorkerId(0)),
        [1],
        "only the usable part of the domain"
    );
    assert_eq!(three.distance(WorkerId(0), WorkerId(1)), 6);
    assert_eq!(
        machine.root().count(Kind::Core),
        8,
        "the tree still shows the machine"
    );
}

#[test]
fn a_mask_that_leaves_a_sibling_only() {
    let machine = laptop().read(Some(&[4, 1, 5])).unwrap();
    let two = machine.place(2);
    assert_eq!(
        two.ids()
            .map(|w| two.hardware_thread(w))
            .collect::<Vec<_>>(),
        [4, 1]
    );
}

#[test]
fn an_empty_mask_is_an_error() {
    assert_eq!(laptop().read(Some(&[])), Err(Error::NothingUsable));
    assert_eq!(Fake::default().read(None), Err(Error::NothingUsable));
}

#[test]
fn quota_of_one_and_a_half_cores() {
    let fake = laptop()
        .file("proc/self/cgroup", "0::/job")
        .file(
            "proc/self/mountinfo",
            "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw",
        )
        .file("sys/fs/cgroup/job/cpu.max", "150000 100000");
    let machine = fake.read(None).unwrap();
    assert_eq!((machine.quota(), machine.default_workers()), (Some(1.5), 2));
    assert_eq!(machine.to_string(), format!("{LAPTOP} quota=1.5"));
    assert_eq!(
        fake.read(Some(&[3])).unwrap().default_workers(),
        1,
        "the mask is narrower than the quota"
    );
    let small = fake.file("sys/fs/cgroup/job/cpu.max", "1000 100000");
    assert_eq!(small.read(None).unwrap().default_workers(), 1);
}

#[test]
fn missing_files_leave_levels_out() {
    let mut fake = laptop();
    fake.files.retain(|path, _| !path.contains("/node/"));
    assert_eq!(
        fake.text(),
        "package:1 l3:1(size=12M) l2:4(size=2M) core:1(l1d=48K,l1i=32K) pu:2 cpus=0,4,1,5,2,6,3,7"
    );
    fake.files.retain(|path, _| !path.contains("/cache/"));
    assert_eq!(fake.text(), "package:1 core:4 pu:2 cpus=0,4,1,5,2,6,3,7");
    fake.files.retain(|path, _| !path.contains("/topology/"));
    assert_eq!(fake.text(), "core:8");
    fake.files.clear();
    let flat = fake.read(Some(&[2, 5])).unwrap();
    assert_eq!(flat.to_string(), "core:2 cpus=2,5");
    assert_eq!(flat.place(2).distance(WorkerId(0), WorkerId(1)), 4);
}

#[test]
fn the_old_name_of_the_list_of_siblings() {
    let mut fake = laptop();
    let renamed = |path: &str| path.replace("core_cpus_list", "thread_siblings_list");
    fake.files = fake
        .files
        .into_iter()
        .map(|(path, content)| (renamed(&path), content))
        .collect();
    assert_eq!(fake.text(), LAPTOP);
}

#[test]
fn nonsense_is_left_out() {
    for (path, content) in [
        ("topology/core_cpus_list", "zebra"),
        ("topology/core_cpus_list", "5"),
        ("topology/physical_package_id", "-1"),
        ("cache/index3/level", "x"),
        ("cache/index3/size", "-3"),
        ("cache/index3/shared_cpu_list", "0-"),
        ("cache/index2/shared_cpu_list", "0-99999999"),
        ("cache/index9/level", "3"),
    ] {
        let machine = laptop().cpu_file(0, path, content).read(None).unwrap();
        assert_eq!(machine.usable().len(), 8, "{path} {content}");
    }
}

#[test]
fn sets_that_cut_others_are_left_out() {
    // A level-2 cache that contains one hardware thread of a core, and a NUMA node that cuts the package.
    let fake = laptop()
        .cache(0, 2, (2, "Unified", "1M"), "0")
        .node(0, "0-2,4-6", 1);
    let machine = fake.read(None).unwrap();
    assert_eq!(machine.root().count(Kind::HardwareThread), 8);
    assert!(!machine.to_string().contains("1M"), "{machine}");
    let overlapping = server().node(0, "0-4", 1).node(1, "4-7", 1);
    assert_eq!(overlapping.read(None).unwrap().usable().len(), 8);
}

#[test]
fn a_cache_wider_than_a_node() {
    // Sub-NUMA clusters: one L3 a package, two nodes inside of it.
    let fake = (0..4u32).fold(Fake::default().online("0-3"), |fake, cpu| {
        fake.cpu(cpu, &cpu.to_string(), 0)
            .cache(cpu, 0, (3, "Unified", "8M"), "0-3")
    });
    let fake = fake.node(0, "0-1", 1024).node(1, "2-3", 1024);
    assert_eq!(
        fake.text(),
        "package:1 l3:1(size=8M) numa:2(memory=1M) core:2"
    );
    let placement = fake.read(None).unwrap().place(4);
    assert_eq!(placement.domain(WorkerId(0)), [0, 1], "not beyond the node");
    assert_eq!(
        [1, 2, 3].map(|w| placement.distance(WorkerId(0), WorkerId(w))),
        [3, 5, 5]
    );
    assert_eq!(placement.own_cache_bytes(), Some(4 << 20));
}

#[test]
fn a_node_wider_than_a_package() {
    let fake = (0..4u32).fold(
        Fake::default().online("0-3").node(0, "0-3", 1024),
        |fake, cpu| fake.cpu(cpu, &cpu.to_string(), (cpu / 2) as i32),
    );
    assert_eq!(fake.text(), "numa:1(memory=1M) package:2 core:2");
}

#[test]
fn sparse_numbers() {
    let fake = [8u32, 40, 1000]
        .into_iter()
        .fold(Fake::default().online("8,40,1000"), |fake, cpu| {
            fake.cpu(cpu, &cpu.to_string(), 3)
        });
    assert_eq!(fake.text(), "package:1 core:3 cpus=8,40,1000");
}

#[test]
#[cfg(target_os = "linux")]
fn a_mask_alone_counts_the_threads_that_may_be_used() {
    let machine = Topology::detect().unwrap();
    assert_eq!(usable_threads(), Some(machine.usable().len()));
}

#[test]
fn this_machine() {
    let machine = Topology::detect().unwrap();
    assert!(machine.default_workers() >= 1);
    assert_eq!(Topology::parse(&machine.to_string()).unwrap(), machine);
    let counted = std::thread::available_parallelism().unwrap().get();
    assert_eq!(
        usize::from(machine.default_workers()).max(1),
        counted,
        "the standard library counts mask and quota too:\n{machine}"
    );
}
