//! The places of workers and their distances, on machines described by text.

use tanada_topology::{MAX_DISTANCE, Placement, Topology, WorkerId};

fn place(text: &str, workers: u16) -> Placement {
    Topology::parse(text).unwrap().place(workers)
}

fn cpus(placement: &Placement) -> Vec<u32> {
    placement
        .ids()
        .map(|w| placement.hardware_thread(w))
        .collect()
}

const SERVER: &str = "package:2 numa:2 l3:2 l2:2 core:2 pu:2"; // 32 cores, 64 hardware threads

#[test]
fn worker_numbers_print_themselves() {
    assert_eq!(WorkerId(3).to_string(), "w3");
    assert_eq!(WorkerId::NONE.to_string(), "outside");
    assert!(WorkerId(0).is_worker() && !WorkerId::NONE.is_worker());
    assert_eq!(WorkerId(7).index(), 7);
}

#[test]
fn distances_grow_along_the_tree() {
    let placement = place(SERVER, 64);
    assert_eq!(cpus(&placement), (0..64).collect::<Vec<_>>());
    let from_first = |w| placement.distance(WorkerId(0), WorkerId(w));
    assert_eq!(
        [0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 63].map(from_first),
        [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
    );
    assert_eq!(
        placement.distance(WorkerId(0), WorkerId::NONE),
        MAX_DISTANCE
    );
}

#[test]
fn few_workers_go_together_and_cores_come_first() {
    let machine = "package:1 [ l3:1 core:2 | l3:1 core:6 pu:2 | l3:1 core:4 ]";
    assert_eq!(cpus(&place(machine, 1)), [0]);
    assert_eq!(
        cpus(&place(machine, 2)),
        [0, 1],
        "the smallest cache that has enough cores"
    );
    assert_eq!(cpus(&place(machine, 3)), [14, 15, 16]);
    assert_eq!(cpus(&place(machine, 5)), [2, 4, 6, 8, 10]);
    assert_eq!(
        cpus(&place(machine, 12)),
        [0, 1, 2, 4, 6, 8, 10, 12, 14, 15, 16, 17]
    );
    assert_eq!(
        cpus(&place(machine, 13)),
        [0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 15, 16, 17],
        "a sibling, once every core has a worker"
    );
}

#[test]
fn too_many_workers_wrap_round() {
    let placement = place("core:2 pu:2", 10);
    assert_eq!(cpus(&placement), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]);
    assert_eq!(placement.distance(WorkerId(0), WorkerId(8)), 0);
    assert_eq!(
        placement.by_distance(WorkerId(5)),
        [9, 1, 8, 0, 4, 6, 7, 2, 3].map(WorkerId).as_slice()
    );
}

#[test]
fn at_least_one_worker() {
    assert_eq!(place("core:2", 0).workers(), 1);
    assert_eq!(Placement::flat(0).workers(), 1);
    assert_eq!(place("core:2", 1).by_distance(WorkerId(0)), []);
}

#[test]
fn flat_is_one_cache() {
    let flat = Placement::flat(5);
    assert_eq!(
        flat.by_distance(WorkerId(3)),
        [4, 0, 1, 2].map(WorkerId).as_slice()
    );
    for (a, b) in flat.ids().flat_map(|a| flat.ids().map(move |b| (a, b))) {
        assert_eq!(flat.distance(a, b), if a == b { 0 } else { 3 });
    }
    assert_eq!(flat.domain(WorkerId(2)), [0, 1, 2, 3, 4]);
    assert_eq!(flat.own_cache_bytes(), None);
}

#[test]
fn the_most_workers_have_a_place() {
    let many = place(SERVER, u16::MAX);
    assert_eq!(many.workers(), u16::MAX);
    assert_eq!(
        many.by_distance(WorkerId(u16::MAX - 1)).len(),
        usize::from(u16::MAX) - 1
    );
}

#[test]
fn cache_sizes_are_those_of_the_workers() {
    let machine =
        "l3:1(size=8M) [ l2:2(size=2M) core:1(l1d=48K) | l2:1(size=1M) core:2(l1d=32K,kind=1) ]";
    let sizes = |workers| {
        let placement = place(machine, workers);
        (placement.own_cache_bytes(), placement.l1d_bytes())
    };
    assert_eq!(sizes(2), (Some(2 << 20), Some(48 << 10)), "two fast cores");
    assert_eq!(sizes(4), (Some(2 << 20), Some(32 << 10)));
    assert_eq!(
        place("l2:1(size=1M) core:2", 2).own_cache_bytes(),
        Some(1 << 19)
    );
    assert_eq!(
        place("l4:1(size=64M) l3:1(size=1M) core:2", 2).own_cache_bytes(),
        Some(32 << 20)
    );
    assert_eq!(place("core:2", 2).own_cache_bytes(), None);
}

#[test]
fn domains() {
    assert_eq!(
        place(SERVER, 64).domain(WorkerId(9)),
        (8..16).collect::<Vec<_>>()
    );
    assert_eq!(
        place("numa:2 l2:4 core:1 pu:2", 16).domain(WorkerId(1)),
        (0..8).collect::<Vec<_>>(),
        "private caches: the node"
    );
    assert_eq!(
        place("numa:2 l2:2 core:2", 8).domain(WorkerId(2)),
        [2, 3],
        "a shared L2"
    );
    assert_eq!(place("numa:2 l3:1 core:1", 2).domain(WorkerId(1)), [1]);
    assert_eq!(
        place("package:2 core:2", 4).domain(WorkerId(1)),
        [0, 1, 2, 3],
        "nothing known: the machine"
    );
}

#[test]
fn the_picture_of_a_small_machine() {
    let machine = Topology::parse(
        "package:1 l3:1(size=12M) l2:2(size=2M) core:1(l1d=48K) pu:2 allowed=0-2 quota=1.5",
    )
    .unwrap();
    let expected = "\
┌ Machine: 2 cores, 4 hardware threads, 3 usable, quota 1.50 cores ┐
│ ┌ Package 0 ────────────────────┐                                │
│ │ ┌ L3 12M ───────────────────┐ │                                │
│ │ │ ┌ L2 2M ──┐ ┌ L2 2M ────┐ │ │                                │
│ │ │ │ Core 0  │ │ Core 1    │ │ │                                │
│ │ │ │ L1d 48K │ │ L1d 48K   │ │ │                                │
│ │ │ │ cpu 0-1 │ │ cpu 2 (3) │ │ │                                │
│ │ │ └─────────┘ └───────────┘ │ │                                │
│ │ └───────────────────────────┘ │                                │
│ └───────────────────────────────┘                                │
└──────────────────────────────────────────────────────────────────┘
";
    let picture = machine.picture(80);
    assert_eq!(picture, expected, "\n{picture}");
}

#[test]
fn a_large_machine_is_drawn_in_few_lines() {
    let machine =
        Topology::parse("package:2 numa:4 l3:4(size=32M) l2:8(size=512K) core:1 pu:4").unwrap();
    let picture = machine.picture(100);
    assert!(picture.lines().count() <= 50, "\n{picture}");
    for part in [
        "Package 1",
        "4 × NUMA",
        "4 × L3 32M",
        "8 × L2 512K",
        "cpu 512-1023 · 4 a core",
        "256 cores, 1024 hardware threads",
    ] {
        assert!(picture.contains(part), "{part}\n{picture}");
    }
}

#[test]
fn a_worker_counts_on_its_share_of_a_cache() {
    let own = |text: &str, workers: u16| {
        let machine = Topology::parse(text).expect("a topology");
        machine.place(workers).own_cache_bytes()
    };
    let server = "package:1 l3:1(size=300M) l2:4(size=2M) core:1 pu:2";
    assert_eq!(own(server, 1), Some(2 << 20));
    assert_eq!(own(server, 4), Some(2 << 20), "one worker a core");
    assert_eq!(own(server, 8), Some(1 << 20), "two hardware threads a core");
    let desktop = "package:1 l3:1(size=8M) l2:4(size=256K) core:1 pu:1";
    assert_eq!(
        own(desktop, 4),
        Some(2 << 20),
        "a quarter of the last level"
    );
    assert_eq!(own(desktop, 1), Some(8 << 20), "all of it");
    let clusters = "package:1 l2:2(size=12M) core:4 pu:1";
    assert_eq!(own(clusters, 8), Some(3 << 20));
    assert_eq!(own("package:1 core:4 pu:1", 4), None);
    assert_eq!(
        own(server, 16),
        Some(512 << 10).max(Some((300 << 20) / 16)),
        "more workers than hardware threads"
    );
}

#[test]
#[should_panic(expected = "there is no worker WorkerId(99)")]
fn a_worker_that_does_not_exist_has_no_subtree() {
    let machine: Topology = "package:2 core:3 pu:1".parse().expect("a machine");
    machine.place(6).subtree(WorkerId(99), 0);
}
