// The explorer of a bound on staleness: `data.bars` and `data.words` are what Python
// played for each place of the sliders, in the order of the knobs.

// The sentence below the picture, as StalenessExplorer.words in staleness.py has it.
function stalenessWords(data, at) {
  return data.words[placeOf(data.knobs, at)];
}

function stalenessPicture(data, at, width) {
  const lanes = data.bars[placeOf(data.knobs, at)], lane = 30, left = 58, right = width - 12;
  const bottom = 8 + lane * (lanes.length + 1), height = bottom + 36;
  const x = (time) => left + (Math.min(time, data.until) / data.until) * (right - left);
  const picture = blank(width, height, stalenessWords(data, at));
  const write = (words, attributes) => writeOn(picture, words, attributes);
  const names = ["updates", ...lanes.map((_, worker) => `rank ${worker + 1}`)];
  names.forEach((name, n) =>
    write(name, { x: left - 8, y: 8 + lane * (n + 0.5) + 4, "text-anchor": "end" }));
  lanes.forEach((bars, worker) => {
    const color = data.colors[worker + 1], y = 8 + lane * (worker + 1) + 4;
    for (let n = 0; n < bars.length; n += 2) {
      const [begin, end] = [x(bars[n]), x(bars[n + 1])];
      picture.append(svg("rect", {
        x: begin + 0.7, y, width: Math.max(end - begin - 1.4, 0.5), height: lane - 8, fill: color,
      }));
      // Updates of one moment are beside each other, a worker at its own height.
      const tick = { x1: end, x2: end, y1: 10 + 6 * worker, y2: 15 + 6 * worker };
      if (bars[n + 1] <= data.until) picture.append(svg("line", { ...tick, stroke: color, "stroke-width": 2.5 }));
    }
  });
  for (let time = 0; time <= data.until; time += 4) {
    write(String(time), { x: x(time), y: bottom + 14, "text-anchor": "middle" });
  }
  write("time (1 = a fast gradient)", { x: (left + right) / 2, y: bottom + 30, "text-anchor": "middle" });
  return picture;
}

function exploreStaleness(root, data) {
  explore(root, data, stalenessPicture, stalenessWords);
}
