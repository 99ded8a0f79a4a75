//! `import`: traces of other tools.

mod support;

use support::{bad, folder, good};
use tanada_trace::{Groups, Trace};

#[test]
fn foreign_traces_are_imported() {
    let folder = folder();
    let here = folder.path();
    let write = |name: &str, text: &str| {
        std::fs::write(here.join(name), text).expect("the folder can be written to");
    };
    write("a.log", "==1== Lackey\nI  0040,4\n L 1000,8\n M 1ffc,8\n");
    write("a.din", "2 40\n0 1000\n1 2000\n");
    let each = ["--fetch", "each", "--cycles-per-instruction", "0"];
    let of = |arguments: &[&str]| good(here, &[&["import"], arguments, &each].concat());
    of(&["a.log", "-o", "a.tnt"]);
    let text = |name: &str| std::fs::read_to_string(here.join(name)).expect("it was written");
    let records = "i 0x40 4\nr 0x1000 8\nr 0x1ffc 8\nw 0x1ffc 8\n";
    assert_eq!(text("a.tnt"), format!("tanada-trace 1\ntask 0\n{records}"));
    of(&["a.din", "-o", "b.tnt", "--renumber"]);
    let records = "i 0x1040 4\nr 0x2000 4\nw 0x3000 4\n";
    assert_eq!(text("b.tnt"), format!("tanada-trace 1\ntask 0\n{records}"));
    let told = of(&["a.log", "-o", "c.tnb", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.out).expect("one JSON object");
    assert_eq!((&told["reads"], &told["writes"]), (&2.into(), &1.into()));
    let trace = Trace::open(&here.join("c.tnb"), &Groups::Plain).expect("a good trace");
    assert_eq!(trace.len(), 1);
    // What one form is, the other is not.
    let wrong = ["import", "a.din", "-o", "d.tnt", "--from", "lackey"];
    bad(here, &wrong, 1, &["a.din:1: ", "not a line of lackey's"]);
    let wrong = ["import", "a.log", "-o", "d.tnt", "--from", "dinero"];
    bad(here, &wrong, 1, &["a.log:1: ", "not a line of Dinero's"]);
    bad(here, &["import", "none", "-o", "d.tnt"], 1, &["none: "]);
    bad(
        here,
        &["import", "a.log", "-o", "no/d.tnt"],
        1,
        &["no/d.tnt"],
    );
    bad(here, &["import", "a.log"], 2, &["--output"]);
    assert!(!here.join("d.tnt").exists());
}
