// The explorer of memory: a stacked bar for each stage of ZeRO. Python has computed the GB
// for each place of the sliders, in the order of the knobs.

function memoryKept(data, at) {
  return data.kept[placeOf(data.knobs, at)];
}

const memoryTotal = (bar) => bar.reduce((sum, part) => sum + part, 0);

// The sentence below the picture, as MemoryExplorer.words in memory.py has it.
function memoryWords(data, at) {
  const of = (key) => data.knobs.find((knob) => knob.key === key);
  const [text, value] = ["texts", "values"].map((what) => (key) => of(key)[what][at[key]]);
  const totals = memoryKept(data, at).map(memoryTotal);
  const listed = totals.map((total, n) => `${formatNumber(total)} GB (${data.names[n]})`);
  const along = value("gpus") / (value("tensor") * value("pipeline"));
  const fitting = totals.filter((total) => total <= data.limit).length;
  return `${text("model")} on ${text("gpus")} GPUs, ${along.toLocaleString("en-US")} along data: the ` +
    `fullest GPU keeps ${listed.join(", ")}. ${data.fit[fitting]} into ${data.limit} GB.`;
}

function memoryPicture(data, at, width) {
  const bars = memoryKept(data, at), { limit, until, colors } = data;
  const left = 90, right = width - 56, row = 30, bottom = 6 + row * bars.length;
  const x = (value) => left + (Math.min(value, until) / until) * (right - left);
  const picture = blank(width, bottom + 40, memoryWords(data, at));
  const write = (words, x, y, anchor, look = {}) =>
    writeOn(picture, words, { x, y, "text-anchor": anchor, ...look });
  bars.forEach((bar, stage) => {
    const middle = 6 + row * (stage + 0.5), total = memoryTotal(bar);
    write(data.names[stage], left - 8, middle + 4, "end");
    let begin = 0;
    bar.forEach((part, kind) => {
      picture.append(svg("rect", {
        x: x(begin), y: middle - 10, width: x(begin + part) - x(begin), height: 20, fill: colors[kind],
      }));
      begin += part;
    });
    const words = formatNumber(total) + (total > until ? " →" : "");
    // A sum that would lie on the line stands behind it.
    const from = x(total) + 4, isOn = from < x(limit) + 2 && from + 34 > x(limit);
    const look = total <= limit ? { "font-weight": "bold" } : {};
    write(words, isOn ? x(limit) + 5 : from, middle + 4, "start", look);
  });
  const line = { x1: x(limit), x2: x(limit), y1: 2, y2: bottom, stroke: "currentColor" };
  picture.append(svg("line", { ...line, "stroke-width": 1.5, "stroke-dasharray": "5 3" }));
  const step = right - left > 400 ? 20 : 40;
  for (let tick = 0; tick <= until; tick += step) write(String(tick), x(tick), bottom + 16, "middle");
  write("GB on the fullest GPU", (left + right) / 2, bottom + 34, "middle");
  return picture;
}

function exploreMemory(root, data) {
  const key = data.kinds.map((name, n) => [square(`background:${data.colors[n]}`), ` ${name}`]);
  key.push([`┊ ${data.limit} GB`]);
  explore(root, data, memoryPicture, memoryWords, key);
}
