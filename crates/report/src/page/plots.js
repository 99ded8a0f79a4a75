
// ---- bars, lines and heat maps: what they show was decided when the page was made ------------------------------------------
const FORMATS = {
  count: (v) => grouped(Math.round(v)),
  decimal: (v) => trimmed(v),
  percent: (v) => (v === 0 ? '0' : trimmed(v, 3)) + '%',
  ratio: (v) => '×' + v.toFixed(2),
};
// Ticks of an axis: short, since many stand side by side.
function tick(v, format) {
  if (format === 'percent') return trimmed(v, 3) + '%';
  if (v >= 1e9) return trimmed(v / 1e9, 3) + ' G';
  if (v >= 1e6) return trimmed(v / 1e6, 3) + ' M';
  if (v >= 1e4) return trimmed(v / 1e3, 3) + ' k';
  return trimmed(v);
}
// A colour is a number, or one of the page's own, which differ by light and dark.
const colour = (name, c) => (name.startsWith('#') ? name : c[name]);

// Height of one row of bars, by how many there are.
function rowHeight({ rows, parts, stacked }) {
  const fair = rows.length > 60 ? 9 : rows.length > 14 ? 17 : 28;
  return stacked ? fair : Math.max(fair, 13 * parts.length + 10);
}
function barsHover(spec, p) {
  const row = spec.rows[p.dataIndex];
  const part = spec.parts[p.seriesIndex];
  const write = (v) => FORMATS[spec.format](v) + (spec.format === 'ratio' ? '' : ' ' + spec.axis);
  const value = row.values[p.seriesIndex];
  const lines = [row.label];
  const sum = row.values.reduce((a, b) => a + b, 0);
  const several = spec.stacked && spec.parts.length > 1;
  lines.push((spec.parts.length > 1 ? part.label + ': ' : '') + write(value) +
    (several && sum > 0 ? ' (' + trimmed((100 * value) / sum, 3) + '%)' : ''));
  if (several) lines.push('in all ' + write(sum) + (row.note ? ', ' + row.note : ''));
  else if (row.note) lines.push(row.note);
  if (row.mark !== null) lines.push(spec.mark + ': ' + write(row.mark));
  if (row.more) lines.push(row.more);
  return lines.join('\n');
}
function barsOption(g, c) {
  const spec = g.spec;
  const narrow = g.box.clientWidth < 560;
  const last = spec.parts.length - 1;
  const notes = spec.rows.some((row) => row.note) || spec.parts.length === 1;
  const series = spec.parts.map((part, index) => ({
    type: 'bar', stack: spec.stacked ? 'row' : undefined, name: part.label, barWidth: spec.stacked ? '70%' : undefined,
    barGap: '10%', barCategoryGap: '24%', emphasis: { disabled: true },
    itemStyle: { color: colour(part.colour, c), borderColor: c.ground, borderWidth: spec.stacked && last > 0 ? 0.5 : 0 },
    data: spec.rows.map((row) => ({
      value: row.values[index], itemStyle: row.best ? { color: c.best } : undefined,
    })),
    label: spec.stacked && index < last ? undefined : {
      show: true, position: 'right', color: c.ink, fontSize: spec.stacked ? 12 : 10,
      formatter: (p) => {
        const row = spec.rows[p.dataIndex];
        if (!spec.stacked) return row.values[index] === null ? '' : FORMATS[spec.format](row.values[index]);
        return (last === 0 ? FORMATS[spec.format](p.value) + '  ' : '') + row.note;
      },
    },
  }));
  if (spec.mark) {
    series.push({
      type: 'custom', silent: true, z: 5, encode: { x: 0, y: 1 },
      data: spec.rows.map((row, index) => [row.mark, index]).filter(([mark]) => mark !== null),
      renderItem(params, api) {
        const [x, y] = api.coord([api.value(0), api.value(1)]);
        const half = api.size([0, 1])[1] * 0.44;
        return { type: 'rect', shape: { x: x - 1.5, y: y - half, width: 3, height: 2 * half }, style: { fill: c.ink } };
      },
    });
  }
  return {
    animation: false,
    grid: { left: 4, right: notes ? (narrow ? 84 : 116) : 30, top: 4, bottom: 26, containLabel: true },
    xAxis: {
      type: 'value', min: 0, name: spec.axis, nameLocation: 'middle', nameGap: 26, splitNumber: narrow ? 3 : 6,
      nameTextStyle: { color: c.soft }, splitLine: { lineStyle: { color: c.line } },
      axisLabel: { color: c.soft, hideOverlap: true, formatter: (v) => tick(v, spec.format) },
    },
    yAxis: {
      type: 'category', inverse: true, data: spec.rows.map((row) => row.label), axisTick: { show: false },
      axisLine: { lineStyle: { color: c.line } },
      axisLabel: { color: c.ink, width: narrow ? 110 : 260, overflow: 'truncate', interval: 'auto' },
    },
    series,
  };
}

function linesHover(spec, index) {
  const lines = [spec.ticks[index]];
  for (const one of spec.series) {
    const value = one.values[index];
    const more = one.more[index];
    if (value === undefined) continue;
    lines.push(one.label + ': ' + FORMATS[spec.format](value) + (more && !more.startsWith('\n') ? ', ' : '') + more);
  }
  return lines.join('\n');
}
// The axis of ticks: names below the steps, and numbers to draw along, since only those know halves.
function ticksAxis(spec, c) {
  return [{
    type: 'category', data: spec.ticks, name: spec.along, nameLocation: 'middle', nameGap: 30, axisTick: { show: false },
    nameTextStyle: { color: c.soft }, axisLine: { lineStyle: { color: c.line } },
    axisLabel: { color: c.soft, hideOverlap: true },
  }, { type: 'value', min: -0.5, max: spec.ticks.length - 0.5, show: false }];
}
function linesOption(g, c) {
  const spec = g.spec;
  const narrow = g.box.clientWidth < 560;
  const smallest = Math.min(...spec.series.flatMap((one) => one.values.filter((v) => v > 0)));
  const values = spec.log ? { type: 'log', logBase: 10, min: 10 ** Math.floor(Math.log10(smallest)), max: 100 }
    : { type: 'value', min: 0 };
  return {
    animation: false,
    grid: { left: 8, right: narrow ? 16 : 30, top: 26, bottom: 30, containLabel: true },
    xAxis: ticksAxis(spec, c),
    yAxis: {
      ...values, name: spec.axis, nameLocation: 'end', nameTextStyle: { color: c.soft, align: 'left' },
      splitLine: { lineStyle: { color: c.line } }, axisLine: { show: false }, axisTick: { show: false },
      axisLabel: { color: c.soft, formatter: (v) => tick(v, spec.format) },
    },
    series: spec.series.map((one, index) => ({
      type: 'line', xAxisIndex: 1, step: 'middle', name: one.label, symbol: 'none', emphasis: { disabled: true }, silent: true,
      z: g.alone === index ? 3 : 2,
      lineStyle: { color: one.colour, width: 2, type: one.dash, opacity: g.alone >= 0 && g.alone !== index ? 0.15 : 1 },
      itemStyle: { color: one.colour },
      // Half a step more at both ends, so that the first and the last are as wide as the others.
      data: [[-0.5, one.values[0]], ...one.values.map((v, i) => [i, v]), [one.values.length - 0.5, one.values.at(-1)]]
        .map(([x, v]) => [x, v > 0 || !spec.log ? v : null]),
      markLine: index > 0 || !spec.marks.length ? undefined : {
        silent: true, symbol: 'none', lineStyle: { color: c.ink, type: 'solid', width: 1 },
        label: { color: c.ink, formatter: '{b}' },
        data: spec.marks.map(([at, name]) => ({ xAxis: at + 0.5, name })),
      },
    })),
  };
}

// A strip of pixels a row, in which each interval has its shade.
function shade(spec, value) {
  let strength = 0;
  for (const [least, next] of spec.shades) if (value >= least) strength = next;
  return strength;
}
function heatHover(spec, index, row) {
  const value = spec.rows[row].values[index];
  return 'thread ' + spec.rows[row].label + ', ' + spec.ticks[index] + '\n' +
    (value === undefined ? 'the run has ended' : FORMATS[spec.format](value) + ' ' + spec.axis);
}
function heatOption(g, c) {
  const spec = g.spec;
  function renderItem(params, api) {
    const row = api.value(1);
    const area = params.coordSys;
    const height = Math.max(Math.abs(api.size([0, 1])[1]) - (spec.rows.length > 100 ? 0 : 0.5), 1);
    const y = api.coord([0, row])[1] - height / 2;
    const canvas = document.createElement('canvas');
    canvas.width = Math.max(Math.round(area.width * (devicePixelRatio || 1)), 1);
    canvas.height = 1;
    const context = canvas.getContext('2d');
    context.fillStyle = c.best;
    const width = canvas.width / spec.ticks.length;
    spec.rows[row].values.forEach((value, index) => {
      context.globalAlpha = shade(spec, value);
      const left = Math.round(index * width);
      context.fillRect(left, 0, Math.max(Math.round((index + 1) * width) - left, 1), 1);
    });
    return {
      type: 'group',
      children: [
        { type: 'rect', shape: { x: area.x, y, width: area.width, height }, style: { fill: c.row } },
        { type: 'image', style: { image: canvas, x: area.x, y, width: area.width, height } },
      ],
    };
  }
  return {
    animation: false,
    grid: { left: 24, right: 14, top: 4, bottom: 30, containLabel: true },
    xAxis: ticksAxis(spec, c),
    yAxis: {
      type: 'category', inverse: true, data: spec.rows.map((row) => row.label), axisTick: { show: false }, axisLine: { show: false },
      name: 'thread', nameLocation: 'middle', nameRotate: 90, nameGap: 30, nameTextStyle: { color: c.soft },
      axisLabel: { color: c.soft, hideOverlap: true },
    },
    series: [{
      type: 'custom', renderItem, silent: true, clip: true, xAxisIndex: 1,
      data: spec.rows.map((_, row) => [0, row]), encode: { x: 0, y: 1 },
    }],
  };
}

// A series alone, the others faint: lines of many steps lie over each other.
function followLegend(g) {
  const buttons = [...g.box.closest('figure').querySelectorAll('.legend button')];
  g.alone = -1;
  buttons.forEach((button, index) => button.addEventListener('click', () => {
    g.alone = g.alone === index ? -1 : index;
    buttons.forEach((one, i) => one.setAttribute('aria-pressed', String(i === g.alone)));
    drawPlot(g);
  }));
}
// Shows the description of step `index` (and row `row`) of a chart along an axis of steps.
function describeAt(g, index, row, x, y) {
  const text = g.kind === 'heat' ? heatHover(g.spec, index, row) : linesHover(g.spec, index);
  showTip(g.box, x, y, text);
}
function followPointer(g) {
  const seen = (event) => {
    const at = [event.offsetX, event.offsetY];
    if (!g.chart.containPixel('grid', at)) {
      tip.hidden = true;
      return;
    }
    const [x, row] = g.chart.convertFromPixel({ xAxisIndex: 1, yAxisIndex: 0 }, at);
    const index = Math.min(Math.max(Math.round(x), 0), g.spec.ticks.length - 1);
    describeAt(g, index, row, at[0], at[1]);
  };
  g.chart.getZr().on('mousemove', seen);
  g.chart.getZr().on('click', seen);
}
// The arrow keys move from step to step, of a heat map also from row to row; Page up and down by a tenth, Home and End to the ends.
function followKeys(g) {
  let [index, row] = [-1, 0];
  g.box.addEventListener('keydown', (event) => {
    const last = g.spec.ticks.length - 1;
    const far = Math.ceil(last / 10);
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -far, PageDown: far, Home: -last - 1, End: last + 1 };
    const rows = g.kind === 'heat' ? { ArrowUp: -1, ArrowDown: 1 } : {};
    if (event.key === 'Escape') tip.hidden = true;
    if (!(event.key in steps || event.key in rows) || !g.chart) return;
    event.preventDefault();
    index = Math.min(Math.max(index + (steps[event.key] || 0), 0), last);
    if (g.kind === 'heat') row = Math.min(Math.max(row + (rows[event.key] || 0), 0), g.spec.rows.length - 1);
    const value = g.kind === 'heat' ? row : g.spec.series[0].values[index] || 0;
    const [x, y] = g.chart.convertToPixel({ xAxisIndex: 1, yAxisIndex: 0 }, [index, value]);
    describeAt(g, index, row, x, y);
  });
  g.box.addEventListener('blur', () => { tip.hidden = true; });
}

const OPTIONS = { bars: barsOption, lines: linesOption, heat: heatOption };
function plotHeight(g) {
  if (g.kind === 'bars') return 58 + g.spec.rows.length * rowHeight(g.spec);
  if (g.kind === 'lines') return g.spec.log ? 320 : 240;
  return 64 + g.spec.rows.length * (g.spec.rows.length > 100 ? 3 : 6);
}
function drawPlot(g) {
  g.box.style.height = plotHeight(g) + 'px';
  if (!g.chart) {
    g.chart = echarts.init(g.box, null, { renderer: 'canvas' });
    g.chart.getZr().on('globalout', () => { tip.hidden = true; });
    if (g.kind === 'bars') {
      const seen = (p) => {
        if (p.componentType === 'series') showTip(g.box, p.event.offsetX, p.event.offsetY, barsHover(g.spec, p));
      };
      g.chart.on('mousemove', seen);
      g.chart.on('click', seen);
      g.chart.on('mouseout', () => { tip.hidden = true; });
    } else {
      followPointer(g);
      followKeys(g);
      followLegend(g);
    }
  } else g.chart.resize();
  g.chart.setOption(OPTIONS[g.kind](g, theme()), { replaceMerge: ['series'] });
  g.box.dataset.drawn = (g.spec.rows || g.spec.series).length;
}
