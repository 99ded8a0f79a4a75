//! Published programs that use rayon, built with the published `rayon-core` and with ours: same bytes, and times beside each other.
//!
//! Their sources come through cargo, into copies in `target/rayon-programs`, and are built with their authors' profiles. Nothing of them
//! lies in this project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::rayon::{copy, fetched};

/// A program of crates.io, or [`ITERATORS`].
struct Program {
    package: &'static str,
    version: &'static str,
    /// The name of the executable, if it is not that of the package.
    command: &'static str,
    /// Its arguments; `FILES` stands for all files of the text tree, `IMAGES` for all images.
    arguments: &'static [&'static str],
}

/// Our own program of rayon's iterators, which times its parts itself.
const ITERATORS: Program = Program {
    package: "iterators",
    version: "0.0.0",
    command: "iterators",
    arguments: &[],
};
/// In one unit: which functions come into which of several decides whether a filter's loop is compiled into one piece, which doubles its
/// speed, and says nothing of schedulers.
const ITERATORS_MANIFEST: &str = "[package]
name = \"iterators\"
version = \"0.0.0\"
edition = \"2024\"

[dependencies]
rayon = \"1.12\"

[profile.release.package.iterators]
codegen-units = 1

[workspace]
";
const ITERATORS_SOURCE: &str = include_str!("../programs/iterators.rs");

const PROGRAMS: &[Program] = &[
    Program {
        package: "b3sum",
        version: "1.8.7",
        command: "b3sum",
        arguments: &["large"],
    },
    Program {
        package: "diskus",
        version: "0.9.0",
        command: "diskus",
        arguments: &["--verbose", "text"],
    },
    Program {
        package: "sd",
        version: "1.0.0",
        command: "sd",
        arguments: &["value([0-9]+)", "worth$1", "FILES"],
    },
    Program {
        package: "tokei",
        version: "14.0.0",
        command: "tokei",
        arguments: &["--files", "text"],
    },
    Program {
        package: "oxipng",
        version: "9.1.5",
        command: "oxipng",
        arguments: &["-q", "-o", "2", "IMAGES"],
    },
    Program {
        package: "du-dust",
        version: "1.2.7",
        command: "dust",
        arguments: &["-c", "-P", "-w", "100", "-o", "b", "-n", "50", "text"],
    },
];

/// Options of `cargo xtask rayon-programs`.
#[derive(Args)]
pub(crate) struct Options {
    /// How many times each program runs with each of both.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Only these programs.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only builds.
    #[arg(long)]
    build: bool,
    /// Takes what `--build` has left: nothing is built while others are kept from the machine.
    #[arg(long, conflicts_with = "build")]
    built: bool,
    /// Runs the build with the published package on both sides: how far chance alone drives ratios from 1.
    #[arg(long)]
    control: bool,
    /// The folder in which programs that write work, instead of one in `target`: with one in memory (`/dev/shm`) the disk is not timed.
    #[arg(long)]
    work: Option<PathBuf>,
    /// The command in front of each timed one, such as `chrt -f 50`.
    #[arg(long, default_value = "")]
    under: String,
}

/// Builds and runs the programs, and prints a table. Returns whether all gave the same bytes, or none could be built.
pub(crate) fn run(root: &Path, options: &Options) -> bool {
    let folder = root.join("target").join("rayon-programs");
    match compare(root, &folder, options) {
        Ok(same) => same,
        Err(why) => {
            eprintln!("SKIPPED: programs that use rayon cannot be built here: {why}");
            true
        }
    }
}

fn compare(root: &Path, folder: &Path, options: &Options) -> Result<bool, String> {
    let wanted = |program: &&Program| {
        options.only.is_empty() || options.only.iter().any(|only| only == program.package)
    };
    let mut same = true;
    let mut built = Vec::new();
    for program in PROGRAMS.iter().chain([&ITERATORS]).filter(wanted) {
        let executables = match build(root, folder, program, options.built) {
            Ok(executables) => executables,
            Err(why) => {
                eprintln!("SKIPPED: {why}");
                continue;
            }
        };
        // Cargo only warns of a patch that it does not use.
        for (executable, ours) in executables.iter().zip([false, true]) {
            if has_ours(executable).map_err(|error| error.to_string())? != ours {
                let not = if ours { " not" } else { "" };
                println!("{} does{not} have our rayon-core", executable.display());
                same = false;
            }
        }
        built.push((program, executables));
    }
    if built.is_empty() {
        return Err("none of them builds".into());
    }
    if options.build {
        return Ok(same);
    }
    let parts = built.extract_if(.., |(program, _)| program.package == ITERATORS.package);
    let copied = |program: &Program, executables: &[PathBuf; 2]| {
        copies(folder, program, executables, options.control).map_err(|error| error.to_string())
    };
    for (program, executables) in Vec::from_iter(parts) {
        same &= compare_parts(&copied(program, &executables)?, options)?;
    }
    if built.is_empty() {
        return Ok(same);
    }
    let inputs = folder.join("inputs");
    inputs_in(&inputs).map_err(|error| error.to_string())?;
    let (mut logarithms, mut greatest) = ([0.0; 3], 0.0_f64);
    let other = if options.control { "rayon" } else { "tanada" };
    println!(
        "{:10} {:>10} {:>10} {:>6} {:>6} {:>7}  least of {} rounds; ratios: of them, of the means of the faster halves, of the medians",
        "",
        "rayon/ms",
        format!("{other}/ms"),
        "ratio",
        "halves",
        "medians",
        options.rounds
    );
    for (program, linked) in &built {
        let mut times = [const { Vec::new() }; 2];
        let mut results: [Option<Vec<u8>>; 2] = [None, None];
        for round in 0..options.rounds {
            let executables = copied(program, linked)?;
            // Each is the first in half of the rounds.
            for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
                let (seconds, bytes) =
                    once(program, &executables[which], folder, &inputs, options)?;
                times[which].push(seconds);
                if results[which].get_or_insert_with(|| bytes.clone()) != &bytes {
                    println!("{}: two runs of one executable differ", program.package);
                    same = false;
                }
            }
        }
        times
            .iter_mut()
            .for_each(|times| times.sort_by(f64::total_cmp));
        let of = |part: fn(&Vec<f64>) -> f64| [part(&times[0]), part(&times[1])];
        let least = of(|times| times[0]);
        let medians = of(|times| times[times.len() / 2]);
        // Both sides have the same number of times, so the ratio of the sums is that of the means.
        let halves = of(|times| times[..times.len().div_ceil(2)].iter().sum());
        let ratios = [least, halves, medians].map(|[rayon, tanada]| tanada / rayon);
        for (sum, ratio) in logarithms.iter_mut().zip(ratios) {
            *sum += ratio.ln();
        }
        let [ratio, of_halves, of_medians] = ratios;
        greatest = greatest.max(ratio);
        let [rayon, tanada] = least.map(|seconds| seconds * 1e3);
        println!(
            "{:10} {rayon:10.2} {tanada:10.2} {ratio:6.3} {of_halves:6.3} {of_medians:7.3}",
            program.package
        );
        if results[0] != results[1] {
            println!("{}: the outputs differ", program.package);
            same = false;
        }
    }
    let [mean, of_halves, of_medians] = logarithms.map(|sum| (sum / built.len() as f64).exp());
    println!(
        "geometric means of the ratios {mean:.3}, {of_halves:.3}, {of_medians:.3}; greatest of the least {greatest:.3}"
    );
    Ok(same)
}

/// Runs both builds of [`ITERATORS`] by turns and prints a table of its parts. Returns whether they computed the same.
fn compare_parts(executables: &[PathBuf; 2], options: &Options) -> Result<bool, String> {
    let mut parts: Vec<(String, [f64; 2])> = Vec::new();
    let mut results = Vec::new();
    for round in 0..options.rounds {
        for which in if round % 2 == 0 { [0, 1] } else { [1, 0] } {
            let mut command = under(&executables[which], options);
            let output = command.output().map_err(|error| error.to_string())?;
            let text = String::from_utf8_lossy(&output.stderr);
            if !output.status.success() {
                return Err(format!("iterators failed: {text}"));
            }
            results.push(output.stdout);
            for line in text.lines() {
                let (name, time) = line.rsplit_once(' ').ok_or("a line without a time")?;
                let time: f64 = time.parse().map_err(|_| format!("no time: {line}"))?;
                let place = parts.iter().position(|(part, _)| part == name);
                let place = place.unwrap_or_else(|| {
                    parts.push((name.to_owned(), [f64::INFINITY; 2]));
                    parts.len() - 1
                });
                parts[place].1[which] = parts[place].1[which].min(time);
            }
        }
    }
    println!(
        "{:16} {:>10} {:>10} {:>6}  least of {} rounds",
        "iterators", "rayon/us", "tanada/us", "ratio", options.rounds
    );
    for (name, [rayon, tanada]) in parts {
        let ratio = tanada / rayon;
        let [rayon, tanada] = [rayon, tanada].map(|time| time / 1e3);
        println!("{name:16} {rayon:10.2} {tanada:10.2} {ratio:6.3}");
    }
    let same = results.iter().all(|result| result == &results[0]);
    if !same {
        println!("iterators: two runs differ");
    }
    Ok(same)
}

/// Returns the command of an executable, behind that of [`Options::under`].
fn under(executable: &Path, options: &Options) -> Command {
    let mut under = options.under.split_whitespace();
    match under.next() {
        Some(first) => {
            let mut command = Command::new(first);
            command.args(under).arg(executable);
            command
        }
        None => Command::new(executable),
    }
}

/// Builds the program twice, or takes what is `built`, and returns both executables: with the published package and with ours.
fn build(
    root: &Path,
    folder: &Path,
    program: &Program,
    built: bool,
) -> Result<[PathBuf; 2], String> {
    let error = |error: std::io::Error| error.to_string();
    if built {
        let executable = |target| folder.join(target).join("release").join(program.command);
        let executables = ["with-rayon", "with-tanada"].map(executable);
        return match executables.iter().all(|executable| executable.exists()) {
            true => Ok(executables),
            false => Err(format!("{} is not built", program.package)),
        };
    }
    let source = folder.join(program.package);
    if program.package == ITERATORS.package {
        fs::create_dir_all(source.join("src")).map_err(error)?;
        fs::write(source.join("src/main.rs"), ITERATORS_SOURCE).map_err(error)?;
        fs::write(source.join("Cargo.toml"), ITERATORS_MANIFEST).map_err(error)?;
    } else if !source.exists() {
        let asks = folder.join("asks");
        fs::create_dir_all(asks.join("src")).map_err(error)?;
        fs::write(asks.join("src/lib.rs"), "").map_err(error)?;
        let manifest = format!(
            "[package]\nname = \"asks\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n{} = \"={}\"\n\n[workspace]\n",
            program.package, program.version
        );
        fs::write(asks.join("Cargo.toml"), manifest).map_err(error)?;
        copy(&published(&asks, program)?, &source).map_err(error)?;
        // Its own list of versions may pin another one of rayon-core than ours, which cargo would then not take.
        let _ = fs::remove_file(source.join("Cargo.lock"));
        let manifest = source.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(error)?;
        if !text.contains("[workspace]") {
            fs::write(&manifest, text + "\n[workspace]\n").map_err(error)?;
        }
    }
    let ours = root.join("rayon-core");
    let patch = format!(
        "patch.crates-io.rayon-core.path={:?}",
        ours.display().to_string()
    );
    let build = |target: &str, patched: bool| {
        let target = folder.join(target);
        let mut command = Command::new("cargo");
        command
            .args(["build", "--release", "--bins"])
            .current_dir(&source)
            .env("CARGO_TARGET_DIR", &target);
        if patched {
            command.args(["--config", &patch]);
        }
        let built = command.status().is_ok_and(|status| status.success());
        let executable = target.join("release").join(program.command);
        match built {
            true => Ok(executable),
            false => Err(format!("{} does not build", program.package)),
        }
    };
    Ok([build("with-rayon", false)?, build("with-tanada", true)?])
}

/// Returns new copies of both executables, or two of the first for a `control`. In the system's cache of files a file lies as it was
/// written: one that a linker wrote takes up to a tenth more to start than a copy, until it is read anew, and the two were not linked at
/// one time. Copies of the same bytes differ by up to a tenth, too, by where they lie in memory: so each round has new ones.
fn copies(
    folder: &Path,
    program: &Program,
    executables: &[PathBuf; 2],
    control: bool,
) -> std::io::Result<[PathBuf; 2]> {
    let copied = |which: usize| -> std::io::Result<PathBuf> {
        let to = folder.join("timed").join(["first", "second"][which]);
        fs::create_dir_all(&to)?;
        let to = to.join(program.command);
        if to.exists() {
            fs::remove_file(&to)?;
        }
        fs::copy(&executables[if control { 0 } else { which }], &to)?;
        Ok(to)
    };
    Ok([copied(0)?, copied(1)?])
}

/// Returns whether our `rayon-core` is in the executable: it reads this variable, the published one does not.
fn has_ours(executable: &Path) -> std::io::Result<bool> {
    let name = b"TANADA_POLICY";
    let bytes = fs::read(executable)?;
    Ok(bytes.windows(name.len()).any(|part| part == name))
}

/// Returns the folder of the program's source. Cargo fetches what `asks` depends on, also if that has no library.
fn published(asks: &Path, program: &Program) -> Result<PathBuf, String> {
    if let Ok(found) = fetched(asks, program.package) {
        return Ok(found);
    }
    // A package without a library is fetched, but is not among those of the graph: it lies beside one that is.
    let manifest = asks.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).map_err(|error| error.to_string())?;
    let text = text.replace("\n\n[workspace]", "\ncfg-if = \"1\"\n\n[workspace]");
    fs::write(manifest, text).map_err(|error| error.to_string())?;
    let beside = fetched(asks, "cfg-if")?;
    let name = format!("{}-{}", program.package, program.version);
    let found = beside.with_file_name(&name);
    match found.exists() {
        true => Ok(found),
        false => Err(format!("cargo did not fetch {name}")),
    }
}

/// Runs the program on a fresh copy of the inputs. Returns the seconds, and all that it wrote: to standard output and into the files.
fn once(
    program: &Program,
    executable: &Path,
    folder: &Path,
    inputs: &Path,
    options: &Options,
) -> Result<(f64, Vec<u8>), String> {
    let error = |error: std::io::Error| error.to_string();
    let writes = program
        .arguments
        .iter()
        .any(|argument| matches!(*argument, "FILES" | "IMAGES"));
    let work = match writes {
        true => match &options.work {
            Some(folder) => folder.join("tanada-rayon-programs"),
            None => folder.join("work"),
        },
        false => inputs.to_owned(),
    };
    if writes {
        let _ = fs::remove_dir_all(&work);
        for part in ["text", "images"] {
            copy(&inputs.join(part), &work.join(part)).map_err(error)?;
        }
    }
    let mut command = under(executable, options);
    for &argument in program.arguments {
        match argument {
            "FILES" => command.args(files(&work, "text").map_err(error)?),
            "IMAGES" => command.args(files(&work, "images").map_err(error)?),
            _ => command.arg(argument),
        };
    }
    command.current_dir(&work).stdin(Stdio::null());
    let start = Instant::now();
    let output = command.output().map_err(error)?;
    let seconds = start.elapsed().as_secs_f64();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {text}", program.package));
    }
    let mut bytes = output.stdout;
    if writes {
        for part in ["text", "images"] {
            for file in files(&work, part).map_err(error)? {
                bytes.extend(fs::read(work.join(file)).map_err(error)?);
            }
        }
    }
    Ok((seconds, bytes))
}

/// Returns the files of a folder of folders below `work`, in order.
fn files(work: &Path, part: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for folder in fs::read_dir(work.join(part))? {
        let folder = folder?.file_name();
        for file in fs::read_dir(work.join(part).join(&folder))? {
            all.push(Path::new(part).join(&folder).join(file?.file_name()));
        }
    }
    all.sort();
    Ok(all)
}

/// Writes what the programs read: always the same.
fn inputs_in(folder: &Path) -> std::io::Result<()> {
    let done = folder.join("done");
    if done.exists() {
        return Ok(());
    }
    let mut state = 1_u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u32
    };
    for part in 0..50 {
        let text = folder.join("text").join(format!("part{part}"));
        fs::create_dir_all(&text)?;
        for file in 0..40 {
            let lines = 20 + random() % 400;
            let line = |line| match random() % 4 {
                0 => format!("// line {line} says nothing\n"),
                1 => "\n".to_owned(),
                _ => format!("let value{} = {};\n", random() % 100, random()),
            };
            let content: String = (0..lines).map(line).collect();
            fs::write(text.join(format!("file{file}.rs")), content)?;
        }
    }
    let images = folder.join("images").join("all");
    fs::create_dir_all(&images)?;
    for image in 0..6 {
        fs::write(
            images.join(format!("{image}.png")),
            png(300 + 40 * image, &mut random),
        )?;
    }
    let large: Vec<u8> = (0..64 << 18).flat_map(|_| random().to_le_bytes()).collect();
    fs::write(folder.join("large"), large)?;
    fs::write(done, "")
}

/// Returns a picture of `side` x `side` grey points, not compressed.
fn png(side: u32, random: &mut impl FnMut() -> u32) -> Vec<u8> {
    let mut rows = Vec::new();
    for y in 0..side {
        rows.push(0);
        rows.extend((0..side).map(|x| ((x * x / 97 + y * 3) / 2 + random() % 7) as u8));
    }
    // zlib without compression (RFC 1950, RFC 1951).
    let mut data = vec![0x78, 0x01];
    let mut blocks = rows.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        data.push(u8::from(blocks.peek().is_none()));
        let length = block.len() as u16;
        data.extend(length.to_le_bytes());
        data.extend((!length).to_le_bytes());
        data.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in &rows {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    data.extend((b << 16 | a).to_be_bytes());
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = [side.to_be_bytes(), side.to_be_bytes()].concat();
    header.extend([8, 0, 0, 0, 0]);
    for (name, data) in [(b"IHDR", &header), (b"IDAT", &data), (b"IEND", &Vec::new())] {
        file.extend((data.len() as u32).to_be_bytes());
        let checked = [&name[..], data].concat();
        file.extend(&checked);
        file.extend(crc(&checked).to_be_bytes());
    }
    file
}

/// Returns the check of a chunk of a PNG file (ISO 3309).
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    let add = |crc: u32, &byte: &u8| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_is_that_of_the_standard() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc(b"IEND"), 0xae42_6082);
    }
}
