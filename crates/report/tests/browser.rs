//! The page in a real browser: what it draws and how it reacts, on a phone, on paper, light and dark.

#![cfg(feature = "render")]

mod support;

use serde_json::{Value, json};
use support::{Visit, ask, attribute, in_browser};
use tanada_report::{Engine, to_perfetto};

/// A window on a wide screen in which every chart is visible.
const WIDE: Visit<'_> = Visit {
    arguments: &["--window-size=1200,9000"],
    at_once: false,
    frame: None,
};

/// Every task of every chart is drawn, and the bar chart has a bar for each policy.
#[test]
fn browser_draws_every_task() {
    let report = support::report(4, 12_000);
    let Some(body) = in_browser(&report, &["--window-size=1200,6000"]) else {
        return;
    };
    assert_eq!(attribute(&body, "data-tasks"), vec!["12000"; 7]);
    assert_eq!(attribute(&body, "data-drawn"), ["7"], "the bars of speed");
    assert_eq!(attribute(&body, "data-mode"), vec!["S group"; 7]);
    assert!(body.contains("12,000 tasks in"));
}

/// The table of a simulated run has the most columns: no reader of a usual window has to scroll it.
#[test]
fn browser_shows_all_columns_of_a_simulated_run() {
    const FITS: &str = r#"
      found.tables = document.querySelectorAll('table.runs').length;
      found.columns = Math.max(...[...document.querySelectorAll('table.runs tr')].map((row) => row.cells.length));
      found.hidden = Math.max(...[...document.querySelectorAll('table.runs')].map((table) =>
        table.parentElement.scrollWidth - table.parentElement.clientWidth));
    "#;
    let mut report = support::both_engines(2, 200);
    report.runs.retain(|run| run.engine == Engine::Simulated);
    for run in &mut report.runs {
        run.extra.insert("pages".to_owned(), 1_000_000_u64.into());
        run.writebacks = Some(10_000_000);
        run.steals = Some(1_000_000);
        run.mean_task_cycles = Some(11_477.0);
        run.scheduling_cycles_per_task = Some(1_757.0);
    }
    let window = Visit {
        arguments: &["--window-size=1400,3000"],
        ..WIDE
    };
    let Some(found) = ask(&report, FITS, window) else {
        return;
    };
    assert_eq!(found["tables"], 1);
    assert!(found["columns"].as_u64() >= Some(12), "{found}");
    assert_eq!(found["hidden"], 0, "{found}");
}

/// Charts outside of the window are drawn later, so that a long page opens at once.
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

/// Uses the Gantt chart and the table as a reader would.
const READER: &str = r#"
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
  const column = (index) => [...document.querySelectorAll('.runs tbody tr')].map((r) => r.cells[index].textContent);
  document.querySelectorAll('.runs th button')[1].click();
  found.fps = column(1).join(' ');
  document.querySelectorAll('.runs th button')[0].click();
  found.policies = column(0).join(' ');
  await fetch('http://127.0.0.1:9/').then(() => { found.network = 'open'; }, () => { found.network = 'shut'; });
"#;

#[test]
fn browser_reacts_to_its_reader() {
    let report = support::report(2, 3_000);
    let Some(found) = support::ask(&report, READER, WIDE) else {
        return;
    };
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

/// Reads every chart of a report of both engines by its heading: what is drawn, and the description under the pointer.
const CHARTS: &str = r#"
  const plots = {};
  for (const box of document.querySelectorAll('[data-plot]')) {
    const chart = echarts.getInstanceByDom(box);
    const canvas = box.querySelector('canvas');
    const rects = chart.getZr().storage.getDisplayList().filter((e) => e.type === 'rect' && !e.silent && e.shape.width > 0);
    const hover = (x, y) => {
      const at = box.getBoundingClientRect();
      canvas.dispatchEvent(new MouseEvent('mousemove', { bubbles: true, clientX: at.left + x, clientY: at.top + y }));
      const tip = document.getElementById('tip');
      return tip.hidden ? 'nothing' : tip.textContent;
    };
    const option = chart.getOption();
    const first = option.series[0];
    let tip;
    if (first.type === 'bar') {
      const end = chart.convertToPixel({ seriesIndex: 0 }, [first.data[0].value, 0]);
      tip = hover(end[0] - 3, end[1] - (first.stack ? 0 : 6));
    } else tip = hover(...chart.convertToPixel({ seriesIndex: 0 }, [7, 1]));
    plots[box.getAttribute('aria-label')] = { drawn: box.dataset.drawn, rects: rects.length, tip,
      axis: (first.type === 'bar' ? option.xAxis[0] : option.yAxis[0]).name,
      legend: box.parentNode.querySelector('.legend')?.textContent };
  }
  found.plots = plots;
"#;

#[test]
fn browser_draws_what_a_simulator_counts() {
    let report = support::both_engines(4, 2_000);
    let Some(found) = ask(&report, CHARTS, WIDE) else {
        return;
    };
    let plots = found["plots"].as_object().unwrap();
    let sim = "simulated, toshiba-8, 4 cores";
    let check = |title: &str, drawn: &str, rects: u64, tip: &[&str]| {
        let plot = plots
            .get(title)
            .unwrap_or_else(|| panic!("no chart `{title}` among {:?}", plots.keys()));
        assert_eq!(
            (&plot["drawn"], &plot["rects"]),
            (&json!(drawn), &json!(rects)),
            "{title}"
        );
        assert!(
            plot["axis"].as_str().is_some_and(|axis| !axis.is_empty()),
            "{title} has an axis"
        );
        let text = plot["tip"].as_str().unwrap();
        for part in tip {
            assert!(text.contains(part), "{title}: `{text}` lacks `{part}`");
        }
    };
    let fcfs = report
        .runs
        .iter()
        .find(|run| run.cycles.is_some())
        .expect("there is a simulated run");
    check(
        "native, Example CPU, 4 workers: frames a second",
        "3",
        3,
        &["fcfs\n100 frames", "×1.00"],
    );
    check(
        "Speed relative to fcfs",
        "3",
        6,
        &["native, Example CPU, 4 workers: ×1.00"],
    );
    let limits = fcfs.limits.expect("it has limits");
    let chain = format!(
        "longest chain: {} cycles",
        thousands(limits.critical_path.round() as u64)
    );
    check(
        &format!("{sim}: time"),
        "3",
        6,
        &["fcfs\nthe bound: ", "1.31 × bound", &chain],
    );
    check(
        &format!("{sim}: mean of the cores"),
        "3",
        21,
        &["fcfs\ncompute: ", "cycles (", "in all "],
    );
    let cores = report.runs.iter().flat_map(|run| &run.stalls);
    let parts = cores
        .flat_map(|core| core.parts())
        .filter(|&part| part > 0)
        .count() as u64;
    let core = format!(
        "fcfs, core 0\ncompute: {} cycles",
        thousands(fcfs.stalls[0].compute)
    );
    check(&format!("{sim}: each core"), "14", parts, &[&core]);
    let l2 = &fcfs.caches[2];
    let residual = format!("luma residual: {} misses", thousands(l2.by_name[0].misses));
    // Eight stages, and the line across each row.
    let least = format!(
        "no order avoids these: {} misses",
        thousands(l2.unavoidable.unwrap())
    );
    check(
        &format!("{sim}: L2 (128 KB)"),
        "3",
        27,
        &["fcfs\n", &residual, &least, "% miss"],
    );
    let title = format!("{sim}: reads and writes");
    check(
        &title,
        "3",
        0,
        &["8 KB\nfcfs: ", "ts: ", "a cache of 8 KB misses"],
    );
    assert_eq!(plots.len(), 10, "{:?}", plots.keys());
    assert!(
        plots[&title]["legend"].as_str() == Some("fcfslcfsts"),
        "lines have a legend"
    );
}

/// Moves through the charts of threads with keys only, and looks at one line alone.
const KEYS: &str = r#"
  const tip = document.getElementById('tip');
  const press = (box, key) => {
    box.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
    return tip.hidden ? 'nothing' : tip.textContent;
  };
  const box = (title) => document.querySelector(`[data-plot][aria-label$="${title}"]`);
  found.focus = document.querySelectorAll('[data-plot][tabindex="0"]').length;
  const width = box('width');
  found.begin = press(width, 'Home');
  for (let i = 0; i < 4; i++) press(width, 'ArrowRight');
  found.decision = press(width, 'ArrowRight');
  found.end = press(width, 'End');
  found.gone = press(width, 'Escape');
  const heat = box('4 hardware threads: fifo');
  press(heat, 'Home');
  press(heat, 'ArrowDown');
  found.cell = press(heat, 'ArrowRight');
  found.rows = heat.dataset.drawn;
  const button = width.closest('figure').querySelectorAll('.legend button')[1];
  button.click();
  const [first, second] = echarts.getInstanceByDom(width).getOption().series;
  found.faint = first.lineStyle.opacity < second.lineStyle.opacity && button.getAttribute('aria-pressed') === 'true';
  const waits = [...document.querySelectorAll('table.runs')].at(-1);
  found.waits = waits.tBodies[0].textContent;
  found.tables = document.querySelectorAll('table.runs').length;
"#;

#[test]
fn browser_shows_threads_to_readers_without_a_pointer() {
    let Some(found) = ask(&support::threads(), KEYS, WIDE) else {
        return;
    };
    // IPC, L1D misses, width, and two pictures of stacks.
    assert_eq!(found["focus"], 5, "{found}");
    assert_eq!(found["begin"], "0\nfifo: 4\nrs-ss: 4");
    assert_eq!(
        found["decision"],
        "10 k\nfifo: 4\nrs-ss: 2\n10,000: 2, by-number: degraded: miss rate 0.0400"
    );
    assert_eq!(found["end"], "62 k\nfifo: 4", "the other run has ended");
    assert_eq!(found["gone"], "nothing");
    assert_eq!(found["cell"], "thread 1, 2000\n4 accesses");
    assert_eq!(
        (&found["rows"], &found["faint"]),
        (&json!("12"), &json!(true))
    );
    let waits = found["waits"].as_str().unwrap().trim();
    assert!(waits.starts_with("barrier 549,0005,999"), "{waits}");
    assert_eq!(found["tables"], 4, "comparison, decisions, waits of both");
}

#[test]
fn browser_shows_threads_on_a_phone_in_the_dark() {
    for arguments in [
        &["--window-size=1200,9000"],
        &["--blink-settings=preferredColorScheme=0"],
    ] {
        let visit = Visit {
            arguments,
            frame: Some(390),
            ..WIDE
        };
        let script = LOOKS.replace("PRINT", "true");
        let Some(found) = ask(&support::threads(), &script, visit) else {
            return;
        };
        assert!(found["scroll"].as_u64().unwrap() <= 390, "{found}");
        all_show_something(&found);
    }
}

fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap())
        .collect();
    groups.join(",")
}

/// Measures what is on each canvas: a coarse number of colours, and whether anything extends beyond the page to the right.
const LOOKS: &str = r#"
  found.width = innerWidth;
  found.scroll = document.documentElement.scrollWidth;
  found.dark = matchMedia('(prefers-color-scheme: dark)').matches;
  found.ground = getComputedStyle(document.body).backgroundColor;
  found.unfinished = 0;
  if (PRINT) {
    dispatchEvent(new Event('beforeprint'));
    for (const box of document.querySelectorAll('.chart')) {
      const canvas = box.querySelector('canvas');
      const before = canvas.toDataURL();
      const chart = echarts.getInstanceByDom(box);
      chart.getZr().refreshImmediately();
      found.unfinished += before !== canvas.toDataURL();
    }
  }
  found.colours = [];
  found.widths = [];
  for (const box of document.querySelectorAll('.chart')) {
    const canvas = box.querySelector('canvas');
    if (!canvas) continue;
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const seen = new Set();
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] > 200) seen.add((data[i] >> 5) << 6 | (data[i + 1] >> 5) << 3 | data[i + 2] >> 5);
    }
    found.colours.push(seen.size);
    found.widths.push(canvas.clientWidth);
  }
  found.charts = document.querySelectorAll('.chart').length;
"#;

fn looks(visit: Visit<'_>, print: bool) -> Option<Value> {
    let script = LOOKS.replace("PRINT", if print { "true" } else { "false" });
    ask(&support::both_engines(4, 1_000), &script, visit)
}

/// Checks that no canvas is blank and that each has several colours: text, axes and data.
fn all_show_something(found: &Value) {
    let colours = found["colours"].as_array().unwrap();
    assert_eq!(
        colours.len() as u64,
        found["charts"].as_u64().unwrap(),
        "all charts are drawn"
    );
    assert!(
        colours.iter().all(|count| count.as_u64().unwrap() > 3),
        "{colours:?}"
    );
}

#[test]
fn browser_shows_all_charts_light_and_dark() {
    let looks = |scheme: &str| {
        let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
        let arguments = &["--window-size=1200,9000", &scheme];
        looks(Visit { arguments, ..WIDE }, false)
    };
    let (Some(light), Some(dark)) = (looks("1"), looks("0")) else {
        return;
    };
    assert_eq!(
        (&light["dark"], &dark["dark"]),
        (&json!(false), &json!(true))
    );
    assert_ne!(light["ground"], dark["ground"]);
    all_show_something(&light);
    all_show_something(&dark);
}

#[test]
fn browser_fits_a_phone() {
    let Some(found) = looks(
        Visit {
            frame: Some(390),
            ..WIDE
        },
        false,
    ) else {
        return;
    };
    assert_eq!(found["width"], 390);
    assert!(found["scroll"].as_u64().unwrap() <= 390, "{found}");
    all_show_something(&found);
}

#[test]
fn browser_prints_charts_that_were_never_in_sight() {
    let Some(found) = looks(
        Visit {
            arguments: &["--window-size=1200,700"],
            ..WIDE
        },
        true,
    ) else {
        return;
    };
    all_show_something(&found);
    assert_eq!(
        found["unfinished"], 0,
        "nothing is left to the next frame, which is not printed"
    );
    let fits = |width: &Value| width.as_u64().unwrap() <= 700;
    assert!(
        found["widths"].as_array().unwrap().iter().all(fits),
        "{found}"
    );
}

#[test]
fn browser_downloads_the_trace_that_the_program_writes() {
    // The browser reads a blob outside of virtual time, so the test looks at the blob's parts instead.
    let script = "let file = null;
      window.Blob = class extends Blob { constructor(parts, about) { super(parts, about); file = [this, parts.join('')]; } };
      let given = null; URL.createObjectURL = (blob) => { given = blob; return 'data:,'; };
      document.getElementById('trace').click();
      found.trace = given === file[0] && given.size > 0 ? JSON.parse(file[1]) : null;";
    let report = support::both_engines(3, 400);
    let Some(found) = ask(&report, script, WIDE) else {
        return;
    };
    let sorted = |trace: &Value| {
        let events = trace["traceEvents"].as_array().unwrap().iter();
        let mut events: Vec<String> = events.map(rounded).collect();
        events.sort();
        events
    };
    let written: Value = serde_json::from_str(&to_perfetto(&report)).unwrap();
    assert!(
        sorted(&found["trace"]) == sorted(&written),
        "the traces differ"
    );
}

/// Returns an event of a Chrome trace with its times in whole thousandths: 1 and 1.000 become equal.
fn rounded(event: &Value) -> String {
    let mut event = event.clone();
    for key in ["ts", "dur"] {
        if let Some(value) = event.get(key).and_then(Value::as_f64) {
            event[key] = json!((value * 1e3).round() as u64);
        }
    }
    event.to_string()
}

/// A hundred thousand tasks: measures a redraw with all of them visible, and sixty steps of zooming in, each read back from the canvas. The
/// limit allows for a machine that does other things, too; the figures are printed.
#[test]
fn browser_zooms_a_hundred_thousand_tasks_fluidly() {
    let mut report = support::report(16, 10);
    report.timelines = vec![support::timeline("ts", 16, 100_000, true)];
    let script = "const box = document.querySelector('[data-gantt]');
      const chart = echarts.getInstanceByDom(box);
      const all = chart.getOption().xAxis[0].max;
      const times = [];
      for (let step = 0; step < 60; step++) {
        const before = performance.now();
        const share = 0.93 ** step;
        chart.dispatchAction({ type: 'dataZoom', startValue: all * 0.3 * (1 - share), endValue: all * (0.3 + 0.7 * share) });
        chart.getZr().flush();
        for (const canvas of box.querySelectorAll('canvas')) canvas.getContext('2d').getImageData(0, 0, 1, 1);
        times.push(performance.now() - before);
        if (step === 0) found.tasks = box.dataset.tasks;
      }
      found.whole = times.slice(0, 5).sort((a, b) => a - b)[2];
      found.median = times.sort((a, b) => a - b)[30];";
    let Some(found) = ask(
        &report,
        script,
        Visit {
            at_once: true,
            ..WIDE
        },
    ) else {
        return;
    };
    assert_eq!(found["tasks"], "100000");
    let milliseconds = |key: &str| found[key].as_f64().unwrap();
    let (whole, median) = (milliseconds("whole"), milliseconds("median"));
    eprintln!(
        "100,000 tasks in sight: {whole:.1} ms a frame; zooming in: {median:.1} ms, median of 60"
    );
    assert!(whole < 250.0 && median < 250.0, "{whole} ms, {median} ms");
}
