// Draws the charts of one report. The data stand in the page as JSON; Apache ECharts draws axes, zoom and bars.
const root = document.documentElement;
const data = JSON.parse(document.getElementById('data').textContent);
const tip = document.getElementById('tip');
const dark = matchMedia('(prefers-color-scheme: dark)');
const coarse = matchMedia('(pointer: coarse)').matches;
let printing = false;
let mode = 0; // index into data.modes: what the Gantt charts are coloured by
let alone = -1; // class that is shown alone, or -1
let sameScale = true;

// ---- numbers for people -------------------------------------------------------------------------------------
const grouped = (n) => n.toLocaleString('en-US');
const trimmed = (n, digits = 4) => String(Number(n.toPrecision(digits)));
function time(t, unit, digits) {
  if (t === 0) return '0';
  if (unit === 'cycles') return (digits ? tick(t) : grouped(Math.round(t))) + ' cycles';
  if (Math.abs(t) < 1e3) return trimmed(t, digits) + ' ns';
  if (Math.abs(t) < 1e6) return trimmed(t / 1e3, digits) + ' µs';
  if (Math.abs(t) < 1e9) return trimmed(t / 1e6, digits) + ' ms';
  return trimmed(t / 1e9, digits) + ' s';
}
function origin(code, word) {
  return ['handed on', 'own queue', 'pool', 'mailbox'][code] || 'stolen from ' + word + ' ' + (code - 4);
}

// ---- colours ------------------------------------------------------------------------------------------------
for (const m of data.modes) {
  m.rgb = m.classes.map((c) => [1, 3, 5].map((i) => parseInt(c.colour.slice(i, i + 2), 16)));
}
function theme() {
  return dark.matches && !printing
    ? { ink: '#e6e8eb', soft: '#9aa3af', line: '#353a42', bar: '#3fa7b0', best: '#8fdbe0', row: '#1d2025', ground: '#14161a' }
    : { ink: '#1b1d21', soft: '#5c636e', line: '#d9dde3', bar: '#7fb5ba', best: '#0a6c74', row: '#f0f2f4', ground: '#ffffff' };
}

// ---- the description of what is under the pointer ---------------------------------------------------------------
function showTip(chart, x, y, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = chart.getBoundingClientRect();
  const left = Math.min(box.left + x + 14, innerWidth - tip.offsetWidth - 8);
  const below = box.top + y + 18;
  tip.style.left = Math.max(left, 4) + 'px';
  tip.style.top = (below + tip.offsetHeight > innerHeight ? below - tip.offsetHeight - 34 : below) + 'px';
}
