//! The text form: its meaning, its errors, and that parsing never panics and always round-trips.

use proptest::prelude::*;
use tanada_topology::{Error, Kind, Object, Topology};

fn parse(text: &str) -> Topology {
    Topology::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Texts and their canonical forms.
const MEANINGS: &[(&str, &str)] = &[
    ("core", "core:1"),
    ("core:3 pu:1", "core:3"),
    (
        "package:2 numa:1 l3:1 core:4 pu:2 l3.size=32M",
        "package:2 numa:1 l3:1(size=32M) core:4 pu:2",
    ),
    ("l2:1 core:2 l2.size=1M", "l2:1(size=1M) core:2"),
    (
        "l2.size=1M package:1 core:2 pu:2",
        "package:1 l2:2(size=1M) core:1 pu:2",
    ),
    ("core:4 l1d.size=32768 l1i.size=0", "core:4(l1d=32K,l1i=0)"),
    ("core:4(l1d=1K) core.l1d=2K", "core:4(l1d=1K)"),
    ("numa:2(memory=1G) core:1", "numa:2(memory=1G) core:1"),
    ("[core:2|core:2]", "core:4"),
    ("[ core:1(kind=1) | core:2 ]", "[ core:1(kind=1) | core:2 ]"),
    (
        "package:2 [ l3:1 core:2 | core:1 ] # a comment [",
        "package:2 [ l3:1 core:2 | core:1 ]",
    ),
    (
        "package:2\n  core:2\n  cpus=3,2,1,0",
        "package:2 core:2 cpus=3,2,1,0",
    ),
    ("core:4 allowed=3,0-1", "core:4 allowed=0-1,3"),
    ("core:4 allowed=0-3 quota=4", "core:4 quota=4"),
    ("numa:3 core:1 nodes=0,2,1", "numa:3 core:1 nodes=0,2,1"),
    ("l4:1 l3:2 l2:2 core", "l4:1 l3:2 l2:2 core:1"),
];

#[test]
fn texts_mean_what_they_say() {
    for (text, canonical) in MEANINGS {
        assert_eq!(parse(text).to_string(), *canonical);
        assert_eq!(parse(canonical), parse(text));
    }
}

#[test]
fn faults_are_named_with_their_place() {
    for (text, line, column, says) in [
        ("", 1, 1, "no level"),
        ("# nothing", 1, 1, "no level"),
        ("core:2 core:2", 1, 8, "cannot lie inside core"),
        ("package:2", 1, 1, "holds no core"),
        (
            "package:2 l2:1 l3:1 core:1",
            1,
            16,
            "`l3` cannot lie inside package > l2",
        ),
        ("pu:2", 1, 1, "cannot lie inside the machine"),
        ("core:0", 1, 1, "not a count"),
        ("core:+1", 1, 1, "not a count"),
        ("core:65536", 1, 1, "not a count"),
        ("die:2 core:1", 1, 1, "unknown level `die`"),
        ("core:1(l1d=2M", 1, 1, "`(` without `)`"),
        ("core:1(size=2M)", 1, 1, "no attribute `size`"),
        ("core:1(l1d)", 1, 1, "NAME=VALUE"),
        ("l2:1(size=2Q) core", 1, 1, "not a size"),
        ("core:1(kind=300)", 1, 1, "not a kind"),
        ("package:1 [ core:1 | core:2", 1, 11, "`[` without `]`"),
        ("[ ]", 1, 3, "expected a level"),
        ("[ [ core ] ]", 1, 3, "expected a level"),
        ("[ core ] core", 1, 10, "after the end of its row"),
        ("core ]", 1, 6, "after the end of its row"),
        ("core:2\n  cpus=0", 2, 3, "1 numbers for 2"),
        ("core:2 cpus=0,0", 1, 8, "twice"),
        ("core:2 cpus=5-1", 1, 8, "backwards"),
        ("core:2 allowed=7", 1, 8, "no hardware thread 7"),
        ("core:2 nodes=0", 1, 8, "1 numbers for 0"),
        ("core:2 l3.size=1M", 1, 8, "there is no `l3`"),
        ("core:2 quota=0", 1, 8, "not a positive"),
        ("core:2 quota=inf", 1, 8, "not a positive"),
        ("core:2 quota=1 quota=1", 1, 16, "set twice"),
        ("core:2 colour=red", 1, 8, "unknown setting `colour`"),
        ("[ core:2 quota=1 | core ]", 1, 10, "inside [ ]"),
        ("package:65535 core:65535", 1, 1, "more than 65535"),
        ("[ core:65535 | core:1 ]", 1, 16, "more than 65535"),
    ] {
        match Topology::parse(text) {
            Err(Error::Text {
                line: l,
                column: c,
                message,
            }) => {
                assert!(message.contains(says), "{text}: {message}");
                assert_eq!((l, c), (line, column), "{text}: {message}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
    assert_eq!(
        Topology::parse("core:2 allowed="),
        Err(Error::NothingUsable)
    );
}

#[test]
fn json_round_trips_and_is_checked() {
    let machine =
        parse("package:2 numa:1 l3:1(size=32M) core:4(l1d=48K) pu:2 allowed=0-3 quota=1.5");
    let json = serde_json::to_string(&machine).unwrap();
    assert_eq!(serde_json::from_str::<Topology>(&json).unwrap(), machine);
    for wrong in [
        r#"{"root":{"kind":"machine"}}"#,
        r#"{"root":{"kind":"core","children":[{"kind":"pu"}]}}"#,
        r#"{"root":{"kind":"machine","children":[{"kind":"core"}]}}"#,
        r#"{"root":{"kind":"machine","children":[{"kind":"core","bytes":1,"children":[{"kind":"pu"}]}]}}"#,
        r#"{"root":{"kind":"machine","children":[{"kind":"core","children":[{"kind":"pu"},{"kind":"pu"}]}]}}"#,
        r#"{"root":{"kind":"machine","children":[{"kind":"core","children":[{"kind":"pu"}]}]},"quota":-1.0}"#,
    ] {
        assert!(serde_json::from_str::<Topology>(wrong).is_err(), "{wrong}");
    }
}

/// Returns a subtree whose outermost object is of a kind at or after `level` in this order.
const ORDER: [Kind; 6] = [
    Kind::Package,
    Kind::Numa,
    Kind::L4,
    Kind::L3,
    Kind::L2,
    Kind::Core,
];

fn subtree(level: usize) -> BoxedStrategy<Object> {
    let bytes = prop::option::of(0..u64::MAX);
    if level + 1 >= ORDER.len() {
        let core = |(threads, l1d_bytes, l1i_bytes, core_kind)| {
            let threads = vec![Object::hardware_thread(0, true); threads];
            Object {
                l1d_bytes,
                l1i_bytes,
                core_kind,
                ..Object::new(Kind::Core, threads)
            }
        };
        return (1usize..4, bytes.clone(), bytes, 0u8..3)
            .prop_map(core)
            .boxed();
    }
    let here = (prop::collection::vec(subtree(level + 1), 1..3), bytes).prop_map(
        move |(children, bytes)| {
            let bytes = bytes.filter(|_| ORDER[level] != Kind::Package);
            Object {
                bytes,
                ..Object::new(ORDER[level], children)
            }
        },
    );
    prop_oneof![here, subtree(level + 1)].boxed()
}

fn renumber(
    object: &mut Object,
    cpus: &mut impl Iterator<Item = (u32, bool)>,
    nodes: &mut impl Iterator<Item = u32>,
) {
    match object.kind {
        Kind::HardwareThread => (object.id, object.usable) = cpus.next().unwrap(),
        Kind::Numa => object.id = nodes.next().unwrap(),
        _ => {}
    }
    object
        .children
        .iter_mut()
        .for_each(|child| renumber(child, cpus, nodes));
}

prop_compose! {
    /// Returns any tree, with shuffled numbers and a random mask.
    fn topology()(
        children in prop::collection::vec(subtree(0), 1..3),
        quota in prop::option::of(1e-6..1e6f64),
        (a, b) in (0u32..1000, 0u32..1000),
        mask in any::<u64>(),
    ) -> Topology {
        let mut root = Object::new(Kind::Machine, children);
        // Odd multipliers permute the numbers below a power of two.
        let shuffled = |n: u32, by: u32| n.wrapping_mul(2 * by + 1) & 0xffff;
        let mut cpus = (0..).map(|n| (shuffled(n, a), n == 0 || mask >> (n % 64) & 1 == 1));
        renumber(&mut root, &mut cpus, &mut (0..).map(|n| shuffled(n, b)));
        Topology::new(root, quota).unwrap()
    }
}

proptest! {
    #[test]
    fn any_topology_round_trips(machine in topology()) {
        let text = machine.to_string();
        prop_assert_eq!(Topology::parse(&text).unwrap(), machine.clone(), "{}", text);
        let json = serde_json::to_string(&machine).unwrap();
        let read: Topology = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(read.root(), machine.root());
        // serde_json reads numbers to within one unit in the last place.
        let near = |a: f64, b: f64| (a - b).abs() <= f64::EPSILON * b;
        prop_assert!(read.quota().zip(machine.quota()).is_none_or(|(a, b)| near(a, b)));
        prop_assert_eq!(read.quota().is_some(), machine.quota().is_some());
    }

    #[test]
    fn any_picture_keeps_to_its_width(machine in topology(), width in 0usize..200) {
        for line in machine.picture(width).lines() {
            prop_assert!(line.chars().count() <= width.max(40), "{}", line);
        }
    }

    #[test]
    fn any_placement_is_sound(machine in topology(), workers in 1u16..40) {
        let placement = machine.place(workers);
        let usable = machine.usable();
        prop_assert_eq!(placement.workers(), workers);
        let mut used: Vec<u32> = placement.ids().map(|w| placement.hardware_thread(w)).collect();
        for w in placement.ids() {
            prop_assert!(usable.contains(&placement.hardware_thread(w)));
            prop_assert!(placement.domain(w).contains(&placement.hardware_thread(w)));
            prop_assert!(placement.domain(w).iter().all(|cpu| usable.contains(cpu)));
            let others = placement.by_distance(w);
            prop_assert_eq!(others.len(), usize::from(workers) - 1);
            let ring = |v: tanada_topology::WorkerId| (u32::from(v.0) + u32::from(workers) - u32::from(w.0)) % u32::from(workers);
            let keys: Vec<_> = others.iter().map(|&v| (placement.distance(w, v), ring(v))).collect();
            prop_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", keys);
            for v in placement.ids() {
                prop_assert_eq!(placement.distance(w, v), placement.distance(v, w));
                let same = placement.hardware_thread(w) == placement.hardware_thread(v);
                prop_assert_eq!(placement.distance(w, v) == 0, same);
            }
        }
        used.sort_unstable();
        used.dedup();
        prop_assert_eq!(used.len(), usable.len().min(usize::from(workers)), "no thread twice before all are used");
    }

    #[test]
    fn any_text_is_answered(text in "\\PC*") {
        let _ = Topology::parse(&text);
    }

    #[test]
    fn any_words_are_answered(words in prop::collection::vec(
        prop::sample::select(vec![
            "package:2", "numa:2", "l4:1", "l3:3", "l2:2(size=1M)", "core:2", "core:65535", "core(l1d=1K,kind=2)", "pu:2", "[", "|", "]",
            "cpus=0-3", "nodes=1,0", "allowed=1", "quota=0.5", "l2.size=1M", "numa.memory=1G", "l1d.size=1K", "#", "\n", "é", "(", "=",
        ]), 0..14)) {
        if let Ok(machine) = Topology::parse(&words.join(" ")) {
            prop_assert_eq!(Topology::parse(&machine.to_string()).unwrap(), machine);
        }
    }
}
