//! `tanada reproduce` with good and bad input.

mod support;

use serde_json::Value;
use std::path::Path;
use support::{Said, bad, folder};

/// Runs `reproduce` to its end. The tests' folders hold no streams, so only the embedded demo is found.
fn good(folder: &Path, arguments: &[&str]) -> Said {
    support::good(folder, &[REPRODUCE, arguments].concat())
}

const REPRODUCE: &[&str] = &["reproduce", "toshiba"];

fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    bad(
        folder().path(),
        &[REPRODUCE, arguments].concat(),
        code,
        words,
    );
}

#[test]
fn the_demo_alone_has_all_rows_and_the_keys_of_the_summary() {
    let folder = folder();
    let page = folder.path().join("page.html");
    let arguments = ["--quick", "--json", "--pictures", "1", "-o", "page.html"];
    let said = good(folder.path(), &arguments);
    let found: Value = serde_json::from_str(&said.out).expect("it is JSON");

    let rows = found["rows"].as_array().expect("a list");
    // Four figures of each of 126 rows, 84 gains, and seven figures of each column of Table 3.
    assert_eq!(rows.len(), 4 * 126 + 84 + 2 * 7);
    for row in rows {
        let item = row["item"].as_str().expect("a word");
        assert!(row["unit"].is_string(), "{item}");
        assert!(
            row["published"].is_number() || item.ends_with("misses"),
            "{item}"
        );
        let of_demo = item.contains("wvga") || item.starts_with("table 3");
        assert_eq!(row["ours"].is_number(), of_demo, "{item}");
    }
    let misprints = rows.iter().filter(|row| row["published"].is_null());
    assert_eq!(misprints.count(), 3);

    let summary = &found["summary"];
    for key in [
        "table3_cycles_gain_a",
        "board_fps_gain_a",
        "board_fps_gain_b",
        "rank_agreement",
        "l1i_miss_ratio",
        "l2_miss_ratio",
        "mean_abs_error_gain_calibrated",
    ] {
        assert!(summary[key].is_number(), "{key}: {summary}");
    }
    let rank = summary["rank_agreement"].as_f64().expect("a number");
    assert!((0.0..=1.0).contains(&rank));
    // No row was predicted: there is no stream for any.
    assert!(summary["mean_abs_error_gain"].is_null());
    let streams = summary["streams"].to_string();
    assert!(streams.contains("embedded demo"), "{streams}");
    let missed = summary["missed"].to_string();
    assert!(
        missed.contains("qvga, vga, 720p") && missed.contains("misprint"),
        "{missed}"
    );

    let page = std::fs::read_to_string(page).expect("the page was written");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<figure>").count(), 5);
    // It loads nothing: the only address is the name of SVG, and nothing is referred to.
    let addresses = page.matches("//").count();
    assert_eq!(
        addresses,
        page.matches("http://www.w3.org/2000/svg").count()
    );
    for reference in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(reference), "{reference}");
    }
    let claim = page.find("The claim").expect("there is a table");
    let missed = page.find("What did not come out").expect("it is said");
    let gains = page.find("Gains over FCFS").expect("there are charts");
    assert!(
        claim < missed && missed < gains,
        "below the claim, before all else"
    );
    for word in ["Fig", "ts:b", "--calibrate", "wvga 128 KB"] {
        assert!(page.to_lowercase().contains(&word.to_lowercase()), "{word}");
    }

    // The same again: nothing depends on threads or time.
    let again = good(
        folder.path(),
        &["--quick", "--json", "--pictures", "1", "--threads", "1"],
    );
    assert_eq!(again.out, said.out);
}

#[test]
fn wrong_usage_ends_with_2() {
    refused(&["--set", "l2.size=64K"], 2, &["board."]);
    refused(&["--set", "board.l9.size=64K"], 2, &["l9"]);
    refused(
        &["--set", "mpe.scale.cycles=fast"],
        2,
        &["mpe.toml", "fast"],
    );
    refused(
        &["--set", "mpe.stage.luma-residual.above=2"],
        2,
        &["luma-residual"],
    );
    refused(
        &["--set", "board.memory.fill_cycles=-1"],
        2,
        &["fill_cycles"],
    );
    refused(&["--pictures", "0"], 2, &["--pictures"]);
    refused(&["--pictures", "129"], 2, &["--pictures"]);
    refused(&["--threads", "0"], 2, &["--threads"]);
    refused(&["--calibrate", "1", "--quick"], 2, &["--calibrate"]);
    refused(
        &["--calibrate", "1", "-o", "page.html"],
        2,
        &["--calibrate", "--html"],
    );
    refused(&["--seed", "2"], 2, &["--calibrate"]);
    let folder = folder();
    for (arguments, words) in [
        (&["reproduce"][..], "toshiba"),
        (&["reproduce", "sony"], "The papers are: toshiba"),
    ] {
        let said = bad(folder.path(), arguments, 2, &[words]);
        assert!(said.out.is_empty());
    }
}

#[test]
fn streams_at_fault_end_with_1() {
    refused(
        &["--streams", "nowhere"],
        1,
        &["nowhere", "flower_wvga.264"],
    );
    refused(&["--quick", "-o", "nowhere/page.html"], 1, &["nowhere"]);
    let folder = folder();
    let stream = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).expect("the folder can be written to");
    };
    stream("flower_wvga.264", b"this is no video");
    let arguments = [REPRODUCE, &["--quick", "--streams", "."]].concat();
    bad(folder.path(), &arguments, 1, &["flower_wvga.264"]);
    // A stream that ends before the pictures that are wanted.
    stream(
        "flower_wvga.264",
        support::first_units(tanada_harness::DEMO, 8),
    );
    bad(
        folder.path(),
        &arguments,
        1,
        &["flower_wvga.264", "pictures"],
    );
}
