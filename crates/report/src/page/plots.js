
// ---- bars and lines: what they show was decided when the page was made ------------------------------------------
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
    lines.push(one.label + ': ' + FORMATS[spec.format](one.values[index]) + ', ' + one.more[index]);
  }
  return lines.join('\n');
}
function linesOption(g, c) {
  const spec = g.spec;
  const narrow = g.box.clientWidth < 560;
  const smallest = Math.min(...spec.series.flatMap((one) => one.values.filter((v) => v > 0)));
  const end = spec.ticks.length - 1;
  return {
    animation: false,
    grid: { left: 8, right: narrow ? 16 : 30, top: 26, bottom: 30, containLabel: true },
    // Names below the steps, and numbers to draw along: only the latter know halves.
    xAxis: [{
      type: 'category', data: spec.ticks, name: spec.along, nameLocation: 'middle', nameGap: 30, axisTick: { show: false },
      nameTextStyle: { color: c.soft }, axisLine: { lineStyle: { color: c.line } },
      axisLabel: { color: c.soft, hideOverlap: true },
    }, { type: 'value', min: -0.5, max: end + 0.5, show: false }],
    yAxis: {
      type: 'log', logBase: 10, min: 10 ** Math.floor(Math.log10(smallest)), max: 100, name: spec.axis,
      nameLocation: 'end', nameTextStyle: { color: c.soft, align: 'center' },
      splitLine: { lineStyle: { color: c.line } }, axisLine: { show: false }, axisTick: { show: false },
      axisLabel: { color: c.soft, formatter: (v) => tick(v, spec.format) },
    },
    series: spec.series.map((one, index) => ({
      type: 'line', xAxisIndex: 1, step: 'middle', name: one.label, symbol: 'none', emphasis: { disabled: true }, silent: true,
      lineStyle: { color: one.colour, width: 2, type: one.dash },
      itemStyle: { color: one.colour },
      // Half a step more at both ends, so that the first and the last are as wide as the others.
      data: [[-0.5, one.values[0]], ...one.values.map((v, i) => [i, v]), [end + 0.5, one.values[end]]]
        .map(([x, v]) => [x, v > 0 ? v : null]),
      markLine: index > 0 || !spec.marks.length ? undefined : {
        silent: true, symbol: 'none', lineStyle: { color: c.ink, type: 'solid', width: 1 },
        label: { color: c.ink, formatter: '{b}' },
        data: spec.marks.map(([at, name]) => ({ xAxis: at + 0.5, name })),
      },
    })),
  };
}

function drawPlot(g) {
  const c = theme();
  const bars = g.spec.rows;
  g.box.style.height = (bars ? 58 + bars.length * rowHeight(g.spec) : 320) + 'px';
  if (!g.chart) {
    g.chart = echarts.init(g.box, null, { renderer: 'canvas' });
    const canvas = g.chart.getZr();
    canvas.on('globalout', () => { tip.hidden = true; });
    if (bars) {
      const seen = (p) => {
        if (p.componentType === 'series') showTip(g.box, p.event.offsetX, p.event.offsetY, barsHover(g.spec, p));
      };
      g.chart.on('mousemove', seen);
      g.chart.on('click', seen);
      g.chart.on('mouseout', () => { tip.hidden = true; });
    } else {
      const seen = (event) => {
        const at = [event.offsetX, event.offsetY];
        const index = g.chart.containPixel('grid', at)
          ? Math.round(g.chart.convertFromPixel({ seriesIndex: 0 }, at)[0]) : -1;
        if (g.spec.ticks[index] === undefined) tip.hidden = true;
        else showTip(g.box, at[0], at[1], linesHover(g.spec, index));
      };
      canvas.on('mousemove', seen);
      canvas.on('click', seen);
    }
  } else g.chart.resize();
  g.chart.setOption(bars ? barsOption(g, c) : linesOption(g, c), { replaceMerge: ['series'] });
  g.box.dataset.drawn = bars ? bars.length : g.spec.series.length;
}
