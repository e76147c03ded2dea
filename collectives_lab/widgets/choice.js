// The explorer of NCCL's choice. `data.table`, by servers and GPUs, has by size what NCCL
// picks and what each algorithm takes; Python computed all of it (see choice.py).

function choiceNow(data, at) {
  const value = (key) => data.knobs.find((knob) => knob.key === key).values[at[key]];
  const { picked, how, seconds } = data.table[at.nodes][at.gpus];
  const ranks = value("nodes") * value("gpus");
  return { ranks, picked: picked[at.size], how: how[at.size], seconds };
}

// The sentences below the picture; ChoiceExplorer.words in choice.py says the same.
function choiceWords(data, at) {
  const { ranks, picked, how, seconds } = choiceNow(data, at);
  if (ranks < 2) return "One GPU has nobody to sum with.";
  const size = data.knobs.find(({ key }) => key === "size").texts[at.size];
  const time = seconds[picked][at.size];
  const others = seconds.flatMap((times, n) => (n === picked || times[at.size] === null ? []
    : `${data.names[n]} would take ${formatNumber(times[at.size] / time)} times`));
  others[0] = others[0].replace(" times", " times as long");
  return `${size} on ${formatNumber(ranks)} GPUs: NCCL takes ${how}, about ` +
    `${formatSeconds(time)} by the model. Instead, ${others.join(", and ")}.`;
}

// The least time of a size; an algorithm that the cluster does not have is null.
const shortest = (seconds, size) =>
  Math.min(...seconds.map((times) => times[size] ?? Infinity));

function choicePicture(data, at, width) {
  const { ranks, picked, seconds } = choiceNow(data, at), { sizes } = data;
  const x = { low: sizes[0], high: sizes.at(-1), text: (n) => formatBytes(n), name: "size S" };
  // One scale for all sliders, or the curves would stand still and the axis move.
  const y = { low: data.range[0], high: data.range[1], text: formatNumber };
  y.name = "time / shortest time";
  x.ticks = powers(2, x.low, x.high, width / 90);
  y.ticks = data.ticks;
  const chart = new Chart(width, 320, x, y, choiceWords(data, at));
  const { top, bottom } = chart.box, mark = chart.x(sizes[at.size]);
  chart.add("line", { x1: mark, x2: mark, y1: top, y2: bottom, stroke: "currentColor" });
  seconds.forEach((times, n) => {
    const points = sizes.map((size, i) => [size, times[i] / shortest(seconds, i)]);
    chart.line(points, { "stroke-width": 2, ...dash(data.looks[n]) });
  });
  if (ranks > 1) {
    const ratio = seconds[picked][at.size] / shortest(seconds, at.size);
    chart.ring(sizes[at.size], chart.inside(ratio), { r: 7, "stroke-width": 2.2 });
  }
  return chart.picture;
}

function exploreChoice(root, data) {
  const key = data.names.map((name, n) => [sample(data.looks[n]), ` ${name}`]);
  key.push(["○", " what NCCL takes"]);
  explore(root, data, choicePicture, choiceWords, key);
}
