// The explorer of gamma, communication over computation in a data-parallel step. The
// seconds of both are tables that Python computed, by sliders and numbers of ranks.

function ratioNow(data, at) {
  const [compute, moved] = [data.compute, data.moved].map(({ table, axes }) =>
    data.worlds.map((_, place) => lookUp(table, axes, { ...at, place })));
  const value = (key) => data.knobs.find((knob) => knob.key === key).values[at[key]];
  const world = value("ranks"), here = data.worlds.indexOf(world);
  // On more ranks each has less of the same batch, or as much as a rank has here. With
  // the same batch the ranks break even where both curves of seconds meet, which are
  // straight in 1/P but for the latency.
  const gammas = [moved.map((s, i) => s / compute[i]), moved.map((s) => s / compute[here])];
  const met = crossings(data.worlds.map((P) => 1 / P), [compute, moved], data.alike)[0];
  return {
    compute: compute[here], moved: moved[here], gammas, world,
    even: met ? 1 / met[0] : null,
    local: value("tokens") / world, alpha: value("alpha"),
  };
}

// The sentences below the picture; RatioExplorer.words in ratio.py says the same.
function ratioWords(data, at) {
  const { compute, moved, gammas, even, world, local, alpha } = ratioNow(data, at);
  const text = (key) => data.knobs.find((knob) => knob.key === key).texts[at[key]];
  const gamma = moved / compute;
  const side = gammas[0].at(-1) >= 1 ? "fewer than 2" : `more than ${formatNumber(data.worlds.at(-1))}`;
  return `${text("ranks")} ranks, ${formatNumber(local)} tokens each, ` +
    `${text("parameters")} parameters: computing takes ${formatSeconds(compute)}, ` +
    `the all-reduce ${formatSeconds(moved)}, so gamma = ${formatNumber(gamma)} and ` +
    `${gamma > 1 ? "communication" : "computation"} takes longer. ` +
    `Break-even on ${text("ranks")} ranks: ${formatNumber(local * gamma)} tokens each` +
    `${alpha ? ", latency included" : ", whatever the model"}; this batch breaks even on ` +
    `${even === null ? side : formatNumber(Number(even.toPrecision(2)))} ranks.`;
}

// One step from left to right, as shares of its time.
function bar({ compute, moved }) {
  const share = compute / (compute + moved);
  const percent = (part) => `${(100 * part).toFixed(1)}%`;
  const fill = element("div", { class: "bar" }, element("div", {
    style: `width:${percent(share)}`,
  }));
  const labels = [`one step: ${percent(share)} computing`, `${percent(1 - share)} communicating`];
  return [element("div", { class: "ends" }, ...labels.map((s) => element("span", {}, s))), fill];
}

function ratioPicture(data, at, width) {
  const now = ratioNow(data, at), { worlds } = data, [low, high] = data.range;
  const x = { low: worlds[0], high: worlds.at(-1), text: formatNumber, name: "ranks" };
  const y = { low, high, text: String, name: "gamma" };
  x.ticks = powers(4, x.low, x.high, width / 60);
  y.ticks = powers(10, low, high, 6);
  const chart = new Chart(width, 340, x, y, ratioWords(data, at));
  const { left, right, top, bottom } = chart.box, one = chart.y(1);
  const shade = { x: left, y: top, width: right - left, height: one - top };
  chart.add("rect", { ...shade, class: "shade" });
  chart.add("line", { x1: left, x2: right, y1: one, y2: one, stroke: "currentColor" });
  now.gammas.forEach((gamma, n) => {
    const points = worlds.map((world, i) => [world, gamma[i]]);
    chart.line(points, { "stroke-width": 2, ...dash(data.looks[n]) });
  });
  if (now.even !== null) {
    const at = chart.x(now.even);
    const drop = { x1: at, x2: at, y1: one, y2: bottom, stroke: "currentColor" };
    chart.add("line", { ...drop, "stroke-dasharray": "2 3" });
    chart.ring(now.even, 1, { r: 3.5, fill: "currentColor" });
  }
  chart.ring(now.world, chart.inside(now.moved / now.compute), { r: 7, "stroke-width": 2.2 });
  return chart.picture;
}

function exploreRatio(root, data) {
  const [knobs, step, stage, key, sentence] = [".knobs", ".step", ".stage", ".key", ".sentence"]
    .map((part) => root.querySelector(part));
  const draw = () => {
    step.replaceChildren(...bar(ratioNow(data, at)));
    stage.replaceChildren(ratioPicture(data, at, stage.clientWidth));
    sentence.textContent = ratioWords(data, at);
  };
  const items = data.names.map((name, n) => [sample(data.looks[n]), ` ${name}`]);
  items.push([element("span", { class: "shade" }), " communication takes longer"]);
  items.push(["○", " here"], ["●", " break-even"]);
  key.replaceChildren(...items.map((item) => element("span", {}, ...item)));
  const at = sliders(knobs, data.knobs, draw);
  whenever(stage, draw);
}
