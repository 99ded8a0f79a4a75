//! No verb destroys a file that it reads, or writes two outputs into one file.

mod support;

use clap::Command;
use clap::builder::ValueParser;
use std::collections::BTreeMap;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use support::{bad, folder, good};

/// The identifiers of arguments that are outputs. Any other argument that takes a file is an input.
const OUTPUTS: [&str; 8] = [
    "output",
    "html",
    "json",
    "profile",
    "trace_events",
    "markdown",
    "events",
    "report",
];

/// Arguments of verbs that read files and write none.
const ONLY_READ: [&str; 1] = ["topo"];

/// An argument that takes a file.
struct FileArgument {
    id: String,
    /// What stands before the value; none before a value without a flag.
    flag: Option<String>,
    required: bool,
    /// Whether the value is an output.
    is_output: bool,
    /// Whether the value stands behind `--`.
    last: bool,
}

fn file_arguments(command: &Command) -> Vec<FileArgument> {
    let arguments = command.get_arguments().filter(|argument| {
        let kind = argument.get_value_parser().type_id();
        let names = argument.get_value_names().unwrap_or_default();
        kind == ValueParser::path_buf().type_id()
            || kind == ValueParser::os_string().type_id()
            || names.iter().any(|name| name.contains("FILE"))
    });
    let arguments = arguments.map(|argument| FileArgument {
        id: argument.get_id().to_string(),
        flag: argument.get_long().map(|long| format!("--{long}")),
        required: argument.is_required_set(),
        is_output: OUTPUTS.contains(&argument.get_id().as_str()),
        last: argument.is_last_set(),
    });
    arguments.collect()
}

/// Calls `each` with every command that does something, and the words that lead to it.
fn visit(command: &Command, words: &[&str], each: &mut dyn FnMut(&Command, &[&str])) {
    if !words.is_empty() && !command.is_subcommand_required_set() {
        each(command, words);
    }
    let subcommands = command.get_subcommands();
    for sub in subcommands.filter(|sub| sub.get_name() != "help") {
        visit(sub, &[words, &[sub.get_name()]].concat(), each);
    }
}

/// All files below the folder with their content.
fn content(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let name = entry.path().display().to_string();
        if entry.file_type().expect("it has one").is_dir() {
            found.extend(content(&entry.path()));
        } else {
            found.insert(name, fs::read(entry.path()).unwrap_or_default());
        }
    }
    found
}

/// The command line with these values, and a value for each other argument that it needs.
fn line(words: &[&str], all: &[FileArgument], values: &[(&FileArgument, &str)]) -> Vec<String> {
    let mut line: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let mut behind = Vec::new();
    for argument in all {
        let given = values.iter().find(|(wanted, _)| wanted.id == argument.id);
        let value = match given {
            Some((_, value)) => value,
            None if argument.required => "something.else",
            None => continue,
        };
        if argument.last {
            behind = vec!["--".to_owned(), value.to_owned()];
        } else {
            line.extend(argument.flag.clone());
            line.push(value.to_owned());
        }
    }
    if words == ["sim"] {
        line.extend(["--policy", "fcfs"].map(str::to_owned));
    }
    line.append(&mut behind);
    line
}

fn refused(folder: &Path, line: &[String], what: &str) {
    let before = content(folder);
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    bad(folder, &line, 2, &[what]);
    assert!(content(folder) == before, "{line:?} changed a file");
}

#[test]
fn every_verb_refuses_an_output_that_is_an_input_or_another_output() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("here")).expect("the folder can be written to");
    fs::write(at("here/flower_wvga.264"), "precious").expect("the folder can be written to");
    fs::write(at("something.else"), "another input").expect("the folder can be written to");
    fs::hard_link(at("here/flower_wvga.264"), at("hard")).expect("the system has hard links");
    symlink("here/flower_wvga.264", at("soft")).expect("the system has links");
    symlink("here", at("way")).expect("the system has links");
    let there = [
        "here/flower_wvga.264",
        "hard",
        "soft",
        "way/flower_wvga.264",
    ];
    let new = ["here/new", "here/../here/new", "way/new"];

    let mut command = tanada::command();
    command.build();
    let mut pairs = 0;
    visit(&command, &[], &mut |command, words| {
        let all = file_arguments(command);
        let outputs = all.iter().filter(|argument| argument.is_output);
        if words == ["sweep"] || ONLY_READ.contains(&words[0]) {
            // The files of a sweep have names that are made of its output: see below.
            assert_eq!(outputs.count(), usize::from(words == ["sweep"]));
            return;
        }
        for output in outputs {
            for other in all.iter().filter(|other| other.id != output.id) {
                let input = if other.id == "streams" {
                    "here"
                } else {
                    there[0]
                };
                if !other.is_output {
                    for alias in there {
                        let line = line(words, &all, &[(other, input), (output, alias)]);
                        refused(folder.path(), &line, "is the input");
                    }
                } else {
                    for alias in there.iter().chain(&new) {
                        let first = if alias.ends_with("new") {
                            new[0]
                        } else {
                            there[0]
                        };
                        let line = line(words, &all, &[(other, first), (output, alias)]);
                        refused(folder.path(), &line, "is another output");
                    }
                }
                pairs += 1;
            }
        }
    });
    assert!(pairs > 20, "{pairs} pairs of an output and another file");
}

#[test]
fn a_sweep_spares_its_own_file_its_traces_and_its_machines() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("here")).expect("the folder can be written to");
    symlink("here", at("way")).expect("the system has links");
    for end in ["csv", "unfinished"] {
        for (traces, machines, spec) in [
            (
                format!("x.{end}"),
                "toshiba".to_owned(),
                "spec.toml".to_owned(),
            ),
            ("y".to_owned(), format!("x.{end}"), "spec.toml".to_owned()),
            ("y".to_owned(), "toshiba".to_owned(), format!("x.{end}")),
        ] {
            let text = format!("traces = \"{traces}\"\nmachines = \"{machines}\"\n");
            for file in [&traces, &machines]
                .into_iter()
                .filter(|file| file.contains('.'))
            {
                fs::write(at("here").join(file), "precious").expect("it can be written");
            }
            fs::write(at("here").join(&spec), text).expect("it can be written");
            let _ = fs::remove_file(at("hard.csv"));
            fs::hard_link(at("here").join(format!("x.{end}")), at("hard.csv")).expect("hard links");
            let spec = format!("here/{spec}");
            for output in ["here/x", "way/x", "hard"] {
                let line = ["sweep", &spec, "-o", output].map(str::to_owned);
                refused(folder.path(), &line, "is the input");
            }
        }
    }
    let line = ["sweep", "here/x.unfinished"].map(str::to_owned);
    refused(folder.path(), &line, "is the input");
}

#[test]
fn results_are_not_printed_into_the_input() {
    let folder = folder();
    let stream = support::short_stream(folder.path());
    let before = fs::read(&stream).expect("it is there");
    let append = || fs::OpenOptions::new().append(true).open(&stream);
    for words in [
        &["run", "h264", "short.264", "-o", "-"][..],
        &["compare", "h264", "short.264"],
        &["record", "h264", "short.264", "-o", "out.tnb"],
    ] {
        let mut command = support::tanada(folder.path(), words);
        command.stdout(append().expect("it can be written"));
        let said = support::said(command.output().expect("it starts"));
        assert_eq!(said.code, Some(2), "{words:?}: {}", said.err);
        let message = "standard output is the input; name another output";
        assert!(said.err.contains(message), "{words:?}: {}", said.err);
        assert_eq!(fs::read(&stream).expect("it is there"), before);
    }
    // Another file beside the input is no input.
    let log = fs::File::create(folder.path().join("log")).expect("the folder can be written to");
    let mut command = support::tanada(folder.path(), &["run", "h264", "short.264"]);
    let said = support::said(command.stdout(log).output().expect("it starts"));
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// Runs the program with a file as standard output, which is opened to append.
fn printed_to(folder: &Path, file: &str, line: &str) -> support::Said {
    let words: Vec<&str> = line.split(' ').collect();
    let mut command = support::tanada(folder, &words);
    let open = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(folder.join(file));
    command.stdout(open.expect("the folder can be written to"));
    support::said(command.output().expect("it starts"))
}

/// Of verbs that write nothing else, too, and of files in a folder that is read.
#[test]
fn what_is_shown_is_not_printed_into_its_own_file() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let machine = good(folder.path(), &["machines", "toshiba"]).out;
    fs::write(at("mine.toml"), &machine).expect("it can be written");
    fs::write(at("m.txt"), "package:1 core:2 pu:1\n").expect("it can be written");
    fs::create_dir(at("here")).expect("the folder can be written to");
    fs::write(at("here/flower_qvga.264"), "precious").expect("it can be written");
    for (file, line) in [
        ("m.txt", "topo --from m.txt"),
        ("m.txt", "topo --from m.txt --json"),
        ("m.txt", "topo --from m.txt --as-machine"),
        ("mine.toml", "machines mine.toml"),
        ("mine.toml", "machines mine.toml --json"),
        (
            "here/flower_qvga.264",
            "reproduce toshiba --quick --streams here",
        ),
    ] {
        let before = fs::read(at(file)).expect("it is there");
        let said = printed_to(folder.path(), file, line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        let message = "standard output is the input; name another output";
        assert!(said.err.contains(message), "{line}: {}", said.err);
        assert_eq!(fs::read(at(file)).expect("it is there"), before, "{line}");
    }
    // A file that has the name of a machine that comes along is not read.
    let said = printed_to(folder.path(), "toshiba", "machines toshiba");
    assert_eq!(said.code, Some(0), "{}", said.err);
    let written = fs::read_to_string(at("toshiba")).expect("it is there");
    assert_eq!(written, machine);
}

#[test]
fn results_are_not_printed_into_another_output() {
    let folder = folder();
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("the folder can be written to");
    };
    write("s.tnt", "tanada-trace 1\ntask 1\nr 0x1000 64\n");
    write("s.din", "0 1000\n");
    write("d.toml", "traces = 's.tnt'\nmachines = 'toshiba'\n");
    symlink("out", folder.path().join("way")).expect("the system has links");
    for line in [
        "sim s.tnt --machine toshiba --policy fcfs --json --report out",
        "sim s.tnt --machine toshiba --policy fcfs --json --events way",
        "report s.json -o r.html --markdown out",
        "run stencil --size 64 --json --trace-events out",
        "import s.din -o out",
        "record stencil --size 64 -o out",
    ] {
        write("out", "precious");
        let said = printed_to(folder.path(), "out", line);
        assert_eq!(said.code, Some(2), "{line}: {}", said.err);
        assert!(
            said.err.contains("is standard output; name another"),
            "{}",
            said.err
        );
        assert_eq!(
            fs::read(folder.path().join("out")).expect("it is there"),
            b"precious"
        );
    }
    let said = printed_to(folder.path(), "sx.csv", "sweep d.toml -o sx --json");
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn an_output_that_is_called_standard_output_is_added_to_what_is_there() {
    let folder = folder();
    let read = |name: &str| fs::read(folder.path().join(name)).expect("it is there");
    let field = "run stencil --size 64 --sweeps 1 --policy fcfs";
    support::good(
        folder.path(),
        &format!("{field} -o whole").split(' ').collect::<Vec<_>>(),
    );
    symlink("/dev/stdout", folder.path().join("way")).expect("the system has links");
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "way"] {
        fs::write(folder.path().join("out"), "old").expect("it can be written");
        let said = printed_to(folder.path(), "out", &format!("{field} -o {name}"));
        assert_eq!(said.code, Some(0), "{name}: {}", said.err);
        let (out, whole) = (read("out"), read("whole"));
        assert!(
            out.starts_with(&[b"old", &whole[..]].concat()),
            "{name}: {} bytes",
            out.len()
        );
        assert!(out.len() > 3 + whole.len(), "the table follows");
    }
    // It is refused if that is the input.
    fs::write(folder.path().join("s.din"), "0 1000\n").expect("it can be written");
    let said = printed_to(folder.path(), "s.din", "import s.din -o /dev/stdout");
    assert_eq!(said.code, Some(2), "{}", said.err);
    assert_eq!(read("s.din"), b"0 1000\n");
}

#[test]
fn links_are_written_through_even_to_a_file_that_is_not_there_yet() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir(at("here")).expect("the folder can be written to");
    for (to, name) in [
        ("here/new", "way"),
        ("loop", "loop"),
        ("b", "a"),
        ("a", "b"),
        ("no/such", "nowhere"),
    ] {
        symlink(to, at(name)).expect("the system has links");
    }
    let field = ["run", "stencil", "--size", "64", "--sweeps", "1", "-o"];
    support::good(folder.path(), &[&field[..], &["way"]].concat());
    assert!(at("way").is_symlink() && at("here/new").is_file());
    for (name, why) in [
        ("loop", "in a circle"),
        ("a", "in a circle"),
        ("nowhere", "no folder"),
    ] {
        bad(
            folder.path(),
            &[&field[..], &[name]].concat(),
            1,
            &[name, why],
        );
        assert!(at(name).is_symlink());
    }
    // Two names of one file that is not there yet.
    fs::remove_file(at("here/new")).expect("our file");
    let line = "run stencil --size 64 -o way --trace-events here/new";
    let line: Vec<String> = line.split(' ').map(str::to_owned).collect();
    refused(folder.path(), &line, "is another output");
}

#[test]
fn names_that_no_one_gave_are_looked_at_too() {
    let folder = folder();
    fs::write(folder.path().join("tanada-report.html"), "precious").expect("it can be written");
    for verb in ["compare", "report"] {
        let line = [verb, "tanada-report.html"].map(str::to_owned);
        refused(folder.path(), &line, "is the input");
    }
    let log = fs::File::open(folder.path().join("tanada-report.html")).expect("it is there");
    let mut import = support::tanada(folder.path(), &["import", "-", "-o", "tanada-report.html"]);
    let said = support::said(import.stdin(log).output().expect("it starts"));
    assert_eq!(said.code, Some(2), "{}", said.err);
}

#[test]
fn a_file_within_a_word_of_a_recorded_program_is_an_input() {
    let folder = folder();
    fs::write(folder.path().join("data.txt"), "precious").expect("it can be written");
    let mut program = fs::read("/bin/true").expect("there is such a program");
    program.extend(tanada_runtime::RECORDABLE);
    fs::write(folder.path().join("program"), program).expect("it can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path().join("program"), mode).expect("our file");
    for word in [
        "data.txt",
        "--input=data.txt",
        "-fdata.txt",
        "@data.txt",
        "a,data.txt",
    ] {
        let line = ["record", "-o", "data.txt", "--", "./program", word].map(str::to_owned);
        refused(folder.path(), &line, "is the input");
    }
}

#[test]
fn what_a_recorded_program_reads_from_standard_input_is_an_input() {
    let folder = folder();
    let data = folder.path().join("data.txt");
    fs::write(&data, "precious").expect("it can be written");
    let mut program = fs::read("/bin/cat").expect("there is such a program");
    program.extend(tanada_runtime::RECORDABLE);
    fs::write(folder.path().join("program"), program).expect("it can be written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(folder.path().join("program"), mode).expect("our file");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_tanada"))
        .args(["record", "-o", "data.txt", "--", "./program"])
        .current_dir(folder.path())
        .stdin(fs::File::open(&data).expect("it is there"))
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("is the input"), "{said}");
    assert_eq!(fs::read_to_string(&data).expect("it is there"), "precious");
}

#[test]
fn a_file_that_is_overwritten_keeps_its_mode_and_its_owner() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
    let folder = folder();
    let file = folder.path().join("sums.tnb");
    fs::write(&file, "old").expect("it can be written");
    // Wider than what a process's mask usually leaves.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).expect("our file");
    // Only root may give a file away.
    let given = chown(&file, Some(65534), Some(65534)).is_ok();
    let words = ["record", "stencil", "--size", "16", "-o", "sums.tnb"];
    good(folder.path(), &words);
    let data = file.metadata().expect("it is there");
    assert_eq!(data.permissions().mode() & 0o7777, 0o666);
    assert!(!given || (data.uid(), data.gid()) == (65534, 65534));
}

/// A command line that writes `output`, whose content is always the same.
fn writes(output: &str) -> [&str; 8] {
    [
        "record", "stencil", "--size", "1024", "--sweeps", "8", "-o", output,
    ]
}

#[test]
fn a_file_that_cannot_be_replaced_gets_the_content_in_its_place() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    let read = |name: &str| fs::read(at(name)).expect("it is there");
    good(folder.path(), &writes("wanted"));
    let wanted = read("wanted");
    let old = vec![b'x'; wanted.len() + 1];

    // A mount point.
    assert!(wanted.len() > 8192);
    fs::create_dir(at("sticky")).expect("the folder can be written to");
    fs::write(at("mounted"), &old).expect("the folder can be written to");
    fs::write(at("point"), "").expect("the folder can be written to");
    let mounting = |script: &str| {
        let mut command = std::process::Command::new("unshare");
        command.current_dir(folder.path());
        command.args(["--map-root-user", "--mount", "sh", "-ec"]);
        command.args([&format!("mount --bind mounted point; {script}"), "sh"]);
        command.arg(env!("CARGO_BIN_EXE_tanada"));
        command.args(writes("point")).output()
    };
    if mounting("true").is_ok_and(|output| output.status.success()) {
        let said = support::said(mounting("exec \"$@\"").expect("it starts"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(read("mounted") == wanted);

        // A file system without room for the content.
        let script = "mount -t tmpfs -o size=8k none sticky; printf old > sticky/file; mount --bind sticky/file point; \
            if \"$@\"; then exit 9; fi; cat sticky/file";
        let said = support::said(mounting(script).expect("it starts"));
        assert_eq!((said.code, &*said.out), (Some(0), "old"), "{}", said.err);
        assert!(said.err.contains("No space left"), "{}", said.err);
    } else {
        tanada_testing::skip("this user cannot mount a file");
    }

    // A file of another user in a sticky folder.
    fs::write(at("sticky/file"), &old).expect("the folder can be written to");
    let allow = |name: &str, mode| fs::set_permissions(at(name), Permissions::from_mode(mode));
    allow("sticky/file", 0o666).expect("our file");
    allow("sticky", 0o1777).expect("our folder");
    allow(".", 0o755).expect("our folder");
    let other = |words: &[&str]| {
        support::tanada(folder.path(), words)
            .uid(1_000_000)
            .output()
    };
    if rustix::process::geteuid().is_root()
        && other(&["--version"]).is_ok_and(|output| output.status.success())
    {
        let said = support::said(other(&writes("sticky/file")).expect("it starts"));
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(read("sticky/file") == wanted);
    } else {
        tanada_testing::skip("only root can become another user");
    }
    let left = content(folder.path());
    assert_eq!(left.len(), 4, "{:?}", left.keys());
}
