
// ---- timelines ----------------------------------------------------------------------------------------------
// Columns become typed arrays; `first[w]` to `first[w + 1]` are the tasks of worker w in order of start, and
// `reach[i]` is the latest end up to task i of that worker, so that a search can stop when tasks enclose others.
for (const t of data.timelines) {
  t.workers = t.counts.length;
  t.first = [0];
  for (const n of t.counts) t.first.push(t.first[t.first.length - 1] + n);
  const n = t.task.length;
  t.begin = new Float64Array(n);
  t.end = new Float64Array(n);
  t.reach = new Float64Array(n);
  for (let w = 0; w < t.workers; w++) {
    let now = 0;
    let reach = 0;
    for (let i = t.first[w]; i < t.first[w + 1]; i++) {
      now += t.start[i];
      t.begin[i] = now;
      t.end[i] = now + t.length[i];
      reach = Math.max(reach, t.end[i]);
      t.reach[i] = reach;
    }
  }
  t.classes = t.classes.map((c) => (data.modes.some((m) => m.classes.length > 65535) ? c : Uint16Array.from(c)));
  t.start = t.length = null;
}
// The first index in [low, high) for which `column` is above `value`.
function above(column, value, low, high) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
// The task of worker w at time x, or the nearest within `slack`; -1 if there is none.
function taskAt(t, w, x, slack) {
  const low = t.first[w];
  let best = -1;
  let bestGap = slack;
  for (let i = above(t.begin, x + slack, low, t.first[w + 1]) - 1; i >= low; i--) {
    const gap = Math.max(t.begin[i] - x, x - t.end[i], 0);
    if (gap === 0) return i;
    if (gap <= bestGap) [best, bestGap] = [i, gap];
    if (t.reach[i] < x - slack) break;
  }
  return best;
}

// One row of a chart as a strip of `width` pixels, one high. Each pixel adds up the colours of the tasks in it by
// the share of the pixel that they cover: an exact average, whatever the zoom. Returns the number of tasks in it.
function strip(t, w, from, to, canvas) {
  const width = canvas.width;
  const scale = width / (to - from);
  const sum = new Float32Array(width * 4);
  const classes = t.classes[mode];
  const rgb = data.modes[mode].rgb;
  const stop = above(t.begin, to, t.first[w], t.first[w + 1]);
  let count = 0;
  for (let i = above(t.reach, from, t.first[w], stop); i < stop; i++) {
    const a = Math.max((t.begin[i] - from) * scale, 0);
    let b = Math.min((t.end[i] - from) * scale, width);
    if (b < a) continue;
    count++;
    if (b - a > 5) b -= 1; // a seam, if there is room, that separates like tasks
    const strength = alone < 0 || classes[i] === alone ? 1 : 0.12;
    const [red, green, blue] = rgb[classes[i]];
    const last = Math.min(Math.floor(b), width - 1);
    for (let x = Math.floor(a); x <= last; x++) {
      const share = (Math.min(b, x + 1) - Math.max(a, x)) * strength;
      sum[4 * x] += red * share;
      sum[4 * x + 1] += green * share;
      sum[4 * x + 2] += blue * share;
      sum[4 * x + 3] += share;
    }
  }
  const context = canvas.getContext('2d');
  const image = context.createImageData(width, 1);
  for (let x = 0; x < width; x++) {
    const cover = sum[4 * x + 3];
    if (cover === 0) continue;
    for (let c = 0; c < 3; c++) image.data[4 * x + c] = Math.round(sum[4 * x + c] / cover);
    image.data[4 * x + 3] = Math.round(255 * Math.min(cover, 1));
  }
  context.putImageData(image, 0, 0);
  return count;
}

// ---- Gantt charts -------------------------------------------------------------------------------------------
const longest = {};
for (const t of data.timelines) longest[t.unit] = Math.max(longest[t.unit] || 0, t.span, 1);
const charts = [];

function limit(t) {
  return sameScale ? longest[t.unit] : Math.max(t.span, 1);
}
function ganttOption(g) {
  const c = theme();
  const t = g.t;
  const narrow = g.box.clientWidth < 560;
  g.drawn = new Array(t.workers).fill(0);
  function renderItem(params, api) {
    const w = api.value(1);
    const area = params.coordSys;
    const low = api.coord([0, w]);
    const scale = (api.coord([limit(t), w])[0] - low[0]) / limit(t);
    const from = (area.x - low[0]) / scale;
    const to = from + area.width / scale;
    const band = Math.abs(api.size([0, 1])[1]);
    const height = Math.max(band * (band > 12 ? 0.8 : 0.9), 1);
    const canvas = document.createElement('canvas');
    canvas.width = Math.max(Math.round(area.width * (devicePixelRatio || 1)), 1);
    canvas.height = 1;
    g.drawn[w] = strip(t, w, from, to, canvas);
    g.box.dataset.tasks = g.drawn.reduce((a, b) => a + b, 0);
    const y = low[1] - height / 2;
    return {
      type: 'group',
      children: [
        { type: 'rect', shape: { x: area.x, y, width: area.width, height }, style: { fill: c.row } },
        { type: 'image', style: { image: canvas, x: area.x, y, width: area.width, height } },
      ],
    };
  }
  const step = Math.ceil(t.workers / (g.box.clientHeight / 14));
  return {
    animation: false,
    grid: { left: narrow ? 26 : 70, right: 14, top: 6, bottom: 62 },
    xAxis: {
      type: 'value', min: 0, max: limit(t), splitNumber: narrow ? 3 : 8,
      axisLabel: {
        color: c.soft, hideOverlap: true, showMaxLabel: false,
        formatter: (v) => time(v, t.unit, 9),
      },
      axisLine: { show: true, lineStyle: { color: c.line } }, splitLine: { show: false },
    },
    yAxis: {
      type: 'category', inverse: true, data: t.counts.map((_, w) => (narrow ? String(w) : t.word + ' ' + w)),
      axisLabel: { color: c.soft, interval: Math.max(step - 1, 0) }, axisTick: { show: false },
      axisLine: { show: false },
    },
    dataZoom: [
      {
        type: 'inside', filterMode: 'none', zoomOnMouseWheel: 'ctrl', moveOnMouseWheel: false,
        moveOnMouseMove: coarse ? 'shift' : true, preventDefaultMouseMove: !coarse,
        minValueSpan: Math.min(100, limit(t)),
      },
      {
        type: 'slider', show: !printing, filterMode: 'none', height: 20, bottom: 8, showDataShadow: false, brushSelect: false,
        labelFormatter: '', minValueSpan: Math.min(100, limit(t)), borderColor: c.line,
        fillerColor: 'rgba(10,140,150,0.18)', handleStyle: { color: c.row, borderColor: c.soft },
        moveHandleStyle: { color: c.soft, opacity: 0.5 },
      },
    ],
    series: [{
      type: 'custom', renderItem, silent: true, clip: true,
      data: t.counts.map((_, w) => [0, w]), encode: { x: 0, y: 1 },
    }],
  };
}
// What is in sight: [from, to].
function view(g) {
  const zoom = g.chart.getOption().dataZoom[0];
  return [zoom.start, zoom.end].map((percent) => (percent / 100) * limit(g.t));
}
function setView(g, from, to) {
  const span = Math.min(to - from, limit(g.t));
  const start = Math.min(Math.max(from, 0), limit(g.t) - span); // at an end of the time it stops, and keeps its width
  g.chart.dispatchAction({ type: 'dataZoom', startValue: start, endValue: start + span });
}
function describe(g, i) {
  const t = g.t;
  const name = (m) => data.modes[m].classes[t.classes[m][i]].label;
  const w = above(t.first, i, 0, t.first.length) - 1;
  return name(2) + '\ntask ' + grouped(t.task[i]) + ', ' + name(1) + ' ' + name(0) + ', ' + t.word + ' ' + w +
    '\n' + time(t.end[i] - t.begin[i], t.unit) + ', from ' + time(t.begin[i], t.unit) + '\n' + origin(t.origin[i], t.word);
}
function point(g, event) {
  const at = [event.offsetX, event.offsetY];
  tip.hidden = true;
  if (!g.chart.containPixel('grid', at)) return;
  const [x, w] = g.chart.convertFromPixel('grid', at);
  const [x2] = g.chart.convertFromPixel('grid', [at[0] + 1.5, at[1]]);
  const i = taskAt(g.t, w, x, x2 - x);
  if (i < 0) return;
  showTip(g.box, at[0], at[1], describe(g, i));
}
function legend(g) {
  const box = g.figure.querySelector('.legend');
  const used = [...new Set(g.t.classes[mode])].sort((a, b) => a - b);
  const shown = used.slice(0, 200); // thousands of buttons would bury the page
  box.replaceChildren();
  for (const index of shown) {
    const c = data.modes[mode].classes[index];
    const button = document.createElement('button');
    const swatch = document.createElement('i');
    swatch.style.background = c.colour;
    button.append(swatch, c.label);
    button.setAttribute('aria-pressed', String(alone === index));
    button.addEventListener('click', () => {
      alone = alone === index ? -1 : index;
      redraw();
    });
    box.append(button);
  }
  if (used.length > shown.length) {
    box.append('and ' + grouped(used.length - shown.length) + ' more; point at a task for its own');
  }
}
function facts(g) {
  const t = g.t;
  let busy = 0;
  for (let i = 0; i < t.task.length; i++) busy += t.end[i] - t.begin[i];
  const share = t.span > 0 ? ', ' + trimmed((100 * busy) / (t.span * t.workers)) + '% busy' : '';
  return grouped(t.task.length) + ' tasks in ' + time(t.span, t.unit) + share;
}
function drawGantt(g) {
  if (!g.chart) {
    g.chart = echarts.init(g.box, null, { renderer: 'canvas' });
    const canvas = g.chart.getZr();
    canvas.on('mousemove', (event) => point(g, event));
    canvas.on('click', (event) => point(g, event));
    canvas.on('globalout', () => { tip.hidden = true; });
    g.figure.querySelector('.facts').textContent = facts(g);
    for (const button of g.figure.querySelectorAll('[data-zoom]')) {
      button.addEventListener('click', () => {
        const [from, to] = view(g);
        const by = { in: 0.25, out: -0.5, all: -Infinity }[button.dataset.zoom] * (to - from);
        setView(g, from + by, to - by);
      });
    }
  }
  g.chart.setOption(ganttOption(g), { replaceMerge: ['series'] });
  legend(g);
  g.box.dataset.mode = data.modes[mode].label;
}

// ---- the same as a Chrome trace, which Perfetto opens -------------------------------------------------------------
// Pieces of text, a chart each: one string of all would be too long for some browsers. As `to_perfetto` of the program:
// a process a chart, a lane a worker; times are microseconds, of a simulated run one cycle is shown as one.
function chromeTrace() {
  const pieces = [];
  data.timelines.forEach((t, pid) => {
    const cycles = t.unit === 'cycles';
    const meta = (name, args, tid) => ({ ph: 'M', pid, tid, name, args });
    const list = [meta('process_name', { name: t.label + (cycles ? ' (1 us = 1 cycle)' : '') }),
      meta('process_sort_index', { sort_index: pid })];
    for (let w = 0; w < t.workers; w++) {
      list.push(meta('thread_name', { name: t.word + ' ' + w }, w), meta('thread_sort_index', { sort_index: w }, w));
      for (let i = t.first[w]; i < t.first[w + 1]; i++) {
        const name = (m) => data.modes[m].classes[t.classes[m][i]].label;
        const code = t.origin[i];
        const kind = ['handed', 'own', 'pool', 'mailbox'][code] || 'stolen';
        const args = { task: t.task[i], T: Number(name(1).slice(1)), S: Number(name(0).slice(1)), origin: kind };
        if (code > 3) args.victim = code - 4;
        const scale = cycles ? 1 : 1e3;
        list.push({ ph: 'X', pid, tid: w, name: name(2), cat: kind, ts: (t.from + t.begin[i]) / scale,
          dur: (t.end[i] - t.begin[i]) / scale, args });
      }
    }
    pieces.push((pid ? ',\n' : '') + list.map((e) => JSON.stringify(e)).join(',\n'));
  });
  return ['{"displayTimeUnit":"ns","traceEvents":[\n', ...pieces, '\n]}'];
}
