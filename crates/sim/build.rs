//! Lists the machine files, so that a new machine is one file.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo says where the crate is");
    let folder = Path::new(&root).join("machines");
    println!("cargo::rerun-if-changed=machines");
    let entries = fs::read_dir(&folder).expect("the folder of machines is there");
    let mut files: Vec<_> = entries
        .map(|entry| entry.expect("its files can be listed").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort_by_key(|path| path.file_stem().map(ToOwned::to_owned));
    let mut list = String::from("&[\n");
    for path in files {
        let name = path.file_stem().expect("a file has a name");
        let name = name.to_str().expect("machines have plain names");
        let path = path.to_str().expect("so has their folder");
        writeln!(list, "    ({name:?}, include_str!({path:?})),").expect("a string grows");
    }
    list.push(']');
    let out = env::var("OUT_DIR").expect("cargo says where to write");
    fs::write(Path::new(&out).join("machines.rs"), list).expect("it can be written");
}
