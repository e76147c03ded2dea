// The explorer of one message: `data.parts` are the seconds of its latency and of its
// bytes that Python computed, by the sliders and the place of a size (see lookup.py).

function messageNow(data, at) {
  const here = data.knobs.find(({ key }) => key === "size").values[at.size];
  const [latency, bytes] = data.parts.map((table) =>
    data.sizes.map((_, place) => lookUp(table, data.axes, { ...at, place })));
  const whole = latency.map((seconds, i) => seconds + bytes[i]);
  const half = crossings(data.sizes, [latency, bytes], 0)[0] ?? null;
  return { latency, bytes, whole, here, half };
}

// The sentence below the picture; MessageExplorer.words in message.py says the same.
function messageWords(data, at) {
  const { latency, bytes, whole, here, half } = messageNow(data, at);
  const text = (key) => data.knobs.find((knob) => knob.key === key).texts[at[key]];
  const percent = formatNumber((100 * latency[here]) / whole[here]);
  return `A message of ${text("size")} takes ${formatSeconds(whole[here])}: ` +
    `${formatSeconds(latency[here])} of latency and ${formatSeconds(bytes[here])} for ` +
    `the bytes, so latency is ${percent} % of the time. ` +
    (half ? `Both are equal at n½ = ${formatBytes(half[0], 3)}.`
      : "Both parts are equal at no size of this picture.");
}

function messagePicture(data, at, width) {
  const { latency, bytes, whole, here, half } = messageNow(data, at), { sizes } = data;
  const x = { low: sizes[0], high: sizes.at(-1), text: (n) => formatBytes(n), name: "size n" };
  // One scale for all sliders, or the curve would stand still and its axis move.
  const y = { low: 1e-8, high: 1e2, text: formatSeconds, name: "time" };
  x.ticks = powers(2, x.low, x.high, width / 90);
  y.ticks = powers(10, y.low, y.high, 8);
  const chart = new Chart(width, 320, x, y, messageWords(data, at));
  const { top, bottom, right } = chart.box, mark = chart.x(sizes[here]);
  chart.add("line", { x1: mark, x2: mark, y1: top, y2: bottom, stroke: "currentColor" });
  [whole, latency, bytes].forEach((seconds, n) => {
    const points = sizes.map((size, i) => [size, seconds[i]]);
    chart.line(points, { "stroke-width": n ? 1.4 : 2.2, ...dash(data.looks[n]) });
  });
  chart.ring(sizes[here], whole[here], { fill: data.looks[0].color, stroke: "none" });
  if (half) {
    const [size, seconds] = half, x1 = chart.x(size), label = `n½ = ${formatBytes(size, 3)}`;
    const end = { x1, x2: x1, y1: chart.y(seconds), y2: bottom };
    chart.add("line", { ...end, stroke: "currentColor", "stroke-dasharray": "2 3" });
    chart.ring(size, seconds);
    const long = 7 * label.length;
    const isLeft = x1 + long + 4 > right || (mark > x1 && mark < x1 + long && x1 - long > chart.box.left);
    chart.text(isLeft ? x1 - long - 4 : x1 + 4, bottom - 5, label);
  }
  return chart.picture;
}

function exploreMessage(root, data) {
  const key = data.names.map((name, n) => [sample(data.looks[n]), ` ${name}`]);
  key.push(["●", " this message"], ["○", " both parts are equal"]);
  explore(root, data, messagePicture, messageWords, key);
}
