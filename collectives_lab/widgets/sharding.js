// The explorer of sharding: a step by ZeRO in units of data parallelism's. Python has
// computed the curves, at places of computing / gathering, and the tokens at equality.

function shardingNow(data, at) {
  const even = lookUp(data.even.table, data.even.axes, { ...at, place: at.ranks });
  const ratios = (tokens) => {
    const place = Math.round(data.finest * (Math.log2(tokens / even) + data.widest));
    const last = data.curves[0].length - 1;
    return data.curves.map((curve) => curve[Math.min(Math.max(place, 0), last)]);
  };
  const { values } = data.knobs.find((knob) => knob.key === "tokens");
  return { even, ratios, tokens: values[at.tokens], all: values };
}

// The sentence below the picture; ShardingExplorer.words in sharding.py says the same.
function shardingWords(data, at) {
  const { even, ratios, tokens } = shardingNow(data, at);
  const text = (key) => data.knobs.find((knob) => knob.key === key).texts[at[key]];
  const here = ratios(tokens).map((ratio, n) => `${formatNumber(ratio)} by ${data.names[n]}`);
  return `${text("ranks")} GPUs of ${text("rate")} with ${text("bandwidth")} ` +
    "each: a layer computes as long as it is gathered with " +
    `${formatNumber(Number(even.toPrecision(3)))} tokens on a GPU. With ` +
    `${text("tokens")} tokens the factor on the time of data parallelism is ` +
    `${here.join(", ")}.`;
}

function shardingPicture(data, at, width) {
  const { even, ratios, tokens, all } = shardingNow(data, at);
  const x = { low: all[0], high: all.at(-1), text: formatNumber, name: "tokens on each GPU" };
  const y = { low: 0.9, high: 2.2, ticks: [1, 1.25, 1.5, 2], text: String, name: "step / data parallel" };
  x.ticks = powers(4, x.low, x.high, width / 70);
  const chart = new Chart(width, 320, x, y, shardingWords(data, at));
  const { top, bottom } = chart.box;
  const drop = { y1: top, y2: bottom, stroke: "currentColor", "stroke-dasharray": "2 3" };
  if (even > x.low && even < x.high) chart.add("line", { x1: chart.x(even), x2: chart.x(even), ...drop });
  const places = [];
  for (let t = x.low; t <= x.high; t *= 2 ** (1 / data.finest)) places.push(t);
  data.names.forEach((_, n) => {
    const points = places.map((t) => [t, ratios(t)[n]]);
    chart.line(points, { "stroke-width": 2, ...dash(data.looks[n]) });
  });
  for (const ratio of ratios(tokens)) chart.ring(tokens, chart.inside(ratio));
  return chart.picture;
}

function exploreSharding(root, data) {
  const key = data.names.map((name, n) => [sample(data.looks[n]), ` ${name}`]);
  key.push(["○", " here"], ["┊", " computes as long as gathered"]);
  explore(root, data, shardingPicture, shardingWords, key);
}
