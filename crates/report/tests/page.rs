//! The page has what it must have, makes no request, and is drawn by a browser.

#![cfg(feature = "render")]

mod support;

use tanada_report::{ColourBy, to_html, to_svg_gantt, to_svg_gantts, to_table};

#[test]
fn page_holds_the_answer_the_table_and_the_licences() {
    let page = to_html(&support::report(2, 500)).unwrap();
    for needed in [
        "ts was fastest with 139.7 frames a second, 1.40 times fcfs.",
        "All frames are identical",
        "locality-steal",
        "tanada compare demo.264",
        "L3 32 MB shared",
        "Apache License",
        "The Apache Software Foundation",
        "Copyright (c) 2017, Baidu Inc.",
        "prefers-color-scheme: dark",
        "@media print",
        "width=device-width",
    ] {
        assert!(page.contains(needed), "{needed}");
    }
    for by in ColourBy::ALL {
        assert!(page.contains(&format!(">{}</label>", by.label())), "{by:?}");
    }
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
}

#[test]
fn a_page_of_threads_has_its_figures_and_reasons_as_text() {
    let page = to_html(&support::threads()).unwrap();
    for needed in [
        "rs-ss was fastest, 1.60 times fifo.",
        "4 hardware threads: mean of the hardware threads",
        "0.800 IPC in all",
        "4 \u{2192} 2",
        "degraded: miss rate 0.0400",
        "and 3 later ones",
        "barrier 5",
        "8: 6,000; 3: 3,000",
        // Intervals of the shorter run are joined to those of the longer one.
        "cycles, in intervals of 2,000",
    ] {
        assert!(page.contains(needed), "{needed}");
    }
    let table = to_table(&support::threads());
    assert!(table.contains("x fifo") && table.contains("IPC"), "{table}");
}

/// The security policy forbids every request; in addition, nothing in the page's markup refers to anything outside.
#[test]
fn page_makes_no_request() {
    let page = to_html(&support::report(2, 200)).unwrap();
    let policy = "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
                  style-src 'unsafe-inline'; img-src data:\"";
    let position = page.find(policy).expect("the policy stands in the page");
    assert!(position < page.find("<script").unwrap() && position < page.find("<style").unwrap());
    // The policy alone can judge strings in scripts; outside of scripts there must be no reference at all.
    let mut markup = String::new();
    let mut rest = page.as_str();
    while let Some(start) = rest.find("<script") {
        let end = rest[start..].find("</script>").expect("scripts end") + start;
        let tag_end = rest[start..].find('>').unwrap() + start;
        assert!(
            !rest[start..tag_end].contains("src"),
            "{}",
            &rest[start..tag_end]
        );
        markup.push_str(&rest[..start]);
        rest = &rest[end..];
    }
    markup.push_str(rest);
    for forbidden in [
        " src=", " href=", "<link", "@import", "url(", "<iframe", "<img", "<form", "<base",
    ] {
        assert!(!markup.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn hostile_names_stay_text() {
    let mut report = support::report(2, 20);
    let evil =
        "</script><script>document.documentElement.dataset.evil='1'</script><b onclick=\"x\">&";
    report.title = evil.to_owned();
    report.machine = evil.to_owned();
    report.runs[0].policy = evil.to_owned();
    report.timelines[0].label = evil.to_owned();
    report.timelines[0].names[0] = evil.to_owned();
    let page = to_html(&report).unwrap();
    assert!(!page.contains("<script>document") && !page.contains("<b onclick"));
    let svg = to_svg_gantt(&report.timelines[0], ColourBy::Name);
    assert!(!svg.contains("<script") && svg.contains("&lt;script"));
}

#[test]
fn an_empty_report_is_a_page_too() {
    let report = tanada_report::Report::new("nothing yet");
    assert!(to_html(&report).unwrap().contains("nothing yet"));
    let _ = to_table(&report);
    let empty = tanada_report::Timeline::new("empty", "fcfs", tanada_report::Unit::Cycles, 3);
    assert!(to_svg_gantt(&empty, ColourBy::SGroup).contains("worker 2"));
}

#[test]
fn a_difference_in_the_output_is_marked() {
    let mut report = support::report(2, 20);
    report.runs[2].identical = Some(false);
    let page = to_html(&report).unwrap();
    assert!(page.contains("<p class=\"headline alarm\">") && page.contains("<tr class=\"alarm\">"));
    assert!(to_table(&report).contains("ATTENTION"));
}

#[test]
fn each_sentence_about_groups_has_its_line() {
    let mut report = support::report(2, 20);
    for run in &mut report.runs {
        run.groups = "a".to_owned();
        run.honours_groups = run.policy != tanada_report::BASELINE;
    }
    let page = to_html(&report).unwrap();
    let items = page.matches("<li>Groups ").count();
    let grouped = report.runs.iter().filter(|run| run.honours_groups).count();
    assert!(
        grouped > 1 && items == grouped,
        "{items} lines for {grouped} policies"
    );
}

#[test]
fn svg_has_rows_colours_and_all_bars() {
    // Alternating stages with gaps, so that no two bars can be drawn as one.
    let timeline = support::timeline("fcfs", 4, 160, false);
    let svg = to_svg_gantt(&timeline, ColourBy::SGroup);
    assert_eq!(
        svg.matches('M').count() - svg.matches("class=\"a\"").count(),
        160
    );
    assert_eq!(svg.matches("<path fill=").count(), 8);
    assert!(svg.contains("worker 3") && svg.contains(">S8<"));
    let two = to_svg_gantts(
        &[&timeline, &support::timeline("ts", 4, 160, true)],
        ColourBy::TGroup,
    );
    assert!(
        two.contains("fcfs, picture 7") && two.contains("ts, picture 7") && two.contains(">T15<")
    );
}

#[test]
fn the_table_has_the_misses_and_the_distance_to_the_bound() {
    let table = to_table(&support::both_engines(2, 200));
    for heading in ["l1i misses", "l2 misses", "writebacks", "x bound", "cycles"] {
        assert!(table.contains(heading), "{heading}:\n{table}");
    }
    // Each engine has its own table, without empty columns.
    let tables: Vec<&str> = table.split("\n\n").collect();
    assert!(
        tables[0].contains("fps") && !tables[0].contains("cycles"),
        "{table}"
    );
    assert!(
        tables[1].contains("cycles") && !tables[1].contains("fps"),
        "{table}"
    );
    assert!(
        tables[1].starts_with("simulated \u{b7} toshiba-8"),
        "{table}"
    );
}

#[test]
fn timelines_of_both_engines_stand_side_by_side() {
    let page = to_html(&support::both_engines(2, 50)).unwrap();
    assert!(page.contains("class=\"gantts paired\""));
    let order: Vec<&str> = page
        .match_indices("data-gantt=\"")
        .map(|(at, key)| &page[at + key.len()..at + key.len() + 1])
        .take(6)
        .collect();
    assert_eq!(order, ["0", "3", "1", "4", "2", "5"]);
    let mut cut = support::both_engines(2, 50);
    for timeline in &mut cut.timelines[3..] {
        timeline.names.iter_mut().for_each(|name| name.push('2'));
    }
    let page = to_html(&cut).unwrap();
    assert!(page.contains("class=\"gantts\""), "these are other tasks");
    let alone = to_html(&support::report(2, 50)).unwrap();
    assert!(alone.contains("class=\"gantts\""));
}
