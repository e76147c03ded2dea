// The explorer of pipeline schedules: `data.places` has what Python played for each place
// of the sliders, in the order of the knobs.

function pipelinePlace(data, at) {
  return data.places[placeOf(data.knobs, at)];
}

// The sentence below the picture, as PipelineExplorer.words in pipeline.py has it.
function pipelineWords(data, at) {
  return pipelinePlace(data, at).words;
}

// The bars of a stage, `{kind, begin, end, name}` in units of a whole forward pass.
function pipelineBars([kinds, waits, named], { takes, pieces }) {
  let time = 0, next = 0;
  return [...kinds].map((kind, n) => {
    if (waits[next] === n) {
      time += waits[next + 1];
      next += 2;
    }
    const begin = time;
    time += takes[kind];
    return { kind, begin: begin / pieces, end: time / pieces, name: named[n] };
  });
}

const PIPELINE_LOOKS = {
  F: (color) => ({ fill: color }),
  B: (color) => ({ fill: color, "fill-opacity": 0.4 }),
  W: (color) => ({ fill: color, "fill-opacity": 0.08, stroke: color }),
};

function pipelinePicture(data, at, width) {
  const place = pipelinePlace(data, at), { until, lanes } = place;
  const lane = Math.max(15, Math.min(30, 240 / lanes.length)), left = 58, right = width - 12;
  const bottom = 6 + lane * lanes.length, height = bottom + 38;
  const x = (time) => left + (time / until) * (right - left);
  const picture = blank(width, height, place.words);
  const write = (words, attributes) => writeOn(picture, words, attributes);
  lanes.forEach((own, stage) => {
    const top = 6 + lane * stage, color = data.colors[stage];
    write(`stage ${stage}`, { x: left - 8, y: top + lane / 2 + 4, "text-anchor": "end" });
    const paths = { F: "", B: "", W: "" };
    for (const { kind, begin, end, name } of pipelineBars(own, place)) {
      // Bars that are very narrow touch each other.
      const rim = x(end) - x(begin) > 3 ? 0.7 : 0, wide = x(end) - x(begin) - 2 * rim;
      paths[kind] += `M${(x(begin) + rim).toFixed(2)} ${top + 2}h${wide.toFixed(2)}v${lane - 4}h${-wide.toFixed(2)}z`;
      if (name !== undefined && wide > 15) {
        const look = { x: (x(begin) + x(end)) / 2, y: top + lane / 2 + 4, "text-anchor": "middle" };
        write(String(name), kind === "F" ? { ...look, fill: data.inks[stage] } : look);
      }
    }
    for (const [kind, d] of Object.entries(paths)) {
      if (d) picture.prepend(svg("path", { d, ...PIPELINE_LOOKS[kind](color) }));
    }
  });
  const step = [1, 2, 5, 10, 20, 50, 100].find((n) => until / n <= (right - left) / 60) ?? 200;
  for (let time = 0; time <= until; time += step) {
    write(String(time), { x: x(time), y: bottom + 15, "text-anchor": "middle" });
  }
  write("time (1 = a stage's forward pass)", { x: (left + right) / 2, y: bottom + 32, "text-anchor": "middle" });
  return picture;
}

function explorePipeline(root, data) {
  const signs = [["F", "forward pass"], ["B", "backward pass, or the gradients of inputs"],
    ["W", "the gradients of weights"]];
  const key = signs.map(([kind, name]) => {
    const bar = svg("rect", { x: 1, y: 1, width: 20, height: 10, ...PIPELINE_LOOKS[kind](data.colors[0]) });
    return [svg("svg", { width: 22, height: 12, "aria-hidden": "true" }, bar), ` ${name}`];
  });
  explore(root, data, pipelinePicture, pipelineWords, key);
}
