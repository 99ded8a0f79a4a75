use super::*;
use std::collections::BTreeMap;
use tanada_trace::{BinaryWriter, Groups, Trace};

fn repeats(iterations: u32, tasks: u32) -> Repeats {
    Repeats { iterations, tasks }
}

fn all(_pieces: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Returns the items after a run.
fn ran<P: Forked>(
    program: &P,
    repeats: Repeats,
    pool: Option<&Pool>,
    watch: &Watch,
) -> Vec<P::Item> {
    let mut items = program.items();
    run(program, &mut items, repeats, pool, watch);
    items
}

fn recorded<P: Forked>(program: &P, repeats: Repeats) -> (Trace, Vec<P::Item>) {
    let mut writer = BinaryWriter::new(Vec::new()).expect("memory can be written to");
    let taken = record(program, repeats, &mut writer, &mut all).expect("it is recorded");
    let bytes = writer.finish().expect("memory can be written to");
    let trace = Trace::parse(&bytes, "forks", &Groups::Plain).expect("it can be read");
    (trace, taken.items)
}

#[test]
fn a_product_is_that_of_three_loops_however_it_runs() {
    let pool = Pool::builder().workers(3).build().expect("a pool");
    for (size, matrices) in [
        ([1; 3], Matrices::Dense),
        ([96; 3], Matrices::Dense),
        ([160; 3], Matrices::Sparse),
        ([64, 32, 128], Matrices::Dense),
    ] {
        let program = Matmul::of(size, matrices);
        let mut wanted = program.by_loops();
        let watch = Watch::default();
        for pool in [None, Some(&pool)] {
            let items = ran(&program, repeats(1, 0), pool, &watch);
            assert_eq!(program.elements(&items), wanted, "{size:?}");
            let items = ran(&program, repeats(1, 5), pool, &watch);
            assert_eq!(program.elements(&items), wanted, "{size:?}");
        }
        wanted.iter_mut().for_each(|sum| *sum *= 2.0);
        let (_, items) = recorded(&program, repeats(2, 3));
        assert_eq!(program.elements(&items), wanted, "{size:?}");
    }
}

#[test]
fn a_tree_is_the_same_however_it_runs() {
    let pool = Pool::builder().workers(3).build().expect("a pool");
    let program = Tree::new(300, 7);
    let watch = Watch::default();
    let wanted = ran(&program, repeats(3, 1), None, &watch);
    assert!(ran(&program, repeats(3, 0), Some(&pool), &watch) == wanted);
    assert!(ran(&program, repeats(3, 8), Some(&pool), &watch) == wanted);
    assert!(recorded(&program, repeats(3, 0)).1 == wanted);
    watch.cancel.cancel();
    assert!(ran(&program, repeats(3, 0), Some(&pool), &watch) == program.items());
}

/// The pieces of each closure, found by depths and dependencies alone.
fn closures(trace: &Trace) -> Vec<Vec<u32>> {
    let depth = |piece: u32| trace.tasks()[piece as usize].depth;
    let mut before: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut of: Vec<Option<usize>> = vec![None; trace.len()];
    let mut parents: Vec<Option<usize>> = Vec::new();
    let mut all: Vec<Vec<u32>> = Vec::new();
    for piece in 0..trace.len() as u32 {
        for edge in trace.successors(piece) {
            before.entry(edge.to()).or_default().push(piece);
            let (from, to) = (depth(piece), depth(edge.to()));
            assert_eq!(edge.is_fork(), to == from + 1, "{piece} to {}", edge.to());
            assert!(edge.is_fork() || from == to || from == to + 1);
        }
        let earlier = before.get(&piece).map_or(&[][..], Vec::as_slice);
        let closure = match earlier {
            [] => None,
            [one] if depth(*one) == depth(piece) => of[*one as usize],
            [one] => {
                parents.push(of[*one as usize]);
                all.push(Vec::new());
                Some(all.len() - 1)
            }
            [one, other] => {
                let [one, other] =
                    [one, other].map(|at| parents[of[*at as usize].expect("earlier")]);
                assert_eq!(one, other, "a join of two closures of one fork");
                one
            }
            _ => panic!("{piece} waits for {earlier:?}"),
        };
        let closure = closure.unwrap_or_else(|| {
            parents.push(None);
            all.push(Vec::new());
            all.len() - 1
        });
        of[piece as usize] = Some(closure);
        all[closure].push(piece);
    }
    all
}

#[test]
fn the_tree_of_closures_follows_from_depths_and_dependencies() {
    // 3 x 3 x 3 blocks: rows, columns and the inner dimension are each cut into 1 + 2, and the 2 into 1 + 1.
    let (trace, _) = recorded(&Matmul::new(96, Matrices::Dense), repeats(1, 0));
    let closures = closures(&trace);
    let depth = |closure: &Vec<u32>| trace.tasks()[closure[0] as usize].depth;
    assert_eq!(closures.iter().filter(|one| depth(one) == 0).count(), 1);
    let names = |closure: &Vec<u32>| -> Vec<&str> {
        let name =
            |piece: &u32| trace.names()[trace.tasks()[*piece as usize].name as usize].as_str();
        closure.iter().map(name).collect()
    };
    assert_eq!(
        names(&closures[0]),
        ["init", "begin", "fork", "join", "end"]
    );
    let deeper = closures.iter().filter(|one| depth(one) == 1);
    assert_eq!(deeper.clone().count(), 2, "rows");
    // The first piece of a closure says how many products are below it.
    let work = |piece: u32| trace.hint(piece, "work").map(str::to_owned);
    let of_rows = deeper.map(|closure| work(closure[0]));
    let of_rows: Vec<Option<String>> = of_rows.collect();
    assert_eq!(of_rows, [Some("9".to_owned()), Some("18".to_owned())]);
    assert_eq!(work(closures[0][2]), None);
    // A closure for one block of C has all of the inner dimension, and no fork.
    let single = closures.iter().filter(|one| names(one) == ["product"]);
    assert!(single.count() >= 1);
    // With as many closures as two cores have there is one fork, of rows.
    let (trace, _) = recorded(&Matmul::new(96, Matrices::Dense), repeats(1, 2));
    let forks = (0..trace.len() as u32).flat_map(|piece| trace.successors(piece));
    assert_eq!(forks.filter(|edge| edge.is_fork()).count(), 2);
    // Each iteration of a tree has the same pieces.
    let once = recorded(&Tree::new(50, 3), repeats(1, 0)).0.len();
    let twice = recorded(&Tree::new(50, 3), repeats(2, 0)).0.len();
    assert_eq!(twice - once, once - 2);
}

#[test]
fn touches_are_those_of_the_blocks() {
    // One block: A and B are read, C is read and written, once each; before, all three are written.
    let mut writer = BinaryWriter::new(Vec::new()).expect("memory can be written to");
    let program = Matmul::new(32, Matrices::Dense);
    let recorded = record(&program, repeats(1, 0), &mut writer, &mut all);
    let recorded = recorded.expect("it is recorded").recorded;
    assert_eq!((recorded.total.read, recorded.total.written), (192, 256));
    let of = |name: &str| {
        let mut found = recorded.by_name.iter().filter(|(known, _)| *known == name);
        found.next().expect("there is such a piece").1
    };
    assert_eq!((of("init").written, of("product").written), (192, 64));
    let costs = of("product").cycles;
    assert_eq!(costs, matmul::CYCLES + 60);
}
