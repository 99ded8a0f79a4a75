
// ---- when to draw -----------------------------------------------------------------------------------------------
// Browsers keep a reader's choices over a reload.
mode = Number(document.querySelector('input[name=by]:checked')?.value || 0);
sameScale = document.getElementById('same')?.checked ?? true;
for (const box of document.querySelectorAll('[data-gantt]')) {
  charts.push({ box, figure: box.closest('figure'), t: data.timelines[box.dataset.gantt], draw: drawGantt });
}
for (const box of document.querySelectorAll('[data-plot]')) {
  const plot = data.plots[box.dataset.plot];
  const kind = ['bars', 'lines', 'heat'].find((one) => one in plot);
  charts.push({ box, kind, spec: { ...plot, ...plot[kind] }, draw: drawPlot });
}
const PAPER = 680; // pixels of a sheet's width, A4 or letter, that charts are drawn for when the page is printed
function draw(g) {
  g.draw(g);
  if (printing) {
    g.chart.resize({ width: PAPER });
    g.chart.getZr().flush(); // the page is printed before the next frame
  }
  g.seen = true;
}
function redraw() {
  tip.hidden = true;
  for (const g of charts) {
    if (g.visible) draw(g);
    else g.seen = false;
  }
}
const MARGIN = 150; // pixels outside of the window that count as in sight
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const g = charts.find((one) => one.box === entry.target);
    g.visible = entry.isIntersecting;
    if (g.visible && !g.seen) draw(g);
  }
}, { rootMargin: MARGIN + 'px' });
for (const g of charts) {
  // What is in sight from the start does not wait for the observer, which a browser without a screen may never call.
  const { top, bottom } = g.box.getBoundingClientRect();
  g.visible = bottom > -MARGIN && top < innerHeight + MARGIN;
  if (g.visible) draw(g);
  watcher.observe(g.box);
}
let width = innerWidth;
addEventListener('resize', () => {
  if (innerWidth === width) return; // a phone's address bar came or went
  width = innerWidth;
  for (const g of charts) if (g.chart) g.chart.resize();
  redraw();
});
dark.addEventListener('change', redraw);
addEventListener('scroll', () => { tip.hidden = true; }, { passive: true });
addEventListener('beforeprint', () => {
  printing = true;
  for (const g of charts) draw(g);
});
addEventListener('afterprint', () => {
  printing = false;
  for (const g of charts) g.chart.resize();
  redraw();
});

// ---- switches and table -------------------------------------------------------------------------------------
for (const input of document.querySelectorAll('input[name=by]')) {
  input.addEventListener('change', () => {
    mode = Number(input.value);
    alone = -1;
    redraw();
  });
}
const same = document.getElementById('same');
if (same) {
  same.addEventListener('change', () => {
    sameScale = same.checked;
    for (const g of charts) if (g.t && g.chart) g.chart.dispatchAction({ type: 'dataZoom', start: 0, end: 100 });
    redraw();
  });
}
// The arrow keys pan and + and - zoom the chart that has the focus.
for (const g of charts.filter((one) => one.t)) {
  g.box.addEventListener('keydown', (event) => {
    const step = { ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], '+': [0.25, -0.25], '-': [-0.5, 0.5] }[event.key];
    if (!step || !g.chart) return;
    event.preventDefault();
    const [from, to] = view(g);
    setView(g, from + step[0] * (to - from), to + step[1] * (to - from));
  });
}
for (const th of document.querySelectorAll('.runs th')) {
  const table = th.closest('table');
  th.firstElementChild.addEventListener('click', () => {
    const falling = th.getAttribute('aria-sort') === 'descending' ||
      (!th.hasAttribute('aria-sort') && !th.classList.contains('number'));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', falling ? 'ascending' : 'descending');
    const value = (row) => {
      const cell = row.cells[th.cellIndex];
      return cell.dataset.sort === undefined ? cell.textContent : Number(cell.dataset.sort);
    };
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y));
      return falling ? order : -order;
    });
    table.tBodies[0].append(...rows);
  });
}
document.getElementById('trace')?.addEventListener('click', () => {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(chromeTrace(), { type: 'application/json' }));
  link.download = 'trace.json';
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
});
root.dataset.ready = 'yes';
