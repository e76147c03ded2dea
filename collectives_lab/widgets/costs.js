// The explorer of costs: `data.tables` has for each algorithm the seconds that Python
// computed, by the sliders and the place of a size (see lookup.py).

// Seconds by size; NaN where an algorithm has none.
const curve = (data, table, at) =>
  data.sizes.map((_, place) => lookUp(table, data.axes, { ...at, place }));

// Curves and times where the sliders stand, and what follows from them.
function state(data, at) {
  const here = data.knobs.find(({ key }) => key === "size").values[at.size];
  const curves = data.tables.map((table) => curve(data, table, at));
  const times = curves.map((seconds) => seconds[here]);
  const best = Math.min(...times.filter((time) => time >= 0));
  const changes = crossings(data.sizes, curves, data.alike);
  return { curves, times, best, changes, best_by_size: fastest(curves, data.alike), here };
}

// The sentences below the picture; CostExplorer.words in explorer.py says the same.
function words(data, at) {
  const { times, best, changes, best_by_size } = state(data, at);
  const gone = data.names.filter((_, n) => Number.isNaN(times[n])).join(", ");
  const text = (key) => data.knobs.find((knob) => knob.key === key).texts[at[key]];
  const where = `${text("ranks")} ranks, alpha = ${text("alpha")}, ${text("bandwidth")}: `;
  if (best === Infinity) return `${where}no time for ${text("size")}: ${gone}.`;
  const isBest = (time) => time <= best * (1 + data.alike);
  const first = data.names.filter((_, n) => isBest(times[n]));
  const rest = times.filter((time) => time > best && !isBest(time));
  const second = Math.min(...rest);
  const next = rest.length === 0 ? "" : `; the next, ${data.names[times.indexOf(second)]}, ` +
    `takes ${formatSeconds(second)}, ${formatNumber(second / best)} times as long`;
  const then = changes.map(([size, , n]) => `from ${formatBytes(size, 2)} ${data.names[n]}`);
  const from = data.names[best_by_size.find((n) => n >= 0)];
  return `${where}${text("size")} takes ${formatSeconds(best)} with ` +
    `${first.join(" and ")}, the fastest${next}. ` +
    `By size, fastest is ${[from, ...then].join(", ")}.` +
    (gone && ` No time here: ${gone}.`);
}

function picture(data, at, width) {
  const { curves, times, changes, here, best_by_size } = state(data, at);
  const { sizes } = data, all = curves.flat().filter((time) => time > 0);
  if (!all.length) all.push(1e-6, 1);
  const low = 10 ** Math.floor(Math.log10(Math.min(...all)) - 0.3);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...all)));
  const x = { low: sizes[0], high: sizes.at(-1), text: (n) => formatBytes(n), name: "size" };
  const y = { low, high, text: formatSeconds, name: "time" };
  x.ticks = powers(2, x.low, x.high, width / 90);
  y.ticks = powers(10, low, high, 8);
  const chart = new Chart(width, 340, x, y, words(data, at));
  const { top, bottom, right } = chart.box;
  const mark = chart.x(sizes[here]);
  chart.add("line", { x1: mark, x2: mark, y1: top, y2: bottom, stroke: "currentColor" });
  curves.forEach((seconds, n) => {
    const points = sizes.map((size, i) => [size, seconds[i]]);
    chart.line(points, { "stroke-width": 1.8, ...dash(data.looks[n]) });
    // Wide where it is the fastest, which the eye then follows from one to the next.
    const won = points.map(([size, time], i) =>
      [size, [i - 1, i, i + 1].some((k) => best_by_size[k] === n) ? time : NaN]);
    chart.line(won, { "stroke-width": 6, stroke: data.looks[n].color, "stroke-opacity": 0.35 });
    const dot = { fill: data.looks[n].color, stroke: "none", r: 4 };
    if (times[n] > 0) chart.ring(sizes[here], times[n], dot);
  });
  let free = -Infinity; // labels stand beside each other in a row, or are left out
  for (const [size, seconds] of changes) {
    const at = chart.x(size), label = formatBytes(size, 2), long = 7 * label.length;
    const end = { x1: at, x2: at, y1: chart.y(seconds), y2: bottom };
    chart.add("line", { ...end, stroke: "currentColor", "stroke-dasharray": "2 3" });
    chart.ring(size, seconds);
    const left = at + long + 4 < right ? at + 4 : at - long - 4;
    if (left < free) continue;
    chart.text(left, bottom - 5, label);
    free = left + long;
  }
  return chart.picture;
}

// From which size to which one each algorithm is the fastest.
function spans(data, { changes, best_by_size }) {
  const ranges = data.names.map(() => []);
  const from = best_by_size.find((n) => n >= 0);
  const turns = [[0, 0, from], ...changes];
  turns.forEach(([size, , n], i) => {
    const [low, high] = [size, turns[i + 1]?.[0]].map((s) => s && formatBytes(s, 2));
    const both = low && high && `${low} to ${high}`;
    ranges[n]?.push(both || (low ? `from ${low}` : high ? `up to ${high}` : "at every size"));
  });
  return ranges.map((list) => list.join(", "));
}

// The key of the picture: for each algorithm its time at the size of the slider.
function rows(data, at) {
  const now = state(data, at), won = spans(data, now);
  const order = data.names.map((_, n) => n);
  order.sort((m, n) => (now.times[m] || Infinity) - (now.times[n] || Infinity));
  const size = data.knobs.find((knob) => knob.key === "size").texts[at.size];
  const head = ["algorithm", `time for ${size}`, "× the fastest", "is fastest"];
  const lines = order.map((n) => {
    const time = now.times[n], cells = [data.names[n], "none", "", won[n]];
    if (time >= 0) cells.splice(1, 2, formatSeconds(time), formatNumber(time / now.best));
    const made = cells.map((cell) => element("td", {}, cell));
    made[0].prepend(sample(data.looks[n]), " ");
    const isBest = time <= now.best * (1 + data.alike);
    return element("tr", isBest ? { class: "best" } : {}, ...made);
  });
  const names = head.map((name) => element("th", { scope: "col" }, name));
  return element("table", {}, element("tr", {}, ...names), ...lines);
}

function exploreCosts(root, data) {
  const [knobs, stage, key, sentence] = [".knobs", ".stage", ".key", ".sentence"]
    .map((part) => root.querySelector(part));
  const draw = () => {
    stage.replaceChildren(picture(data, at, stage.clientWidth));
    key.replaceChildren(rows(data, at));
    sentence.textContent = words(data, at);
  };
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}
