// The explorer of checkpoints: `data.effective` and `data.checkpoints` are shares of the
// time between restarts that Python computed, by the sliders and the interval, and
// `data.up` is the share of the whole time that lies between restarts.

function checkpointsNow(data, at) {
  const up = lookUp(data.up.table, data.up.axes, { ...at, place: at.restart });
  const { values } = data.knobs.find((knob) => knob.key === "interval");
  const lines = values.map((_, place) => {
    const [effective, checkpoints] = [data.effective, data.checkpoints]
      .map((table) => up * lookUp(table, data.axes, { ...at, place }));
    return [1 - effective, checkpoints, up - effective - checkpoints, 1 - up].map((share) => 100 * share);
  });
  const best = data.best[at.checkpoint][at.failures];
  return { intervals: values, lines, best, lostAtBest: 100 * (1 - up * best.effective) };
}

// The sentence below the picture; CheckpointExplorer.words says the same.
function checkpointWords(data, at) {
  const { lines, best, lostAtBest } = checkpointsNow(data, at);
  const { texts } = data.knobs.find((knob) => knob.key === "interval");
  const [lost, checkpoints, repeated, restarts] = lines[at.interval].map(formatNumber);
  return `With ${texts[at.interval]} of training between two checkpoints, ${lost} % ` +
    `of the time is lost: ${checkpoints} % to checkpoints, ${repeated} % to ` +
    `repeated steps and ${restarts} % to restarts. ` +
    `Young's formula gives ${best.text}, where ${formatNumber(lostAtBest)} ` +
    "% is lost.";
}

function checkpointPicture(data, at, width) {
  const { intervals, lines, best } = checkpointsNow(data, at);
  const x = { low: intervals[0], high: intervals.at(-1), name: "training between two checkpoints" };
  x.ticks = data.ticks.map(([seconds]) => seconds);
  x.text = (seconds) => data.ticks.find(([tick]) => tick === seconds)[1];
  const y = { low: data.lowest, high: 100, ticks: [0.1, 1, 10, 100], text: String, name: "% of the time" };
  const chart = new Chart(width, 320, x, y, checkpointWords(data, at));
  const { top, bottom } = chart.box, middle = chart.x(best.interval);
  if (best.interval > x.low && best.interval < x.high) {
    chart.add("line", { x1: middle, x2: middle, y1: top, y2: bottom, stroke: "currentColor", "stroke-dasharray": "2 3" });
  }
  // The whole is drawn last, above its parts.
  for (const n of [3, 2, 1, 0]) {
    const points = intervals.map((seconds, place) => [seconds, lines[place][n]]);
    chart.line(points, { "stroke-width": n ? 1.6 : 2.4, ...dash(data.looks[n]) });
  }
  chart.ring(intervals[at.interval], chart.inside(lines[at.interval][0]));
  return chart.picture;
}

function exploreCheckpoints(root, data) {
  const key = data.names.map((name, n) => [sample(data.looks[n]), ` ${name}`]);
  key.push(["○", " here"], ["┊", " Young's formula"]);
  explore(root, data, checkpointPicture, checkpointWords, key);
}
