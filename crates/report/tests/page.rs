//! The page: what it must hold, that it asks nobody for anything, and that a browser draws it.

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

/// The policy forbids every request; on top of it nothing in the page's markup names anything outside.
#[test]
fn page_asks_nobody_for_anything() {
    let page = to_html(&support::report(2, 200)).unwrap();
    let policy = "http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; \
                  style-src 'unsafe-inline'; img-src data:\"";
    let position = page.find(policy).expect("the policy stands in the page");
    assert!(position < page.find("<script").unwrap() && position < page.find("<style").unwrap());
    // Outside of the scripts, whose strings only the policy can judge, there is no reference at all.
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
fn svg_has_rows_colours_and_all_bars() {
    // Alternating stages, far apart from one another: no two bars can be drawn as one.
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

fn attribute(document: &str, name: &str) -> Vec<String> {
    let key = format!("{name}=\"");
    document
        .match_indices(&key)
        .map(|(position, _)| {
            let value = &document[position + key.len()..];
            value[..value.find('"').expect("attributes end")].to_owned()
        })
        .collect()
}

fn in_browser(report: &tanada_report::Report, arguments: &[&str]) -> Option<String> {
    let chromium = support::chromium()?;
    let folder = tempfile::tempdir().expect("a folder for the page");
    let page = folder.path().join("report.html");
    std::fs::write(&page, to_html(report).unwrap()).expect("the page can be written");
    let document = support::dump_dom(&chromium, &page, arguments);
    assert_eq!(
        attribute(&document[..2000.min(document.len())], "data-ready"),
        ["yes"],
        "the script did not finish"
    );
    // The page itself, not a quotation in the scripts.
    let body = document.find("<main>").expect("the page has a body");
    let end = document.find("</main>").expect("the body ends");
    Some(document[body..end].to_owned())
}

/// Every task of every chart is drawn, and the bar chart has a bar a policy.
#[test]
fn browser_draws_every_task() {
    let report = support::report(4, 12_000);
    let Some(body) = in_browser(&report, &["--window-size=1200,6000"]) else {
        return;
    };
    assert_eq!(attribute(&body, "data-tasks"), vec!["12000"; 7]);
    assert_eq!(attribute(&body, "data-drawn"), ["7"]);
    assert_eq!(attribute(&body, "data-mode"), vec!["S group"; 7]);
    assert!(body.contains("12,000 tasks in"));
}

/// Charts out of sight wait, so that a long page opens at once.
#[test]
fn browser_draws_only_what_is_in_sight() {
    let report = support::report(4, 100);
    let Some(body) = in_browser(&report, &["--window-size=1200,900"]) else {
        return;
    };
    let drawn = attribute(&body, "data-tasks").len();
    assert!(drawn < 7, "{drawn} charts drawn");
}

#[test]
fn browser_draws_a_hundred_thousand_tasks() {
    let mut report = support::report(16, 10);
    report.timelines = vec![support::timeline("ts", 16, 100_000, true)];
    let Some(body) = in_browser(&report, &["--window-size=400,3000"]) else {
        return;
    };
    assert_eq!(attribute(&body, "data-tasks"), ["100000"]);
}

/// Uses the page as a reader would, and writes what it finds into the document.
const READER: &str = r#"<script>
setTimeout(() => {
  const found = {};
  const box = document.querySelector('[data-gantt]');
  const chart = echarts.getInstanceByDom(box);
  const point = (x, worker) => {
    const [left, top] = chart.convertToPixel('grid', [x, worker]);
    const target = box.querySelector('canvas');
    const at = box.getBoundingClientRect();
    target.dispatchEvent(new MouseEvent('mousemove',
      { bubbles: true, clientX: at.left + left, clientY: at.top + top }));
    const tip = document.getElementById('tip');
    return tip.hidden ? 'nothing' : tip.textContent;
  };
  found.task = point(1200, 0);
  found.gap = point(1e9, 0);
  document.querySelector('input[name=by][value="1"]').click();
  found.mode = box.dataset.mode;
  found.legend = box.closest('figure').querySelector('.legend').textContent;
  box.closest('figure').querySelector('[data-zoom=in]').click();
  chart.getZr().flush();
  found.zoomed = box.dataset.tasks;
  box.closest('figure').querySelector('[data-zoom=all]').click();
  chart.getZr().flush();
  found.all = box.dataset.tasks;
  box.closest('figure').querySelector('.legend button').click();
  found.pressed = box.closest('figure').querySelectorAll('.legend [aria-pressed=true]').length;
  const column = (index) => [...document.querySelectorAll('#runs tbody tr')].map((r) => r.cells[index].textContent);
  document.querySelectorAll('#runs th button')[1].click();
  found.fps = column(1).join(' ');
  document.querySelectorAll('#runs th button')[0].click();
  found.policies = column(0).join(' ');
  fetch('http://127.0.0.1:9/').then(() => { found.network = 'open'; }, () => { found.network = 'shut'; })
    .then(() => document.querySelector('main').append('FOUND' + JSON.stringify(found) + 'DNUOF'));
}, 1000);
</script>"#;

#[test]
fn browser_reacts_to_its_reader() {
    let Some(chromium) = support::chromium() else {
        return;
    };
    let report = support::report(2, 3_000);
    let folder = tempfile::tempdir().expect("a folder for the page");
    let page = folder.path().join("report.html");
    std::fs::write(&page, to_html(&report).unwrap() + READER).expect("the page can be written");
    let document = support::dump_dom_quiet(&chromium, &page, &["--window-size=1200,3000"]);
    let start = document
        .find("FOUND{")
        .expect("the reader's script finished")
        + 5;
    let text = &document[start..start + document[start..].find("DNUOF").expect("and wrote all")];
    let text = text
        .replace("&quot;", "\"")
        .replace("&amp;", "&")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    let found: serde_json::Value = serde_json::from_str(&text).expect("what it wrote is JSON");

    let event = report.timelines[0]
        .events
        .iter()
        .find(|e| e.worker == 0 && e.start <= 2_290 && 2_290 < e.end);
    let event = event.expect("a task runs there");
    let tip = found["task"].as_str().unwrap();
    assert!(
        tip.starts_with(&report.timelines[0].names[event.name as usize]),
        "{tip}"
    );
    let rest = format!("task {}, T{} S{}, worker 0", event.task, event.t, event.s);
    assert!(tip.contains(&rest), "{tip} lacks {rest}");
    assert_eq!(found["gap"], "nothing");
    assert_eq!(found["mode"], "T group");
    assert!(found["legend"].as_str().unwrap().starts_with("T1T2T3"));
    assert_eq!(found["all"], "3000");
    let zoomed: u64 = found["zoomed"].as_str().unwrap().parse().unwrap();
    assert!(
        (1_300..1_700).contains(&zoomed),
        "half of the time holds {zoomed} of 3000 tasks"
    );
    assert_eq!(found["pressed"], 1);
    assert_eq!(found["fps"], "139.7 133.1 119.0 118.4 100.0 97.3 60.0");
    assert_eq!(
        found["policies"],
        "fcfs lcfs locality-steal near-steal random-steal serial ts"
    );
    assert_eq!(found["network"], "shut");
}
